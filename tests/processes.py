"""Whether a process still runs, as every test asks it."""

from __future__ import annotations

from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether *pid* lives; one that has ended may lie there until its parent has taken note (Z), and is seen
    for a moment while the kernel takes it away (X)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
