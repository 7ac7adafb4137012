"""Time that jumps or stands still within a window: a wall clock that is set, a suspended box, SIGSTOP.

No clock of the box is touched. To tuner a wall clock set ahead and a box that was suspended look alike:
the wall clock moves, the monotonic one does not. Here the wall clock of tuner's process alone is moved.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tuner.adapters.sqlite.store import SqliteStore
from tuner.adapters.terminal.live_file import read_live
from tuner.core.domain.records import WindowRecord

from ...wording import wording
from ..sleeping_worker import sleeping_worker

pytestmark = [pytest.mark.integration]
PATIENCE_S = 120.0
MARK = "TUNER_TIMED"
#: tuner, whose wall clock is ahead by what a file says, as soon as there is one
JUMPS = """
import sys, time
from pathlib import Path
usual, told = time.time, Path(sys.argv.pop(1))
def jumped():
    try:
        return usual() + float(told.read_text() or 0)
    except FileNotFoundError:
        return usual()
time.time = jumped
from tuner.cli import main
main()
"""


class Study:
    """A study of sleeping workers in *folder*, with windows of 12 s."""

    def __init__(self, folder: Path, program: Sequence[str]) -> None:
        self.file = folder / "study.tuner.db"
        self._folder = folder
        self._mark = uuid.uuid4().hex
        (folder / "worker.py").write_text(sleeping_worker("0.01"))
        (folder / "s.yaml").write_text(
            f"service: {{kind: script, name: study, command: [{sys.executable}, worker.py]}}\n"
            "study: {strategy: all, layouts: [2x1], window: 12s, warmup: 1s, repeats: 1, warm_cache: no,"
            " foreign_limit: 1000, memory_pressure_limit: 1, max_attempts: 9}\n"
        )
        self._program = program

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        command = [*self._program, "grid", "s.yaml", "--study", self.file.name]
        with subprocess.Popen(
            command,
            cwd=self._folder,
            env={**os.environ, MARK: self._mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as tuner:
            try:
                yield tuner
            finally:
                if tuner.poll() is None:
                    tuner.terminate()
                tuner.communicate(timeout=PATIENCE_S)

    def windows(self) -> Sequence[WindowRecord]:
        with SqliteStore.open(self.file, read_only=True) as store:
            return store.windows()

    def await_window(self, number: int) -> None:
        """Until window *number* is being taken, for half a second or more."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not self._takes(number):
            assert time.monotonic() < deadline_s, f"window {number} was not seen"
            time.sleep(0.02)

    def _takes(self, number: int) -> bool:
        live = read_live(self.file)
        if live is None or live.phase != "window" or live.elapsed_s < 0.5:
            return False
        return live.n_taken + live.n_void == number - 1

    def processes(self) -> list[int]:
        """All that came of tuner, and tuner."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if f"{MARK}={self._mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
                except OSError:
                    continue  # ended meanwhile
        return found

    def stand_still(self, lasts_s: float) -> None:
        """Stop tuner and all that came of it, and let it go on."""
        stopped = self.processes()
        assert len(stopped) >= 5, "tuner, its guardian, supervisord and two workers"
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in stopped:
                with suppress(ProcessLookupError):  # a hook, which ended
                    os.kill(pid, number)
            if number == signal.SIGSTOP:
                time.sleep(lasts_s)


def test_windows_in_which_time_jumps_or_stands_still_are_taken_again_and_no_others(tmp_path: Path) -> None:
    text = tmp_path / "jump"
    study = Study(tmp_path, (sys.executable, "-c", JUMPS, str(text)))
    with study.running() as tuner:
        study.await_window(1)
        text.write_text("3600")  # set ahead by an hour, or suspended for one
        study.await_window(2)
        text.write_text("0")  # and back
        study.await_window(3)
        n_before = len(study.windows())
        study.stand_still(4.0)
        _, err = tuner.communicate(timeout=PATIENCE_S)

    assert tuner.returncode == 0, err
    taken = study.windows()
    jumps = [reason.detail for window in taken for reason in window.void if reason.slug == "clock-jumped"]
    assert [detail[: detail.index(" s relative")] for detail in jumps] == [
        wording("rank.wall-clock-moved", seconds="+3600.0"),
        wording("rank.wall-clock-moved", seconds="-3600.0"),
    ]
    stalled = [reason.detail for window in taken[n_before:] for reason in window.void]
    assert any(detail.startswith(wording("rank.nothing-seen")) for detail in stalled)
    assert sum(not window.void for window in taken) == 1  # as many as were asked for
    assert study.processes() == []
