"""Section by section what people get wrong, typed as they would: one clear line, a hint, exit code 2.

Most are typed in this process (``typed``); a process of its own (``tuner``) is for each kind of refusal, for
what a study starts, and for what ends a process otherwise.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tuner.adapters.sqlite import digests as sqlite_digests
from tuner.app.plan_builder import plan_record
from tuner.bootstrap.stores import new_store
from tuner.config.load import Given, load_settings
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord
from tuner.core.domain.window import Reading, Sample, Usage, Window
from tuner.core.text.safe_text import HIDDEN

from ..wording import wording
from .typed import Done, Typed

pytestmark = pytest.mark.integration
PROFILE = str(Path(__file__).resolve().parents[2] / "configs" / "profiles" / "gil-bound.yaml")


def is_told(done: subprocess.CompletedProcess[str] | Done, *said: str, code: int = 2) -> str:
    """One error line with all of *said*, no traceback, nothing on stdout; gives that line."""
    assert "Traceback" not in done.stderr, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1, done.stderr
    for text in said:
        assert text in errors[0], done.stderr
    assert done.stdout == ""
    assert done.returncode == code, done.stderr
    return errors[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["grid", "--coers", "2"], "No such option: --coers"),
        (["grid", "--layouts", "0x4"], "layout 0x4 has nothing to run"),
        (["grid", "--layouts", "4x"], "'4x' is not a layout"),
        (["grid", "--layouts", "1x1,1x1"], "layout 1x1 is named twice"),
        (["grid", "--layouts", ","], "no layout is named"),
        (["grid", "--cores", "0"], "--cores: should be greater than or equal to 1"),
        (["grid", "--cores", "two"], "--cores: should be a whole number"),
        (["grid", "--window", "0s"], "--window: should be longer than 0"),
        (["grid", "--window", "600"], "'600' has no unit"),
        (["grid", "--warmup", "soon"], "--warmup: should be auto or a duration"),
        (["grid", "--strategy", "all", "--repeats", "0"], "--repeats: should be greater than or equal to 1"),
        (
            ["grid", "--repeats", "3"],
            "--repeats: only works with strategy all, and this study has strategy race",
        ),
        (["grid", "--strategy", "magic"], "magic is none of race, all"),
        (["grid", "--strategy", "all", "--within", "5%"], "--within: only works with strategy race"),
        (["grid", "--within", "2"], "--within: 2 is no share; write 2%"),
        (["grid", "--confidence", "100%"], "--confidence: should be less than or equal to 0.999"),
        (["grid", "--kind", "loose"], "--kind: loose is none of strict, calibrated"),
        (["grid", "--window", "5s", "--min-window", "10s"], "10s is longer than the longest window, 5s"),
        (["grid", "--grid", "divisor"], "did you mean divisors?"),
        (["grid", "--layouts", "1x1", "--grid", "small"], "--layouts: name a grid or layouts, not both"),
        (["grid", "--seed", "-1"], "--seed: should be greater than or equal to 0"),
        (["grid", "--foreign-limit", "0"], "--foreign-limit: should be greater than 0"),
        (["grid", "none.yaml"], "cannot read the config none.yaml"),
        (["grid", "--resume", "none.tuner.db"], "there is no study file none.tuner.db"),
        (["grid", "--resume", "x.db", "--study", "y.db"], "--study can only be used with a new study"),
        (["rank", "none.tuner.db"], "there is no study file none.tuner.db"),
        (["export", "none.tuner.db"], "there is no study file none.tuner.db"),
        (["replay", "slippage", "--within", "60%"], "--within 60%: should be between 0 % and 50 %"),
        (
            ["replay", "slippage", "--confidence", "100%"],
            "--confidence 100%: should be between 50 % and 100 %",
        ),
        (
            ["init", "--command", "gunicorn a:b", "--", "gunicorn c:d"],
            "the service's command is given twice: by --command and after --",
        ),
        (["grid", "--command", "w 'x"], "--command: cannot be split into words: No closing quotation"),
        (["grid", "--command", " "], "--command: names no program"),
        (["sample", "-o", "s.json", "--url", "http://h"], "=DB, or amqp://HOST:PORT/VHOST"),
        (["fleet", "certs", "c", "--json", "--port", "5"], "tuner fleet certs has no --port, --json"),
        (["lab", "--quick", "--page", "x.md"], "--quick, --page needs the name of an experiment"),
        (["compare", "a.db", "b.db", "--force"], "--force is of the FILE of -o, and there is none"),
        (["rank", "--", "-dash.tuner.db"], "there is no study file -dash.tuner.db"),
        (["explain", "none.tuner.db", "--cores", "inf"], "--cores: should be less than or equal to 1024"),
        (["explain", "none.tuner.db", "--cores", "nan"], "--cores: should be "),
        (["explain", "none.tuner.db", "--cores", "0.5"], "--cores: should be greater than or equal to 1"),
        (["grid", "--simulate", PROFILE, "--layouts", "1x1000000"], "layout 1x1000000 has 1000000 threads"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_typed_wrong_is_reported_in_one_line(typed: Typed, arguments: list[str], said: str) -> None:
    is_told(typed(*arguments), said)

    assert list(typed.folder.glob("*.db*")) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("grid --coers 2", "No such option: --coers"),
        ("grid --cores two", "--cores: should be a whole number"),
        ("rank none.tuner.db", "there is no study file none.tuner.db"),
    ],
    ids=["option", "value", "file"],
)
def test_a_process_that_is_refused_something_ends_with_the_same_line(
    tuner, arguments: str, said: str
) -> None:
    is_told(tuner(*arguments.split()), said)


def test_an_unknown_key_is_reported_with_its_place(typed: Typed) -> None:
    (typed.folder / "s.yaml").write_text("study:\n  wndow: 10m\n")

    is_told(typed("grid", "s.yaml"), "s.yaml:2:3: study.wndow: unknown key, did you mean window?")


def script(folder: Path, command: str, **more: str) -> Path:
    path = folder / "s.yaml"
    path.write_text(
        f"service: {{kind: script, name: worker, command: {command}}}\n"
        "study: {strategy: all, layouts: [1x1], window: 2s, warmup: 1s, repeats: 1, max_attempts: 1,"
        " warm_cache: no}\n"
    )
    return path


def test_a_worker_command_that_is_missing_is_reported_before_anything_is_made(typed: Typed) -> None:
    is_told(typed("grid", script(typed.folder, "[no-such-worker]")), "no-such-worker")

    assert list(typed.folder.glob("*.db*")) == []


def test_a_worker_command_that_is_not_executable_is_reported(typed: Typed) -> None:
    (typed.folder / "worker.sh").write_text("#!/bin/sh\n")

    is_told(
        typed("grid", script(typed.folder, f"[{typed.folder / 'worker.sh'}]")), "worker.sh", "not executable"
    )


def test_a_worker_that_dies_at_start_is_reported_with_its_exit_code_and_last_words(
    tuner, typed: Typed
) -> None:
    """With --json, stdout is JSON even when nothing could be measured."""
    done = tuner("grid", script(tuner.folder, "[sh, -c, 'echo no license found; exit 7']"), "--json")

    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert "7" in done.stderr
    assert "no license found" in done.stderr
    content = json.loads(done.stdout)
    assert [row["rank"] for row in content["layouts"]] == [None]
    assert "exit status 7" in content["layouts"][0]["note"]
    again = typed("rank", "worker.tuner.db", "--json")
    assert (again.returncode, again.stdout) == (3, done.stdout)


@pytest.mark.parametrize("arguments", ["--help", "export --format list"])
def test_a_full_device_behind_stdout_is_reported_in_one_line(tuner, arguments: str) -> None:
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [*tuner.program, *arguments.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tuner.folder,
        )

    assert result.returncode == 2
    assert result.stderr.startswith(wording("command-line.no-space-left"))
    assert "Traceback" not in result.stderr


def test_an_existing_study_is_never_overwritten(typed: Typed) -> None:
    (typed.folder / "crash-processor.tuner.db").write_text("mine")

    is_told(typed("grid", "--layouts", "1x1"), "crash-processor.tuner.db exists already")

    assert (typed.folder / "crash-processor.tuner.db").read_text() == "mine"


@pytest.mark.parametrize("command", [("rank",), ("export",), ("grid", "--resume")], ids=" ".join)
def test_a_file_that_is_no_study_is_reported(typed: Typed, command: tuple[str, ...]) -> None:
    (typed.folder / "x.db").write_text("just text, longer than a header of SQLite would be" * 10)

    is_told(typed(*command, "x.db"), "x.db is not a study file")


def test_a_study_whose_secrets_were_not_kept_names_the_command_that_has_the_config(
    typed: Typed, study_file: Path
) -> None:
    with contextlib.closing(sqlite3.connect(study_file)) as connection:
        (kept,) = connection.execute("SELECT config FROM study").fetchone()
        settings = json.loads(kept)
        settings["service"]["environment"] = {"TOKEN": HIDDEN}
        connection.execute("UPDATE study SET config = ?", (json.dumps(settings),))
        sqlite_digests.keep_everything(connection)  # as it would have been written
        connection.commit()

    resumed = typed("grid", "--resume", study_file)

    is_told(resumed, "does not hold the secrets")
    assert resumed.stderr.splitlines()[1] == wording("config.name-a-config", study_file=study_file)


def test_a_folder_that_may_not_be_entered_is_reported(ordinary) -> None:
    closed = ordinary.folder / "closed"
    closed.mkdir()
    closed.chmod(0)

    config = script(ordinary.folder, "[sleep, '60']")
    is_told(ordinary("grid", config, "--study", "closed/s.tuner.db"), "closed/s.tuner.db")
    is_told(ordinary("grid", "closed/s.yaml"), "cannot read the config closed/s.yaml", "Permission denied")
    is_told(
        ordinary("calibrate", "--into", "closed/p.yaml"), "--into closed/p.yaml: closed cannot be written"
    )


def test_a_spool_that_is_not_there_is_reported(typed: Typed) -> None:
    is_told(typed("grid", "--layouts", "1x1", "--spool", "none"), "the spool", "none does not exist")

    assert list(typed.folder.glob("*.db*")) == []


def test_an_ordinary_user_cannot_use_a_spool_that_is_not_writable(ordinary) -> None:
    spool = ordinary.folder / "spool"
    spool.mkdir()
    spool.chmod(0o555)

    is_told(ordinary("grid", "--layouts", "1x1", "--spool", "spool"), "the spool", "cannot write")


def test_an_ordinary_user_cannot_write_a_study_into_a_folder_that_is_not_writable(ordinary) -> None:
    closed = ordinary.folder / "closed"
    closed.mkdir()
    closed.chmod(0o555)

    config = script(ordinary.folder, "[sleep, '60']")
    done = ordinary("grid", config, "--study", "closed/s.tuner.db")

    is_told(done, "cannot create closed/s.tuner.db", "Permission denied")


def test_an_ordinary_user_cannot_run_a_service_as_somebody_else(ordinary) -> None:
    config = ordinary.folder / "s.yaml"
    config.write_text("service: {user: root}\n")

    is_told(ordinary("grid", "s.yaml"), "s.yaml:1:17: service.user: only root can run a service as root")


@pytest.fixture(scope="module")
def finished_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of one window, kept as tuner keeps it; once, the tests get copies."""
    options = {"strategy": "all", "layouts": "1x1", "window": "1s", "repeats": "1"}
    settings = load_settings(
        None, {("study", name): Given(f"--{name}", text) for name, text in options.items()}
    )
    file = tmp_path_factory.mktemp("study") / "crash-processor.tuner.db"
    layout = Layout(1, 1)
    samples = (Sample(0.0, 0, 0, 1.0, 1.0, 1.0, 1), Sample(1.0, 5, 0, 1.0, 1.0, 1.0, 1))
    usage = [
        Usage(at_s, at_s, at_s, 0, 0, at_s, 0, 0, 1 << 20, 1, 1, None, None, None) for at_s in (0.0, 1.0)
    ]
    readings = (Reading(0.0, 0, 0), Reading(1.0, 5, 0))
    with new_store(file, plan_record(settings)) as store:
        launch_id = store.add_launch(LaunchRecord(0, 0, 1, layout, "box", 0.0, 1.0, 1.0, True, None, 9.0))
        store.add_window(launch_id, Window(layout, 0, 1, 1.0, 1.0, 5, 0, samples, tuple(usage), readings))
    return file


@pytest.fixture
def study_file(tmp_path: Path, finished_study: Path) -> Path:
    return Path(shutil.copy(finished_study, tmp_path))


def test_a_study_of_a_newer_version_is_reported(typed: Typed, study_file: Path) -> None:
    with contextlib.closing(sqlite3.connect(study_file)) as connection:
        connection.execute("PRAGMA user_version = 99")

    for command in (("rank",), ("export",), ("grid", "--resume")):
        is_told(typed(*command, study_file), "has schema version 99")


@pytest.mark.parametrize(
    "command",
    [
        "rank",
        "export",
        "report",
        "explain",
        "predict",
        "watch --once",
        "compare",
        "replay",
        "plan",
        "grid --resume",
    ],
)
def test_a_figure_that_changed_on_the_disk_is_reported_by_whoever_reads_it(
    tmp_path: Path, study_file: Path, command: str
) -> None:
    with contextlib.closing(sqlite3.connect(study_file)) as connection:
        connection.execute("UPDATE window SET n_done = n_done + 8")
        connection.commit()
    other = Path(__file__).parents[1] / "golden" / "study_version_8.db"
    studies = [study_file, other] if command == "compare" else [study_file]

    done = Typed(tmp_path)(*command.split(), *studies)

    assert done.returncode == 2
    errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert errors == [
        "Error: " + wording("study-file.damaged-not-as-written", file=study_file, what="window 1")
    ]
    assert done.stdout == ""


def test_a_runbook_with_one_mark_only_is_reported_and_left_alone(typed: Typed, study_file: Path) -> None:
    runbook = typed.folder / "RUNBOOK.md"
    assert typed("export", study_file, "--into", runbook).returncode == 0
    lines = [line for line in runbook.read_text().splitlines() if not line.endswith(" end -->")]
    runbook.write_text("\n".join(lines) + "\n")

    is_told(typed("export", study_file, "--into", runbook), "RUNBOOK.md", "mark")

    assert runbook.read_text() == "\n".join(lines) + "\n"


def test_a_check_compares_with_the_options_that_made_the_section(typed: Typed, study_file: Path) -> None:
    keep = ("export", study_file, "--into", "RUNBOOK.md")
    assert typed(*keep, "--check").returncode == 4
    assert typed(*keep, "--current", "1x1", "--confidence", "90%").returncode == 0

    fresh, otherwise = typed(*keep, "--check"), typed(*keep, "--check", "--confidence", "0.8")

    assert fresh.returncode == 0, fresh.stderr
    assert otherwise.returncode == 4
    runbook = typed.folder / "RUNBOOK.md"
    runbook.write_text(runbook.read_text().replace("90 % interval", "95 % interval"))
    stale = typed(*keep, "--check")
    is_told(stale, "RUNBOOK.md does not show the results of", code=4)
    hint = stale.stderr.splitlines()[1]
    assert hint == f"tuner export {study_file} --into RUNBOOK.md --current 1x1 --confidence 0.9"
    assert typed(*hint.split()[1:]).returncode == 0
    assert typed(*keep, "--check").returncode == 0


def test_resume_takes_no_options_that_would_change_the_study(typed: Typed, study_file: Path) -> None:
    is_told(
        typed("grid", "--resume", study_file, "--window", "77s"),
        "--window differs from the settings",
        "study.window: ",
    )
    is_told(typed("grid", "other.yaml", "--resume", study_file), "cannot read the config other.yaml")


def test_a_finished_study_resumed_measures_nothing_more(typed: Typed, study_file: Path) -> None:
    done = typed("grid", "--resume", study_file)

    assert done.returncode == 0, done.stderr
    assert "items/10 min" not in done.stderr  # no window was taken
    assert "1x1" in done.stdout


def test_an_ordinary_user_cannot_continue_with_a_study_that_is_read_only(ordinary, study_file: Path) -> None:
    theirs = ordinary.folder / "s.tuner.db"
    shutil.copy2(study_file, theirs)
    theirs.chmod(0o444)

    is_told(ordinary("grid", "--resume", "s.tuner.db"), "cannot write s.tuner.db", "Permission denied")

    assert ordinary("rank", "s.tuner.db").returncode == 0  # reading needs no right to write


def test_a_full_disk_is_reported_and_leaves_no_half_a_study(tuner) -> None:
    """A limit on file sizes stands for the disk: a write fails likewise, and no root is needed."""
    config = script(tuner.folder, "[sleep, 60]")

    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 8; exec "$0" "$@"', *tuner.program, "grid", config],
        cwd=tuner.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    is_told(done, "cannot write worker.tuner.db", "File too large")
    assert list(tuner.folder.glob("*.db*")) == []


def test_without_a_stackwalker_the_worker_says_so_and_tuner_passes_it_on(typed: Typed) -> None:
    config = typed.folder / "s.yaml"
    config.write_text(
        "service: {options: {minidump_stackwalk_pathname: /no/such/stackwalker}}\n"
        "study: {strategy: all, layouts: [1x1], window: 1s, warmup: 1s, repeats: 1, warm_cache: no,"
        " max_attempts: 1}\n"
    )

    done = typed("grid", config)

    assert done.returncode == 3, done.stderr
    assert "/no/such/stackwalker" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_page_of_help_whose_reader_has_gone_is_no_bug(tuner) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as unread:
        done = subprocess.run(
            [*tuner.program, "grid", "--help"], stdout=unread, stderr=subprocess.PIPE, check=False
        )

    assert (done.returncode, done.stderr) == (0, b"")


def test_a_hook_that_keeps_a_study_from_beginning_is_reported_with_what_continues(typed: Typed) -> None:
    path = script(typed.folder, "[sleep, '100']")
    path.write_text(path.read_text() + "hooks: {before_study: [[no-such-hook]]}\n")

    done = typed("grid", "s.yaml", "--study", "kept.tuner.db")

    assert done.returncode == 3
    assert done.stderr.splitlines()[-2:] == [
        "Error: the before_study hook no-such-hook " + wording("launch.cannot-be-run-no-file"),
        wording("grid.what-there-is-is-kept"),
    ]


def test_quick_leaves_out_no_layout_that_was_named(typed: Typed) -> None:
    named = "1x1,2x2,1x2,2x1,4x4,8x8"
    done = typed("grid", "--simulate", PROFILE, "--quick", "--layouts", named, "--study", "q.tuner.db")

    assert wording("grid.first-look-only") in done.stderr
    rows = json.loads(typed("rank", "q.tuner.db", "--json").stdout)["layouts"]
    assert {row["layout"] for row in rows} == set(named.split(","))
