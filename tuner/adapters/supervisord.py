"""Runs layouts under supervisord: one supervisord per launch, started and outlived by the guardian."""

from __future__ import annotations

import json
import os
import select
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tuner.adapters import supervisord_config as config
from tuner.adapters.guardian import Guardian
from tuner.adapters.run_folder import new_run_folder
from tuner.adapters.supervised_launch import SupervisedLaunch
from tuner.adapters.sweep import Swept
from tuner.adapters.worker_jobs import WorkerJobs
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.layout import Layout
from tuner.core.service import ServiceSpec
from tuner.ports import Clock

SETTLE_S = 0.5  #: a worker counts as RUNNING once it has been executed and has lived that long
_START_PATIENCE_S = 60.0  #: for supervisord to have started every process
_STOP_SLACK_S = 5.0  #: beyond stop_wait_s, when supervisord itself sends SIGKILL
_TICK_S = 0.05


class SupervisordLauncher:
    """Starts a service's layouts, one at a time, and leaves nothing behind. Use it in a ``with`` block.

    Args:
        spec: the service.
        cores: what ``{cores}`` stands for in its command.
        cpus: the cores the workers are held to; None: all that tuner may use.
        run_root: where the launches' folders go; None: TMPDIR, or a place with shorter paths.
        clock: measures how long starts take.
        marker: value of TUNER_RUN_ID, unlike any other tuner's on this box; all that carries it is ended
            before and after each launch.
        keep_logs: the workers' and supervisord's logs stay in folders below it, one per launch; None: they go
            with the launch.
        warn: gets a slug and a text: ``stopped-by-kill``, ``leftover-processes``.
        held: descriptors that the guardian keeps open until all is cleaned up (the box lock).
        settle_s: how long a worker must live to count as RUNNING.
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
        settle_s: float = SETTLE_S,
    ) -> None:
        self._spec = spec
        self._jobs = WorkerJobs(spec, cores, cpus, marker)
        self._run_root = run_root
        self._clock = clock
        self._marker = marker
        self._keep_logs = keep_logs
        self._warn = warn
        self._held = tuple(held)
        self._settle_s = settle_s
        self._guardian: Guardian | None = None
        self._n_launches = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the guardian; what it holds is free when this returns."""
        if self._guardian is not None:
            self._guardian.close()
            self._guardian = None

    @property
    def guardian_pid(self) -> int | None:
        """The guardian process; None before the first launch."""
        return None if self._guardian is None else self._guardian.pid

    def check(self) -> None:
        """Find what would make every launch fail.

        Raises:
            ConfigError: see ``WorkerJobs.check``; or no place for a launch's files.
        """
        self._jobs.check()
        new_run_folder(self._run_root, config.SOCKET)

    @contextmanager
    def running(self, layout: Layout, environment: Mapping[str, str]) -> Iterator[SupervisedLaunch]:
        """See ``tuner.ports.Launcher``."""
        started_s = self._clock.monotonic_s()
        guardian = self._living_guardian()
        folder = new_run_folder(self._run_root, config.SOCKET)
        self._tell_leftovers(guardian.expect(folder, self._jobs.stop_signal()), "before")
        launch = None
        try:
            logs, status = self._prepare(folder, layout, environment)
            try:
                pid = guardian.start(folder / config.OWN_JOB)
                launch = SupervisedLaunch(layout, self._spec.max_extra_threads, folder, logs, guardian, pid)
                self._await_running(launch, status)
            finally:
                os.close(status)
            launch.running_after_s = self._clock.monotonic_s() - started_s
            yield launch
        finally:
            self._finish(launch, guardian, folder)

    def _living_guardian(self) -> Guardian:
        if self._guardian is not None and not self._guardian.alive():
            self.close()
        if self._guardian is None:
            self._guardian = Guardian(self._marker, self._held)
        return self._guardian

    def _prepare(self, folder: Path, layout: Layout, environment: Mapping[str, str]) -> tuple[Path, int]:
        """Write the files of a launch; gives the folder of its logs and the read end of its status pipe."""
        minfds = config.open_files_needed(layout.processes)
        self._n_launches += 1
        logs = folder
        if self._keep_logs is not None:
            logs = self._keep_logs.absolute() / f"{self._n_launches:04d}-{layout}"
        pipe = folder / config.STATUS
        jobs = self._jobs.jobs(layout, environment, logs=logs, status=pipe)
        try:
            folder.mkdir(0o700)
            logs.mkdir(parents=True, exist_ok=True)
            text = config.render_config(
                self._spec, layout.processes, minfds=minfds, as_root=os.geteuid() == 0
            )
            (folder / config.CONFIG).write_text(text, encoding="utf-8")
            config.supervisord_job(folder, logs, self._marker).write(folder / config.OWN_JOB)
            for job in jobs:
                job.write(folder / f"{job.process}.json")
            os.mkfifo(pipe, 0o600)
            return logs, os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise ConfigError(
                f"cannot write the files of a launch to {error.filename or folder}: {error.strerror}",
                hint="Make room there, or set TMPDIR to another folder.",
            ) from error

    def _await_running(self, launch: SupervisedLaunch, status: int) -> None:
        self._await_answer(launch)
        self._await_executed(launch, status)
        deadline = time.monotonic() + _START_PATIENCE_S
        pids = launch.watch.alive()
        wanted = {f"{config.GROUP}_{process}": ("RUNNING", pid) for process, pid in pids.items()}
        while (states := launch.rpc.states()) != wanted:
            self._raise_if_dead(launch)
            if time.monotonic() > deadline:
                raise MeasurementError(f"supervisord did not get {launch.layout} to RUNNING: {states}")
            time.sleep(0.005)
        self._raise_if_dead(launch, self._settle_s)

    def _await_answer(self, launch: SupervisedLaunch) -> None:
        """Call supervisord as soon as it listens: else it sleeps a second before it starts anything."""
        deadline = time.monotonic() + _START_PATIENCE_S
        while True:
            try:
                launch.rpc.states()
                return
            except OSError as error:
                self._raise_if_dead(launch)
                if time.monotonic() > deadline:
                    raise MeasurementError(f"supervisord does not answer: {error}") from error
                time.sleep(0.005)

    def _await_executed(self, launch: SupervisedLaunch, status: int) -> None:
        """Read the status pipe until every shim has told its pid and has become the worker."""
        deadline = time.monotonic() + _START_PATIENCE_S
        poll = select.poll()
        poll.register(status, select.POLLIN)
        heard = b""
        while True:
            events = dict(poll.poll(_TICK_S * 1000)).get(status, 0)
            if events & select.POLLIN:
                heard += os.read(status, 1 << 16)
                *lines, heard = heard.split(b"\n")
                self._note_started(launch, lines)
            elif events & select.POLLHUP and len(launch.watch) == launch.layout.processes:
                return  # exec closed the last writing end
            elif events & select.POLLHUP:
                time.sleep(0.005)  # between two shims
            self._raise_if_dead(launch)
            if time.monotonic() > deadline:
                raise MeasurementError(
                    f"only {len(launch.watch)} of {launch.layout.processes} processes of {launch.layout} "
                    f"had started after {_START_PATIENCE_S:g} s"
                )

    def _note_started(self, launch: SupervisedLaunch, lines: Sequence[bytes]) -> None:
        for line in lines:
            words = json.loads(line)
            if "error" in words:
                raise ConfigError(f"a worker of {self._spec.name} {words['error']}")
            if not launch.watch.add(words["process"], words["pid"]):
                raise self._died(launch, words["process"])

    def _raise_if_dead(self, launch: SupervisedLaunch, wait_s: float = 0.0) -> None:
        dead = launch.watch.newly_dead(wait_s) or sorted(launch.ended_processes())
        if dead:
            raise self._died(launch, dead[0])
        if not launch.supervised():
            words = launch.words_of_supervisord() or "it said nothing"
            raise MeasurementError(f"supervisord ended at start: {words}")

    def _died(self, launch: SupervisedLaunch, process: int) -> MeasurementError:
        how = launch.end_of(process)
        hint = None
        if how.startswith("exit status 0"):
            hint = "It must stay in the foreground: look for an option like --nodaemon."
        who = f"process {process + 1} of {launch.layout.processes} of {launch.layout}"
        return MeasurementError(f"{who} died at start: {how}", hint=hint)

    def _finish(self, launch: SupervisedLaunch | None, guardian: Guardian, folder: Path) -> None:
        try:
            if launch is not None:
                self._stop(launch)
                self._keep_log(folder)
        except BaseException:
            guardian.end(grace_s=0.0)  # a second Ctrl-C: at once
            raise
        else:
            self._tell_leftovers(guardian.end(), "after")
        finally:
            if launch is not None:
                launch.close()

    def _stop(self, launch: SupervisedLaunch) -> None:
        """Stop the workers as the service wants it, see them gone and collected, then end supervisord.

        Whatever does not work here is left to the guardian's sweep.
        """
        with suppress(OSError):
            launch.rpc.stop_group(config.GROUP)
            deadline = time.monotonic() + self._spec.stop_wait_s + _STOP_SLACK_S
            while launch.watch.alive() and time.monotonic() < deadline and launch.supervised():
                launch.watch.newly_dead(_TICK_S)
            while any(pid for _, pid in launch.rpc.states().values()) and time.monotonic() < deadline:
                time.sleep(0.005)  # each call wakes supervisord up, which then collects its children
            launch.rpc.shutdown()
            launch.supervised(wait_s=_STOP_SLACK_S)
        if n_killed := launch.n_killed():
            self._warn(
                "stopped-by-kill",
                f"{n_killed} of {launch.layout.processes} processes of {launch.layout} did not stop within "
                f"{self._spec.stop_wait_s:g} s of {self._spec.stop_signal} and were killed; "
                "work in hand may be lost",
            )

    def _keep_log(self, folder: Path) -> None:
        if self._keep_logs is not None:
            with suppress(OSError):
                kept = self._keep_logs / f"{self._n_launches:04d}-supervisord.log"
                shutil.copyfile(folder / config.LOG, kept)

    def _tell_leftovers(self, swept: Swept, when: str) -> None:
        for what, processes in (("had to be ended", swept.met), ("could not be ended", swept.left)):
            if processes:
                self._warn("leftover-processes", f"{when} a launch these {what}: {', '.join(processes)}")
