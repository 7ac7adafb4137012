"""What the whole box did, from /proc/stat and /proc/pressure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuner.adapters.process_tree import TICKS_PER_S, read_once
from tuner.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class BoxTimes:
    """Totals since boot."""

    n_cpus: int  #: online now
    idle_s: float  #: over all cores, waiting for disks included
    steal_s: float
    n_context_switches: int


def read_box_times(proc: Path) -> BoxTimes:
    """Read /proc/stat for the times that can be trusted.

    user, system and the like are sampled at the timer tick, so work that comes in bursts shorter than 4 ms
    is missed or seen twice: up to 0.06 of 0.5 core missed here. idle and iowait are clocked (NO_HZ), and so
    what is not idle and not stolen was used: within 0.01 core of the sum of all processes, and of
    cpuacct.usage.
    """
    path = f"{proc}/stat"
    text = read_once(path)
    if text is None:
        raise ConfigError(f"{path} cannot be read", hint="tuner measures on Linux, with /proc mounted.")
    n_cpus, total, switches = 0, b"", 0
    for line in text.splitlines():
        if line.startswith(b"cpu "):
            total = line
        elif line.startswith(b"cpu"):
            n_cpus += 1
        elif line.startswith(b"ctxt "):
            switches = int(line.split()[1])
    fields = [int(field) for field in total.split()[1:]]
    return BoxTimes(n_cpus, (fields[3] + fields[4]) / TICKS_PER_S, fields[7] / TICKS_PER_S, switches)


def read_pressure_s(proc: Path, resource: str) -> float | None:
    """Seconds since boot in which at least one task waited for *resource* (cpu, memory, io).

    None when the kernel keeps no such account (no CONFIG_PSI, or booted with psi=0).
    """
    try:
        text = read_once(f"{proc}/pressure/{resource}")
    except OSError:  # psi=0: the file is there, and reading it fails
        return None
    for line in (text or b"").splitlines():
        if line.startswith(b"some "):
            return int(line.rpartition(b"total=")[2]) / 1e6
    return None
