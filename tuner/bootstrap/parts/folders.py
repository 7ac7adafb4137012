"""Folders of this host that are kept in memory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def counter_root() -> Path:
    """Where workers count: memory where there is some, for a page written back to a disk costs them time."""
    return shared_memory() or Path(tempfile.gettempdir())


def shared_memory() -> Path | None:
    """A folder that is kept in memory; None: there is none to write to."""
    folder = Path("/dev/shm")
    return folder if os.access(folder, os.W_OK | os.X_OK) else None
