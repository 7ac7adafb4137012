"""What only root may do, and not in every container: some tests need it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest


def not_permitted(what: str, why: object) -> NoReturn:
    """Skip, and say what is missing. In CI, too: no package lifts the limits of the box that it runs on."""
    pytest.skip(f"this box does not permit {what}: {why}")


def root_needed(what: str) -> None:
    """Skip unless we are root, who alone can do *what*."""
    if os.geteuid() != 0:
        not_permitted(what, "it takes root")


def mount_tmpfs(folder: Path, options: str) -> None:
    """Mount a small file system of *options* at *folder*; the caller takes it away."""
    words = ["mount", "-t", "tmpfs", "-o", options, "tuner-test", str(folder)]
    tried = subprocess.run(words, check=False, capture_output=True, text=True)
    if tried.returncode != 0:
        not_permitted("to mount a small tmpfs", tried.stderr.partition("\n")[0])
