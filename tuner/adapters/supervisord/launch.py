"""A running launch under supervisord: its processes, state and logs."""

from __future__ import annotations

import os
import re
import select
import shutil
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.adapters.proc.cgroup import n_oom_kills
from tuner.adapters.proc.computing_threads import pools_of
from tuner.adapters.proc.process_tree import ProcessTable
from tuner.adapters.processes.log_tail import KEPT_BYTES, beginning_of, last_lines, truncate_log
from tuner.adapters.supervisord import config as config
from tuner.adapters.supervisord.config import SupervisordRpc
from tuner.adapters.supervisord.guardian import Guardian
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.domain.window import VoidReason
from tuner.core.errors import ConfigError
from tuner.core.messages import invalid
from tuner.core.messages.launch import log_long
from tuner.core.text.command_words import is_runner, is_shell
from tuner.core.text.figures import pluralize

if TYPE_CHECKING:
    from tuner.adapters.supervisord.freezing import Freezing

# The workers of one launch, watched independently of supervisord: by pidfd for their end, /proc for threads.

_PROC_TASK_LINKS = 2  #: links of /proc/PID/task that are not threads


def n_threads_of(pid: int) -> int | None:
    """Return the number of threads of *pid*; None if it has just ended, or is hidden (hidepid)."""
    try:
        return os.stat(f"/proc/{pid}/task").st_nlink - _PROC_TASK_LINKS
    except (FileNotFoundError, PermissionError):
        return None


class WorkerWatch:
    """Processes by number in the layout, each by a pidfd, because a later process may get the same pid."""

    def __init__(self) -> None:
        self._pids: dict[int, int] = {}  # process number -> pid
        self._descriptors: dict[int, int] = {}  # pidfd -> process number
        self._poll = select.poll()

    def add(self, process: int, pid: int) -> bool:
        """Watch *pid*; return False if it has already ended."""
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        self._pids[process] = pid
        self._descriptors[descriptor] = process
        self._poll.register(descriptor, select.POLLIN)
        return True

    def __len__(self) -> int:
        return len(self._pids)

    def pid_of(self, process: int) -> int:
        """Return the present or last pid of process number *process*."""
        return self._pids[process]

    def alive(self) -> dict[int, int]:
        """Return process number -> pid of living processes; call ``newly_dead`` before."""
        return {process: self._pids[process] for process in self._descriptors.values()}

    def newly_dead(self, wait_s: float = 0.0) -> list[int]:
        """Return the numbers of processes that died since the last call; wait up to *wait_s* for one."""
        dead = []
        for descriptor, _ in self._poll.poll(wait_s * 1000):
            self._poll.unregister(descriptor)
            os.close(descriptor)
            dead.append(self._descriptors.pop(descriptor))
        return sorted(dead)

    def close(self) -> None:
        """Close the pidfds; `alive` is empty from now on."""
        for descriptor in self._descriptors:
            self._poll.unregister(descriptor)
            os.close(descriptor)
        self._descriptors.clear()


_ENDED = re.compile(rf"(?:exited|stopped): {config.GROUP}_(\d+) \((.*?)(?:; (?:not )?expected)?\)$", re.M)
_KILLED = re.compile(rf"killing '{config.GROUP}_(\d+)' \(\d+\) with SIGKILL")
#: warning (RuntimeWarning) from Python's import.c
_GIL_IS_BACK = re.compile(r"\(GIL\) has been enabled to load module '([\w.]+)'")
_CLOSED = -1
_LOG_BYTES = 1 << 20
_REAP_PATIENCE_S = 1.0  #: supervisord checks its children at least once a second


def last_log_lines(spec: ServiceSpec, log: Path) -> list[str]:
    """Return the last lines of a *log* of the service, without its secrets."""
    return last_lines(log, environment=spec.environment, command=spec.command)


class SupervisedLaunch:
    """A running layout; implements ``tuner.ports.Launch``."""

    def __init__(
        self,
        layout: Layout,
        spec: ServiceSpec,
        folder: Path,
        logs: Path,
        guardian: Guardian,
        pid: int,
        warn: Callable[[str, str], None],
        known: Callable[[Sequence[str]], str] = lambda _command: "",
        variants: Sequence[ServiceSpec] = (),
    ) -> None:
        """Set up the launch.

        *known* returns the name of the known service of a command, or "". *variants*: services of the study.
        """
        self._variants = variants
        self.layout = layout
        self.n_programs = spec.n_programs(layout)
        self.rpc = SupervisordRpc(folder / config.SOCKET)
        self.watch = WorkerWatch()
        self.running_after_s = 0.0
        self._spec = spec
        self._is_run = is_runner(spec.command)
        #: whether the command, or a script that it starts, may be a runner that starts the service
        self._may_be_run = self._is_run or spec.is_known
        self._n_missing = 0  #: worker processes missing in the last check
        self._n_surplus = 0  #: worker processes beyond the layout's in the last check
        self._folder = folder
        self._logs = logs
        self._guardian = guardian
        self._supervisord_pid = pid
        self._supervisord = _open_pidfd(pid)
        self._freezing: Freezing | None = None  #: None: never frozen yet
        self._problems: dict[object, VoidReason] = {}
        self._have_pools: set[int] = set()  #: pids of workers with a library that starts threads
        self._warn = warn
        self._known = known
        self._long_logs: set[Path] = set()  #: logs whose truncation was reported
        self._n_oom_kills = n_oom_kills()

    @property
    def shape(self) -> Layout:
        """The expected number of worker processes, and of threads in each that work on items."""
        return self._spec.shape(self.layout)

    def worker_pids(self) -> frozenset[int]:
        """Return the living worker processes: the programs, the programs that they run, or their children."""
        self._note_deaths()
        return frozenset(self._workers())

    def overhead_pids(self) -> frozenset[int]:
        """Return the pids of supervisord and the guardian, if they are alive."""
        alive = {self._guardian.pid: self._guardian.alive(), self._supervisord_pid: self.supervised()}
        return frozenset(pid for pid, is_alive in alive.items() if is_alive)

    def freeze(self) -> None:
        """See ``tuner.ports.Launch``."""
        if self._freezing is None:
            from tuner.adapters.supervisord.freezing import Freezing

            self._freezing = Freezing(self._guardian, self._supervisord_pid)
        self._freezing.freeze()

    def thaw(self) -> None:
        """See ``tuner.ports.Launch``."""
        if self._freezing is not None:
            self._freezing.thaw()

    @property
    def is_frozen(self) -> bool:
        """Whether it is frozen now."""
        return self._freezing is not None and self._freezing.is_frozen

    def problems(self, *, threads: bool = True) -> Sequence[VoidReason]:
        """Return all problems so far; *threads* False leaves out processes and threads that start late."""
        self.bound_logs()
        if who := self.launcher_ended():
            self._note("launcher", invalid.launcher_died(who))
        self._note_deaths()
        if threads and (self._is_run or self._spec.are_workers_children(self.layout)):
            self._note_wrong_number()
        extra = self._spec.max_extra_threads
        if threads and (extra is not None or self._spec.workers == "threads"):
            least = self._spec.shape(self.layout).threads
            self._note_threads(least, inf if extra is None else least + extra)
        return tuple(self._problems.values())

    def gil_module(self) -> str | None:
        """Return the module that switched the GIL on, from Python's warning in the logs, or None."""
        found = (_GIL_IS_BACK.search(reported) for log in self.log_files for reported in [beginning_of(log)])
        return next((match[1] for match in found if match), None)

    def clue(self) -> str:
        """See ``tuner.ports.Launch``."""
        from tuner.adapters.supervisord.service_clue import clue_of

        if self._spec.is_known:  # tuner already counts and feeds it
            return ""
        table = ProcessTable(Path("/proc"))
        pids = [*table.trees(self.watch.alive().values()).members]
        return clue_of([table.command_line(pid) for pid in pids], pids, self._known)

    @property
    def log_files(self) -> Sequence[Path]:
        """The log files of the programs; some may not exist yet."""
        return config.program_logs(self._logs, self.n_programs)

    def bound_logs(self) -> None:
        """Truncate long logs, so that they do not fill the disk; call it about once per second."""
        for process, log in enumerate(self.log_files):
            if truncate_log(log) and log not in self._long_logs:
                self._long_logs.add(log)
                self._warn(*log_long(process + 1, self.n_programs, self.layout, 2 * KEPT_BYTES, KEPT_BYTES))

    def supervised(self, wait_s: float = 0.0) -> bool:
        """Return whether supervisord is alive, after waiting up to *wait_s* seconds for its end."""
        if self._supervisord == _CLOSED:
            return False  # closed, or it ended before its pidfd was opened
        poll = select.poll()
        poll.register(self._supervisord, select.POLLIN)
        return not poll.poll(wait_s * 1000)

    def launcher_ended(self) -> str:
        """Return which of guardian and supervisord has ended, or "". supervisord ends with its guardian."""
        if not self._guardian.alive():
            return "the guardian process"
        return "" if self.supervised() else "supervisord"

    def end_of(self, process: int) -> str:
        """Return how a process ended ("exit status 3", "terminated by SIGKILL"), and the end of its log."""
        how = self._describe_end(process) + self._short_of_memory()
        log = self.log_files[process]
        log_of_shim = self._folder / log.name  # output before the worker opened its log
        said = last_log_lines(self._spec, log) or last_log_lines(self._spec, log_of_shim)
        if not said:
            return f"{how}; it logged nothing"
        return f"{how}; its log ends: {' | '.join(said)}"

    def usage_error(self, process: int, how: str) -> ConfigError | None:
        """Return the error for a program that does not know an option; *how* it ended, see `end_of`."""
        from tuner.adapters.supervisord.usage_error import usage_error

        log = self.log_files[process]
        return usage_error(self._spec, self._variants, how, [self._folder / log.name, log], self._known)

    def ended_processes(self) -> dict[int, str]:
        """Return process number -> how it ended, for processes that supervisord has reaped."""
        return {int(process): how for process, how in _ENDED.findall(self._supervisord_log())}

    def n_killed(self) -> int:
        """Return the number of processes that supervisord had to stop by SIGKILL."""
        return len(set(_KILLED.findall(self._supervisord_log())))

    def words_of_supervisord(self) -> str:
        """Return the last lines of supervisord on stderr or in its log; one line if it began no log."""
        lines = last_lines(self._folder / config.OUTPUT) or last_lines(self._folder / config.LOG)
        return " | ".join(lines) or self._guardian.last_words()

    def raise_if_full(self) -> None:
        """Raise ConfigError if the disk is full, because then programs fail without a message."""
        for folder in (self._folder, self._logs):
            room = os.statvfs(folder)
            if not room.f_bavail or (room.f_files and not room.f_favail):
                raise ConfigError(
                    f"a launch could not be started: No space left on device in {folder}",
                    hint="Make room there, or set TMPDIR to another folder.",
                )

    def keep_log(self) -> None:
        """Copy supervisord's log to the folder of the workers' logs, if there is one."""
        with suppress(FileNotFoundError):
            shutil.copyfile(self._folder / config.LOG, self._logs / config.LOG)

    def close(self) -> None:
        """Close every descriptor; from now on all processes count as dead."""
        self.watch.close()
        if self._supervisord != _CLOSED:
            os.close(self._supervisord)
            self._supervisord = _CLOSED

    def _note(self, key: object, reason: VoidReason) -> None:
        self._problems.setdefault(key, reason)

    def _note_deaths(self) -> None:
        for process in self.watch.newly_dead():
            self._note(("died", process), invalid.worker_died(self._name(process), self.end_of(process)))

    def _workers(self) -> dict[int, str]:
        """Return pid -> name of each worker."""
        programs = {pid: self._name(process) for process, pid in self.watch.alive().items()}
        are_children = self._spec.are_workers_children(self.layout)
        if not (self._may_be_run or are_children):
            return programs
        table = ProcessTable(Path("/proc"))  # a new one, because a table may cache children
        if self._may_be_run:
            programs = {own: name for pid, name in programs.items() for own in self._run_by(table, pid)}
        if not are_children:
            return programs
        return {child: f"worker process {child}" for pid in programs for child in table.children(pid)}

    def _run_by(self, table: ProcessTable, pid: int) -> list[int]:
        """Return the processes that a runner (``uv run``) *pid* has started, or *pid* if it is not a runner.

        A shell counts as a runner only for a known service; otherwise it may be the worker itself.
        """
        line = table.command_line(pid)
        if not is_runner(line) and not (self._spec.is_known and is_shell(line)):
            return [pid]
        return [own for child in table.children(pid) for own in self._run_by(table, child)]

    def _note_wrong_number(self) -> None:
        """Note missing or additional worker processes, if seen twice: once may be a replacement."""
        before, pids = (self._n_missing, self._n_surplus), self._workers()
        n_wanted = self._spec.shape(self.layout).processes
        self._n_missing = max(0, n_wanted - len(pids))
        if self._n_missing and before[0]:
            self._note("workers", invalid.processes_missing(len(pids), n_wanted, self._spec.name))
        n_reported = self._n_reported(pids) if len(pids) > n_wanted else 0
        self._n_surplus = max(0, n_reported - n_wanted)
        if self._n_surplus and before[1]:
            self._note("surplus", invalid.processes_extra(self.layout, n_reported, n_wanted))

    def _n_reported(self, pids: Collection[int]) -> int:
        """Return how many of *pids* are workers according to the log; others are helpers."""
        if not self._spec.worker_pid:
            return 0
        said = (re.findall(self._spec.worker_pid, beginning_of(log)) for log in self.log_files)
        return len({int(pid) for found in said for pid in found} & {*pids})

    def _note_threads(self, least: int, most: float) -> None:
        """Note wrong numbers of threads; an excess is allowed if a library starts threads."""
        for pid, name in self._workers().items():
            n_threads = n_threads_of(pid)
            if n_threads is None or (n_threads > most and self._has_thread_pools(pid)):
                continue
            if not least <= n_threads <= most:
                self._note(("threads", pid), invalid.wrong_threads(name, n_threads, least, most))

    def _has_thread_pools(self, pid: int) -> bool:
        if pid not in self._have_pools and pools_of(pid).causes:
            self._have_pools.add(pid)
        return pid in self._have_pools

    def _name(self, process: int) -> str:
        return f"process {process + 1} of {self.n_programs} (pid {self.watch.pid_of(process)})"

    def _describe_end(self, process: int) -> str:
        deadline = time.monotonic() + _REAP_PATIENCE_S
        while process not in (ended := self.ended_processes()):
            if who := self.launcher_ended():
                return f"with {who}, which ended before it"
            if time.monotonic() > deadline:
                return f"in an unknown way; supervisord printed: {self.words_of_supervisord()}"
            with suppress(OSError):
                self.rpc.states()  # wakes up supervisord: SIGCHLD alone does not interrupt its poll()
            time.sleep(0.01)
        return ended[process]

    def _short_of_memory(self) -> str:
        """Return a note if the kernel killed processes for lack of memory; it does not report which ones."""
        before, now = self._n_oom_kills, n_oom_kills()
        if before is None or now is None or now <= before:
            return ""
        return f" (out of memory: the kernel killed {pluralize(now - before, 'process')} meanwhile)"

    def _supervisord_log(self) -> str:
        with suppress(OSError), (self._folder / config.LOG).open("rb") as file:
            return file.read(_LOG_BYTES).decode("utf-8", "replace")
        return ""


def _open_pidfd(pid: int) -> int:
    """Return a pidfd of *pid*; _CLOSED if it has ended and the guardian has already reaped it."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return _CLOSED
