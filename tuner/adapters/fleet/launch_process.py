"""The process that makes one launch, as the box's worker sees it: starts it, passes on what it tells."""

from __future__ import annotations

import contextlib
import os
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import tuner
from tuner.adapters.fleet.frames import Frame, FrameReader
from tuner.adapters.processes.exit_codes import ending_in_words

BEAT_S = 1.0  #: so often each end tells the other that it is alive
SILENT_S = 30.0  #: who has not said so for that long hangs, or is stopped
ENDS_WITHIN_S = 120.0  #: a service may take its time to stop; after that its guardian does it
EXITS_WITHIN_S = 10.0  #: of having told the last
BEAT, FINISH = b".", b"f"  #: what stands behind the order
LENGTH = struct.Struct(">Q")  #: of the order, before it
_BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {module} import main; main()"


def own_python(module: str) -> list[str]:
    """The command that runs the main() of a *module* of this tuner, whatever folder it is typed in."""
    root = str(Path(tuner.__file__).parent.parent)
    return [sys.executable, "-P", "-c", _BOOT.format(module=module), root]


class LaunchProcess:
    """One launch; ``frames()`` is its life, the rest may be called meanwhile by another thread."""

    def __init__(self, command: Sequence[str], order: bytes) -> None:
        """Start *command*, which finds *order* on its standard input and tells by its standard output."""
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._news = self._process.stdin.fileno(), self._process.stdout
        self._lock = threading.Lock()  #: of what is written to it
        self._order = LENGTH.pack(len(order)) + order
        self._is_asked = self._finishes = False  #: it has its order; it is to end after the window in hand
        self._ending_since_s: float | None = None
        self._why: str | None = None

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def frames(self) -> Iterator[Frame]:
        """What it tells, until it is gone; it is killed when it hangs."""
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
        """Once it is gone: what went wrong; None: nothing that it did not tell itself."""
        if self._why is None and self._process.returncode:
            how = ending_in_words(self._process.returncode, ended="ended")
            return f"the process of the launch {how}; its output is where tuner box runs"
        return self._why

    def finish(self) -> None:
        """Have it end after the window in hand."""
        with self._lock:
            self._finishes = True
            is_asked = self._is_asked
        if is_asked:
            self._write(FINISH)

    def end(self, why: str | None = None) -> None:
        """Have it end now; it cleans up first."""
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
                self._process.kill()  # its guardian ends what is left

    def _write(self, words: bytes) -> None:
        """To a process that may be gone by now."""
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
