"""Single keys from a terminal, and the terminal as it was afterwards."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Keys:
    """What is typed; a terminal that is not ours to read is never asked."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def pressed(self, within_s: float) -> str:
        """The first key within so many seconds; empty: none was."""
        if self._descriptor is None:
            time.sleep(within_s)
            return ""
        if not select.select([self._descriptor], [], [], within_s)[0]:
            return ""
        typed = os.read(self._descriptor, 1)
        if not typed:  # its end: nobody will ever type again
            self._descriptor = None
        return typed.decode("latin-1")


@contextmanager
def keys() -> Iterator[Keys]:
    """Keys of standard input as they are typed; none where it is no terminal of ours to read.

    SIGTERM and SIGHUP end the block like Ctrl-C, so that the terminal is put right before.
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
