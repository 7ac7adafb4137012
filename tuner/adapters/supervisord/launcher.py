"""Launching a layout under its own supervisord, which the guardian starts and outlives."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from tuner.adapters.supervisord import config as config
from tuner.adapters.supervisord.guardian import Guardian, new_run_folder
from tuner.adapters.supervisord.launch import SupervisedLaunch, last_log_lines
from tuner.adapters.supervisord.startup import (
    Readiness,
    WorkerJobs,
    await_ready,
    await_running,
    raise_if_dead,
)
from tuner.adapters.supervisord.sweep import Swept
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.messages.host import leftover_processes, no_launch_cgroup
from tuner.core.messages.launch import stopped_by_kill
from tuner.ports import Clock

SETTLE_S = 0.5  #: a worker counts as RUNNING after it has been executed and has run for this time
_STOP_SLACK_S = 5.0  #: time beyond stop_wait_s, at which supervisord itself sends SIGKILL
_TICK_S = 0.05
#: Time between a thaw and a signal to a process. Right after a thaw, the kernel often delivers the signal to
#: a thread other than the first one; Python's first thread then sleeps on and never handles it.
_AWAKE_S = 0.1


class SupervisordLauncher:
    """Launcher of a service's layouts, one at a time, which cleans up completely. Use it with ``with``.

    Args:
        spec: The service.
        cores: Value of ``{cores}`` in its command.
        cpus: Cores to which the workers are restricted; None: all that tuner may use.
        run_root: Parent of the launches' folders; None: TMPDIR, or a folder with shorter paths.
        clock: Measures the duration of starts.
        marker: Value of TUNER_RUN_ID, unique among the tuners on this host; all processes with it are ended
            before and after each launch. See also ``guardian.children_marked``.
        keep_logs: Parent of the folders, one per launch, that keep the logs of workers and supervisord; None:
            logs are removed after the launch.
        warn: Receives a slug and a text: ``stopped-by-kill``, ``leftover-processes``, ``no-launch-cgroup``,
            ``log-long``.
        scratch: Folders of the study that the guardian removes if tuner is killed (a spool).
        held: Descriptors that the guardian keeps open until it has cleaned up (the host lock).
        cgroups: Parent of a separate cgroup for each launch; None: no cgroups.
        freezers: Parent of a cgroup of version 1 for a frozen launch without its own cgroup; None: none.
        settle_s: Seconds that a worker must live to count as RUNNING.
        ready: Returns the ready check of a layout; None: a running launch is ready at once.
        while_starting: Called repeatedly until the launch is ready; its exceptions end the launch.
    """

    def __init__(
        self,
        spec: ServiceSpec,
        *,
        cores: int,
        cpus: frozenset[int] | None,
        run_root: Path | None,
        clock: Clock,
        marker: str,
        keep_logs: Path | None,
        warn: Callable[[str, str], None],
        held: Sequence[int] = (),
        scratch: Sequence[Path] = (),
        cgroups: Path | None = None,
        freezers: Path | None = None,
        settle_s: float = SETTLE_S,
        ready: Callable[[Layout], Readiness | None] = lambda _layout: None,
        while_starting: Callable[[], None] = lambda: None,
        known: Callable[[Sequence[str]], str] = lambda _command: "",
    ) -> None:
        self._spec = spec
        self._cores, self._cpus = cores, cpus
        self._run_root = run_root
        self._clock = clock
        self._marker = marker
        self._keep_logs = keep_logs
        self._warn = warn
        self._held = tuple(held)
        self._scratch = tuple(scratch)
        self._cgroups, self._freezers = cgroups, freezers
        self._cgroup_facts = False
        self._settle_s = settle_s
        self._ready = ready
        self._while_starting = while_starting
        self._known = known
        self._guardian: Guardian | None = None
        self._n_launches = 0
        self._log_files: Sequence[Path] = ()

    def __enter__(self) -> Self:
        self._living_guardian()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the guardian; the descriptors that it held are closed when this returns."""
        if self._guardian is not None:
            self._guardian.close()
            self._guardian = None

    @property
    def guardian_pid(self) -> int | None:
        """Pid of the guardian process; None before the first launch."""
        return None if self._guardian is None else self._guardian.pid

    def log_files(self) -> Sequence[Path]:
        """Return the log files of the current launch; empty if there is none."""
        return self._log_files

    def check(self) -> None:
        """Check for problems that would make every launch fail.

        Raises:
            ConfigError: see ``WorkerJobs.check``; or there is no folder for a launch's files.
        """
        for spec in self._spec.each_variant:
            self._jobs(spec).check()
        new_run_folder(self._run_root, config.SOCKET)

    @contextmanager
    def running(self, layout: Layout, environment: Mapping[str, str]) -> Iterator[SupervisedLaunch]:
        """See ``tuner.ports.Launcher``."""
        started_s = self._clock.monotonic_s()
        spec = self._spec.of(layout)
        guardian = self._living_guardian()
        folder = new_run_folder(self._run_root, config.SOCKET)
        self._warn_leftovers(guardian.expect(folder, self._jobs(spec).stop_signal()), "before")
        launch = None
        try:
            logs, status = self._prepare(spec, folder, layout, environment)
            try:
                pid = guardian.start(folder / config.OWN_JOB)
                if guardian.hindered is not None and not self._cgroup_facts:
                    self._cgroup_facts = True
                    self._warn(*no_launch_cgroup(layout, guardian.hindered))
                launch = SupervisedLaunch(
                    *(layout, spec, folder, logs, guardian, pid, self._warn, self._known),
                    variants=self._spec.each_variant,
                )
                self._log_files = launch.log_files
                await_running(launch, status, self._settle_s)
            finally:
                os.close(status)
            if (ready := self._ready(layout)) is not None:
                self._await_ready(launch, ready)
            launch.running_after_s = self._clock.monotonic_s() - started_s
            yield launch
        finally:
            self._log_files = ()
            self._finish(launch, spec, guardian)

    def _await_ready(self, launch: SupervisedLaunch, ready: Readiness) -> None:
        def meanwhile() -> None:
            raise_if_dead(launch)
            launch.bound_logs()
            self._while_starting()

        lacking = await_ready(ready.check, launch.log_files, ready.within_s, meanwhile)
        if lacking:
            said = " | ".join(last_log_lines(self._spec.of(launch.layout), launch.log_files[0])) or "nothing"
            raise MeasurementError(
                f"{launch.layout} is not ready after {ready.within_s:g} s (config key ready.within):"
                f" {lacking} ({ready.key}); its log ends: {said}"
            )

    def _living_guardian(self) -> Guardian:
        if self._guardian is not None and not self._guardian.alive():
            self.close()
        if self._guardian is None:
            try:
                self._guardian = self._new_guardian()
            except MeasurementError:  # it was killed at once: start another one, to continue the study
                self._guardian = self._new_guardian()
        return self._guardian

    def _new_guardian(self) -> Guardian:
        return Guardian(self._marker, self._held, self._scratch, self._cgroups, self._freezers)

    def _jobs(self, spec: ServiceSpec) -> WorkerJobs:
        return WorkerJobs(spec, self._cores, self._cpus, self._marker)

    def _prepare(
        self, spec: ServiceSpec, folder: Path, layout: Layout, environment: Mapping[str, str]
    ) -> tuple[Path, int]:
        """Write the files of a launch; return the folder of its logs and the read end of its status pipe."""
        n_programs = spec.n_programs(layout)
        minfds = config.open_files_needed(n_programs)
        self._n_launches += 1
        logs = folder
        if self._keep_logs is not None:
            logs = self._keep_logs.absolute() / f"{self._n_launches:04d}-{layout}"
        pipe = folder / config.STATUS
        jobs = self._jobs(spec).jobs(layout, environment, logs=logs, status=pipe)
        try:
            folder.mkdir(0o700)
            logs.mkdir(parents=True, exist_ok=True)
            text = config.render_config(spec, n_programs, minfds=minfds, as_root=os.geteuid() == 0)
            (folder / config.CONFIG).write_text(text, encoding="utf-8")
            config.supervisord_job(folder, self._marker).write(folder / config.OWN_JOB)
            for job in jobs:
                job.write(folder / f"{job.process}.json")
            os.mkfifo(pipe, 0o600)
            return logs, os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise ConfigError(
                f"cannot write the files of a launch to {error.filename or folder}: {error.strerror}",
                hint="Make room there, or set TMPDIR to another folder.",
            ) from error

    def _finish(self, launch: SupervisedLaunch | None, spec: ServiceSpec, guardian: Guardian) -> None:
        try:
            if launch is not None:
                self._stop(launch, spec)
                if self._keep_logs is not None:
                    launch.keep_log()
        except BaseException:
            guardian.end(grace_s=0.0)  # a second Ctrl-C: at once
            raise
        else:
            self._warn_leftovers(guardian.end(), "after")
        finally:
            if launch is not None:
                launch.close()

    def _stop(self, launch: SupervisedLaunch, spec: ServiceSpec) -> None:
        """Stop the workers by the service's settings, wait until they are reaped, then end supervisord.

        Processes that cannot be stopped here are left to the guardian's sweep.
        """
        if launch.is_frozen:
            launch.thaw()
            time.sleep(_AWAKE_S)
        with suppress(OSError):
            launch.rpc.stop_group(config.GROUP)
            deadline = time.monotonic() + spec.stop_wait_s + _STOP_SLACK_S
            while launch.watch.alive() and time.monotonic() < deadline and launch.supervised():
                launch.watch.newly_dead(_TICK_S)
            while any(pid for _, pid in launch.rpc.states().values()) and time.monotonic() < deadline:
                time.sleep(0.005)  # each call wakes up supervisord, which then reaps its children
            launch.rpc.shutdown()
            launch.supervised(wait_s=_STOP_SLACK_S)
        if n_killed := launch.n_killed():
            self._warn(
                *stopped_by_kill(
                    launch.layout, n_killed, launch.n_programs, spec.stop_wait_s, spec.stop_signal
                )
            )

    def _warn_leftovers(self, swept: Swept, when: Literal["before", "after"]) -> None:
        if swept.met:
            self._warn(*leftover_processes(when, swept.met, ended=True))
        if swept.left:
            self._warn(*leftover_processes(when, swept.left, ended=False))
