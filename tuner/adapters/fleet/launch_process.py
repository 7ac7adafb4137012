"""Subprocess that makes one launch on a fleet host: both ends of its pipe, and its lifetime."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tuner
from tuner.adapters.fleet.frames import Frame, FrameReader, frame_bytes, pack_news
from tuner.adapters.processes.signals import ending_in_words
from tuner.core.domain.fleet import News

BEAT_S = 1.0  #: time between two signs of life in either direction
SILENT_S = 30.0  #: time without a sign of life after which the other end counts as stopped
#: time for the service to stop; after that the process is killed, and its guardian stops the service
ENDS_WITHIN_S = 120.0
EXITS_WITHIN_S = 10.0  #: time to exit after the last news
BEAT, FINISH = b".", b"f"  #: messages that follow the order
LENGTH = struct.Struct(">Q")  #: length of the order, which precedes it
_BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {module} import main; main()"


def own_python(module: str) -> list[str]:
    """Return the command that runs main() of a *module* of this tuner, from any current folder."""
    root = str(Path(tuner.__file__).parent.parent)
    return [sys.executable, "-P", "-c", _BOOT.format(module=module), root]


class LaunchProcess:
    """One launch, which runs while ``frames()`` is read; other threads may call the other methods
    meanwhile.
    """

    def __init__(self, command: Sequence[str], order: bytes) -> None:
        """Start *command*, which reads *order* from its standard input and writes news to its standard
        output.
        """
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._news = self._process.stdin.fileno(), self._process.stdout
        self._lock = threading.Lock()  #: for writes to the process
        self._order = LENGTH.pack(len(order)) + order
        #: whether it has its order, and whether it must end after the present window
        self._is_asked = self._finishes = False
        self._ending_since_s: float | None = None
        self._why: str | None = None

    @property
    def pid(self) -> int:
        """Pid of the process."""
        return self._process.pid

    def frames(self) -> Iterator[Frame]:
        """Yield its news until it has ended; it is killed if it hangs."""
        patience_s = EXITS_WITHIN_S
        try:
            self._write(self._order)
            with self._lock:
                self._is_asked, finishes = True, self._finishes
            if finishes:
                self._write(FINISH)
            yield from self._frames()
        except BaseException:
            patience_s = ENDS_WITHIN_S
            self.end()
            raise
        finally:
            self._close(patience_s)

    def problem(self) -> str | None:
        """Return, after its end, the problem that it could not report itself; else None."""
        if self._why is None and self._process.returncode:
            how = ending_in_words(self._process.returncode, ended="ended")
            return f"the process of the launch {how}; its output is where tuner box runs"
        return self._why

    def finish(self) -> None:
        """Request its end after the current window."""
        with self._lock:
            self._finishes = True
            is_asked = self._is_asked
        if is_asked:
            self._write(FINISH)

    def end(self, why: str | None = None) -> None:
        """Request its end now; it cleans up first."""
        self._why = self._why or why
        if self._ending_since_s is None and self._process.poll() is None:
            self._ending_since_s = time.monotonic()
            self._process.terminate()

    def _frames(self) -> Iterator[Frame]:
        reader = FrameReader()
        heard_s = beat_s = time.monotonic()
        while True:
            is_ready = bool(select.select([self._news], [], [], BEAT_S)[0])
            now_s = time.monotonic()
            if now_s - beat_s >= BEAT_S:
                beat_s = now_s
                self._write(BEAT)
            if is_ready:
                piece = os.read(self._news.fileno(), 1 << 16)
                if not piece:
                    return
                heard_s = now_s
                yield from (frame for frame in reader.feed(piece) if frame.data)
            elif now_s - heard_s > SILENT_S:
                self._why = f"nothing was heard of it for {SILENT_S:.0f} s"
                self._process.kill()
            if self._ending_since_s is not None and now_s - self._ending_since_s > ENDS_WITHIN_S:
                self._process.kill()  # its guardian ends the remaining processes

    def _write(self, words: bytes) -> None:
        """Write to the process, which may have ended."""
        with self._lock, contextlib.suppress(OSError, ValueError):
            while words:
                words = words[os.write(self._orders, words) :]

    def _close(self, patience_s: float) -> None:
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with self._lock:
            assert self._process.stdin is not None
            self._orders = -1
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._news.close()


# Connection between the process of a launch and the worker that started it: if one ends, so does the other.

#: least pause of a thread that checks every second, at which the process counts as stopped
STOOD_STILL_S = 10.0
SUSPENDED_S = 1.0  #: least difference between real and awake time at which the host counts as suspended
_PR_SET_PDEATHSIG = 1


class Lifeline:
    """Connection of the process to the worker. It takes over standard input and output, and replaces them."""

    def __init__(self) -> None:
        self._orders, self._news = os.dup(0), os.dup(1)  # not inherited by started programs
        leads_nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(leads_nowhere, 0)
        os.close(leads_nowhere)
        os.dup2(2, 1)
        os.set_blocking(self._news, False)
        self._parent = os.getppid()
        self._writing = threading.Lock()
        self._ended: str | None = None  #: reason for the end; after it, no more news is sent
        self._finishes = False
        die_with_parent()

    def order(self) -> Any:
        """Return the worker's order, which comes first.

        Raises:
            EOFError: the worker ended before it sent one.
        """
        (length,) = LENGTH.unpack(self._read_bytes(LENGTH.size))
        return pickle.loads(self._read_bytes(length))

    def watch(self) -> None:
        """From now on end this process by SIGTERM if the worker is gone, or one of the two was suspended."""
        threading.Thread(target=self._watch, name="lifeline", daemon=True).start()

    def requested(self) -> bool:
        """Return whether the worker requested an end after the current window."""
        return self._finishes

    def send(self, at_wall_s: float, news: News) -> None:
        """Send *news* to the worker, unless it does not want any more."""
        with self._writing:
            self._write(frame_bytes(Frame(at_wall_s, pack_news(news))))

    @property
    def ended(self) -> str | None:
        """Return why the process has to end; None: it does not."""
        return self._ended

    def _watch(self) -> None:
        looked_s = heard_s = time.monotonic()
        asleep_s = time_asleep_s()
        while self._ended is None:
            is_ready = bool(select.select([self._orders], [], [], BEAT_S)[0])
            now_s = time.monotonic()
            if now_s - looked_s > STOOD_STILL_S:
                self._end(f"it was stopped for {now_s - looked_s:.0f} s")
            elif time_asleep_s() - asleep_s > SUSPENDED_S:
                self._end("the host was suspended")
            elif os.getppid() != self._parent:
                self._end("the worker of the host is gone")
            elif is_ready:
                words = os.read(self._orders, 4096)
                heard_s = now_s
                self._finishes = self._finishes or FINISH in words
                if not words:
                    self._end("the worker of the host dropped it")
            elif now_s - heard_s > SILENT_S:
                self._end(f"the worker of the host was silent for {SILENT_S:.0f} s")
            looked_s = now_s
            self._beat()

    def _beat(self) -> None:
        """Send a sign of life, unless something else is being sent."""
        if self._writing.acquire(blocking=False):
            try:
                self._write(frame_bytes(Frame(0.0, b"")))
            finally:
                self._writing.release()

    def _end(self, why: str) -> None:
        self._ended = why
        os.kill(os.getpid(), signal.SIGTERM)

    def _write(self, words: bytes) -> None:
        """Write as fast as the worker reads; the rest is dropped at the end."""
        while words and self._ended is None:
            try:
                words = words[os.write(self._news, words) :]
            except BlockingIOError:
                select.select([], [self._news], [], BEAT_S)
            except BrokenPipeError:
                return  # the watch detects that the worker is gone

    def _read_bytes(self, n: int) -> bytes:
        found = b""
        while len(found) < n:
            piece = os.read(self._orders, n - len(found))
            if not piece:
                raise EOFError
            found += piece
        return found


def die_with_parent() -> None:
    """Have the kernel send SIGTERM when the thread that started this process has ended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def time_asleep_s() -> float:
    """Return the seconds since boot in which the host was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
