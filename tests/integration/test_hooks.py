from __future__ import annotations

import errno
import gc
import io
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tuner.adapters.processes.repeated_command import CommandHooks
from tuner.core.errors import MeasurementError

from ..processes import is_running
from ..raising import raises
from ..wording import wording

pytestmark = [pytest.mark.pythons, pytest.mark.integration]


def hooks_of(
    commands: dict[str, list[list[str]]], timeout_s: float = 30.0
) -> tuple[CommandHooks, list[tuple[str, str]], io.StringIO]:
    warned: list[tuple[str, str]] = []
    output = io.StringIO()
    hooks = CommandHooks(commands, timeout_s, lambda slug, text: warned.append((slug, text)), output)
    return hooks, warned, output


def test_a_hook_finds_the_facts_in_its_environment_and_no_shell_reads_it(tmp_path: Path) -> None:
    script = "import os, sys; print(os.environ['TUNER_EVENT'], os.environ['TUNER_LAYOUT'], sys.argv[1])"
    hooks, warned, output = hooks_of({"before_launch": [[sys.executable, "-c", script, "$HOME; false"]]})

    hooks.run("before_launch", {"layout": "4x6"})

    assert output.getvalue() == "[before_launch] before_launch 4x6 $HOME; false\n"
    assert warned == []


def test_an_event_without_commands_is_nothing_to_do() -> None:
    hooks, _, output = hooks_of({})

    hooks.run("after_window", {})

    assert output.getvalue() == ""


def test_the_first_command_that_fails_spoils_it_and_the_next_one_does_not_run(tmp_path: Path) -> None:
    failing = [sys.executable, "-c", "print('no room'); raise SystemExit(7)"]
    hooks, _, output = hooks_of({"before_window": [failing, ["touch", str(tmp_path / "next")]]})

    with raises(MeasurementError, wording("launch.hook-failed")) as caught:
        hooks.run("before_window", {})
    assert "before_window" in str(caught.value)

    assert "[before_window] no room" in output.getvalue()
    assert not (tmp_path / "next").exists()


def test_a_command_that_cannot_be_run_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    for program, why in (
        (str(tmp_path / "none"), "No such file"),
        (str(tmp_path / "plain"), "Permission denied"),
    ):
        hooks, _, _ = hooks_of({"before_study": [[program]]})

        with pytest.raises(MeasurementError, match=why):
            hooks.run("before_study", {})


def test_a_command_killed_by_a_signal_says_which() -> None:
    hooks, _, _ = hooks_of({"before_study": [[sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]]})

    with raises(MeasurementError, wording("launch.killed-by-signal-9")):
        hooks.run("before_study", {})


def test_after_its_time_a_command_and_its_children_are_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = (
        "import os, subprocess, sys, time;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)']);"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}'); time.sleep(300)"
    )
    hooks, _, _ = hooks_of({"before_launch": [[sys.executable, "-c", script]]}, timeout_s=3.0)

    with raises(MeasurementError, wording("launch.took-longer-and-was-killed")):
        hooks.run("before_launch", {})

    for pid in pids.read_text().split():
        wait_until_gone(int(pid))


class Unread(io.StringIO):
    """What a hook says goes to a pipe whose reader has ended."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_hook_that_speaks_where_nobody_reads_any_more_stops_no_study() -> None:
    hooks = CommandHooks({"before_study": [["/bin/echo", "ready"]]}, 30.0, lambda *_: None, Unread())

    hooks.run("before_study", {})


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # nobody waited for it: it goes on
def test_a_hook_that_became_another_user_and_continues_is_reported_as_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`sudo ...`: the kernel does not let an ordinary user kill it."""
    refused: list[int] = []

    def refuses(group: int, _number: int) -> None:
        refused.append(group)
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "killpg", refuses)
    hooks, _, _ = hooks_of({"before_study": [["/bin/sleep", "1000"]]}, timeout_s=0.1)
    try:
        with raises(MeasurementError, wording("launch.hook-of-another-user")):
            hooks.run("before_study", {})
    finally:
        monkeypatch.undo()
        os.kill(refused[0], signal.SIGKILL)
        os.waitpid(refused[0], 0)
        gc.collect()  # its Popen warns when it goes: here, where that is ignored, and not in another test


def test_told_that_it_is_finished_a_failing_command_only_warns() -> None:
    hooks, warned, _ = hooks_of({"finished": [[sys.executable, "-c", "raise SystemExit(1)"]]})

    hooks.run("finished", {"exit_code": "0"})

    ((slug, text),) = warned
    assert slug == "hook-failed"
    assert "the finished hook" in text
    assert "exit code 1" in text


def test_a_child_left_in_the_background_holds_nobody_up() -> None:
    script = (
        "import subprocess, sys;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)']); print(child.pid)"
    )
    hooks, _, output = hooks_of({"before_study": [[sys.executable, "-c", script]]}, timeout_s=60.0)

    hooks.run("before_study", {})

    pid = int(output.getvalue().removeprefix("[before_study] "))
    os.kill(pid, signal.SIGKILL)  # it still runs, with our output open
    wait_until_gone(pid)


def test_of_much_output_the_end_is_shown() -> None:
    hooks, _, output = hooks_of(
        {"after_study": [[sys.executable, "-c", "print('x' * 1000000); print('the end')"]]}
    )

    hooks.run("after_study", {})

    assert output.getvalue().endswith("[after_study] the end\n")
    assert len(output.getvalue()) < 20_000


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        if not is_running(pid):
            return
        time.sleep(0.02)
    pytest.fail(f"process {pid} is still there")
