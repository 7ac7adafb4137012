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

from tuner.adapters.proc.cgroup import container_here, kernel_lines
from tuner.adapters.proc.process_tree import read_box_times
from tuner.core.text.figures import pluralize


@dataclass(frozen=True, slots=True)
class BoxCores:
    """The cores of a box, as far as they are ours."""

    count: float  #: cores' worth of time; less than the CPUs when a quota says so
    cpus: frozenset[int]  #: the CPUs we may run on
    why: str  #: what sets the count, for people


def usable_cores(
    *,
    affinity: frozenset[int] | None = None,
    proc: Path = Path("/proc"),
    cgroup: Path = Path("/sys/fs/cgroup"),
) -> BoxCores:
    """The CPUs that affinity and cpusets leave, and the smallest quota of any cgroup above us.

    Args:
        affinity: None asks the kernel; it already holds cpusets and an outer ``taskset``.
        proc: where /proc is; its ``self/cgroup`` names our groups.
        cgroup: where the cgroup hierarchies are mounted.
    """
    cpus = frozenset(os.sched_getaffinity(0)) if affinity is None else affinity
    online = (proc / "cpuinfo").read_text(encoding="utf-8", errors="replace").count("processor\t:")
    count, why = float(len(cpus)), f"{len(cpus)} of {online} CPUs by affinity" if len(cpus) < online else ""
    for quota, where in _quotas(proc, cgroup):
        if quota < count:
            count, why = quota, f"a quota of {pluralize(quota, 'core')} in cgroup {where}"
    return BoxCores(count, cpus, why or f"all {len(cpus)} CPUs")


def first_cores(n: int) -> frozenset[int]:
    """The *n* CPUs of lowest number that we may run on; workers may be held to them."""
    return frozenset(sorted(os.sched_getaffinity(0))[:n])


def groups_above(controller: str, *, proc: Path, cgroup: Path) -> Iterator[tuple[int, Path, Path]]:
    """Our groups that *controller* may limit, each up to its root: the version, the folder, the root's.

    A limit holds for all groups below, so each step up to the root is asked. In a container /proc names the
    path as the host sees it while the mount shows only our own group: a path that is not there falls back
    to the root.
    """
    for line in kernel_lines(proc / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2, alone or beside version 1
            for root in (cgroup, cgroup / "unified"):
                yield from ((2, folder, root) for folder in _upwards(root, path))
        elif controller in controllers.split(","):
            for root in dict.fromkeys((cgroup / controllers, cgroup / controller)):
                yield from ((1, folder, root) for folder in _upwards(root, path))


def group_name(folder: Path, root: Path) -> str:
    """The group's path below its root, as systemd and Docker show it."""
    return "/" if folder == root else f"/{folder.relative_to(root)}"


def _quotas(proc: Path, cgroup: Path) -> Iterator[tuple[float, str]]:
    """Cores' worth of every quota in force, with the group that sets it."""
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
    except OSError:  # the root group has no quota; a controller may not be there
        return []


# How much memory a service may still take, before tasks have to wait for memory.

_ROOM = 0.8  #: of what is free: the page cache of what is measured needs some, too
_FILES = {2: ("memory.max", "memory.current"), 1: ("memory.limit_in_bytes", "memory.usage_in_bytes")}
_NO_LIMIT = 1 << 60  #: version 1 writes "none" as a number about that large


def free_memory_bytes(*, proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> float | None:
    """What the host and each cgroup above us leave, less a fifth; None: nobody tells."""
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
    """Files in the page cache that nobody used of late: the kernel drops them before anything waits."""
    with suppress(OSError, ValueError):
        data = dict(
            line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines()
        )
        return int(data.get("total_inactive_file", data.get("inactive_file", 0)))
    return 0


def _number(file: Path) -> int | None:
    """None: it is not there, or says max."""
    with suppress(OSError, ValueError):
        return int(file.read_text(encoding="ascii"))
    return None


# Facts about the machine that decide what a measurement on it is worth, as text for a study's record.


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


# The speed of the host: the CPU time of one fixed computation, now and then.


EVERY_S = 5.0  #: between two looks
MOST_SHARE_RATIO = 0.001  #: of one core, for all looks; on a slow host they are rarer than `EVERY_S`
_N_OBJECTS = 1 << 15  #: 1 MB of integers: the caches of a core seldom still hold them after seconds
_N_STEPS = 12_000
_N_BEFORE_LAUNCH = 9  #: units before a launch; the first ones wake a core that slept


@cache
def _objects() -> tuple[list[int], list[int]]:
    """Integers, and their places in random order."""
    order = list(range(_N_OBJECTS))
    Random(1).shuffle(order)
    return [1000 + 3 * n for n in range(_N_OBJECTS)], order


def do_fixed_work() -> int:
    """Compute one unit: reads at random places in 1 MB of memory, and arithmetic within the core.

    Both take about equally long if the caches still hold the memory. Within a window they do not, and the
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
    core, and if others use caches and memory. Time in which the thread waits for a core does not count.

    Args:
        monotonic_s: the time now.
        work: does one unit.
        cpu_s: the CPU time of this thread.
    """

    def __init__(
        self,
        monotonic_s: Callable[[], float],
        work: Callable[[], object] = do_fixed_work,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._monotonic_s, self._work, self._cpu_s = monotonic_s, work, cpu_s
        self._unit_cpu_s: float | None = None  #: of the latest look
        self._total = 0.0
        self._advanced_s = self._next_look_s = 0.0

    def before_launch(self) -> float:
        """The CPU seconds of one unit while no layout works: the median of some units, one after the other.

        Takes about 15 ms on the host of docs/method/robustness.md.
        """
        found = median(self._look() for _ in range(_N_BEFORE_LAUNCH))
        self._next_look_s = 0.0  # no window may count a look that was before it
        return found

    def total(self, at_s: float) -> float:
        """CPU seconds that one unit each second would have taken until *at_s*.

        Each look stands until the next.
        """
        if self._unit_cpu_s is None:
            self._look()
            self._advanced_s = at_s
        assert self._unit_cpu_s is not None
        self._total += self._unit_cpu_s * max(0.0, at_s - self._advanced_s)
        self._advanced_s = max(at_s, self._advanced_s)
        return self._total

    def look_if_due(self) -> None:
        """Do one unit if the latest look is old."""
        if self._monotonic_s() >= self._next_look_s:
            self._look()

    def _look(self) -> float:
        began_s = self._cpu_s()
        self._work()
        took_s = self._unit_cpu_s = self._cpu_s() - began_s
        self._next_look_s = self._monotonic_s() + max(EVERY_S, took_s / MOST_SHARE_RATIO)
        return took_s
