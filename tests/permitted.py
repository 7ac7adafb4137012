"""What only root may do, and not in every container: some tests need it."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

_CAPABILITIES = struct.pack("Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, of this thread
_READS_ALL = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


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


@contextmanager
def closed(*paths: Path) -> Iterator[None]:
    """Nobody may open *paths* in this thread, nor root: as /proc has it of other users (hidepid=1)."""
    libc = ctypes.CDLL(None)
    modes = {path: path.stat().st_mode & 0o7777 for path in paths}
    usual = ctypes.create_string_buffer(24)  # effective, permitted, inheritable, and their upper halves
    assert libc.capget(_CAPABILITIES, usual) == 0
    effective, *others = struct.unpack("6I", usual.raw)
    try:
        for path in paths:
            path.chmod(0)
        assert libc.capset(_CAPABILITIES, struct.pack("6I", effective & ~_READS_ALL, *others)) == 0
        yield
    finally:
        libc.capset(_CAPABILITIES, usual)
        for path, mode in modes.items():
            path.chmod(mode)
