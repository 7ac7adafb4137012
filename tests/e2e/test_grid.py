"""tuner grid, for real: the built-in crash processor under supervisord, and scripts of the user's own.

The limits on what strangers do to the box are lifted: other tests may run beside these.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from ..wording import wording
from .sleeping_worker import sleeping_master, sleeping_worker
from .typed import Typed

pytestmark = pytest.mark.integration
STUDY = (
    "study: {strategy: all, layouts: [%s], window: 2s, warmup: 1s, repeats: %d, warm_cache: no,"
    " foreign_limit: 1000, memory_pressure_limit: 1}\n"
)
PATIENCE_S = 120.0


def test_the_built_in_service_is_measured_ranked_and_gone_afterwards(tuner, typed: Typed) -> None:
    (tuner.folder / "s.yaml").write_text(STUDY % ("1x1, 1x2", 1))

    done = tuner("grid", "s.yaml", "--json")

    assert done.returncode == 0, done.stderr
    ranking = json.loads(done.stdout)
    assert ranking["schema_version"] == 1
    assert {row["layout"] for row in ranking["layouts"]} == {"1x1", "1x2"}
    assert all(row["throughput_per_10min"]["mean"] > 0 for row in ranking["layouts"])
    assert [line for line in done.stderr.splitlines() if "items/10 min" in line]
    again = typed("rank", "crash-processor.tuner.db", "--json")
    assert again.stdout == done.stdout
    assert typed("export", "crash-processor.tuner.db", "--into", "RUNBOOK.md").returncode == 0
    assert "1x2" in (tuner.folder / "RUNBOOK.md").read_text()
    assert list(Path(os.environ["TMPDIR"]).glob("tuner-*")) == []  # the spool went with it


def script(folder: Path, more: str = "") -> Path:
    (folder / "worker.py").write_text(sleeping_worker("0.002"))
    path = folder / "s.yaml"
    path.write_text(
        "service:\n  kind: script\n  name: sleeper\n"
        f"  command: [{sys.executable}, {folder / 'worker.py'}]\n" + STUDY % ("1x1, 2x2", 2) + more
    )
    return path


def test_layouts_for_more_cores_than_there_are_run_and_say_so(typed: Typed) -> None:
    config = script(typed.folder)

    done = typed("grid", config, "--cores", "4096", "--layouts", "1x1", "--repeats", "1")

    assert done.returncode == 0, done.stderr
    assert wording("model.layouts-measured-on-fewer") in done.stderr
    assert "4096 cores" in typed("rank", "sleeper.tuner.db").stdout


def test_a_program_that_starts_its_workers_itself_is_measured_by_these(typed: Typed) -> None:
    """Each thread does 50 items a second at most: 100 in 2x1, 200 in 2x2; fewer where neighbours are busy."""
    (typed.folder / "master.py").write_text(sleeping_master())
    (typed.folder / "s.yaml").write_text(
        "service: {kind: script, name: pool, programs: one, max_extra_threads: 1,"
        f" command: [{sys.executable}, master.py, '{{processes}}']}}\n" + STUDY % ("2x1, 2x2", 1)
    )

    done = typed("grid", "s.yaml", "--json")

    assert done.returncode == 0, done.stderr
    assert "[" not in done.stderr.split("items/10 min")[-1]  # no warning
    of_layout = {
        row["layout"]: row["throughput_per_10min"]["mean"] for row in json.loads(done.stdout)["layouts"]
    }
    assert 0 < of_layout["2x1"] <= 600 * 100 * 1.2
    assert 0 < of_layout["2x2"] <= 600 * 200 * 1.2
    explained = json.loads(typed("explain", "pool.tuner.db", "--json").stdout)
    assert {row["layout"] for row in explained["layouts"]} == {"2x1", "2x2"}


def test_a_program_that_starts_the_same_workers_in_each_layout_ends_the_study(typed: Typed) -> None:
    (typed.folder / "master.py").write_text(sleeping_master())
    (typed.folder / "start.sh").write_text(f"exec {sys.executable} master.py 3  # not $1\n")
    (typed.folder / "s.yaml").write_text(
        "service: {kind: script, name: pool, programs: one, command: [sh, start.sh, '{processes}']}\n"
        + STUDY % ("2x1, 3x1", 1)
    )

    done = typed("grid", "s.yaml")
    again = typed("grid", "--resume", "pool.tuner.db")

    for end in (done, again):
        assert end.returncode == 2, end.stderr
        assert "invalid window, layouts-alike" in end.stderr
        assert wording("ran.three-worker-processes") in end.stderr
    windows = json.loads(typed("rank", "pool.tuner.db", "--json").stdout)["layouts"]
    assert sum(row["throughput_per_10min"]["mean"] is not None for row in windows) == 1


def test_variants_of_a_service_are_an_axis_of_their_own(typed: Typed) -> None:
    """A pool of threads and one of processes: each thread of either does 50 items a second at most."""
    (typed.folder / "master.py").write_text(sleeping_master())
    (typed.folder / "worker.py").write_text(sleeping_worker())
    (typed.folder / "s.yaml").write_text(
        f"service:\n  kind: script\n  name: jobs\n  command: [{sys.executable}, worker.py]\n  variants:\n"
        "    threads: {max_extra_threads: 1}\n"
        "    prefork: {threads: no, programs: one, ready: {kind: log, pattern: never, within: 1s},\n"
        f"      command: [{sys.executable}, master.py, '{{processes}}']}}\n"
        + STUDY
        % ("1x3@threads, 2x-@prefork", 1)
    )

    done = typed("grid", "s.yaml", "--json")

    assert wording("grid.variant-not-ready") in done.stderr  # each variant has its own check
    (typed.folder / "jobs.tuner.db").unlink()
    text = (typed.folder / "s.yaml").read_text()
    (typed.folder / "s.yaml").write_text(text.replace("ready: {kind: log, pattern: never, within: 1s},", ""))
    done = typed("grid", "s.yaml", "--json")

    assert done.returncode == 0, done.stderr
    rows = {row["layout"]: row for row in json.loads(done.stdout)["layouts"]}
    assert (rows["1x3@threads"]["variant"], rows["2x-@prefork"]["threads"]) == ("threads", None)
    of_layout = {name: row["throughput_per_10min"]["mean"] for name, row in rows.items()}
    assert 0 < of_layout["1x3@threads"] <= 600 * 150 * 1.2
    assert 0 < of_layout["2x-@prefork"] <= 600 * 100 * 1.2


def test_a_script_of_the_user_s_own_is_measured_with_hooks_told_in_order(typed: Typed) -> None:
    text = typed.folder / "told"
    note = f"[sh, -c, 'echo \"$TUNER_EVENT $TUNER_LAYOUT\" >> {text}']"
    events = (
        "before_study",
        "before_launch",
        "before_window",
        "after_window",
        "after_launch",
        "after_study",
        "finished",
    )
    hooks = "hooks:\n" + "".join(f"  {event}: [{note}]\n" for event in events)

    done = typed("grid", script(typed.folder, hooks), "--layouts", "1x1", "--repeats", "1")

    assert done.returncode == 0, done.stderr
    assert [line.strip() for line in text.read_text().splitlines()] == [
        "before_study", "before_launch 1x1", "before_window 1x1", "after_window 1x1", "after_launch 1x1",
        "after_study", "finished",
    ]  # fmt: skip


def begun(tuner, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*tuner.program, "grid", *map(str, arguments)],
        cwd=tuner.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_line(process: subprocess.Popen[str], said: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if said in line:
            return
    pytest.fail(f"it ended without saying {said!r}")


def test_ctrl_c_finishes_the_window_and_ranks_and_resume_measures_the_rest(tuner, typed: Typed) -> None:
    process = begun(tuner, script(tuner.folder))
    wait_for_line(process, "1 of 4 windows")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    assert "sleeper" in out
    assert "tuner grid --resume" in err

    done = typed("grid", "--resume", "sleeper.tuner.db", "--json")

    assert done.returncode == 0, done.stderr
    rows = {row["layout"]: row["n_windows"] for row in json.loads(done.stdout)["layouts"]}
    assert rows == {"1x1": 2, "2x2": 2}


def test_the_study_that_the_readme_starts_runs_workers_and_two_interrupts_end_it(tuner) -> None:
    process = begun(tuner, "--cores", "24")
    deadline_s = time.monotonic() + PATIENCE_S
    while not any({"run", "--fs-root"} <= {*command} for command in commands_below(process.pid)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline_s, "no worker was started"
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    wait_for_line(process, wording("grid.finishing-this-window"))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 130, err
    assert "tuner grid --resume crash-processor.tuner.db" in out
    assert "22 layouts for 24 cores" in out
    assert list(Path(os.environ["TMPDIR"]).glob("tuner-*")) == []


def commands_below(pid: int) -> list[list[str]]:
    """The command lines of all processes that *pid* and its children started, as far as they still run."""
    commands = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                commands.append(process.cmdline())
    return commands


def test_a_study_whose_config_holds_a_secret_is_resumed_with_the_config(tuner, typed: Typed) -> None:
    config = script(tuner.folder)
    config.write_text(
        config.read_text().replace("  command:", "  environment: {DB_PASSWORD: hunter2}\n  command:")
    )
    process = begun(tuner, config, "--repeats", "1")
    wait_for_line(process, "1 of 2 windows")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)

    alone = typed("grid", "--resume", "sleeper.tuner.db")
    with_config = typed("grid", config, "--resume", "sleeper.tuner.db")

    assert alone.returncode == 2
    assert wording("config.secrets-not-held") in alone.stderr
    assert b"hunter2" not in (tuner.folder / "sleeper.tuner.db").read_bytes()
    assert with_config.returncode == 0, with_config.stderr
    config.write_text(config.read_text().replace("name: sleeper", "name: other"))
    other = typed("grid", config, "--resume", "sleeper.tuner.db")
    assert (
        wording("grid.setting-changed", setting="service.name", was='"sleeper"', given='"other"')
        in other.stderr
    )


def test_a_study_of_a_typed_command_continues_with_what_was_typed(typed: Typed) -> None:
    (typed.folder / "worker.py").write_text(sleeping_worker("0.002"))
    command = ["--", "env", "DB_PASSWORD=hunter2", sys.executable, "worker.py"]
    asked = ["--strategy", "all", "--layouts", "1x1", "--repeats", "1", "--foreign-limit", "1000"]
    asked += ["--window", "2s", "--warmup", "1s"]
    started = typed("grid", *asked, *command)
    assert started.returncode == 0, started.stderr
    resumed = ("grid", "--resume", "worker.tuner.db")

    alone = typed(*resumed)
    same = typed(*resumed, "--window", "2s", "--layouts", "1x1", *command)
    longer = typed(*resumed, "--window", "3s", *command)
    another = typed(*resumed, *command, "--more")

    assert alone.returncode == 2
    assert wording("grid.go-on-with-command") in alone.stderr
    assert same.returncode == 0, same.stderr
    assert "1x1" in same.stdout
    assert (longer.returncode, another.returncode) == (2, 2)
    assert wording("grid.window-and-command-changed") in longer.stderr
    assert "service.command: " in another.stderr
    assert "hunter2" not in another.stderr


def test_sigterm_stops_at_once_with_everything_gone(tuner) -> None:
    process = begun(tuner, script(tuner.folder), "--window", "10m")
    wait_until_launched(tuner.folder / "sleeper.tuner.db")
    process.send_signal(signal.SIGTERM)

    _, err = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 130, err
    assert "Traceback" not in err


def wait_until_launched(file: Path) -> None:
    """Until a worker of ours runs."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _is_worker(entry, file.parent):
                return
        time.sleep(0.05)
    pytest.fail("no worker was started")


def _is_worker(entry: Path, folder: Path) -> bool:
    try:
        return str(folder / "worker.py").encode() in (entry / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


TELLS = "id -un; pwd; echo $GREETING $PLAIN; grep Cpus_allowed_list /proc/self/status"


def telling(folder: Path, result: Path, more: str) -> Path:
    """A service that writes down as whom, where and with what it runs."""
    path = folder / "s.yaml"
    path.write_text(
        "service:\n  kind: script\n  name: teller\n"
        f"  command: [sh, -c, '({TELLS}) > {result}; exec sleep 60']\n  stop: {{wait: 5s}}\n{more}"
        + STUDY
        % ("1x1", 1)
    )
    return path


def test_a_service_runs_in_its_folder_with_its_environment_file_on_the_cores_it_is_for(tuner) -> None:
    (tuner.folder / "work").mkdir()
    (tuner.folder / "worker.env").write_text("# secrets\nexport GREETING='hello {threads}'\n")
    text = tuner.folder / "told"
    more = "  directory: work\n  environment_file: worker.env\n  environment: {PLAIN: '{threads}'}\n"

    done = tuner("grid", telling(tuner.folder, text, more), "--cores", "1")

    assert "Traceback" not in done.stderr
    _, folder, greeting, cores = text.read_text().splitlines()
    assert folder == str(tuner.folder / "work")
    assert greeting == "hello {threads} 1"  # a file's values are as they are, the config's are filled in
    assert cores.split() == ["Cpus_allowed_list:", str(min(os.sched_getaffinity(0)))]
    kept = (tuner.folder / "teller.tuner.db").read_bytes()
    assert b"hello {threads}" not in kept


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a service as another user")
def test_a_service_runs_as_another_user(typed: Typed) -> None:
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as open_to_all:
        Path(open_to_all).chmod(0o777)
        text = Path(open_to_all) / "told"

        typed("grid", telling(typed.folder, text, f"  user: nobody\n  directory: {open_to_all}\n"))

        assert text.read_text().splitlines()[0] == "nobody"


PROFILE = "name: shop\ndemands: {gil: 20ms, asleep: 20ms}\nmachine: %s\n"


def simulated(folder: Path, machine: str, *more: str) -> tuple[str, dict]:
    """What is told, and the study, of a service on a box as *machine* says."""
    (folder / "shop.yaml").write_text(PROFILE % machine)
    options = ("--layouts", "1x1,2x1", "--strategy", "all", "--repeats", "1", "--json")
    done = Typed(folder)("grid", "--simulate", "shop.yaml", *options, *more)
    assert done.returncode == 0, done.stderr
    return done.stderr, json.loads(done.stdout)["study"]


@pytest.mark.parametrize(("cores", "whole"), [("0.5", 1), ("1.5", 1), ("2.9", 2)])
def test_a_simulated_box_has_whole_cores_and_says_so(tmp_path: Path, cores: str, whole: int) -> None:
    result, study = simulated(tmp_path, f"{{cores: {cores}}}")

    assert result.startswith(wording("grid.whole-cores-only", cores=cores, whole=whole))
    assert (study["cores"], study["box_cores"]) == (whole, whole)


def test_nothing_is_said_of_cores_that_are_whole_or_requested(tmp_path: Path) -> None:
    for machine, more in (("{cores: 2}", ("--study", "a.db")), ("{cores: 0.5}", ("--cores", "3"))):
        result, _ = simulated(tmp_path, machine, *more)

        assert result.startswith(wording("simulate.no-service-is-started"))


def test_a_profile_of_a_box_beyond_all_bounds_is_refused(tmp_path: Path) -> None:
    """Its grid of divisors alone would take very long."""
    (tmp_path / "shop.yaml").write_text(PROFILE % "{cores: 100000}")

    done = Typed(tmp_path)("grid", "--simulate", "shop.yaml")

    assert done.returncode == 2
    assert done.stderr == (wording("grid.too-many-cores-to-simulate"))
    assert [file.name for file in tmp_path.iterdir()] == ["shop.yaml"]


def test_a_simulated_box_keeps_its_share_of_second_threads(tmp_path: Path) -> None:
    _, study = simulated(tmp_path, "{cores: 24, physical_cores: 16}", "--cores", "12")

    assert study["provenance"]["threads_per_core"] == "1.5"
    assert study["provenance"]["physical_cores"] == "8"
