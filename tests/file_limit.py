"""A low limit of open files, as it is if several launches are resident."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


def open_files() -> list[int]:
    """The numbers of the open files, and of the folder that is read for them."""
    return [int(name) for name in os.listdir("/proc/self/fd")]


@contextmanager
def few_files(n_more: int) -> Iterator[int]:
    """Lower the limit of this process to twice what is open now and *n_more*; yields it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 2 * (max(open_files()) + 1) + n_more
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield limit
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
