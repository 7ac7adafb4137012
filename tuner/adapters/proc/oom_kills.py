"""How often the kernel ended a process because memory was short, on the box or in some cgroup of it."""

from __future__ import annotations

from pathlib import Path


def n_oom_kills(proc: Path = Path("/proc")) -> int | None:
    """So often since the box was started; None where the kernel does not tell (before 4.13)."""
    try:
        lines = (proc / "vmstat").read_text().splitlines()
    except OSError:
        return None
    counts = [int(line.split()[1]) for line in lines if line.startswith("oom_kill ")]
    return counts[0] if counts else None
