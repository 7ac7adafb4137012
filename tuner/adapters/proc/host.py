"""Facts about the machine that decide what a measurement on it is worth, as text for a study's record."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tuner.adapters.proc.cgroup import container_here
from tuner.adapters.proc.cores import usable_cores
from tuner.adapters.proc.process_tree import read_box_times

_GIB = 1 << 30


def describe_host(
    *, proc: Path = Path("/proc"), sys: Path = Path("/sys"), affinity: frozenset[int] | None = None
) -> dict[str, str]:
    """What can be found out; what cannot is left out.

    ``steal_since_boot`` is the share of all CPU time that the hypervisor kept; ``virtualization`` says
    whether there is one.
    """
    cgroup = sys / "fs" / "cgroup"
    cores = usable_cores(affinity=affinity, proc=proc, cgroup=cgroup)
    container = container_here(proc, cgroup, affinity)
    steal = steal_ratio(proc)
    facts = {
        "host": platform.node(),
        "kernel": platform.release(),
        "cpu": _value_of(proc / "cpuinfo", "model name"),
        "cores": f"{cores.count:g}",
        "cores_why": cores.why,
        "load_of": "" if container is None else "the service's tasks: /proc/loadavg is the host's",
        "strangers": f"cannot be seen: {container.strangers_hidden}"
        if container and container.strangers_hidden
        else "",
        "threads_per_core": _threads_per_core(proc / "cpuinfo"),
        "memory": _memory(proc),
        "virtualization": virtualization(proc, sys),
        "steal_since_boot": "" if steal is None else f"{steal:.2%}",
        "governor": _text(sys / "devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "clock_source": _text(sys / "devices/system/clocksource/clocksource0/current_clocksource"),
    }
    return {name: value for name, value in facts.items() if value}


def _text(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(encoding="utf-8", errors="replace").strip()
    return ""


def _values_of(file: Path, key: str) -> Iterator[str]:
    for line in _text(file).splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            yield value.strip()


def _value_of(file: Path, key: str) -> str:
    return next(_values_of(file, key), "")


def _threads_per_core(cpuinfo: Path) -> str:
    """How many CPUs share a core (SMT), as the first one sees it; a hypervisor may hide it."""
    siblings, cores = _value_of(cpuinfo, "siblings"), _value_of(cpuinfo, "cpu cores")
    return f"{int(siblings) / int(cores):g}" if siblings and cores else ""


def _memory(proc: Path) -> str:
    total = _value_of(proc / "meminfo", "MemTotal").split()
    return f"{int(total[0]) * 1024 / _GIB:.1f} GiB" if total else ""


def virtualization(proc: Path, sys: Path) -> str:
    """Whether this is a virtual machine, and of which product; empty when the CPUs do not tell."""
    if "hypervisor" not in _value_of(proc / "cpuinfo", "flags").split():
        return "none seen" if _value_of(proc / "cpuinfo", "flags") else ""
    product = _text(sys / "class/dmi/id/product_name") or _text(sys / "hypervisor/type")
    return f"virtual machine ({product})" if product else "virtual machine"


def steal_ratio(proc: Path) -> float | None:
    """The share of all CPU time since boot that the hypervisor kept; None when it is not known."""
    box = read_box_times(proc)
    with suppress(OSError, IndexError):
        uptime_s = float(_text(proc / "uptime").split()[0])
        return box.steal_s / (uptime_s * box.n_cpus)
    return None
