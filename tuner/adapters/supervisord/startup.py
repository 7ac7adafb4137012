"""From "supervisord was executed" to "every worker runs": what is waited for, and how it can fail."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.adapters.supervisord.config import GROUP
from tuner.adapters.supervisord.launch import SupervisedLaunch
from tuner.core.errors import ConfigError, MeasurementError
from tuner.ports import ReadyCheck

# Whether a launch that runs is ready to work: a program that is RUNNING may still be importing.

_LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Readiness:
    """How a launch shows that it is ready to work."""

    check: ReadyCheck
    within_s: float  #: else the launch has failed


def await_ready(
    check: ReadyCheck, logs: Sequence[Path], patience_s: float, raise_if_dead: Callable[[], None]
) -> str:
    """What *check* still lacks after *patience_s*; empty, and sooner, when it lacks nothing.

    Raises:
        TunerError: what *raise_if_dead* raises meanwhile.
    """
    deadline = time.monotonic() + patience_s
    while lacking := check.lacks(logs):
        raise_if_dead()
        if time.monotonic() > deadline:
            return lacking
        time.sleep(_LOOK_EVERY_S)
    return ""


_PATIENCE_S = 60.0  #: for each step of a start, on a box that is busy with other things
_PATIENCE_PER_PROGRAM_S = 1.0  #: in addition; 200 took 14 s together on two cores that others used, too
_SUSPICIOUS_S = 2.0  #: a step that takes longer is looked into
_TICK_S = 0.05
_DEAD = ("EXITED", "FATAL", "BACKOFF", "STOPPED", "UNKNOWN")


def await_running(launch: SupervisedLaunch, status: int, settle_s: float) -> None:
    """Return when every worker has been executed, is RUNNING for supervisord and has lived *settle_s*.

    Args:
        status: reading end of the pipe that the shims write to, and that exec closes.

    Raises:
        MeasurementError: a worker died, or it took too long.
        ConfigError: a worker could not be executed at all, or the disk is full.
    """
    try:
        _await_answer(launch)
        _await_executed(launch, status)
        _await_states(launch)
        raise_if_dead(launch, settle_s)
    except OSError as error:
        launch.raise_if_full()
        raise MeasurementError(
            f"supervisord does not answer while {launch.layout} starts: {error}"
        ) from error


def _await_answer(launch: SupervisedLaunch) -> None:
    """Call supervisord as soon as it listens: else it sleeps a second before it starts anything."""
    begun_s = time.monotonic()
    while True:
        try:
            launch.rpc.states()
            return
        except OSError as error:
            _raise_if_unsupervised(launch)
            _raise_if_late(launch, begun_s, f"supervisord does not answer: {error}")
            time.sleep(0.005)


def _await_executed(launch: SupervisedLaunch, status: int) -> None:
    """Read the status pipe until every shim has told its pid and has become the worker."""
    begun_s = time.monotonic()
    poll = select.poll()
    poll.register(status, select.POLLIN)
    heard = b""
    gone: list[int] = []
    while True:
        dead = gone or _dead(
            launch
        )  # looked at before the pipe: what a shim said of its end is in there by now
        events = dict(poll.poll(_TICK_S * 1000)).get(status, 0)
        if events & select.POLLIN:
            heard += os.read(status, 1 << 16)
            *lines, heard = heard.split(b"\n")
            gone = _note_started(launch, [json.loads(line) for line in lines])
        elif events & select.POLLHUP and len(launch.watch) == launch.n_programs:
            return  # exec closed the last writing end
        elif events & select.POLLHUP:
            time.sleep(0.005)  # between two shims
        elif not dead:
            gone = _unseen_dead(launch)  # told in the next turn, after what they may have said meanwhile
        if dead:
            raise _start_error(launch, dead[0])
        _raise_if_unsupervised(launch)
        n_started = f"{len(launch.watch)} of {launch.n_programs}"
        _raise_if_late(launch, begun_s, f"only {n_started} processes of {launch.layout} have started")


def _await_states(launch: SupervisedLaunch) -> None:
    """supervisord must mean the same processes as we do."""
    begun_s = time.monotonic()
    pids = launch.watch.alive()
    wanted = {f"{GROUP}_{process}": ("RUNNING", pid) for process, pid in pids.items()}
    while (states := launch.rpc.states()) != wanted:
        raise_if_dead(launch)
        _raise_if_late(launch, begun_s, f"supervisord has {launch.layout} not RUNNING but {states}")
        time.sleep(0.005)


def _note_started(launch: SupervisedLaunch, reported: Sequence[Mapping[str, Any]]) -> list[int]:
    """Watch the processes that shims told of; gives the numbers of those that are gone already."""
    for words in reported:
        if "error" in words:
            raise ConfigError(f"a worker of {launch.layout} {words['error']}")
    return [words["process"] for words in reported if not launch.watch.add(words["process"], words["pid"])]


def raise_if_dead(launch: SupervisedLaunch, wait_s: float = 0.0) -> None:
    """MeasurementError when a program, or supervisord, ended within *wait_s*."""
    if dead := _dead(launch, wait_s):
        raise _start_error(launch, dead[0])
    _raise_if_unsupervised(launch)


def _dead(launch: SupervisedLaunch, wait_s: float = 0.0) -> list[int]:
    return launch.watch.newly_dead(wait_s) or sorted(launch.ended_processes())


def _raise_if_unsupervised(launch: SupervisedLaunch) -> None:
    if (who := launch.launcher_ended()) and who != "supervisord":
        raise MeasurementError(f"{who} ended while {launch.layout} started")
    if not launch.supervised():
        launch.raise_if_full()
        words = launch.words_of_supervisord() or "it printed nothing"
        raise MeasurementError(f"supervisord ended at start: {words}")


def _unseen_dead(launch: SupervisedLaunch) -> list[int]:
    """The numbers of shims that could say nothing at all: the interpreter itself failed."""
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


def _start_error(launch: SupervisedLaunch, process: int) -> MeasurementError:
    how = launch.end_of(process)
    if who := launch.launcher_ended():
        return MeasurementError(f"{who} ended while {launch.layout} started")
    hint = None
    if how.startswith("exit status 0"):
        hint = "It must stay in the foreground: look for an option like --nodaemon."
    who = f"process {process + 1} of {launch.n_programs} of {launch.layout}"
    return MeasurementError(f"{who} died at start: {how}", hint=hint)
