"""Usable cores (affinity, cgroup quota), free memory, facts about the machine, and the host's speed."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from statistics import median

from tuner.adapters.proc.cgroup import find_container, kernel_lines
from tuner.adapters.proc.process_tree import read_box_times
from tuner.adapters.proc.topology import n_physical_cores, read_siblings
from tuner.core.domain.layout import whole_cores
from tuner.core.text.figures import pluralize


@dataclass(frozen=True, slots=True)
class BoxCores:
    """The cores of the host that tuner may use."""

    count: float  #: CPU time per second, in cores; a quota may make it less than the number of CPUs
    cpus: frozenset[int]  #: CPUs on which tuner may run
    why: str  #: the limit that sets the count, as printed


def usable_cores(
    *,
    affinity: frozenset[int] | None = None,
    proc: Path = Path("/proc"),
    cgroup: Path = Path("/sys/fs/cgroup"),
) -> BoxCores:
    """Return the usable CPUs by affinity and cpusets, and the smallest quota of our cgroup and its parents.

    Args:
        affinity: Usable CPUs; None: those of this process, which include cpusets and ``taskset``.
        proc: Path of /proc; its ``self/cgroup`` names our cgroups.
        cgroup: Mount point of the cgroup hierarchies.
    """
    cpus = frozenset(os.sched_getaffinity(0)) if affinity is None else affinity
    online = len(_online_cpus(proc))
    count, why = float(len(cpus)), f"{len(cpus)} of {online} CPUs by affinity" if len(cpus) < online else ""
    for quota, where in _quotas(proc, cgroup):
        if quota < count:
            count, why = quota, f"a quota of {pluralize(quota, 'core')} in cgroup {where}"
    return BoxCores(count, cpus, why or f"all {len(cpus)} CPUs")


def first_cores(n: int, *, affinity: frozenset[int] | None = None) -> frozenset[int]:
    """Return the *n* usable CPUs with the lowest numbers, to which workers may be restricted.

    *affinity*: the usable CPUs; None: those of this process.
    """
    return frozenset(sorted(os.sched_getaffinity(0) if affinity is None else affinity)[:n])


def cpus_elsewhere(
    *,
    proc: Path = Path("/proc"),
    sys: Path = Path("/sys"),
    affinity: frozenset[int] | None = None,
) -> frozenset[int]:
    """Return the CPUs of the host that tuner and the service may not use, and whose use cannot slow them.

    CPUs that share a physical core with a usable CPU are left out. There are none if the physical cores are
    unknown, or in a container, where only its own CPUs are measured.
    """
    cgroup = sys / "fs" / "cgroup"
    cpus = frozenset(os.sched_getaffinity(0)) if affinity is None else affinity
    siblings = read_siblings(cpus, sys=sys)
    if siblings is None or find_container(proc, cgroup, cpus) is not None:
        return frozenset()
    return frozenset(_online_cpus(proc)).difference(cpus, *siblings.values())


def _online_cpus(proc: Path) -> list[int]:
    return [int(number) for number in _values_of(proc / "cpuinfo", "processor") if number.isdecimal()]


def groups_above(controller: str, *, proc: Path, cgroup: Path) -> Iterator[tuple[int, Path, Path]]:
    """Yield (version, folder, root folder) of each cgroup up to the root that *controller* may limit.

    A limit applies to all cgroups below, so all parents are included. In a container, /proc has the host's
    path while the mount begins at our own cgroup: a path that does not exist falls back to the root.
    """
    for line in kernel_lines(proc / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2, alone or together with version 1
            for root in (cgroup, cgroup / "unified"):
                yield from ((2, folder, root) for folder in _upwards(root, path))
        elif controller in controllers.split(","):
            for root in dict.fromkeys((cgroup / controllers, cgroup / controller)):
                yield from ((1, folder, root) for folder in _upwards(root, path))


def group_name(folder: Path, root: Path) -> str:
    """Return the path of a cgroup below its root, as printed by systemd and Docker."""
    return "/" if folder == root else f"/{folder.relative_to(root)}"


def _quotas(proc: Path, cgroup: Path) -> Iterator[tuple[float, str]]:
    """Yield every quota in cores, with the cgroup that sets it."""
    for version, folder, root in groups_above("cpu", proc=proc, cgroup=cgroup):
        yield from (_quota_v2 if version == 2 else _quota_v1)(folder, root)


def _upwards(root: Path, path: str) -> Iterator[Path]:
    folder = root / path.lstrip("/")
    if ".." in folder.parts or not folder.is_dir():
        folder = root
    while True:
        yield folder
        if folder == root:
            return
        folder = folder.parent


def _quota_v2(folder: Path, root: Path) -> Iterator[tuple[float, str]]:
    words = _words(folder / "cpu.max")  # "200000 100000" or "max 100000"
    if len(words) == 2 and words[0] != "max":
        yield int(words[0]) / int(words[1]), group_name(folder, root)


def _quota_v1(folder: Path, root: Path) -> Iterator[tuple[float, str]]:
    quota, period = _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us")
    if quota and period and int(quota[0]) > 0:  # -1: none
        yield int(quota[0]) / int(period[0]), group_name(folder, root)


def _words(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii").split()
    except OSError:  # the root cgroup has no quota; a controller may be off
        return []


# The memory that a service may still use before tasks have to wait for memory.

_ROOM = 0.8  #: share of free memory that layouts may use; the page cache of the service needs the rest
_FILES = {2: ("memory.max", "memory.current"), 1: ("memory.limit_in_bytes", "memory.usage_in_bytes")}
_NO_LIMIT = 1 << 60  #: cgroup version 1 writes a number of about this size for "no limit"


def free_memory_bytes(*, proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Return the free memory within the host and all our cgroups, less a fifth, in bytes; None if unknown."""
    return min((_ROOM * free for free in _free(proc, cgroup)), default=None)


def _free(proc: Path, cgroup: Path) -> Iterator[float]:
    with suppress(OSError, ValueError, IndexError):
        for line in (proc / "meminfo").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("MemAvailable:"):
                yield 1024.0 * int(line.split()[1])
    with suppress(OSError):
        for version, folder, _ in groups_above("memory", proc=proc, cgroup=cgroup):
            most, used = (_number(folder / name) for name in _FILES[version])
            if most is not None and used is not None and most < _NO_LIMIT:
                yield max(0.0, most - used + _reclaimable(folder))


def _reclaimable(folder: Path) -> int:
    """Return the bytes of inactive files in the page cache, which the kernel drops without a wait."""
    with suppress(OSError, ValueError):
        data = dict(
            line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines()
        )
        return int(data.get("total_inactive_file", data.get("inactive_file", 0)))
    return 0


def _number(file: Path) -> int | None:
    """Read an integer; None if the file cannot be read or contains ``max``."""
    with suppress(OSError, ValueError):
        return int(file.read_text(encoding="ascii"))
    return None


# Facts about the machine that affect its measurements, as text for a study's record.


_GIB = 1 << 30


def describe_host(
    *,
    proc: Path = Path("/proc"),
    sys: Path = Path("/sys"),
    affinity: frozenset[int] | None = None,
    planned_cores: int | None = None,
) -> dict[str, str]:
    """Return the known facts about the host, by name; unknown facts are left out.

    *planned_cores* is the number of cores that the layouts of a study are planned for; None: no study. If the
    host offers more, workers are held to the `first_cores`.
    ``steal_since_boot`` is the share of all CPU time that the hypervisor withheld; ``virtualization`` names
    the kind of virtual machine.
    """
    cgroup = sys / "fs" / "cgroup"
    cores = usable_cores(affinity=affinity, proc=proc, cgroup=cgroup)
    container = find_container(proc, cgroup, affinity)
    steal = steal_ratio(proc)
    is_held = planned_cores is not None and planned_cores < whole_cores(cores.count)
    held = first_cores(planned_cores or 0, affinity=cores.cpus) if is_held else frozenset[int]()
    elsewhere = cpus_elsewhere(proc=proc, sys=sys, affinity=cores.cpus)
    facts = {
        "host": platform.node(),
        "kernel": platform.release(),
        "cpu": _value_of(proc / "cpuinfo", "model name"),
        "cores": f"{cores.count:g}",
        "cores_why": cores.why,
        "cpus": str(len(cores.cpus)),
        "host_cpus": str(len(_online_cpus(proc)) or "") if container is None else "",
        "cpus_elsewhere": str(len(elsewhere) or ""),
        "physical_cores_of_cpus": str(n_physical_cores(cores.cpus, sys=sys) or ""),
        "physical_cores_of_workers": str(n_physical_cores(held, sys=sys) or ""),
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
    """Return the number of CPUs per core (SMT) of the first CPU; a hypervisor may hide it."""
    siblings, cores = _value_of(cpuinfo, "siblings"), _value_of(cpuinfo, "cpu cores")
    return f"{int(siblings) / int(cores):g}" if siblings and cores else ""


def _memory(proc: Path) -> str:
    total = _value_of(proc / "meminfo", "MemTotal").split()
    return f"{int(total[0]) * 1024 / _GIB:.1f} GiB" if total else ""


def virtualization(proc: Path, sys: Path) -> str:
    """Return whether this is a virtual machine, and its product; empty if the CPU flags are unknown."""
    if "hypervisor" not in _value_of(proc / "cpuinfo", "flags").split():
        return "none seen" if _value_of(proc / "cpuinfo", "flags") else ""
    product = _text(sys / "class/dmi/id/product_name") or _text(sys / "hypervisor/type")
    return f"virtual machine ({product})" if product else "virtual machine"


def steal_ratio(proc: Path) -> float | None:
    """Return the share of all CPU time since boot that the hypervisor withheld; None if unknown."""
    box = read_box_times(proc)
    with suppress(OSError, IndexError):
        uptime_s = float(_text(proc / "uptime").split()[0])
        return box.steal_s / (uptime_s * box.n_cpus)
    return None


# The speed of the host: the CPU time of one fixed computation, measured from time to time.


EVERY_S = 5.0  #: time between two measurements
#: share of one core for all measurements; on a slow host they are rarer than `EVERY_S`
MOST_SHARE_RATIO = 0.001
_N_OBJECTS = 1 << 15  #: 1 MB of integers, which seldom stay in the caches of a core for seconds
_N_STEPS = 12_000
_N_BEFORE_LAUNCH = 9  #: measurements before a launch; the first ones wake a core from sleep


@cache
def _objects() -> tuple[list[int], list[int]]:
    """Return integers, and their indexes in random order."""
    order = list(range(_N_OBJECTS))
    Random(1).shuffle(order)
    return [1000 + 3 * n for n in range(_N_OBJECTS)], order


def do_fixed_work() -> int:
    """Compute one unit: reads at random places in 1 MB of memory, and arithmetic within the core.

    Both take about equally long if the memory is still in the caches. Within a window it is not, and the
    reads take some five times as long: units before a launch and within windows cannot be compared.
    """
    values, order = _objects()
    found = sum(map(values.__getitem__, order))
    for _ in range(_N_STEPS):
        found = (found * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
    return found


class HostSpeed:
    """Measures the speed of the host, at most every `EVERY_S` seconds.

    A unit takes longer if the clock is slower, if another program runs on the other hardware thread of the
    core, and if other programs use caches and memory. Waiting of the thread for a core does not count.

    Args:
        monotonic_s: Returns the current time.
        work: Computes one unit.
        cpu_s: Returns the CPU time of this thread.
    """

    def __init__(
        self,
        monotonic_s: Callable[[], float],
        work: Callable[[], object] = do_fixed_work,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._monotonic_s, self._work, self._cpu_s = monotonic_s, work, cpu_s
        self._unit_cpu_s: float | None = None  #: result of the last measurement
        self._total = 0.0
        self._advanced_s = self._next_look_s = 0.0

    def before_launch(self) -> float:
        """Return the CPU seconds of one unit while no layout works: the median of several units in a row.

        It takes about 15 ms on the host of docs/method/robustness.md.
        """
        found = median(self._look() for _ in range(_N_BEFORE_LAUNCH))
        self._next_look_s = 0.0  # a window may only use measurements within it
        return found

    def total(self, at_s: float) -> float:
        """Return the CPU seconds that one unit per second would have taken until *at_s*.

        Each measurement is valid until the next one.
        """
        if self._unit_cpu_s is None:
            self._look()
            self._advanced_s = at_s
        assert self._unit_cpu_s is not None
        self._total += self._unit_cpu_s * max(0.0, at_s - self._advanced_s)
        self._advanced_s = max(at_s, self._advanced_s)
        return self._total

    def look_if_due(self) -> None:
        """Measure one unit if the last measurement is too old."""
        if self._monotonic_s() >= self._next_look_s:
            self._look()

    def _look(self) -> float:
        began_s = self._cpu_s()
        self._work()
        took_s = self._unit_cpu_s = self._cpu_s() - began_s
        self._next_look_s = self._monotonic_s() + max(EVERY_S, took_s / MOST_SHARE_RATIO)
        return took_s
