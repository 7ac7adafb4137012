"""What ties the process of a launch to the box's worker that started it: neither goes on alone."""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import signal
import threading
import time
from typing import Any

from tuner.adapters.fleet.frames import Frame, frame_bytes, pack_news
from tuner.adapters.fleet.launch_process import BEAT_S, FINISH, LENGTH, SILENT_S
from tuner.core.domain.fleet import News

STOOD_STILL_S = 10.0  #: a thread that wanted to look each second and did not for so long was stopped
SUSPENDED_S = 1.0  #: so much more than awake time went by: the box was suspended
_PR_SET_PDEATHSIG = 1


class Lifeline:
    """Standard input and output of the process, which from now on lead nowhere and to standard error."""

    def __init__(self) -> None:
        self._orders, self._news = os.dup(0), os.dup(1)  # not inherited by what is started
        leads_nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(leads_nowhere, 0)
        os.close(leads_nowhere)
        os.dup2(2, 1)
        os.set_blocking(self._news, False)
        self._parent = os.getppid()
        self._writing = threading.Lock()
        self._ended: str | None = None  #: why it has to end; it tells nothing from then on
        self._finishes = False
        die_with_parent()

    def order(self) -> Any:
        """What the worker wants; it comes first.

        Raises:
            EOFError: the worker was gone before it could say so.
        """
        (length,) = LENGTH.unpack(self._read(LENGTH.size))
        return pickle.loads(self._read(length))

    def watch(self) -> None:
        """From now on end this process, by SIGTERM, when the worker is gone or anybody was stopped."""
        threading.Thread(target=self._watch, name="lifeline", daemon=True).start()

    def requested(self) -> bool:
        """The worker wants the launch to end after the window in hand."""
        return self._finishes

    def send(self, at_wall_s: float, news: News) -> None:
        """Send *news* to the worker, unless it is not to hear of them any more."""
        with self._writing:
            self._write(frame_bytes(Frame(at_wall_s, pack_news(news))))

    @property
    def ended(self) -> str | None:
        """Why the process has to end; None: it has not."""
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
        """Say that all is well, unless something else is being said."""
        if self._writing.acquire(blocking=False):
            try:
                self._write(frame_bytes(Frame(0.0, b"")))
            finally:
                self._writing.release()

    def _end(self, why: str) -> None:
        self._ended = why
        os.kill(os.getpid(), signal.SIGTERM)

    def _write(self, words: bytes) -> None:
        """As fast as the worker takes it; what it does not take before the end is dropped."""
        while words and self._ended is None:
            try:
                words = words[os.write(self._news, words) :]
            except BlockingIOError:
                select.select([], [self._news], [], BEAT_S)
            except BrokenPipeError:
                return  # the watch sees that the worker is gone

    def _read(self, n: int) -> bytes:
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
    """Seconds since boot in which the box was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
