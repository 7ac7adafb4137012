"""A terminal whose last lines are redrawn, below lines that scroll.

It never waits for the terminal: output to a stopped (Ctrl-S) or slow terminal is written when the terminal
accepts it, and output to a closed one is dropped. The cursor stays visible and the modes do not change, so
that nothing has to be restored after a kill.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

# Reading of single keys from a terminal, whose modes are restored afterwards.

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Keys:
    """Typed keys; a terminal that this process may not read is never read."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def pressed(self, within_s: float) -> str:
        """Return the first key within *within_s* seconds, or an empty text."""
        if self._descriptor is None:
            time.sleep(within_s)
            return ""
        if not select.select([self._descriptor], [], [], within_s)[0]:
            return ""
        typed = os.read(self._descriptor, 1)
        if not typed:  # end of input: there will be no more keys
            self._descriptor = None
        return typed.decode("latin-1")


@contextmanager
def keys() -> Iterator[Keys]:
    """Yield the keys of standard input; there are none if it is not a terminal of this process group.

    SIGTERM and SIGHUP end the block like Ctrl-C, so that the terminal's modes are restored.
    """
    before = {number: signal.signal(number, _end) for number in _ENDING}
    try:
        descriptor = _terminal()
        if descriptor is None:
            yield Keys(None)
            return
        modes = termios.tcgetattr(descriptor)
        tty.setcbreak(descriptor, termios.TCSANOW)
        try:
            yield Keys(descriptor)
        finally:
            termios.tcsetattr(descriptor, termios.TCSANOW, modes)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminal() -> int | None:
    try:
        descriptor = sys.stdin.fileno()
        is_ours = os.isatty(descriptor) and os.tcgetpgrp(descriptor) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return None
    return descriptor if is_ours else None


def _end(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


_LEFT_S = 1.0  #: longest wait at the end for a terminal that accepts no output
_MOST_PENDING_BYTES = 65536
_NARROWEST, _LOWEST = 20, 6  #: least size that is assumed, because a terminal may report an implausible one


class Screen:
    """The terminal of a descriptor."""

    def __init__(self, descriptor: int, encoding: str = "utf-8") -> None:
        self._descriptor, self._encoding = descriptor, encoding
        self._own = _reopen(descriptor)
        self._pending = b""
        self._drawn: list[int] = []  # widths of the drawn lines
        self._n_foreign = 0  # lines written below them by other code
        self._is_gone = False

    def size(self) -> tuple[int, int]:
        """Return the present numbers of columns and lines."""
        try:
            found = os.get_terminal_size(self._descriptor)
        except OSError:
            return 80, 24
        return max(_NARROWEST, found.columns or 80), max(_LOWEST, found.lines or 24)

    def show(self, lines: Sequence[tuple[str, int]]) -> None:
        """Replace the drawn lines by *lines*, each with its width in cells; skip it while it is stopped."""
        if self._flush():
            self._send(self._clear() + self._body(lines))

    def say(self, text: str, lines: Sequence[tuple[str, int]]) -> None:
        """Print *text*, and draw *lines* below it."""
        if len(self._pending) < _MOST_PENDING_BYTES:
            self._send(f"{self._clear()}{text}\n{self._body(lines)}")

    def others_wrote(self, n_lines: int) -> None:
        """Note that other code wrote *n_lines* lines below the drawn ones."""
        self._n_foreign += n_lines

    def close(self) -> None:
        """Erase the drawn lines; printed texts stay."""
        self._send(self._clear())
        ends_s = time.monotonic() + _LEFT_S
        while not self._flush() and (left_s := ends_s - time.monotonic()) > 0:
            select.select([], [self._descriptor], [], left_s)
        if self._own is not None:
            os.close(self._own)
            self._own = None
        self._is_gone = True

    def _clear(self) -> str:
        columns, _ = self.size()
        rows = sum(max(1, -(-width // columns)) for width in self._drawn) + self._n_foreign
        self._drawn, self._n_foreign = [], 0
        return f"\r\x1b[{rows}A\x1b[J" if rows else "\r"

    def _body(self, lines: Sequence[tuple[str, int]]) -> str:
        self._drawn = [width for _, width in lines]
        return "".join(f"{text}\x1b[K\n" for text, _ in lines)

    def _send(self, text: str) -> None:
        self._pending += text.encode(self._encoding, "replace")
        self._flush()

    def _flush(self) -> bool:
        """Write pending output; return whether all is written."""
        if self._is_gone:
            self._pending = b""
        try:
            while self._pending and self._takes_more():
                written = os.write(self._descriptor if self._own is None else self._own, self._pending)
                self._pending = self._pending[written:]
        except BlockingIOError:
            pass
        except OSError:
            self._is_gone, self._pending = True, b""
        return not self._pending

    def _takes_more(self) -> bool:
        return bool(select.select([], [self._descriptor], [], 0)[1])


def _reopen(descriptor: int) -> int | None:
    """Open the same terminal again in non-blocking mode, which must not apply to the shell's descriptor."""
    try:
        flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(os.ttyname(descriptor), flags)
    except OSError:
        return None


# Repeated actions while other threads work.
