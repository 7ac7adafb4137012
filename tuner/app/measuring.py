"""The measuring of a study on this host, or on a simulated one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tuner.app.session import going_on
from tuner.bootstrap import wire
from tuner.core.domain.records import StudyRecord, is_simulated
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.search.strategies.followed import Followed
from tuner.core.text.figures import pluralize
from tuner.ports import Warn
from tuner.study.launch.outcome import INTERRUPTED
from tuner.study.run import run_study

if TYPE_CHECKING:
    from tuner.adapters.feeders.http import HttpFeeder
    from tuner.bootstrap.parts.metrics import MetricsAsked
    from tuner.bootstrap.wire import Parts, Say, Session
    from tuner.core.domain.records import WindowRecord
    from tuner.core.domain.strategy import Strategy
    from tuner.ports import Box, Stop

# The number of clients of a new study, found before anything is measured.


def with_clients_found(
    box: Box,
    feeder: HttpFeeder,
    record: StudyRecord,
    warn: Warn,
    say: Callable[[str], object],
    stop_requested: Callable[[], bool],
) -> StudyRecord:
    """*record* with the number of clients that load its layouts, where a closed loop lacks one.

    Where it cannot be found, the record and the feeder stay with the least that gives each thread a request.
    """
    from tuner.core.errors import MeasurementError
    from tuner.core.messages.feeders import clients_not_found
    from tuner.core.settings.clients import first_clients, render_found
    from tuner.study.launch.client_search import describe_search, find_clients

    if not feeder.lacks_clients:
        return record
    say("Looking for the number of clients that loads every layout ...")
    try:
        found = find_clients(box, feeder, record, warn, stop_requested)
    except MeasurementError as error:
        n_clients = first_clients(record.layouts)
        warn(*clients_not_found(error.problem, n_clients))
        return _with(record, n_clients, None)
    if found is None:
        return record
    say(f"{describe_search(found)}.")
    feeder.use_found(found)
    return _with(record, found.clients, render_found(found))


def _with(record: StudyRecord, n_clients: int, found: str | None) -> StudyRecord:
    return replace(
        record,
        config=record.config.with_clients(n_clients),
        provenance=replace(record.provenance, clients_found=found),
    )


def measure(
    session: Session,
    strategy: Strategy,
    say: Say,
    metrics: MetricsAsked | None = None,
    *,
    looks: bool = False,
) -> tuple[int, bool]:
    """Measure what *strategy* asks for; gives the study's exit code, and whether nothing is left to do.

    Args:
        session: the study and its file.
        strategy: a new one, which has seen nothing.
        metrics: where metrics are to be had; None: nowhere.
        looks: a study that asks for it begins with a first look.

    Raises:
        ConfigError: nothing can be measured, or *metrics* are asked for and cannot be had.
    """
    from tuner.adapters.processes.signals import stopping_by_signal

    record, simulates = session.record, is_simulated(session.record)
    if simulates:
        strategy = _simulated(record, strategy, say, metrics)
    if record.cores > record.box_cores:
        say(f"Layouts for {pluralize(record.cores, 'core')} measured on {record.box_cores:g}.")
    followed = Followed(strategy)
    with stopping_by_signal() as stop:
        began_s = None if simulates else time.monotonic()
        settle = partial(_settle, session, stop, say)
        try:
            with (
                wire.study_simulated(session, say)
                if simulates
                else wire.study_here(session, followed, stop, metrics, say, settle)
            ) as parts:
                outcome = run_study(
                    parts.box,
                    parts.store,
                    parts.progress,
                    stop,
                    followed,
                    partial(_grew, followed, parts),
                    began_s=began_s,
                    looked=partial(_say_first_look, record, parts.say) if looks else None,
                )
            return outcome.exit_code, outcome.is_over
        except KeyboardInterrupt:
            return INTERRUPTED, False
        except MeasurementError as error:
            if error.hint is not None or not session.file.exists():
                raise
            hint = (
                f"The windows so far are kept in {session.file}. Continue with:"
                f" {going_on(record, session.file)}"
            )
            raise MeasurementError(error.problem, hint=hint) from error


def _simulated(record: StudyRecord, strategy: Strategy, say: Say, metrics: MetricsAsked | None) -> Strategy:
    """Print that the study is simulated; return its strategy, which predicts no time.

    Raises:
        ConfigError: *metrics* are asked for.
    """
    from tuner.core.search.strategies.followed import Unforeseen

    if metrics is not None:
        raise ConfigError(
            "--metrics cannot be combined with --simulate",
            hint="Leave --metrics and --metrics-file out.",
        )
    name, on = record.provenance.simulated, pluralize(record.box_cores, "core")
    say(f"Simulated: no service is started. Every figure comes from a model of {name} on {on}.")
    return Unforeseen(strategy)


def _settle(session: Session, stop: Stop, say: Say, box: Box, warn: Warn, say_in_view: Say) -> StudyRecord:
    """Print the beginning of a study, and find the number of clients that a new one lacks.

    Raises:
        KeyboardInterrupt: the user ended it meanwhile.
    """
    from tuner.app.beginning import beginning
    from tuner.bootstrap.parts.feeders import http_feeder_of

    for line in beginning(session.settings, session.record, is_new=session.is_new):
        say_in_view(line)
    if not session.is_new:
        return session.record
    record = session.record
    if (feeder := http_feeder_of(box.feeder, session.settings)) is not None:
        record = with_clients_found(box, feeder, record, warn, say, stop.requested)
    if stop.requested():
        raise KeyboardInterrupt
    return record


def _say_first_look(record: StudyRecord, say: Say, windows: Sequence[WindowRecord]) -> None:
    """Print the provisional ranking while a study runs."""
    from tuner.reports.ranking.first_look import render_first_look

    for line in render_first_look(record, windows).splitlines():
        say(line)
    say("The study continues until the answer is known. Ctrl-C stops it and prints the ranking so far.")


def _grew(followed: Followed, parts: Parts, study: StudyRecord) -> None:
    """Follow the strategy of *study*, whose grid has grown."""
    from tuner.app import beginning
    from tuner.core.search.strategies.followed import Unforeseen
    from tuner.core.search.strategies.of_study import strategy_of

    strategy = strategy_of(study)
    followed.follow(Unforeseen(strategy) if is_simulated(study) else strategy)
    for one in parts.know_layouts:
        one.grew(study)
    if not is_simulated(study):
        parts.say(f"The grid has grown. {beginning.beginning_grown(study)}")
