"""The start of a launch: jobs of the worker processes, and waiting until every worker runs."""

from __future__ import annotations

import difflib
import json
import os
import pwd
import resource
import select
import shutil
import signal
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.adapters.proc.cgroup import kernel_lines
from tuner.adapters.supervisord.config import GROUP, INTERNAL, Job, User, program_logs
from tuner.adapters.supervisord.launch import SupervisedLaunch
from tuner.adapters.supervisord.sweep import KEEPS_MARKS, RUN_ID
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.errors import ConfigError, MeasurementError, TunerError
from tuner.ports import ReadyCheck

# Check that a running launch is ready to work: a RUNNING program may still be importing.

_LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Readiness:
    """The ready check of a launch, and its time limit."""

    check: ReadyCheck
    within_s: float  #: time limit after which the launch has failed
    key: str = "ready"  #: config key of the condition


def await_ready(
    check: ReadyCheck, logs: Sequence[Path], patience_s: float, raise_if_dead: Callable[[], None]
) -> str:
    """Wait until *check* succeeds, up to *patience_s* seconds; return its failure, or "" on success.

    Raises:
        TunerError: raised by *raise_if_dead* while waiting.
    """
    deadline = time.monotonic() + patience_s
    while lacking := check.lacks(logs):
        raise_if_dead()
        if time.monotonic() > deadline:
            return lacking
        time.sleep(_LOOK_EVERY_S)
    return ""


_PATIENCE_S = 60.0  #: time limit for each step of a start, on a host that is busy otherwise
#: additional time; 200 programs took 14 s in all on two cores shared with other processes
_PATIENCE_PER_PROGRAM_S = 1.0
_SUSPICIOUS_S = 2.0  #: time of a step after which tuner checks for a full disk
_TICK_S = 0.05
_DEAD = ("EXITED", "FATAL", "BACKOFF", "STOPPED", "UNKNOWN")


def await_running(launch: SupervisedLaunch, status: int, settle_s: float) -> None:
    """Wait until every worker is executed, is RUNNING for supervisord and has lived *settle_s* seconds.

    Args:
        status: Read end of the pipe to which the shims write, and which exec closes.

    Raises:
        MeasurementError: a worker died, or it took too long.
        ConfigError: a worker could not be executed at all or rejects an option, or the disk is full.
    """
    try:
        _await_answer(launch)
        _await_exec(launch, status)
        _await_states(launch)
        raise_if_dead(launch, settle_s)
    except OSError as error:
        launch.raise_if_full()
        raise MeasurementError(
            f"supervisord does not answer while {launch.layout} starts: {error}"
        ) from error


def _await_answer(launch: SupervisedLaunch) -> None:
    """Call supervisord as soon as it listens, because it would sleep a second before it starts programs."""
    begun_s = time.monotonic()
    while True:
        try:
            launch.rpc.states()
            return
        except OSError as error:
            _check_supervised(launch)
            _raise_if_late(launch, begun_s, f"supervisord does not answer: {error}")
            time.sleep(0.005)


def _await_exec(launch: SupervisedLaunch, status: int) -> None:
    """Read the status pipe until every shim has reported its pid and executed the worker."""
    begun_s = time.monotonic()
    poll = select.poll()
    poll.register(status, select.POLLIN)
    heard = b""
    gone: list[int] = []
    while True:
        dead = gone or _dead(
            launch
        )  # before reading the pipe, which then contains the last reports of dead shims
        events = dict(poll.poll(_TICK_S * 1000)).get(status, 0)
        if events & select.POLLIN:
            heard += os.read(status, 1 << 16)
            *lines, heard = heard.split(b"\n")
            gone = _watch_started(launch, [json.loads(line) for line in lines])
        elif events & select.POLLHUP and len(launch.watch) == launch.n_programs:
            return  # exec closed the last writing end
        elif events & select.POLLHUP:
            time.sleep(0.005)  # between two shims
        elif not dead:
            gone = _unseen_dead(launch)  # reported in the next round, after reading their last reports
        if dead:
            raise _start_error(launch, dead[0])
        _check_supervised(launch)
        n_started = f"{len(launch.watch)} of {launch.n_programs}"
        _raise_if_late(launch, begun_s, f"only {n_started} processes of {launch.layout} have started")


def _await_states(launch: SupervisedLaunch) -> None:
    """Wait until supervisord reports the same pids, all RUNNING."""
    begun_s = time.monotonic()
    pids = launch.watch.alive()
    wanted = {f"{GROUP}_{process}": ("RUNNING", pid) for process, pid in pids.items()}
    while (states := launch.rpc.states()) != wanted:
        raise_if_dead(launch)
        _raise_if_late(launch, begun_s, f"supervisord has {launch.layout} not RUNNING but {states}")
        time.sleep(0.005)


def _watch_started(launch: SupervisedLaunch, reported: Sequence[Mapping[str, Any]]) -> list[int]:
    """Watch the processes that shims reported; return the numbers of those that have already ended."""
    for words in reported:
        if "error" in words:
            raise ConfigError(f"a worker of {launch.layout} {words['error']}")
    return [words["process"] for words in reported if not launch.watch.add(words["process"], words["pid"])]


def raise_if_dead(launch: SupervisedLaunch, wait_s: float = 0.0) -> None:
    """Raise MeasurementError if a program or supervisord ends within *wait_s* seconds."""
    if dead := _dead(launch, wait_s):
        raise _start_error(launch, dead[0])
    _check_supervised(launch)


def _dead(launch: SupervisedLaunch, wait_s: float = 0.0) -> list[int]:
    return launch.watch.newly_dead(wait_s) or sorted(launch.ended_processes())


def _check_supervised(launch: SupervisedLaunch) -> None:
    if (who := launch.launcher_ended()) and who != "supervisord":
        raise MeasurementError(f"{who} ended while {launch.layout} started")
    if not launch.supervised():
        launch.raise_if_full()
        words = launch.words_of_supervisord() or "it printed nothing"
        raise MeasurementError(f"supervisord ended at start: {words}")


def _unseen_dead(launch: SupervisedLaunch) -> list[int]:
    """Return the numbers of shims that ended without a report, because the interpreter itself failed."""
    dead = [
        int(name.rpartition("_")[2]) for name, (state, _) in launch.rpc.states().items() if state in _DEAD
    ]
    if dead:
        launch.raise_if_full()
    return sorted(dead)


def _raise_if_late(launch: SupervisedLaunch, begun_s: float, problem: str) -> None:
    waited_s = time.monotonic() - begun_s
    if waited_s > _SUSPICIOUS_S:
        launch.raise_if_full()
    patience_s = _PATIENCE_S + _PATIENCE_PER_PROGRAM_S * launch.n_programs
    if waited_s > patience_s:
        raise MeasurementError(f"{problem}, after {patience_s:g} s")


def _start_error(launch: SupervisedLaunch, process: int) -> TunerError:
    how = launch.end_of(process)
    if (refused := launch.usage_error(process, how)) is not None:
        return refused
    if who := launch.launcher_ended():
        return MeasurementError(f"{who} ended while {launch.layout} started")
    hint = None
    if how.startswith("exit status 0"):
        hint = "It must stay in the foreground: look for an option like --nodaemon."
    who = f"process {process + 1} of {launch.n_programs} of {launch.layout}"
    return MeasurementError(f"{who} died at start: {how}", hint=hint)


# Jobs of the worker processes from a service's settings, with all possible checks in advance.


_LIMITS = {
    name.removeprefix("RLIMIT_").lower(): getattr(resource, name)
    for name in dir(resource)
    if name.startswith("RLIMIT_")
}


@dataclass(frozen=True, slots=True)
class WorkerJobs:
    """Factory of the jobs of one service's workers."""

    spec: ServiceSpec
    cores: int  #: value of ``{cores}``
    cpus: frozenset[int] | None  #: CPUs that workers may use; None: the CPUs of tuner
    marker: str  #: value of TUNER_RUN_ID

    def check(self) -> None:
        """Check before the first launch for problems that would make every launch fail.

        Raises:
            ConfigError: the command is missing or not executable, or its user, folder, limits, stop signal or
                cores are not available.
        """
        self.stop_signal()
        self._limits()
        self._check_cpus()
        user = self._user()
        directory = self._directory()
        if not directory.is_dir():
            raise ConfigError(f"the folder {directory} that {self.spec.name} should run in is not there")
        program = self._program(self._command(Layout(1, 1), 0, {}), self._environment(Layout(1, 1), 0, {}))
        if not _may_run(program, user):
            who = f"user {self.spec.user}" if self.spec.user else "this user"
            raise ConfigError(
                f"the command of {self.spec.name}, {program}, is not executable for {who}",
                hint=f"Try `chmod +x {program}`.",
            )

    def jobs(self, layout: Layout, added: Mapping[str, str], *, logs: Path, status: Path) -> list[Job]:
        """Return one job per program of *layout*, with *added* in their environments."""
        outputs = program_logs(logs, self.spec.n_programs(layout))
        return [self._job(layout, n, added, output, status) for n, output in enumerate(outputs)]

    def stop_signal(self) -> signal.Signals:
        """Return the signal that stops a worker. Raise ConfigError if its name is invalid."""
        try:
            return signal.Signals[f"SIG{self.spec.stop_signal}"]
        except KeyError:
            raise ConfigError(
                f"stop signal {self.spec.stop_signal!r} of {self.spec.name} is not a signal",
                hint="Use TERM, INT, QUIT, HUP, USR1 or USR2.",
            ) from None

    def _job(self, layout: Layout, process: int, added: Mapping[str, str], output: Path, status: Path) -> Job:
        command = self._command(layout, process, added)
        environment = self._environment(layout, process, added)
        return Job(
            process=process,
            program=str(self._program(command, environment)),
            argv=command,
            directory=str(self._directory()),
            output=str(output),
            environment=environment,
            without=INTERNAL,
            status=str(status),
            death_signal=self.stop_signal(),
            umask=_umask(),
            limits=self._limits(),
            cpus=tuple(sorted(self.cpus)) if self.cpus is not None else None,
            user=self._user(),
        )

    def _command(self, layout: Layout, process: int, added: Mapping[str, str]) -> tuple[str, ...]:
        try:
            command = self.spec.command_line(layout, process, self.cores, added)
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            raise self._bad_field("command", error) from error
        if not command or not command[0]:
            raise ConfigError(f"{self.spec.name} has an empty command")
        return command

    def _environment(self, layout: Layout, process: int, added: Mapping[str, str]) -> dict[str, str]:
        try:
            own = self.spec.environment_of(layout, process, self.cores, added)
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            raise self._bad_field("environment", error) from error
        return {**self._home(), **own, **added, **KEEPS_MARKS, RUN_ID: self.marker}

    def _bad_field(self, where: str, error: Exception) -> ConfigError:
        known = ("processes", "threads", "process", "variant", "cores", *self.spec.probe_fields)
        fields = " ".join(f"{{{name}}}" for name in known)
        return ConfigError(
            f"the {where} of {self.spec.name} cannot be filled in: {type(error).__name__}: {error}",
            hint=f"Fields are {fields}; write {{{{ and }}}} for braces.",
        )

    def _home(self) -> dict[str, str]:
        """Return the variables that a login would set, which programs of another user need."""
        if self.spec.user is None:
            return {}
        entry = self._passwd()
        return {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name}

    def _passwd(self) -> pwd.struct_passwd:
        assert self.spec.user is not None
        try:
            return pwd.getpwnam(self.spec.user)
        except KeyError:
            raise ConfigError(f"there is no user {self.spec.user!r} to run {self.spec.name} as") from None

    def _user(self) -> User | None:
        if self.spec.user is None:
            return None
        entry = self._passwd()
        if os.geteuid() == entry.pw_uid:
            return None
        if os.geteuid() != 0:
            raise ConfigError(
                f"only root can run {self.spec.name} as user {entry.pw_name}",
                hint="Start tuner as root or as that user.",
            )
        groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
        return User(entry.pw_uid, entry.pw_gid, groups)

    def _directory(self) -> Path:
        return Path(os.path.abspath(self.spec.directory or os.getcwd()))

    def _program(self, command: tuple[str, ...], environment: Mapping[str, str]) -> Path:
        name = command[0]
        if "/" in name:
            program = self._directory() / name
            if not program.exists():
                raise ConfigError(f"the command of {self.spec.name}, {program}, is not there")
        else:
            path = {**os.environ, **environment}.get("PATH", os.defpath)
            # F_OK: a file that is not executable gets another error than a missing one
            found = shutil.which(name, path=path) or shutil.which(name, mode=os.F_OK, path=path)
            if found is None:
                raise ConfigError(
                    f"the command of {self.spec.name}, {name}, is not on the PATH",
                    hint="Name it by its whole path, or activate its environment.",
                )
            program = Path(os.path.abspath(found))
        if program.is_dir():
            raise ConfigError(f"the command of {self.spec.name}, {program}, is a folder")
        return program

    def _limits(self) -> tuple[tuple[int, int, int], ...]:
        # nofile of tuner, because supervisord may have raised its own
        limits = {resource.RLIMIT_NOFILE: resource.getrlimit(resource.RLIMIT_NOFILE)}
        for name, value in self.spec.limits.items():
            if name not in _LIMITS:
                near = difflib.get_close_matches(name, _LIMITS, 1)
                hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(sorted(_LIMITS))}."
                raise ConfigError(f"limit {name!r} of {self.spec.name} is not a resource limit", hint=hint)
            hard = resource.getrlimit(_LIMITS[name])[1]
            if os.geteuid() != 0 and hard != resource.RLIM_INFINITY and not 0 <= value <= hard:
                raise ConfigError(
                    f"limit {name} = {value} of {self.spec.name} is above the hard limit of this user, {hard}"
                )
            limits[_LIMITS[name]] = (value, value)
        return tuple((which, soft, hard) for which, (soft, hard) in limits.items())

    def _check_cpus(self) -> None:
        if self.cpus is None:
            return
        missing = sorted(self.cpus - os.sched_getaffinity(0))
        if missing or not self.cpus:
            problem = f"this process may not use {missing}" if missing else "the list is empty"
            raise ConfigError(
                f"cannot pin the workers to cores {sorted(self.cpus)}: {problem}",
                hint=f"Choose among the cores {sorted(os.sched_getaffinity(0))}.",
            )


def _may_run(program: Path, user: User | None) -> bool:
    if user is None:
        return os.access(program, os.X_OK)
    status = program.stat()
    if user.uid == 0:
        return bool(status.st_mode & 0o111)
    if user.uid == status.st_uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid in (user.gid, *user.groups):
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def _umask() -> int:
    """Return tuner's umask, read without changing it."""
    for line in kernel_lines(Path("/proc/self/status")):
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o022
