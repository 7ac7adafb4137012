"""Measuring a study on this host or a simulated one, and the lines printed before it begins."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.app.session import going_on
from tuner.bootstrap import wire
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord, is_simulated
from tuner.core.errors import EXIT_INTERRUPTED, ConfigError, MeasurementError
from tuner.core.search.strategies.of_study import Followed
from tuner.core.text.figures import pluralize
from tuner.ports import Warn
from tuner.study.run import run_study

if TYPE_CHECKING:
    from tuner.adapters.feeders.http import HttpFeeder
    from tuner.bootstrap.parts.metrics import MetricsAsked
    from tuner.bootstrap.wire import Parts, Say, Session
    from tuner.config.settings import Settings
    from tuner.core.domain.records import WindowRecord
    from tuner.core.domain.strategy import Strategy
    from tuner.ports import Box, Stop

# The search for the number of clients of a new study, before anything is measured.


def with_client_search(
    box: Box,
    feeder: HttpFeeder,
    record: StudyRecord,
    warn: Warn,
    say: Callable[[str], object],
    stop_requested: Callable[[], bool],
) -> StudyRecord:
    """Return *record* with the number of clients that load its layouts, if a closed loop lacks one.

    If the search fails, record and feeder use the smallest number that gives each thread a request.
    """
    from tuner.core.domain.load import first_clients, render_client_search
    from tuner.core.errors import MeasurementError
    from tuner.core.messages.service import clients_not_found
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
    return _with(record, found.clients, render_client_search(found))


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
    """Measure the launches of *strategy*; return the exit code, and whether nothing is left to measure.

    Args:
        session: the study and its file.
        strategy: a new strategy.
        metrics: where to serve metrics; None: nowhere.
        looks: whether the study begins with a first look, if its record has one.

    Raises:
        ConfigError: nothing can be measured, or *metrics* cannot be served.
    """
    from tuner.adapters.processes.signals import stopping_by_signal

    record, simulates = session.record, is_simulated(session.record)
    if simulates:
        strategy = _announce_simulation(record, strategy, say, metrics)
    if record.is_for_larger_host:
        say(f"Layouts for {pluralize(record.cores, 'core')} measured on {record.box_cores:g}.")
    followed = Followed(strategy)
    with stopping_by_signal() as stop:
        began_s = None if simulates else time.monotonic()
        settle = partial(_settle, session, stop, say)
        try:
            with (
                wire.open_simulated_study(session, say)
                if simulates
                else wire.open_study(session, followed, stop, metrics, say, settle)
            ) as parts:
                outcome = run_study(
                    parts.box,
                    parts.store,
                    parts.progress,
                    stop,
                    followed,
                    partial(_grew, followed, parts),
                    began_s=began_s,
                    looked=partial(_print_first_look, record, parts.say)
                    if looks and record.provenance.has_first_look
                    else None,
                )
            return outcome.exit_code, outcome.is_over
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED, False
        except MeasurementError as error:
            if error.hint is not None or not session.file.exists():
                raise
            hint = (
                f"The windows so far are kept in {session.file}. Continue with:"
                f" {going_on(record, session.file)}"
            )
            raise MeasurementError(error.problem, hint=hint) from error


def _announce_simulation(
    record: StudyRecord, strategy: Strategy, say: Say, metrics: MetricsAsked | None
) -> Strategy:
    """Print that the study is simulated; return its strategy without a forecast of time.

    Raises:
        ConfigError: *metrics* are requested.
    """
    from tuner.core.search.strategies.of_study import Unforeseen

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
        KeyboardInterrupt: the user stopped the study meanwhile.
    """
    from tuner.bootstrap.parts.services import http_feeder_of

    for line in beginning(session.settings, session.record, is_new=session.is_new):
        say_in_view(line)
    if not session.is_new:
        return session.record
    record = session.record
    if (feeder := http_feeder_of(box.feeder, session.settings)) is not None:
        record = with_client_search(box, feeder, record, warn, say, stop.requested)
    if stop.requested():
        raise KeyboardInterrupt
    return record


def _print_first_look(record: StudyRecord, say: Say, windows: Sequence[WindowRecord]) -> None:
    """Print the provisional ranking while a study runs."""
    from tuner.reports.beginning import render_first_look

    for line in render_first_look(record, windows).splitlines():
        say(line)
    say("The study continues until the answer is known. Ctrl-C stops it and prints the ranking so far.")


def _grew(followed: Followed, parts: Parts, study: StudyRecord) -> None:
    """Switch to the strategy of *study*, whose grid has grown."""
    from tuner.core.search.strategies.of_study import Unforeseen, strategy_of

    strategy = strategy_of(study)
    followed.follow(Unforeseen(strategy) if is_simulated(study) else strategy)
    for one in parts.know_layouts:
        one.grew(study)
    if not is_simulated(study):
        parts.say(f"The grid has grown. {beginning_grown(study)}")


# The lines printed before a study starts anything.


def beginning(settings: Settings, record: StudyRecord, *, is_new: bool, n_hosts: int = 1) -> Sequence[str]:
    """Return lines on the measurements of a study, the service it starts, and its expected duration."""
    from tuner.app.layouts_in_turns import could_take_turns
    from tuner.reports.beginning import describe_start
    from tuner.study.first_look import before

    times = before(record, n_hosts)
    in_turns = could_take_turns(record, settings)
    quicker = None if in_turns is None else before(in_turns)
    return describe_start(
        record,
        n_first=times.n_first,
        look_s=times.look_s,
        first_s=times.first_s,
        answer_s=(times.quickest_s, times.longest_s),
        answer_in_turns_s=None if quicker is None else (quicker.quickest_s, quicker.longest_s),
        starts=_starts(settings, record),
        feeds=_feeds(settings),
        is_new=is_new,
    )


def beginning_grown(record: StudyRecord) -> str:
    """Return a sentence on the duration of a study whose grid has grown."""
    from tuner.reports.beginning import describe_times
    from tuner.study.first_look import before

    times = before(record)
    return describe_times(record, times.n_first, times.first_s, (times.quickest_s, times.longest_s))


def _starts(settings: Settings, record: StudyRecord) -> str:
    from tuner.core.text.safe_text import redact

    layout = record.layouts[0]
    usual = service = settings.service_in(layout.variant)
    if record.n_resident > 1:
        from tuner.bootstrap.parts.own_sources import keeping_connections

        service = keeping_connections(settings).service_in(layout.variant)
    if service.kind == "crash-processor":
        return f"tuner's built-in crash processor, as {layout}"
    data = {
        name: text
        for name, text in redact(dict(service.environment)).items()
        if "{" in text or service.environment[name] != usual.environment.get(name)
    }
    words = [shlex.join(_fill(redact([str(word) for word in service.command]), layout))]
    words = [
        *(
            f"{name}={shlex.quote(text)}"
            for name, text in zip(data, _fill(data.values(), layout), strict=True)
        ),
        *words,
    ]
    often = "" if service.programs == "one" or layout.processes == 1 else f", {layout.processes} times"
    return f"{' '.join(words)} (this is {layout}{often})"


def _fill(texts: Iterable[str], layout: Layout) -> Sequence[str]:
    fields = {"{processes}": layout.processes, "{threads}": layout.threads}
    for field, number in fields.items():
        texts = [text.replace(field, str(number)) for text in texts]
    return list(texts)


def _feeds(settings: Settings) -> str:
    service = settings.service
    if service.kind == "crash-processor":
        return "crash dumps of a spool that tuner fills"
    return service.feeder.describe()


def provisional_ranking(file: Path) -> str:
    """Render the provisional ranking of the study in *file*; empty: no first look, or later windows exist."""
    from tuner.bootstrap.stores import open_store
    from tuner.reports.beginning import render_first_look
    from tuner.study.first_look import windows_of

    with open_store(file, read_only=True) as store:
        windows = store.windows()
        if any(window.block >= 0 and not window.void for window in windows):
            return ""
        return render_first_look(store.study(), windows_of(store.launches(), windows))
