"""The sampler: reads the host from /proc while a launch runs."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tuner.adapters.proc.cgroup import Container, find_container
from tuner.adapters.proc.computing_threads import ComputingThreads, ItemThreads
from tuner.adapters.proc.cores import HostSpeed
from tuner.adapters.proc.cpu_accounts import BackendAccount, ServiceAccount, ServiceUse, TunerAccount
from tuner.adapters.proc.gil_waits import GilWaits, GilWatch
from tuner.adapters.proc.process_tree import BoxTimes, read_box_times, read_cgroup_pressure_s, read_pressure_s
from tuner.adapters.proc.pss import PssReader
from tuner.adapters.proc.task_states import ActiveTasks, StatesSeen, StateTimes
from tuner.core.domain.window import LoadAverage, Reading, Sample, Usage
from tuner.core.errors import ConfigError
from tuner.core.messages.host import memory_missed, no_backend, no_memory_figures
from tuner.ports import Clock, Launch, Warn

#: share of one core for readings of PSS within a window: the wanted one, and the largest one, with which a
#: service of many large processes is still read often enough to find out whether its memory grows
PSS_SHARE_RATIO, MOST_PSS_SHARE_RATIO = 0.001, 0.01
PSS_EVERY_S = 35.0  #: longest mean interval of these readings, up to the largest share
#: share of processes that ended before their memory was read, above which a warning is printed
MISSED_RATIO = 0.05
MISSED_AMONG = 100  #: least number of processes for this warning; with fewer, chance would decide
FOLLOW_EVERY_S = 5.0  #: interval of the search for new threads of the workers
CHILDREN_EVERY_S = 4.0  #: least interval between two samples of the states of the workers' children


def _warn_on_stderr(slug: str, text: str) -> None:
    print(f"warning [{slug}]: {text}", file=sys.stderr)  # noqa: T201


class ProcSampler:
    """The sampler of a Linux host, or of a container: see `find_container` for the differences.

    *backends* are names of programs (``redis-server``) or pids; *found* returns further pids of backends,
    once per launch. *machine* is as in platform.machine(), the default. *gil_looks_per_s* is the number of
    samples per second of threads that wait for the GIL; None: no samples. *takes_turns*: processes of other
    layouts run, too, and may share pages of files. *elsewhere*: see `cpus_elsewhere`; their use is measured.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        proc: Path = Path("/proc"),
        cgroup: Path = Path("/sys/fs/cgroup"),
        backends: Sequence[str] = (),
        found: Callable[[], frozenset[int]] = frozenset,
        own_pid: int | None = None,
        machine: str | None = None,
        warn: Warn = _warn_on_stderr,
        gil_looks_per_s: float | None = None,
        takes_turns: bool = False,
        elsewhere: frozenset[int] = frozenset(),
    ) -> None:
        self._clock = clock
        self._elsewhere = elsewhere
        self._gil_looks_per_s = gil_looks_per_s
        self._takes_turns = takes_turns
        self._proc = proc
        self._cgroup = cgroup
        self._container = find_container(proc, cgroup)
        self._machine = machine
        self._backends = tuple(backends)
        self._found = found
        self._own_pid = os.getpid() if own_pid is None else own_pid
        self._warn = warn
        self._warned: set[str] = set()
        self._speed = HostSpeed(clock.monotonic_s)

    def idle_fixed_work_cpu_s(self) -> float:
        """Measure the CPU seconds of one unit of fixed work while no layout works, in about 15 ms."""
        return self._speed.before_launch()

    @contextmanager
    def watching(self, launch: Launch, extra_pids: frozenset[int]) -> Iterator[ProcWatch]:
        """Yield a sampler for *launch*; some files of /proc stay open within the block."""
        watch = ProcWatch(
            self._clock,
            self._proc,
            self._machine,
            launch,
            ServiceAccount(self._proc, launch, self._cgroup),
            TunerAccount(self._proc, launch, self._own_pid, extra_pids),
            BackendAccount(self._proc, self._backends, self._clock, self._found()),
            self._warn_once,
            self._speed,
            self._container,
            takes_turns=self._takes_turns,
            elsewhere=self._elsewhere,
        )
        try:
            if self._gil_looks_per_s is not None:
                watch.watch_gil(self._gil_looks_per_s)
            yield watch
        finally:
            watch.close()

    def _warn_once(self, slug: str, text: str) -> None:
        if slug not in self._warned:
            self._warned.add(slug)
            self._warn(slug, text)


class ProcWatch:
    """Sampler of the host while one launch runs."""

    def __init__(
        self,
        clock: Clock,
        proc: Path,
        machine: str | None,
        launch: Launch,
        service: ServiceAccount,
        tuner: TunerAccount,
        backends: BackendAccount,
        warn: Warn,
        speed: HostSpeed,
        container: Container | None = None,
        *,
        takes_turns: bool = False,
        elsewhere: frozenset[int] = frozenset(),
    ) -> None:
        self._clock, self._speed = clock, speed
        self._container = container
        self._own_load = LoadAverage(clock.monotonic_s())  #: load average computed for a container
        self._proc, self._machine = proc, machine
        self._launch = launch
        self._service = service
        self._tuner = tuner
        self._backends = backends
        self._warn = warn
        try:
            self._load = os.open(proc / "loadavg", os.O_RDONLY | os.O_CLOEXEC)
            self._tasks = ActiveTasks(proc, machine)
        except OSError as error:
            hint = "tuner measures on Linux, with /proc mounted."
            raise ConfigError(f"{proc} cannot be read: {error}", hint=hint) from error
        if container is not None:
            self._warn(*container.warning)
        self._items = ItemThreads(proc)
        self._computing = ComputingThreads(proc, self._items)
        self._item_cpu_s = 0.0
        self._worker_states, self._child_states = StateTimes(), StateTimes()
        self._gil: GilWatch | None = None
        self._followed_s = self._children_s = float("-inf")
        self._before: tuple[float, BoxTimes] | None = None
        self._box_cpu_s = 0.0
        self._elsewhere = elsewhere
        self._before_elsewhere: tuple[float, BoxTimes] | None = None
        self._elsewhere_cpu_s = 0.0
        machine = platform.machine() if machine is None else machine
        self._pss = PssReader(proc, machine, counts_files_once=takes_turns)
        self._next_pss_s = float("-inf")
        self._n_read = self._n_missed = 0  #: processes whose memory was read, and processes that ended before
        self._random = Random()

    def close(self) -> None:
        """Close all open files and stop sampling."""
        os.close(self._load)
        self._tasks.close()
        if self._gil is not None:
            self._gil.close()

    def watch_gil(self, looks_per_s: float) -> None:
        """Start sampling the threads that wait for the GIL."""
        self._gil = GilWatch(GilWaits(self._proc, self._machine), self._clock.monotonic_s, looks_per_s)
        self._gil.start()

    def has_gil(self) -> bool | None:
        """Return whether the GIL of a worker is on, or None if unknown."""
        return None if self._gil is None else self._gil.has_gil()

    def n_interpreters(self) -> int:
        """Return the largest number of interpreters in a worker, each with a separate GIL."""
        return 1 if self._gil is None else self._gil.n_interpreters()

    def next_sample_s(self, now_s: float, by_s: float) -> float:
        """Return a random moment between *now_s* and *by_s*.

        Samples at regular moments would always meet the same part of items that begin at regular moments.
        """
        return self._random.uniform(now_s, by_s)

    def sample(self, reading: Reading) -> Sample:
        """Return load and number of active tasks (see `ActiveTasks`) with the counts of *reading*."""
        if self._tasks.has_lost or reading.at_s - self._followed_s >= FOLLOW_EVERY_S:
            self._followed_s = reading.at_s
            pids = self._launch.worker_pids()
            self._tasks.follow(pids)
            if self._gil is not None:
                self._gil.follow(pids, self._items.of)
        n_active, (load1, load5, load15) = self._look_at_tasks()
        at_s = self._clock.monotonic_s()
        self._worker_states.look(at_s, self._tasks.followed)
        if at_s - self._children_s >= CHILDREN_EVERY_S:
            self._children_s = at_s
            service = self._service.use()
            self._child_states.look(at_s, StatesSeen(service.n_children_in("R"), service.n_children_in("D")))
        return Sample(
            at_s=reading.at_s,
            n_done_total=reading.n_done_total,
            n_failed_total=reading.n_failed_total,
            load1=load1,
            load5=load5,
            load15=load15,
            n_active=n_active,
        )

    def _look_at_tasks(self) -> tuple[int, tuple[float, float, float]]:
        """Return active tasks and three load averages: the kernel's, or in a container the service's."""
        if self._container is None:
            load1, load5, load15, tasks, _ = os.pread(self._load, 128, 0).split()
            n_active = self._tasks.n_active(int(tasks.partition(b"/")[0]))
            return n_active, (float(load1), float(load5), float(load15))
        n_active = self._tasks.n_own()
        self._own_load.advance(self._clock.monotonic_s(), n_active)
        one, five, fifteen = self._own_load.values
        return n_active, (round(one, 2), round(five, 2), round(fifteen, 2))

    def _pressure_s(self, resource: str) -> float | None:
        if self._container is None:
            return read_pressure_s(self._proc, resource)
        own = self._container.cgroup
        return None if own is None else read_cgroup_pressure_s(own, resource)

    def usage(self, *, closing: bool = False, at_edge: bool = False) -> Usage:
        """Return CPU, memory and pressure; PSS if *closing*, otherwise as often as it is cheap, never
        *at_edge*.
        """
        at_s, wall_s = self._clock.monotonic_s(), self._clock.wall_s()
        box, elsewhere_cpu_s = self._look_at_box(at_s), self._look_elsewhere(at_s)
        service = self._service.use()
        is_seen = service.worker_cpu_s_total > 0 or bool(service.workers)
        items = self._items.look(
            service.workers,
            self._launch.shape,
            masters=service.masters,
            unseen_cpu_s=service.unseen_cpu_s_total,
        )
        computing = self._computing.look(service.workers, self._launch.shape, at_s, at_edge=at_edge)
        if items is not None:
            item_cpu_s = service.worker_cpu_s_total - items.beside_cpu_s_total
            self._item_cpu_s = max(self._item_cpu_s, item_cpu_s)  # both are rounded down to ticks
        workers, children = self._worker_states, self._child_states
        workers.advance(at_s)
        if self._gil is not None and at_edge:
            self._gil.look()  # the last sample is from before the slice: of an idle service
        gil = None if self._gil is None else self._gil.waited_s()
        children.advance(at_s)
        tuner_cpu_s, backend_cpu_s = self._tuner.cpu_s_total(), self._look_at_backends(service)
        known_cpu_s = service.cpu_s_total + tuner_cpu_s + backend_cpu_s
        # then count only the known processes for the host: figures of a part of the CPUs would be wrong
        is_blind = self._container is not None and bool(self._container.strangers_hidden)
        # None: no worker was ever readable, because there is none or /proc hides it
        usage = Usage(
            at_s=at_s,
            wall_s=wall_s,
            service_cpu_s_total=service.cpu_s_total,
            tuner_cpu_s_total=tuner_cpu_s,
            backend_cpu_s_total=backend_cpu_s,
            box_cpu_s_total=known_cpu_s if is_blind else self._box_cpu_s,
            steal_s_total=0.0 if is_blind else box.steal_s,
            n_context_switches_total=box.n_context_switches,
            n_processes=len(service.workers),
            n_threads=service.n_threads,
            n_threads_most=service.n_threads_most,
            cpu_pressure_s_total=self._pressure_s("cpu"),
            memory_pressure_s_total=self._pressure_s("memory"),
            io_pressure_s_total=self._pressure_s("io"),
            worker_cpu_s_total=service.worker_cpu_s_total if is_seen else None,
            child_cpu_s_total=service.child_cpu_s_total if is_seen else None,
            run_delay_s_total=None if items is None else items.run_delay_s_total,
            running_s_total=workers.running_s if is_seen else None,
            blocked_s_total=workers.blocked_s if is_seen else None,
            child_running_s_total=children.running_s if is_seen else None,
            child_blocked_s_total=children.blocked_s if is_seen else None,
            spawning_s_total=workers.spawning_s if is_seen else None,
            gil_waiting_s_total=None if gil is None else gil[0],
            gil_waking_s_total=None if gil is None else gil[1],
            item_cpu_s_total=None if items is None or not is_seen else self._item_cpu_s,
            master_cpu_s_total=service.master_cpu_s_total if is_seen else None,
            beside_delay_s_total=None if items is None or not is_seen else items.beside_delay_s_total,
            fixed_work_cpu_s_total=self._speed.total(at_s),
            interrupt_s_total=0.0 if is_blind else self._interrupt_s(box),
            computing=computing,
            elsewhere_cpu_s_total=elsewhere_cpu_s,
            pss_bytes=self._pss_bytes() if closing or (at_s >= self._next_pss_s and not at_edge) else None,
        )
        if not (closing or at_edge):  # last, because it takes some milliseconds
            self._speed.look_if_due()
        return usage

    def _look_at_box(self, at_s: float) -> BoxTimes:
        """Read the host's times, and add the time that processes used to the used CPU."""
        box = read_box_times(self._proc, None if self._container is None else self._container.cpus)
        if self._before is not None:
            before_s, before = self._before
            self._box_cpu_s += max(0.0, box.used_since(before, at_s - before_s))
        self._before = at_s, box
        return box

    def _look_elsewhere(self, at_s: float) -> float | None:
        """Return the CPU time used so far on the CPUs on which tuner may not run; None: there are none."""
        if not self._elsewhere:
            return None
        found = read_box_times(self._proc, self._elsewhere)
        if self._before_elsewhere is not None:
            before_s, before = self._before_elsewhere
            self._elsewhere_cpu_s += max(0.0, found.used_since(before, at_s - before_s))
        self._before_elsewhere = at_s, found
        return self._elsewhere_cpu_s

    def _interrupt_s(self, box: BoxTimes) -> float:
        """Return the time of interrupts since boot, without that on the CPUs on which tuner may not run."""
        if self._before_elsewhere is None:
            return box.interrupts_s
        _, elsewhere = self._before_elsewhere
        return box.interrupts_s - elsewhere.interrupts_s

    def _look_at_backends(self, service: ServiceUse) -> float:
        total_s = self._backends.cpu_s_total(service.members)
        for name in self._backends.missing():
            self._warn(*no_backend(name))
        return total_s

    def _pss_bytes(self) -> int | None:
        """Read the PSS in bytes, last, so that at the end of a window its cost falls outside.

        Within a window it is read at random moments, so that it does not coincide with a rhythm of the
        service (a child for each item, a replaced worker).
        """
        began_s = time.thread_time()
        seen = self._pss.read(self._service.members)
        cost_s = time.thread_time() - began_s
        mean_s = max(min(cost_s / PSS_SHARE_RATIO, PSS_EVERY_S), cost_s / MOST_PSS_SHARE_RATIO)
        self._next_pss_s = self._clock.monotonic_s() + self._random.uniform(0.5, 1.5) * mean_s
        if seen is None:
            self._warn(*no_memory_figures())
            return None
        self._n_read += seen.n_read
        self._n_missed += seen.n_missed
        n_all = self._n_read + self._n_missed
        if n_all >= MISSED_AMONG and self._n_missed > MISSED_RATIO * n_all:
            self._warn(*memory_missed(self._n_missed / n_all))
        return seen.pss_bytes
