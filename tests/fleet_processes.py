"""A scheduler and boxes as real processes on loopback, each box with a lock and a name of its own.

And what a fleet of them is ordered, one launch after another, and tells of it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue

from tuner.core.domain.fleet import Began, Ended, Lost, News, Order, Place, Refused, Sampled, Took, WarmedUp
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Proposal
from tuner.ports import Fleet

from .conftest import MARKER

PATIENCE_S = 120.0
LAYOUT = Layout(2, 2)  #: of every order
MADE = [Began, WarmedUp, Took, Ended]  #: what is told of a launch that is made as ordered
_TUNER = "from tuner.cli import main; main()"


class Process:
    """A `tuner ...` that runs, and all it said."""

    def __init__(self, folder: Path, arguments: Sequence[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TUNER, *arguments],
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def until_it_says(self, words: str) -> str:
        """The line with *words* in it."""
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            try:
                line = self._lines.get(timeout=1.0)
            except Empty:
                if self.process.poll() is not None:
                    break
                continue
            if words in line:
                return line
        raise AssertionError(f"never said {words!r}: {self.said}")

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send it a signal and wait for its end."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        """End it, if it still runs, by force if need be."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            for _ in range(2):
                self.process.terminate()
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(PATIENCE_S)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            self._lines.put(line)


class Machines:
    """What a test started; all of it ends with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = ""
        self._started: list[Process] = []

    def scheduler(self, *options: str, port: int = 0) -> Process:
        """Start one, at ``address``."""
        process = self._start(["fleet", "scheduler", "--port", str(port), *options], {})
        line = process.until_it_says("To connect a host, run there: ")
        self.address = line.split("tuner box ")[1].split()[0]
        return process

    def box(self, name: str, *options: str) -> Process:
        """Start one, without waiting until it is in."""
        lock = str(self.folder / f"{name}.lock")
        return self._start(["box", self.address, "--name", name, *options], {"TUNER_LOCK": lock})

    def _start(self, arguments: Sequence[str], environment: dict[str, str]) -> Process:
        process = Process(self.folder, arguments, environment)
        self._started.append(process)
        return process

    def close(self) -> None:
        """End them, the last one first."""
        for process in reversed(self._started):
            process.close()


@contextmanager
def machines_in(folder: Path) -> Iterator[Machines]:
    """For the ``with`` block."""
    machines = Machines(folder)
    try:
        yield machines
    finally:
        machines.close()


def wait_until(holds: Callable[[], object], what: str) -> None:
    """Look until it does."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline_s, f"never: {what}"
        time.sleep(0.05)


def pids_with(word: str) -> list[int]:
    """Living processes of this test whose command line has *word* in it."""
    found, ours = [], f"{MARKER}={os.environ[MARKER]}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes()
            is_ours = ours in (entry / "environ").read_bytes().split(b"\0")
            state = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        if is_ours and word.encode() in words and state not in (b"Z", b"X"):
            found.append(int(entry.name))
    return found


# ---------------------------------------------------------------------- orders, and what is told of them


def order(box: str, name: str = "one", *, window_s: float = 2.0, n_windows: int = 1) -> Order:
    """One launch that *box* is to make."""
    return Order(name, Place(0, 0, box, Proposal(LAYOUT, window_s, n_windows)), 1)


def made(fleet: Fleet, ordered: Order) -> list[News]:
    """What is told of an order from when it is sent until it is over."""
    fleet.send(ordered)
    return told(fleet, Ended, Lost, Refused)


def until_in_a_window(fleet: Fleet, ordered: Order) -> None:
    """Send an order and wait until it measures."""
    fleet.send(ordered)
    _news_until(fleet, lambda one: isinstance(one, Sampled) and one.sample is not None)


def told(fleet: Fleet, *kinds: type) -> list[News]:
    """What is told up to the first of one of *kinds*."""
    return _news_until(fleet, lambda one: isinstance(one, kinds))


def of_order(news: Sequence[News]) -> list[type]:
    """The kinds of *news* that are of an order, but for how a launch goes on."""
    return [type(one) for one in news if hasattr(one, "order") and not isinstance(one, Sampled)]


def _news_until(fleet: Fleet, wanted: Callable[[News], bool]) -> list[News]:
    found: list[News] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        news = fleet.news(fleet.clock.monotonic_s() + 1.0)
        if news is not None:
            found.append(news)
            if wanted(news):
                return found
    raise AssertionError(f"never told: {[type(one).__name__ for one in found]}")
