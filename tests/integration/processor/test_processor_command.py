"""The command line: what it fills and shows, and one line for everything it cannot work with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.probe import counter

from ...wording import end_of, key_of, start_of, wording
from .conftest import Bed

pytestmark = pytest.mark.integration


def _complaint(bed: Bed, *arguments: str) -> str:
    """The one line that a command complains with."""
    ended = bed.typed(*arguments)
    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
    assert ended.stderr.startswith("Error: ")
    assert ended.stderr.count("\n") == 1
    return ended.stderr


def test_filling_twice_says_what_was_there_already(bed: Bed) -> None:
    for added, there in ((20, 0), (0, 20)):
        ended = bed.command("fill", "--synthetic", "20", "--seed", "5", "--symbols-bytes", "30000")
        assert ended.stdout.strip() == wording(
            "crash-processor.items-added", added=added, root=bed.root, there=there
        )

    assert (bed.status()["new"], bed.status()["crashes"]) == (20, 20)
    assert [path.name for path in bed.root.iterdir() if path.name.startswith(".")] == []
    assert any(bed.root.glob("symbols/*/*/*.sym"))


def test_a_dump_may_be_filled_many_times(bed: Bed, tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "a.dmp").write_text("ok")

    assert "7 items added" in bed.command("fill", "--dumps", str(tmp_path / "deep"), "--copies", "7").stdout
    assert "3 items added" in bed.command("fill", "--dumps", str(tmp_path / "deep"), "--copies", "10").stdout
    assert "10 done" in bed.run("--number-of-threads", "1")


def test_symbols_are_linked_into_the_spool_and_given_to_the_stackwalker(bed: Bed, tmp_path: Path) -> None:
    for store in ("one", "two"):
        (tmp_path / store / "app" / f"ID{store}").mkdir(parents=True)
        (tmp_path / "dumps").mkdir(exist_ok=True)
        (tmp_path / "dumps" / f"{store}.dmp").write_text("ok")
        bed.command(
            "fill", "--dumps", str(tmp_path / "dumps"), "--symbols", str(tmp_path / store), check=True
        )
    bed.walker.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/arguments\n')
    bed.run("--number-of-threads", "1")

    assert sorted(path.name for path in (bed.root / "symbols" / "app").iterdir()) == ["IDone", "IDtwo"]
    lines = (tmp_path / "arguments").read_text().splitlines()
    assert [line.split()[2:] for line in lines] == [[str(bed.root / "symbols")]] * 2


def test_status_is_for_people_and_for_programs(either_bed: Bed) -> None:
    either_bed.fill("ok", "ok", "fails")
    (either_bed.root / "crashes" / either_bed.fill("ok")[0] / "raw_crash.json").unlink()
    either_bed.run("--number-of-threads", "1")
    either_bed.fill("ok")

    as_json = json.loads(either_bed.command("status", "--json").stdout)
    expected = {"new": 1, "cur": 0, "done": 3, "dead": 1, "crashes": 5, "results": 3, "workers": 0}
    assert as_json == expected
    assert either_bed.command("status").stdout.split() == [
        word for name, value in expected.items() for word in (name, str(value))
    ]


@pytest.mark.parametrize("threads", ["1", "4"])
def test_every_finished_item_is_counted_with_its_stages(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: str
) -> None:
    bed.fill(*["ok"] * 20, "fails", "")
    (bed.root / "crashes" / bed.fill("ok")[0] / "raw_crash.json").unlink()
    monkeypatch.setenv("TUNER_COUNTER_DIR", str(tmp_path))
    costs = ("--python-cost-ms", "4", "--fetch-delay-ms", "3", "--save-delay-ms", "2")
    bed.run("--number-of-threads", threads, *costs)
    totals = counter.read_totals(str(tmp_path))

    assert (totals.n_done, totals.n_failed) == (22, 1)
    assert 1 <= totals.n_slots <= int(threads)
    assert totals.n_processes == 1
    assert totals.python_cpu_ns > 22 * 3e6
    assert totals.child_cpu_ns > 0
    assert totals.waiting_ns > 22 * 2e6


def test_the_python_part_of_an_item_reaches_its_cost_by_real_passes(bed: Bed) -> None:
    ids = bed.fill(*["ok"] * 12)
    bed.run("--number-of-threads", "1", "--python-cost-ms", "20")
    cpu_ms = sorted(
        sum(stage["cpu_ms"] for stage in bed.result(crash_id)["stages"].values()) for crash_id in ids
    )

    assert 18 < cpu_ms[6] < 22


def test_an_endless_run_never_runs_dry(bed: Bed) -> None:
    bed.fill(*["ok"] * 5)
    process = bed.start("--number-of-threads", "1", "--endless", "--keep-results", "2")
    bed.wait_for(lambda status: status["results"] >= 2)
    process.terminate()
    bed.end(process)

    assert (bed.status()["new"], bed.status()["done"], bed.status()["results"]) == (5, 0, 2)


@pytest.mark.parametrize(
    "flags", [["--number_of_threads", "2"], ["--number-of-threads=2", "--maximum_queue_size=1"]]
)
def test_underscores_are_accepted_too(bed: Bed, flags: list[str]) -> None:
    bed.fill("ok")

    assert "ThreadedTaskManager, 2 threads" in bed.run(*flags)


def test_options_may_come_from_the_environment_and_a_file(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed.fill("ok")
    (tmp_path / "crash.yaml").write_text("number_of_threads: 3\nquit_on_empty_queue: yes\nidle_delay: 10ms\n")
    monkeypatch.setenv("CRASH_PROCESSOR_NUMBER_OF_THREADS", "5")
    monkeypatch.setenv("CRASH_PROCESSOR_CONFIG", str(tmp_path / "crash.yaml"))

    assert "ThreadedTaskManager, 5 threads" in bed.end(bed.start())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["--number-of-thread", "3"],
            wording(
                "crash-processor.unknown-option", option="--number-of-thread", meant="--number-of-threads"
            ),
        ),
        (
            ["--number-of-threads", "0"],
            wording("crash-processor.no-count", option="--number-of-threads", value=0),
        ),
        (["--number-of-threads"], "argument --number-of-threads"),
        (["7"], wording("crash-processor.unexpected-argument")),
        (
            ["--minidump-stackwalk-pathname", "/nonexistent"],
            wording("crash-processor.no-stackwalker", path="/nonexistent"),
        ),
        (
            ["--minidump-stackwalk-pathname", "/tmp"],
            wording("crash-processor.stackwalker-is-folder", path="/tmp"),
        ),
        (
            ["--producer-consumer-class", "singel"],
            wording("crash-processor.no-such-class", name="singel", meant="single"),
        ),
        (["--producer-consumer-class", "single"], wording("crash-processor.one-thread", n=4)),
        (["--new-crash-source-class", "no.such.Class"], wording("crash-processor.cannot-import")),
        (["--new-crash-source-class", "json.Source"], wording("crash-processor.module-has-no-class")),
        (["--crashstorage-class", "postgres"], wording("crash-processor.use-fs")),
        (
            ["--redis-url", "http://x", "--new-crash-source-class", "redis"],
            wording("crash-processor.no-url-of-redis"),
        ),
        (
            [
                "--redis-url",
                "unix:///nonexistent",
                "--new-crash-source-class",
                "redis",
                "--backoff-delays",
                "",
            ],
            wording(
                "crash-processor.redis-out-of-reach", path="/nonexistent", why="No such file or directory"
            ),
        ),
        (
            ["--config", "/nonexistent.yaml"],
            wording("crash-processor.cannot-read", file="/nonexistent.yaml", why="No such file or directory"),
        ),
        (
            ["--profile", "socorro-2013"],
            wording("crash-processor.no-such-profile", name="socorro-2013", meant="socorro-2014"),
        ),
        (
            ["--stackwalk-command-line", "{dumpfile}"],
            wording("crash-processor.unknown-field", field="dumpfile"),
        ),
    ],
    ids=key_of,
)
def test_run_complains_in_one_line(bed: Bed, arguments: list[str], complaint: str) -> None:
    bed.fill("ok")

    assert complaint in _complaint(bed, "run", "--minidump-stackwalk-pathname", str(bed.walker), *arguments)
    assert bed.status()["new"] == 1


@pytest.mark.parametrize(
    ("redirection", "exit_code", "said"),
    [
        (">/dev/full", 2, wording("crash-processor.cannot-print-full")),
        (">&-", 2, wording("crash-processor.cannot-print-closed")),
        ("| true; exit ${PIPESTATUS[0]}", 0, ""),
    ],
    ids=key_of,
)
def test_a_result_that_cannot_be_printed_is_reported_unless_nobody_reads_on(
    bed: Bed, redirection: str, exit_code: int, said: str
) -> None:
    bed.fill("ok")
    line = f"{sys.executable} -m tuner_workers.crash_processor status --fs-root {bed.root} {redirection}"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True)

    assert (ended.returncode, ended.stdout, ended.stderr) == (exit_code, "", said)


@pytest.mark.parametrize("closed", ["2>&-", "0>&- 2>&-", "0>&- 1>&- 2>&-"])
def test_a_processor_without_some_of_its_streams_works_all_the_same(bed: Bed, closed: str) -> None:
    bed.fill("ok", "ok")
    command = f"{sys.executable} -m tuner_workers.crash_processor run --fs-root {bed.root}"
    options = f"--minidump-stackwalk-pathname {bed.walker} --quit-on-empty-queue --idle-delay 50ms"
    ended = subprocess.run(["bash", "-c", f"{command} {options} {closed}"], capture_output=True)

    assert (ended.returncode, bed.status()["done"]) == (0, 2)


def test_a_stackwalker_that_is_not_executable_is_reported(bed: Bed) -> None:
    bed.fill("ok")
    bed.walker.chmod(0o644)

    complaint = _complaint(bed, "run", "--minidump-stackwalk-pathname", str(bed.walker))
    assert wording("crash-processor.stackwalker-not-executable", walker=bed.walker) in complaint


def test_no_stackwalker_is_reported_with_what_to_do(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed.fill("ok")
    bare = tmp_path / "python"  # beside this one no stackwalker is installed
    bare.symlink_to(Path(sys.executable).resolve())
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.setenv("PATH", "/nonexistent")
    ended = subprocess.run(
        [bare, "-m", "tuner_workers.crash_processor", "run", "--fs-root", bed.root],
        capture_output=True,
        text=True,
    )

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (wording("crash-processor.no-stackwalker-on-path"))


@pytest.mark.parametrize("command", [["run"], ["status"], ["fill", "--synthetic", "1"]])
def test_a_missing_redis_package_is_reported_with_what_to_install(bed: Bed, command: list[str]) -> None:
    bed.fill("ok")
    where = ["--fs-root", str(bed.root), "--new-crash-source-class", "redis"]
    program = (
        "import sys; sys.modules['redis'] = None\n"  # what Python makes of a package that is not there
        "import tuner_workers.crash_processor.cli as cli\n"
        f"cli.main({[*command, *where]!r})"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert wording("crash-processor.redis-needs-package") in start_of(ended.stderr)
    assert wording("crash-processor.install-redis") in end_of(ended.stderr)
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run"], wording("crash-processor.no-spool-inside")),
        (["status"], wording("crash-processor.no-spool")),
        (["fill"], wording("crash-processor.dumps-or-synthetic")),
        (["fill", "--synthetic", "0"], wording("crash-processor.no-count", option="--synthetic", value=0)),
        (
            ["fill", "--synthetic", "1", "--seed", "x"],
            wording("crash-processor.no-whole-number", option="--seed", value="x"),
        ),
        (["fill", "--synthetic", "1", "--symbols", "/tmp"], wording("crash-processor.symbols-go-with-dumps")),
        (
            ["fill", "--dumps", "/nonexistent"],
            wording("crash-processor.no-folder-of-dumps", folder="/nonexistent"),
        ),
        (
            ["fill", "--dumps", "/proc/self/fdinfo"],
            wording("crash-processor.no-dump", folder="/proc/self/fdinfo"),
        ),
        (
            ["fill", "--dump", "/tmp"],
            wording("crash-processor.unknown-option", option="--dump", meant="--dumps"),
        ),
        (["fil"], wording("crash-processor.invalid-choice")),
        (["fill", "--synthetic", "9" * 30], wording("crash-processor.too-many")),
        (
            ["status", "--new-crash-source-class", "rdis"],
            wording("crash-processor.unknown-to-command", name="rdis", meant="redis"),
        ),
        (
            ["fill", "--synthetic", "1", "--new-crash-source-class", "my.Source"],
            wording("crash-processor.dotted-path-of-run"),
        ),
    ],
    ids=key_of,
)
def test_other_commands_complain_in_one_line(bed: Bed, arguments: list[str], complaint: str) -> None:
    walker = ["--minidump-stackwalk-pathname", str(bed.walker)] if arguments == ["run"] else []

    assert complaint in _complaint(bed, *arguments, *walker)
    assert not bed.root.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
@pytest.mark.parametrize("command", ["run", "fill"])
def test_a_spool_that_cannot_be_written_is_reported_to_an_ordinary_user(
    bed: Bed, tmp_path: Path, command: str
) -> None:
    bed.fill("ok")
    os.chmod(bed.root, 0o755)
    for folder in (tmp_path, *tmp_path.parents):
        if os.stat(folder).st_uid == 0 and folder != Path("/"):
            os.chmod(folder, os.stat(folder).st_mode | 0o055)
    arguments = {
        "run": ["run", "--minidump-stackwalk-pathname", str(bed.walker)],
        "fill": ["fill", "--dumps", str(next(tmp_path.glob("dumps-*"))), "--copies", "2"],
    }[command]
    program = (
        "import os, sys, tuner_workers.crash_processor.cli as cli, tuner_workers.crash_processor.run\n"
        "import tuner_workers.crash_processor.threaded_task_manager, tuner_workers.crash_processor.fill\n"
        "import tuner_workers.crash_processor.storage, tuner.probe.counter\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        f"cli.main({[*arguments, '--fs-root', str(bed.root)]!r})"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
    assert ended.stderr.startswith("Error: cannot")
    assert "Permission denied" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_the_spawn_path_is_printed_for_programs(bed: Bed) -> None:
    facts = json.loads(
        subprocess.check_output(
            [sys.executable, "-m", "tuner_workers.crash_processor", "spawn-path", "--json"]
        )
    )

    assert facts["version"] == ".".join(map(str, sys.version_info[:3]))
    assert facts.keys() >= {"interpreter", "path", "holds_the_gil", "effect", "spawn_ms"}
