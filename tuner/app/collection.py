"""Computing an answer while Python's garbage collector is off."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """No search for cycles within the block; it goes on afterwards, if it did before.

    The 100 000 windows of a large study are no garbage, and looking through them again and again, as more
    and more of them are listed, took a third of the time of `tuner rank`. What an answer leaves behind in
    cycles is found after it.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
