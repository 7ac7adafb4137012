"""CPU time by owner: the service, tuner, named backends; the rest belongs to other processes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tuner.adapters.proc import launch_cgroup
from tuner.adapters.proc.cgroup import launch_cgroup_of
from tuner.adapters.proc.process_tree import TICKS_PER_S, ProcessStat, ProcessTable, Tree, read_if_visible
from tuner.ports import Clock, Launch

TICKS_CUT_OFF = 4  #: largest rounding error of a process: each of its four times is in whole ticks
BACKENDS_EVERY_S = 30.0  #: interval of the search for new processes of the named backends


@dataclass(frozen=True, slots=True)
class ServiceUse:
    """CPU totals and processes of the service at one moment."""

    cpu_s_total: float
    worker_cpu_s_total: float  #: CPU time of the workers' own threads, ended workers included
    unseen_cpu_s_total: float  #: the part that workers used between their last reading and their end
    child_cpu_s_total: float  #: CPU time of all other processes of the service
    master_cpu_s_total: float  #: the part of it that the programs which start the workers used themselves
    members: tuple[ProcessStat, ...]  #: workers and their descendants
    workers: tuple[ProcessStat, ...]  #: running workers
    masters: tuple[ProcessStat, ...]  #: running programs that only start workers

    @property
    def n_threads(self) -> int:
        """Number of threads of all workers."""
        return sum(worker.n_threads for worker in self.workers)

    @property
    def n_threads_most(self) -> int | None:
        """Largest number of threads of a worker; None without workers."""
        return max((worker.n_threads for worker in self.workers), default=None)

    def n_children_in(self, state: str) -> int:
        """Return the number of descendants of workers that are in *state*, by their main threads."""
        return sum(member.state == state for member in self.members) - sum(
            worker.state == state for worker in self.workers
        )


class ServiceAccount:
    """CPU time of the workers and all their descendants, ended ones included.

    The CPU of an ended worker is added to supervisord's reaped CPU, which therefore belongs to the service
    and not to tuner. A descendant that left its worker (double fork) is followed if it was once read within
    the tree. A child whose parent ignores SIGCHLD is in no process's account after its end, but in that of
    the launch's cgroup, if it has one. The guardian is not in this cgroup and outlives it: the CPU that it
    reaped before belongs to earlier launches.
    """

    def __init__(self, proc: Path, launch: Launch, cgroup: Path = Path("/sys/fs/cgroup")) -> None:
        """Set up the account; *cgroup* is the mount point of the hierarchies."""
        self._table = ProcessTable(proc)
        self._launch = launch
        self._cgroup = launch_cgroup_of(launch.overhead_pids(), proc, cgroup)
        self._guardian = None if self._cgroup is None else launch_cgroup.guardian_of(self._cgroup.name)
        guardian = None if self._guardian is None else self._table.stat(self._guardian)
        self._earlier_ticks = 0 if guardian is None else guardian.reaped_ticks
        self._unseen_ticks = 0
        self._seen: dict[int, ProcessStat] = {}
        self._strays: dict[int, ProcessStat] = {}
        self._lost_ticks = 0
        self._highest_ticks = 0
        self._highest_child_ticks = 0.0
        self._worker_ticks: dict[tuple[int, int], int] = {}  # (pid, start) -> its own, ended workers included
        self._masters = MasterAccount()

    def members(self) -> tuple[ProcessStat, ...]:
        """Return the workers and their descendants, without adding up their CPU."""
        tree, strays = self._trees(self._launch.overhead_pids(), self._launch.worker_pids())
        return (*tree.members.values(), *strays.members.values())

    def _trees(self, overhead: frozenset[int], workers: frozenset[int]) -> tuple[Tree, Tree]:
        """Return the tree of the service, and the processes that left it."""
        self._table.refresh()
        started = {child for pid in overhead for child in self._table.children(pid)}
        tree = self._table.trees(sorted((workers | started) - overhead))
        return tree, self._table.trees(self._processes_outside_tree(tree.members))

    def use(self) -> ServiceUse:
        """Add up the CPU time of the service now."""
        of_cgroup_s = None if self._cgroup is None else launch_cgroup.cpu_s(str(self._cgroup))
        overhead, workers = self._launch.overhead_pids(), self._launch.worker_pids()
        tree, strays = self._trees(overhead, workers)
        keepers = [stat for stat in map(self._table.stat, overhead) if stat]
        self._remember(tree.members, strays.members)
        ticks = tree.ticks + strays.ticks + self._lost_ticks + sum(stat.reaped_ticks for stat in keepers)
        if of_cgroup_s is not None:
            not_unseen = ticks + sum(map(self._ticks_beside, keepers))
            cut_off = TICKS_CUT_OFF * (len(tree.members) + len(strays.members) + len(overhead))
            self._record_unread(int(of_cgroup_s * TICKS_PER_S) - not_unseen, cut_off)
        ticks += self._unseen_ticks
        self._highest_ticks = max(self._highest_ticks, ticks)
        alive = [
            tree.members[pid] for pid in workers if pid in tree.members and tree.members[pid].state != "Z"
        ]
        ended_or_not = [tree.members[pid] for pid in workers if pid in tree.members]
        for worker in ended_or_not:
            self._worker_ticks[worker.pid, worker.started_ticks] = worker.own_ticks
        self._masters.look(ended_or_not, tree.members)
        unseen_ticks = self._masters.unseen_ticks
        worker_ticks = sum(self._worker_ticks.values()) + unseen_ticks
        self._highest_child_ticks = max(self._highest_child_ticks, self._highest_ticks - worker_ticks)
        return ServiceUse(
            cpu_s_total=self._highest_ticks / TICKS_PER_S,
            worker_cpu_s_total=worker_ticks / TICKS_PER_S,
            unseen_cpu_s_total=unseen_ticks / TICKS_PER_S,
            child_cpu_s_total=self._highest_child_ticks / TICKS_PER_S,
            master_cpu_s_total=self._masters.own_ticks / TICKS_PER_S,
            members=(*tree.members.values(), *strays.members.values()),
            workers=tuple(alive),
            masters=tuple(one for one in tree.members.values() if self._masters.has(one)),
        )

    def _ticks_beside(self, keeper: ProcessStat) -> int:
        """Return the ticks of supervisord or the guardian in the launch's cgroup, without reaped CPU."""
        return -self._earlier_ticks if keeper.pid == self._guardian else keeper.own_ticks

    def _record_unread(self, unseen_ticks: int, cut_off: int) -> None:
        """Record the excess of the cgroup over its processes, which are read later: CPU of unaccounted ends.

        An excess below *cut_off* is rounding.
        """
        if unseen_ticks > self._unseen_ticks + cut_off:
            self._unseen_ticks = unseen_ticks

    def _processes_outside_tree(self, members: Container[int]) -> list[int]:
        """Return processes of the last reading that are alive but no longer in the tree."""
        found = []
        for pid, before in self._seen.items():
            if pid not in members:
                now = self._table.stat(pid)
                if now is not None and now.started_ticks == before.started_ticks:
                    found.append(pid)
        return found

    def _remember(self, tree: dict[int, ProcessStat], strays: dict[int, ProcessStat]) -> None:
        for pid, stray in self._strays.items():
            if pid not in strays and pid not in tree:  # no other account contains its CPU
                self._lost_ticks += stray.own_ticks + stray.reaped_ticks
        self._seen = {**tree, **strays}
        self._strays = {pid: stray for pid, stray in strays.items() if stray.parent not in self._seen}


Named = tuple[int, int]  #: pid and start time, which identify a process uniquely


def _key_of(stat: ProcessStat) -> Named:
    return stat.pid, stat.started_ticks


class _LastSeen(NamedTuple):
    """A worker at its last reading."""

    master: Named
    own_ticks: int
    all_ticks: int  #: ticks of the worker and of the children that it reaped


class MasterAccount:
    """CPU of the programs that start the workers (masters), and of ended workers.

    If a master often replaces its workers, most of their CPU is in its account of reaped children: the CPU
    after their last reading, and all CPU of workers that were never read. It is split between the workers and
    the children that their items started, in the same proportion as among the workers that were read.
    """

    def __init__(self) -> None:
        self._own: dict[Named, int] = {}  # master -> its own ticks
        self._workers: dict[Named, _LastSeen] = {}  # workers alive
        self._ended: dict[
            Named, tuple[int, int]
        ] = {}  # master -> own and all ticks of its workers that ended
        self._unseen: dict[Named, int] = {}  # master -> reaped ticks that were never read
        self.unseen_ticks = 0.0  #: the workers' part of these ticks

    def has(self, process: ProcessStat) -> bool:
        """Return whether *process* is a master."""
        return _key_of(process) in self._own

    @property
    def own_ticks(self) -> int:
        """CPU of the masters' own threads."""
        return sum(self._own.values())

    def look(self, workers: Sequence[ProcessStat], members: Mapping[int, ProcessStat]) -> None:
        """Read the *workers*, zombies included, among all *members* of the service."""
        pids = {worker.pid for worker in workers}
        for named, last in list(self._workers.items()):
            if named[0] not in members:
                own_ticks, all_ticks = self._ended.get(last.master, (0, 0))
                self._ended[last.master] = own_ticks + last.own_ticks, all_ticks + last.all_ticks
                del self._workers[named]
        for worker in workers:
            above = members.get(worker.parent)
            if above is not None and above.pid not in pids:
                self._workers[_key_of(worker)] = _LastSeen(
                    _key_of(above), worker.own_ticks, worker.own_ticks + worker.reaped_ticks
                )
            while above is not None and above.pid not in pids:  # also what starts one (uv run)
                self._own[_key_of(above)] = above.own_ticks
                above = members.get(above.parent)
        for master in {*self._ended, *(one.master for one in self._workers.values())}:
            stat = members.get(master[0])
            if stat is not None and _key_of(stat) == master:
                self._add_unread(master, stat.reaped_ticks)

    def _add_unread(self, master: Named, reaped_ticks: int) -> None:
        own_ticks, all_ticks = self._ended.get(master, (0, 0))
        unseen_ticks = reaped_ticks - all_ticks
        before = self._unseen.setdefault(master, unseen_ticks)  # ticks reaped before it had workers
        if unseen_ticks <= before:
            return
        self._unseen[master] = unseen_ticks
        for one in self._workers.values():
            if one.master == master:
                own_ticks, all_ticks = own_ticks + one.own_ticks, all_ticks + one.all_ticks
        self.unseen_ticks += (unseen_ticks - before) * (own_ticks / all_ticks if all_ticks else 1.0)


class TunerAccount:
    """CPU of tuner: this process, supervisord, the guardian, and *helping_pids* with their descendants.

    Helping processes are feeder and probe. CPU reaped by supervisord belongs to the service; CPU reaped by
    this process (hooks) belongs to tuner.
    """

    def __init__(self, proc: Path, launch: Launch, own_pid: int, helping_pids: frozenset[int]) -> None:
        self._table = ProcessTable(proc)
        self._launch = launch
        self._own_pid = own_pid
        self._helping_pids = helping_pids
        self._highest_ticks = 0

    def cpu_s_total(self) -> float:
        """Return the CPU seconds of tuner so far."""
        own = self._table.stat(self._own_pid)
        overhead = self._launch.overhead_pids() - {self._own_pid}
        ticks = self._table.trees(sorted(self._helping_pids - overhead - {self._own_pid})).ticks
        ticks += sum(stat.own_ticks for stat in map(self._table.stat, overhead) if stat)
        ticks += own.own_ticks + own.reaped_ticks if own else 0
        self._highest_ticks = max(self._highest_ticks, ticks)
        return self._highest_ticks / TICKS_PER_S


class BackendAccount:
    """CPU of servers that the service uses (Redis, a database), by pid or by the name of their program.

    *pids* are processes that tuner found itself, so their end is not reported as missing.
    """

    def __init__(
        self, proc: Path, names: Sequence[str], clock: Clock, pids: frozenset[int] = frozenset()
    ) -> None:
        self._proc = proc
        self._table = ProcessTable(proc)
        self._names = frozenset(names)
        self._pids = pids
        self._clock = clock
        self._ticks: dict[int, int] = {}  # the uppermost process of each backend -> its tree's ticks
        self._ended_ticks = 0
        self._looked_s: float | None = None
        self._missing: frozenset[str] = frozenset()

    def cpu_s_total(self, service: Iterable[ProcessStat]) -> float:
        """Return the CPU seconds of all backends; processes of the *service* never count."""
        if not self._names and not self._pids:
            return 0.0
        now_s = self._clock.monotonic_s()
        if self._looked_s is None or now_s - self._looked_s >= BACKENDS_EVERY_S:
            self._looked_s = now_s
            self._ticks = {**dict.fromkeys(self._find({stat.pid for stat in service}), 0), **self._ticks}
        for pid, before in list(self._ticks.items()):
            tree = self._table.trees([pid])
            if tree.members:
                self._ticks[pid] = max(before, tree.ticks)
            else:
                self._ended_ticks += self._ticks.pop(pid)
        return (sum(self._ticks.values()) + self._ended_ticks) / TICKS_PER_S

    def counted_pids(self) -> frozenset[int]:
        """Return the current processes of the backends, children included."""
        return frozenset(self._table.trees(self._ticks).members)

    def missing(self) -> frozenset[str]:
        """Return the names without a process at the last search."""
        return self._missing

    def _find(self, service: Container[int]) -> list[int]:
        named: dict[int, ProcessStat] = {}
        missing = set(self._names)
        for pid in self._table.pids():
            stat = self._table.stat(pid) if pid not in service else None
            if stat is None:
                continue
            names = self._names & self._names_of(stat)
            if names or pid in self._pids:
                named[pid] = stat
                missing -= names
        self._missing = frozenset(missing)
        return [pid for pid, stat in named.items() if stat.parent not in named]

    def _names_of(self, stat: ProcessStat) -> set[str]:
        words = (read_if_visible(f"{self._proc}/{stat.pid}/cmdline") or b"").split(b"\0")
        return {str(stat.pid), stat.name, Path(words[0].decode("utf-8", "replace")).name}
