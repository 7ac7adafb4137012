"""Cores, clocks and kernel of a box, read below /proc and /sys."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from tuner.adapters.proc.container import Container
from tuner.adapters.proc.cores import usable_cores
from tuner.adapters.proc.host import steal_ratio, virtualization
from tuner.adapters.proc.host_times import read_cgroup_pressure_s, read_pressure_s
from tuner.core.doctor.cores import CoresSeen
from tuner.core.doctor.kernel import KernelSeen

_CPUS = "devices/system/cpu"
_CLOCK_READINGS = 2000


def cores_seen(
    wanted: int,
    *,
    proc: Path = Path("/proc"),
    sys: Path = Path("/sys"),
    affinity: frozenset[int] | None = None,
) -> CoresSeen:
    """The cores for layouts of so many; *affinity* None asks the kernel."""
    ours = usable_cores(affinity=affinity, proc=proc, cgroup=sys / "fs" / "cgroup")
    return CoresSeen(
        offered=ours.count,
        why=ours.why,
        cpus=ours.cpus,
        wanted=wanted,
        siblings=_siblings(sys / _CPUS, ours.cpus),
        governors=_governors(sys / _CPUS, ours.cpus),
        has_turbo=_has_turbo(sys / _CPUS),
        virtual=virtualization(proc, sys),
        steal_ratio=steal_ratio(proc),
    )


def kernel_seen(
    *, proc: Path = Path("/proc"), sys: Path = Path("/sys"), container: Container | None = None
) -> KernelSeen:
    """What the kernel shows, of itself, of this process, and of the *container* that it is in."""
    own = proc / "self"
    delays, scope = _text(proc / "sys/kernel/task_delayacct"), _text(proc / "sys/kernel/yama/ptrace_scope")
    memory = _memory_bytes(proc)
    swap = None
    if "SwapTotal" in memory and "SwapFree" in memory:
        swap = memory["SwapTotal"] - memory["SwapFree"]
    return KernelSeen(
        container="" if container is None else container.warning.text,
        has_pressure=_has_pressure(proc, container),
        has_pss="Pss:" in _text(own / "smaps_rollup"),
        has_run_delays=_text(own / "schedstat").split()[:1] not in ([], ["0"]),
        delay_accounting=None if not delays else delays != "0",
        has_syscalls=bool(_text(own / "syscall")),
        ptrace_scope=int(scope) if scope.isdecimal() else None,
        is_root=os.geteuid() == 0,
        clock=_text(sys / "devices/system/clocksource/clocksource0/current_clocksource") or None,
        clock_read_s=_clock_read_s(),
        swap_used_bytes=swap,
        memory_available_bytes=memory.get("MemAvailable"),
    )


def _has_pressure(proc: Path, container: Container | None) -> bool:
    """Whether a window's figure is there: the box's, or in a container that of its cgroup."""
    if container is None:
        return read_pressure_s(proc, "memory") is not None
    own = container.cgroup
    return own is not None and read_cgroup_pressure_s(own, "memory") is not None


def _siblings(cpus: Path, ours: frozenset[int]) -> dict[int, frozenset[int]] | None:
    found = {}
    for cpu in ours:
        reported = _text(cpus / f"cpu{cpu}/topology/thread_siblings_list")
        if not reported:
            return None
        found[cpu] = _cpu_list(reported)
    return found


def _cpu_list(text: str) -> frozenset[int]:
    """``0,4-6`` as the kernel writes sets of CPUs."""
    found = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _governors(cpus: Path, ours: frozenset[int]) -> frozenset[str] | None:
    reported = {_text(cpus / f"cpu{cpu}/cpufreq/scaling_governor") for cpu in ours} - {""}
    return frozenset(reported) or None


def _has_turbo(cpus: Path) -> bool | None:
    """Intel's driver has a switch to turn it off, all others one to turn it on."""
    if off := _text(cpus / "intel_pstate/no_turbo"):
        return off == "0"
    if on := _text(cpus / "cpufreq/boost"):
        return on == "1"
    return None


def _memory_bytes(proc: Path) -> dict[str, int]:
    lines = (line.split() for line in _text(proc / "meminfo").splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3}


def _clock_read_s() -> float:
    began_s = time.perf_counter()
    for _ in range(_CLOCK_READINGS):
        time.monotonic()
    return (time.perf_counter() - began_s) / _CLOCK_READINGS


def _text(file: Path) -> str:
    with suppress(OSError):  # not there, or (PSI off, hidepid) there and not to be read
        return file.read_text(encoding="utf-8", errors="replace").strip()
    return ""
