"""What tuner starts beside a launch: feeders and hooks, with all they start. Ended when tuner is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ...processes import is_running

pytestmark = pytest.mark.integration
#: writes its pid, then cannot be ended but by SIGKILL, out of reach of its parent's group
DEAF = (
    "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "open(sys.argv[1], 'w').write(f'{os.getpid()}\\n'); time.sleep(300)"
)
#: starts a deaf child in a session of its own
HELPER = (
    "import subprocess, sys, time;"
    f"subprocess.Popen([sys.executable, '-c', {DEAF!r}, sys.argv[1]], start_new_session=True);"
    "time.sleep(300)"
)
TUNER = f"""
import os, subprocess, sys, time
from pathlib import Path
from tuner.adapters.feeders.command import CommandFeeder
from tuner.adapters.supervisord.guardian import Guardian, children_marked
from tuner.adapters.supervisord.guardian import scratch_folder
from tuner.core.domain.layout import Layout

folder = Path(sys.argv[1])
guardian = Guardian("study", scratch=[folder / "scratch"])
with children_marked("study"), scratch_folder(folder / "scratch", 0o700):
    hook = subprocess.Popen([sys.executable, "-c", {HELPER!r}, str(folder / "hook")])
    command = [sys.executable, "-c", {HELPER!r}, str(folder / "feeder")]
    feeder = CommandFeeder(command, folder, folder / "scratch")
    with feeder.feeding(Layout(1, 1)):
        print(guardian.pid, flush=True)
        sys.stdin.read()
    hook.kill()
    hook.wait()
guardian.close()
"""


def pid_in(file: Path) -> int:
    wait_for(lambda: file.exists() and file.read_text().endswith("\n"))
    return int(file.read_text())


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180.0
    while not condition():
        assert time.monotonic() < deadline, "waited 180 s in vain"
        time.sleep(0.02)


def tuner_in(folder: Path) -> tuple[subprocess.Popen[str], int, dict[str, int]]:
    """A tuner whose feeder and hook run: its process, its guardian's pid, their deaf children's."""
    tuner = subprocess.Popen(
        [sys.executable, "-c", TUNER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert tuner.stdout is not None
    guardian = int(tuner.stdout.readline())
    return tuner, guardian, {name: pid_in(folder / name) for name in ("feeder", "hook")}


def test_a_killed_tuner_takes_along_what_its_feeder_and_hooks_started(tmp_path: Path) -> None:
    tuner, guardian, children = tuner_in(tmp_path)
    with tuner:
        tuner.kill()
        tuner.wait()
        wait_for(lambda: not is_running(guardian))

        assert not any(map(is_running, children.values()))
        assert not (tmp_path / "scratch").exists()


def test_a_hook_may_leave_something_running_when_tuner_ends_by_itself(tmp_path: Path) -> None:
    tuner, guardian, children = tuner_in(tmp_path)
    try:
        with tuner:
            assert tuner.stdin is not None
            tuner.stdin.close()
            assert tuner.wait(60) == 0
        wait_for(lambda: not is_running(guardian))

        assert is_running(children["hook"])
    finally:
        for pid in children.values():
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
