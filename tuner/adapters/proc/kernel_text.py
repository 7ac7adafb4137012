"""Text that the kernel writes, in /proc and in cgroups."""

from __future__ import annotations

import os
from pathlib import Path


def kernel_lines(path: Path) -> list[str]:
    """Return the lines of *path* that hold something.

    Only LF ends a line: a name in it may hold any other character. Text mode and ``splitlines`` would end one
    at CR, FF and the like as well. Bytes that are no UTF-8 become surrogates, as in paths.

    Raises:
        OSError: it cannot be read.
    """
    return [line for line in os.fsdecode(path.read_bytes()).split("\n") if line]
