"""Who else uses the box, measured for some seconds by the same accounts as a window's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tuner.adapters.proc.container import Container
from tuner.adapters.proc.cpu_accounts import BackendAccount
from tuner.adapters.proc.host_times import read_box_times
from tuner.adapters.proc.process_tree import TICKS_PER_S, ProcessStat, ProcessTable
from tuner.core.doctor.cores import Busy, Neighbours
from tuner.ports import Clock

_NAMED_FROM_CORES = 0.01


def neighbours_seen(
    clock: Clock,
    seconds: float,
    limit_cores: float,
    *,
    proc: Path = Path("/proc"),
    own_pid: int | None = None,
    backends: Sequence[str] = (),
    found: frozenset[int] = frozenset(),
    container: Container | None = None,
) -> Neighbours:
    """What others use of the box, and what the hypervisor keeps, on average over *seconds*.

    What is not idle and not stolen was used; what neither this process used nor a backend of the service is
    foreign. Only those who live at both ends are named.

    Args:
        backends: names of programs, or pids, as a config has them.
        found: pids of others, which listen where the config names a server.
        container: that we are in; others are looked for on its CPUs, as in a window.
    """
    own = os.getpid() if own_pid is None else own_pid
    table = ProcessTable(proc)
    account = BackendAccount(proc, backends, clock, found)
    backends_s = account.cpu_s_total(())
    cpus = None if container is None else container.cpus
    began_s, box, processes = clock.monotonic_s(), read_box_times(proc, cpus), _processes(table)
    clock.sleep_until(began_s + seconds)
    ended_s, box_then, processes_then = clock.monotonic_s(), read_box_times(proc, cpus), _processes(table)
    backends_s = account.cpu_s_total(()) - backends_s

    elapsed_s = ended_s - began_s
    stolen_s = box_then.steal_s - box.steal_s
    used_s = elapsed_s * box_then.n_cpus - (box_then.idle_s - box.idle_s) - stolen_s
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
