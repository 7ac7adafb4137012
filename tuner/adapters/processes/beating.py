"""Something that is done again and again while others work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beating(every_s: float, beat: Callable[[], None]) -> Iterator[None]:
    """Call *beat* every *every_s* from a thread of its own, as long as the block lasts."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(every_s):
            beat()

    thread = threading.Thread(target=run, name="beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
