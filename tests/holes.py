"""Whether holes can be punched into a file here, for tests of what becomes of a long log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.adapters.processes.log_tail import truncate_log

_BYTES = 4 << 20


def need_holes(folder: Path) -> None:
    """Skips the test where the file system of *folder* cuts a file off instead (NFS before 4.2)."""
    small = folder / "small"
    small.write_bytes(b"x" * _BYTES)
    truncate_log(small, _BYTES // 4)
    was_cut_off = small.stat().st_size < _BYTES
    small.unlink()
    if was_cut_off:
        pytest.skip(f"no holes can be punched into files of {folder}")
