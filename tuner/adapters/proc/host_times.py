"""What the whole box did, from /proc/stat, and who waited, from /proc/pressure or a cgroup."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from tuner.adapters.proc.process_tree import TICKS_PER_S, read_once
from tuner.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class BoxTimes:
    """Totals since boot."""

    n_cpus: int  #: online now, of those asked for
    idle_s: float  #: over these, waiting for disks included
    steal_s: float
    n_context_switches: int  #: of the whole box


def read_box_times(proc: Path, cpus: Container[int] | None = None) -> BoxTimes:
    """Read /proc/stat for the times that can be trusted, of *cpus*; None: of all.

    user, system and the like are sampled at the timer tick, so work that comes in bursts shorter than 4 ms
    is missed or seen twice: up to 0.06 of 0.5 core missed here. idle and iowait are clocked (NO_HZ), and so
    what is not idle and not stolen was used: within 0.01 core of the sum of all processes, and of
    cpuacct.usage.
    """
    path = f"{proc}/stat"
    text = read_once(path)
    if text is None:
        raise ConfigError(f"{path} cannot be read", hint="tuner measures on Linux, with /proc mounted.")
    n_cpus, idle, steal, switches = 0, 0, 0, 0
    for line in text.splitlines():
        if line.startswith(b"cpu"):
            name, *fields = line.split()
            is_total = name == b"cpu"
            is_asked = cpus is None or (not is_total and int(name[3:]) in cpus)
            n_cpus += is_asked and not is_total
            if is_asked and is_total is (cpus is None):
                idle += int(fields[3]) + int(fields[4])
                steal += int(fields[7])
        elif line.startswith(b"ctxt "):
            switches = int(line.split()[1])
    return BoxTimes(n_cpus, idle / TICKS_PER_S, steal / TICKS_PER_S, switches)


def read_pressure_s(proc: Path, resource: str) -> float | None:
    """Seconds since boot in which at least one task waited for *resource* (cpu, memory, io).

    None when the kernel keeps no such account (no CONFIG_PSI, or booted with psi=0).
    """
    return _pressure_s(f"{proc}/pressure/{resource}")


def read_cgroup_pressure_s(cgroup: Path, resource: str) -> float | None:
    """The same of the tasks in *cgroup*, a folder of version 2, since it was made."""
    return _pressure_s(f"{cgroup}/{resource}.pressure")


def _pressure_s(path: str) -> float | None:
    try:
        text = read_once(path)
    except OSError:  # psi=0: the file is there, and reading it fails
        return None
    for line in (text or b"").splitlines():
        if line.startswith(b"some "):
            return int(line.rpartition(b"total=")[2]) / 1e6
    return None
