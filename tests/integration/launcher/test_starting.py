"""How workers are started, and what is told when that fails."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.errors import ConfigError, MeasurementError

from ...permitted import mount_tmpfs, root_needed
from ...raising import raises
from ...wording import end_of, key_of, wording
from .conftest import LaunchersOf, failure

pytestmark = pytest.mark.integration
NASTY = [
    "%",
    "%(ENV_HOME)s %d",
    "a;b ; c",
    "'",
    '"',
    "back\\slash",
    "two\nlines",
    "$HOME `id`",
    "",
    "#",
    "\u00e9",
    "\udcff",
]
WORKER = str(Path(__file__).with_name("worker.py"))
DRIVER = str(Path(__file__).with_name("driver.py"))


def reported(path: Path) -> dict[str, Any]:
    """What a ``report`` worker wrote."""
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, "the worker reported nothing"
        time.sleep(0.01)
    report: dict[str, Any] = json.loads(path.read_text())
    return report


def test_a_worker_that_dies_at_start_is_reported_with_its_exit_code_and_last_words(
    launcher_of: LaunchersOf,
) -> None:
    error = failure(launcher_of("die", "3", "first", "no config:", "file 'x' is missing", settle_s=30.0))

    assert isinstance(error, MeasurementError)
    assert wording("launch.log-of-a-start") in error.problem
    assert wording("launch.last-words-of-the-log") in end_of(error.problem)


def test_a_step_of_a_start_may_take_longer_the_more_programs_there_are(
    launcher_of: LaunchersOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.adapters.supervisord.startup._PATIENCE_S", 0.0)
    monkeypatch.setattr("tuner.adapters.supervisord.startup._PATIENCE_PER_PROGRAM_S", 30.0)
    with launcher_of("wait").running(Layout(2, 1), {}) as launch:
        assert len(launch.worker_pids()) == 2

    monkeypatch.setattr("tuner.adapters.supervisord.startup._PATIENCE_PER_PROGRAM_S", 0.0)
    assert wording("launch.after-no-time") in end_of(failure(launcher_of("wait")).problem)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_worker_killed_at_start_is_reported_with_its_signal(launcher_of: LaunchersOf, number: int) -> None:
    error = failure(launcher_of("signalled", str(int(number)), settle_s=30.0))

    assert f"terminated by {signal.Signals(number).name}" in error.problem


def test_a_worker_that_goes_to_the_background_is_reported_to_stay(launcher_of: LaunchersOf) -> None:
    error = failure(launcher_of("die", "0", settle_s=30.0))

    assert "exit status 0" in error.problem
    assert error.hint is not None
    assert "foreground" in error.hint


def test_a_worker_that_dies_soon_after_it_was_executed_never_ran(launcher_of: LaunchersOf) -> None:
    error = failure(launcher_of("late", "0.2", "7", settle_s=30.0))

    assert wording("launch.exit-status-too-late") in error.problem


def test_the_dead_worker_is_reported_among_living_ones(launcher_of: LaunchersOf) -> None:
    script = "import os, sys, time; sys.exit(9) if os.environ['TUNER_PROCESS'] == '2' else time.sleep(60)"
    error = failure(
        launcher_of(spec={"command": (sys.executable, "-c", script)}, settle_s=30.0), Layout(4, 1)
    )

    assert wording("launch.process-died-at-start") in error.problem


OLDER = "import argparse; argparse.ArgumentParser(prog='older').parse_args()"  #: it knows no option


@pytest.mark.parametrize(
    ("environment", "is_in_both"), [({}, True), ({"OLDER_ARGS": "--new=1"}, True), ({}, False)]
)
def test_a_program_that_does_not_know_an_option_starts_in_no_layout(
    launcher_of: LaunchersOf, environment: dict[str, str], is_in_both: bool
) -> None:
    """If another variant lacks the option, it may start, so the study continues."""
    script = (
        OLDER.replace("args()", "args(__import__('os').environ['OLDER_ARGS'].split())")
        if environment
        else OLDER
    )
    command = (sys.executable, "-c", script, *([] if environment else ["--new=1"]))
    one = ServiceSpec("tested", command, environment=environment)
    other = one if is_in_both else replace(one, command=command[:-1])
    launcher = launcher_of(spec={"command": command, "variants": {"a": one, "b": other}})

    error = failure(launcher, Layout(1, 1, variant="a"))

    assert isinstance(error, ConfigError) == is_in_both
    if is_in_both:
        program = Path(sys.executable).name
        in_variable = wording("launch.option-unknown-in", program=program)
        in_command = wording("launch.option-unknown", program=program)
        assert error.problem == (in_variable if environment else in_command)
        assert error.hint == wording("launch.option-unknown-hint")


@pytest.mark.parametrize("command", ["no-such-command-anywhere", "/no/such/command", "./nor-this"])
def test_a_missing_command_is_found_before_anything_starts(launcher_of: LaunchersOf, command: str) -> None:
    launcher = launcher_of(spec={"command": (command,)})

    with pytest.raises(ConfigError, match=command.removeprefix(".")):
        launcher.check()
    assert isinstance(failure(launcher), ConfigError)


def test_a_command_that_is_not_executable_is_found_before_anything_starts(
    launcher_of: LaunchersOf, tmp_path: Path
) -> None:
    (tmp_path / "work").write_text("#!/bin/sh\n")

    with raises(ConfigError, wording("launch.is-not-executable")):
        launcher_of(spec={"command": (str(tmp_path / "work"),)}).check()


def test_a_command_that_is_no_program_is_one_clear_error(launcher_of: LaunchersOf, tmp_path: Path) -> None:
    (tmp_path / "work").write_text("neither ELF nor #!")
    (tmp_path / "work").chmod(0o755)

    error = failure(launcher_of(spec={"command": (str(tmp_path / "work"),)}))

    assert isinstance(error, ConfigError)
    assert wording("launch.exec-format-error", tmp_path=tmp_path) in error.problem


def test_any_text_survives_in_commands_and_environments(launcher_of: LaunchersOf, tmp_path: Path) -> None:
    path = tmp_path / "it"
    command = (sys.executable, WORKER, "report", str(path), *NASTY)
    environment = {f"NASTY_{number}": text for number, text in enumerate(NASTY)}
    launcher = launcher_of(spec={"command": command, "environment": {"BRACES": "{{{threads}}}"}})

    with launcher.running(Layout(1, 1), environment):
        report = reported(path)

    assert report["argv"] == NASTY
    assert {name: report["environment"].get(name) for name in environment} == environment
    assert report["environment"]["BRACES"] == "{1}"


def test_a_worker_finds_the_box_as_a_program_expects_it(launcher_of: LaunchersOf, tmp_path: Path) -> None:
    path, folder = tmp_path / "it", tmp_path / "home"
    folder.mkdir()
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)

    with launcher_of("report", str(path), spec={"directory": str(folder)}).running(
        Layout(1, 1), {"ADDED": "1"}
    ):
        report = reported(path)

    assert report["directory"] == str(folder)
    assert report["environment"]["ADDED"] == "1"
    assert report["environment"]["PATH"] == os.environ["PATH"]
    assert not {"TUNER_PARENT_PID", "TUNER_SHIM"} & set(report["environment"])
    assert report["files"]["0"] == "/dev/null"
    assert report["files"]["1"] == report["files"]["2"]
    assert report["files"]["1"].endswith("/worker_0.log")
    assert report["n_files"] == 3
    assert report["group_is_own"]
    assert report["death_signal"] == signal.SIGTERM
    assert tuple(report["nofile"]) == soft
    inherited_by_python = {signal.SIGPIPE, signal.SIGXFSZ}  # it ignores these itself
    libc_s_own = 0b11 << 31  # 32 and 33: ignored in what posix_spawn starts, as make does; not ours to set
    assert report["ignored"] & ~libc_s_own == sum(1 << (number - 1) for number in inherited_by_python)


def test_workers_are_held_to_their_cores_and_limits(launcher_of: LaunchersOf, tmp_path: Path) -> None:
    path, core = tmp_path / "it", max(os.sched_getaffinity(0))
    launcher = launcher_of("report", str(path), spec={"limits": {"nofile": 99}}, cpus=frozenset({core}))

    with launcher.running(Layout(1, 1), {}):
        report = reported(path)

    assert report["cpus"] == [core]
    assert report["nofile"] == [99, 99]


def test_the_umask_is_tuners_own(launcher_of: LaunchersOf, tmp_path: Path) -> None:
    path = tmp_path / "it"
    before = os.umask(0o027)
    try:
        with launcher_of("report", str(path)).running(Layout(1, 1), {}):
            assert reported(path)["umask"] == 0o027
    finally:
        os.umask(before)


def test_root_can_run_workers_as_another_user(launcher_of: LaunchersOf) -> None:
    root_needed("workers of another user")
    own = Path(tempfile.gettempdir())  # this test's alone: pytest closes its folders to others at every start
    own.chmod(0o755)
    folder = own / "nobodys"
    folder.mkdir()
    shutil.chown(folder, "nobody", "nogroup")
    script = (
        "import json, os, time; open('/dev/stdout', 'w').close(); file = open('part', 'w');"
        " file.write(json.dumps([os.getresuid(), os.getgroups(), os.environ['HOME'], os.environ['USER']]));"
        " file.close(); os.rename('part', 'it'); time.sleep(60)"
    )
    command = ("/usr/bin/python3", "-c", script)
    launcher = launcher_of(spec={"command": command, "user": "nobody", "directory": str(folder)})
    launcher.check()

    with launcher.running(Layout(1, 1), {}) as launch:
        uids, groups, home, user = reported(folder / "it")
        assert launch.problems() == ()

    assert uids == [65534] * 3
    assert 0 not in groups
    assert (user, home) == ("nobody", "/nonexistent")


def test_a_folder_the_workers_user_may_not_enter_is_one_clear_error(
    launcher_of: LaunchersOf, tmp_path: Path
) -> None:
    root_needed("workers of another user")
    (tmp_path / "closed").mkdir(0o700)
    launcher = launcher_of(
        spec={"command": ("/bin/sleep", "60"), "user": "nobody", "directory": str(tmp_path / "closed")}
    )

    error = failure(launcher)

    assert isinstance(error, ConfigError)
    assert wording("launch.cannot-change-folder", tmp_path=tmp_path) in error.problem


@pytest.mark.parametrize("name", ["x" * 150, "a b;c %d 'e' \"f\" #g $h \u00e9"], ids=["too long", "odd"])
def test_tmpdir_may_be_called_anything(
    launcher_of: LaunchersOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = Path(os.environ["TMPDIR"]) / name
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    path = tmp_path / "it"

    with launcher_of("report", str(path)).running(Layout(2, 1), {}) as launch:
        assert reported(path)["environment"]["TMPDIR"] == str(folder)
        assert len(launch.worker_pids()) == 2
        assert any(folder.iterdir()) == (len(name) < 100)

    assert not any(folder.iterdir())


def test_a_run_root_that_is_too_long_or_missing_is_one_clear_error(
    launcher_of: LaunchersOf, tmp_path: Path
) -> None:
    for root in (tmp_path / ("x" * 120), tmp_path / "none"):
        with raises(ConfigError, wording("launch.no-place-for-a-launch")):
            launcher_of("wait", run_root=root).check()


#: each stops a start of three workers elsewhere: our files, supervisord's log, its socket, the workers' logs
TOO_SMALL = ["size=4k", "size=20k", *(f"nr_inodes={n}" for n in (5, 9, 11, 14))]
ALSO_TOO_SMALL = ["size=16k", *(f"nr_inodes={n}" for n in (2, 6, 8, 10, 12))]


@pytest.mark.parametrize(
    "size", [*TOO_SMALL, *(pytest.param(size, marks=pytest.mark.full) for size in ALSO_TOO_SMALL)]
)
def test_a_full_disk_is_one_clear_error_and_leaves_nothing(
    launcher_of: LaunchersOf, tmp_path: Path, size: str
) -> None:
    mount_tmpfs(tmp_path, size)
    try:
        error = failure(launcher_of("wait", run_root=tmp_path), Layout(3, 1))

        assert isinstance(error, ConfigError)
        assert wording("launch.no-space-for-a-launch") in error.problem
        assert list(tmp_path.iterdir()) == []
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.parametrize(
    ("files", "expected"), [(127, wording("launch.need-open-files")), (128, '"workers"')], ids=key_of
)
def test_too_few_open_files_are_found_before_supervisord_finds_them(files: int, expected: str) -> None:
    driver = [sys.executable, DRIVER, "raise", "24x1", sys.executable, WORKER, "wait"]
    limited = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *driver]

    ended = subprocess.run(limited, capture_output=True, text=True, check=False)

    assert expected in ended.stdout + ended.stderr


def test_logs_are_kept_where_asked(launcher_of: LaunchersOf, tmp_path: Path) -> None:
    launcher = launcher_of("ends", str(tmp_path / "go"), "0", keep_logs=tmp_path / "logs")
    with launcher.running(Layout(2, 1), {}) as launch:
        (tmp_path / "go").touch()
        while launch.worker_pids():
            time.sleep(0.01)

    kept = tmp_path / "logs" / "0001-2x1"
    assert (kept / "worker_1.log").read_text() == "as told\n"
    assert "exited: worker_0 (exit status 0; expected)" in (kept / "supervisord.log").read_text()
