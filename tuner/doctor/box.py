"""Cores, clocks and kernel of a host, read from /proc and /sys."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tuner.adapters.proc.cgroup import Container
from tuner.adapters.proc.cores import steal_ratio, usable_cores, virtualization
from tuner.adapters.proc.cpu_accounts import BackendAccount
from tuner.adapters.proc.process_tree import (
    TICKS_PER_S,
    ProcessStat,
    ProcessTable,
    read_box_times,
    read_cgroup_pressure_s,
    read_pressure_s,
)
from tuner.adapters.proc.topology import read_siblings
from tuner.doctor.cores import Busy, CoresSeen, KernelSeen, Neighbours
from tuner.ports import Clock

# CPU use of other processes on the host, measured for some seconds like that of a window.

_NAMED_FROM_CORES = 0.01


def measure_neighbours(
    clock: Clock,
    seconds: float,
    limit_cores: float,
    *,
    proc: Path = Path("/proc"),
    own_pid: int | None = None,
    backends: Sequence[str] = (),
    found: frozenset[int] = frozenset(),
    container: Container | None = None,
    room_cores: float = 0.0,
    elsewhere: frozenset[int] = frozenset(),
) -> Neighbours:
    """Measure the mean CPU use of other processes, and the CPU time stolen by the hypervisor, over *seconds*.

    Used time is neither idle nor stolen, nor of interrupts (see `read_box_times`); foreign is all used time
    except that of this process and of the backends of the service. Only processes that exist at both ends
    are named.

    Args:
        backends: Names of programs, or pids, as in a config.
        found: Pids of further backends, which listen at an address of a server in the config.
        container: The container of tuner; other processes are measured on its CPUs, as in a window.
        room_cores: Cores that they may use beyond *limit_cores*: see `free_cores`.
        elsewhere: CPUs that they may use, too, as far as backends cannot have used them: `cpus_elsewhere`.
    """
    own = os.getpid() if own_pid is None else own_pid
    table = ProcessTable(proc)
    account = BackendAccount(proc, backends, clock, found)
    backends_s = account.cpu_s_total(())
    cpus = None if container is None else container.cpus
    began_s, box, processes = clock.monotonic_s(), read_box_times(proc, cpus), _processes(table)
    others = read_box_times(proc, elsewhere)
    clock.sleep_until(began_s + seconds)
    ended_s, box_then, processes_then = clock.monotonic_s(), read_box_times(proc, cpus), _processes(table)
    others_then = read_box_times(proc, elsewhere)
    backends_s = account.cpu_s_total(()) - backends_s

    elapsed_s = ended_s - began_s
    stolen_s = box_then.steal_s - box.steal_s
    room_cores += max(0.0, others_then.used_since(others, elapsed_s) - backends_s) / elapsed_s
    used_s = box_then.used_since(box, elapsed_s)
    ours_s = _used_s(processes.get(own), processes_then.get(own), with_children=True)
    busy, counted = [], account.counted_pids()
    for pid, after in processes_then.items():
        if pid != own and pid not in counted:
            cores = _used_s(processes.get(pid), after) / elapsed_s
            if cores >= _NAMED_FROM_CORES:
                busy.append(Busy(pid, after.name, cores))
    return Neighbours(
        seconds=elapsed_s,
        foreign_cores=max(0.0, used_s - ours_s - backends_s) / elapsed_s,
        stolen_cores=max(0.0, stolen_s) / elapsed_s,
        limit_cores=limit_cores,
        busiest=tuple(sorted(busy, key=lambda one: one.cores, reverse=True)),
        room_cores=room_cores,
    )


def _processes(table: ProcessTable) -> dict[int, ProcessStat]:
    return {stat.pid: stat for stat in map(table.stat, table.pids()) if stat is not None}


def _used_s(before: ProcessStat | None, after: ProcessStat | None, *, with_children: bool = False) -> float:
    if before is None or after is None or before.started_ticks != after.started_ticks:
        return 0.0
    ticks = after.own_ticks - before.own_ticks
    if with_children:
        ticks += after.reaped_ticks - before.reaped_ticks
    return ticks / TICKS_PER_S


_CPUS = "devices/system/cpu"
_CLOCK_READINGS = 2000


def read_cores(
    wanted: int,
    *,
    proc: Path = Path("/proc"),
    sys: Path = Path("/sys"),
    affinity: frozenset[int] | None = None,
) -> CoresSeen:
    """Return the facts about cores for layouts of *wanted* cores; *affinity* None: that of this process."""
    ours = usable_cores(affinity=affinity, proc=proc, cgroup=sys / "fs" / "cgroup")
    return CoresSeen(
        offered=ours.count,
        why=ours.why,
        cpus=ours.cpus,
        wanted=wanted,
        siblings=read_siblings(ours.cpus, sys=sys),
        governors=_governors(sys / _CPUS, ours.cpus),
        has_turbo=_has_turbo(sys / _CPUS),
        virtual=virtualization(proc, sys),
        steal_ratio=steal_ratio(proc),
    )


def read_kernel(
    *, proc: Path = Path("/proc"), sys: Path = Path("/sys"), container: Container | None = None
) -> KernelSeen:
    """Return the facts that the kernel reports about itself, this process and its *container*."""
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
    """Return whether memory pressure can be read: of the host, or in a container of its cgroup."""
    if container is None:
        return read_pressure_s(proc, "memory") is not None
    own = container.cgroup
    return own is not None and read_cgroup_pressure_s(own, "memory") is not None


def _governors(cpus: Path, ours: frozenset[int]) -> frozenset[str] | None:
    reported = {_text(cpus / f"cpu{cpu}/cpufreq/scaling_governor") for cpu in ours} - {""}
    return frozenset(reported) or None


def _has_turbo(cpus: Path) -> bool | None:
    """Read whether turbo is on: Intel's driver has a switch to turn it off, the others to turn it on."""
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
    with suppress(OSError):  # it does not exist, or (PSI off, hidepid) cannot be read
        return file.read_text(encoding="utf-8", errors="replace").strip()
    return ""
