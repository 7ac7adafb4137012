"""tuner plan: how long a study will take, from a short pilot, and what limits it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli import CUT_OFF, EXIT_WEAKER
from tuner.cli.shared.options import (
    TIME,
    AsJson,
    MetricsAddress,
    MetricsFile,
    MetricsOpen,
    Resume,
    Service,
    ServiceCommand,
    ServiceSettings,
    Simulate,
    setting,
    study_file,
)

if TYPE_CHECKING:
    from tuner.cli.shared.option_parsing import Options
    from tuner.cli.shared.session import Session
    from tuner.config.study import StudySettings
    from tuner.core.domain.layout import Layout
    from tuner.core.domain.records import StudyRecord
    from tuner.core.domain.strategy import Kind
    from tuner.core.planning.forecast import Basis, ForecastOptions, SimulatedStudy
    from tuner.core.planning.pilot import Pilot

COMPUTES_S = 20.0  #: then what was simulated by then is what there is
N_SURFACES = 100  #: at most
_PILOT = 600.0

_LAYOUTS = "Layouts"


def plan(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG|STUDY",
            readable=False,
            help="Config in YAML, to measure a pilot, or a study file, which tuner only reads.",
        ),
    ] = None,
    cores: Annotated[str | None, setting("cores")] = None,
    layouts: Annotated[
        str | None, setting("layouts", "Layouts of the study. The pilot measures four of them.")
    ] = None,
    grid_name: Annotated[str | None, setting("grid_name")] = None,
    pilot: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", rich_help_panel=TIME, help="Approximate time to measure (default: 10m)."
        ),
    ] = None,
    window: Annotated[str | None, setting("window")] = None,
    min_window: Annotated[str | None, setting("min_window")] = None,
    warmup: Annotated[str | None, setting("warmup")] = None,
    warmup_cap: Annotated[str | None, setting("warmup_cap")] = None,
    within: Annotated[
        str | None, setting("within", "Margin of the answer to plan for, in addition to 1 %, 2 % and 5 %.")
    ] = None,
    confidence: Annotated[str | None, setting("confidence")] = None,
    kind: Annotated[str | None, setting("kind")] = None,
    seed: Annotated[
        str | None, setting("seed", "Seed for the launch order and the simulation (default: 1).")
    ] = None,
    foreign_limit: Annotated[str | None, setting("foreign_limit")] = None,
    simulate: Simulate = None,
    study: Annotated[Path | None, study_file("File for the pilot (default: SERVICE.pilot.tuner.db).")] = None,
    resume: Resume = None,
    metrics: MetricsAddress = None,
    metrics_file: MetricsFile = None,
    metrics_open: MetricsOpen = False,
    spool: Annotated[str | None, setting("spool")] = None,
    service: Service = None,
    settings: ServiceSettings = None,
    command: ServiceCommand = None,
    as_json: AsJson = False,
) -> int:
    """Estimate the time of a study for margins of 1 %, 2 % and 5 %, and print the cause that costs most time.

    tuner first measures a pilot: it launches four layouts twice, in about ten minutes. It then simulates the
    race with the pilot's noise and throughputs, and again with each source of noise halved.

    Example: tuner plan study.yaml --cores 24 --within 2%
    """
    from tuner.bootstrap.parts.metrics import metrics_asked
    from tuner.cli.shared.option_parsing import (
        check_as_it_is,
        check_nothing_asked,
        given,
        is_study,
        service_options,
    )
    from tuner.cli.shared.session import kept, measured, resumed_session
    from tuner.core.search.strategies.of_study import strategy_of

    options = given(locals()) | service_options(service, settings, command)
    of_new = {"pilot": pilot, "study": study}
    if config is not None and is_study(config):
        others = {
            "resume": resume,
            "simulate": simulate,
            "metrics": metrics,
            "metrics-file": metrics_file,
        }
        check_nothing_asked(config, options, {**of_new, **others})
        return _forecast(config, as_json=as_json)
    told = metrics_asked(metrics, metrics_file, is_open=metrics_open)
    if resume is not None:
        check_as_it_is(resume, of_new)
        session = resumed_session(resume, config, options, made_by="tuner plan", simulate=simulate)
    else:
        session = _new(config, options, pilot, study, simulate)
    code, _ = outcome = measured(session, strategy_of(session.record), told)
    if not kept(session, outcome, "tuner plan", simulate) or code in CUT_OFF:
        return code
    return _forecast(session.file, as_json=as_json)


def _new(
    config: Path | None, options: Options, pilot: str | None, study: Path | None, simulate: Path | None
) -> Session:
    from tuner.cli.shared.option_parsing import asked_for, told_of
    from tuner.cli.shared.session import new_session, planned
    from tuner.config.load import Given
    from tuner.core.text.durations import parse_duration
    from tuner.study.pilot_run import pilot_study

    with told_of("--pilot"):
        lasts_s = _PILOT if pilot is None else parse_duration(pilot)
    options = {("study", "strategy"): Given("tuner plan", "race"), **options}
    settings, profile = asked_for(config, options, simulate)
    record = pilot_study(planned(settings, profile, options), lasts_s)
    file = study if study is not None else Path(f"{record.service}.pilot.tuner.db")
    return new_session(settings, record, file)


def _forecast(file: Path, *, as_json: bool) -> int:
    """Simulate what the study of *file* would take, and print it."""
    from tuner.bootstrap import stores
    from tuner.cli.shared.output import echo, say
    from tuner.core.defaults import WITHIN
    from tuner.core.planning.forecast import CAUSES, ForecastOptions, cost_of, questions, savings
    from tuner.reports.plan import Order, Plan, plan_facts, render_plan, unknown_facts
    from tuner.study.pilot_run import read_pilot

    with stores.open_store(file, read_only=True) as store:
        record, pilot = store.study(), read_pilot(store)
    asked = _asked(record)
    kind: Kind = asked.kind or "strict"
    within = WITHIN if asked.within is None else asked.within
    if pilot is None:
        why = (
            f"{file} has no layout with two launches, so neither the variation between launches nor the"
            " duration of a study can be estimated."
        )
        say(why)
        if as_json:
            order = Order(record.service, _layouts(record, asked), kind, within, asked.confidence)
            echo(record, "", unknown_facts(order, why), as_json=True)
        return EXIT_WEAKER
    basis = _basis(record, asked, pilot)
    began_s = time.monotonic()
    courses = _simulated(basis, questions(kind, within))
    known = {question: list(rows.values()) for question, rows in courses.items() if rows}
    first = courses[ForecastOptions(kind, within)]
    result = Plan(
        order=Order(record.service, basis.layouts, kind, within, basis.confidence),
        pilot=pilot,
        costs={one: cost_of(rows, basis.launch_s) for one, rows in known.items() if one.halved is None},
        savings=savings(first, {cause: courses[ForecastOptions(kind, within, cause)] for cause in CAUSES}),
        min_window_s=basis.min_window_s,
        max_window_s=basis.max_window_s,
        computed_s=time.monotonic() - began_s,
        grows=_growth(file, record, basis.layouts),
    )
    echo(record, render_plan(result), plan_facts(result), as_json=as_json)
    return 0


def _growth(file: Path, record: StudyRecord, layouts: Sequence[Layout]) -> str | None:
    """That the study's grid may grow, a sentence; None: its layouts were typed, or have grown already."""
    from tuner.bootstrap import study_queries
    from tuner.core.search.growth import GREW, GROWS, corner_of
    from tuner.reports.plan import growth_sentence

    if record.provenance.get(GROWS) != "yes" or GREW in record.provenance:
        return None
    _, found, _ = study_queries.explained(file)
    if isinstance(found, str):
        return growth_sentence(layouts, None, ())
    most = corner_of([one.layout for one in found.diagnoses])
    return growth_sentence(layouts, most, found.bound_by[most])


def _asked(record: StudyRecord) -> StudySettings:
    """What the study's config asks for; secrets are of its other sections."""
    from tuner.config.study import StudySettings
    from tuner.core.text.stored_config import stored_config

    return StudySettings.model_validate(stored_config(record.config).get("study", {}))


def _layouts(record: StudyRecord, asked: StudySettings) -> tuple[Layout, ...]:
    """Those of the study that is foretold: a pilot launches some of them."""
    from tuner.core.domain.pooled import one_process_variants, pooled_variants
    from tuner.core.text.stored_config import stored_service

    if record.provenance.get("made_by") != "tuner plan":
        return record.layouts
    connections = stored_service(record.config).get("connections", "threads")
    threads_of = {one.variant: one.has_threads for one in record.layouts}
    kept = record.config
    return asked.layouts_for(
        record.cores, threads_of, connections, pooled_variants(kept), one_process_variants(kept)
    )


def _basis(record: StudyRecord, asked: StudySettings, pilot: Pilot) -> Basis:
    from tuner.config.study import SHORTEST_WINDOW_S
    from tuner.core.planning.forecast import Basis
    from tuner.core.planning.surfaces import drawn_surfaces

    layouts = _layouts(record, asked)
    shortest_s = asked.min_window or min(SHORTEST_WINDOW_S, asked.window)
    return Basis(
        layouts=layouts,
        surfaces=tuple(drawn_surfaces(layouts, pilot.levels, N_SURFACES, asked.seed)),
        noise=pilot.noise,
        launch_s=pilot.launch_s,
        min_window_s=shortest_s,
        max_window_s=asked.window,
        confidence=asked.confidence,
        cores=record.cores,
        seed=asked.seed,
    )


def _simulated(
    basis: Basis, asked: list[ForecastOptions]
) -> dict[ForecastOptions, dict[int, SimulatedStudy]]:
    """Surface after surface, all questions of each, until the time is over; at least the one asked for."""
    from tuner.bootstrap.host import each_in_processes, n_usable_cores

    found: dict[ForecastOptions, dict[int, SimulatedStudy]] = {question: {} for question in asked}
    tasks = [(question, row) for row in range(N_SURFACES) for question in asked]
    began_s = time.monotonic()
    n_processes = n_usable_cores()
    for (question, row), course in zip(
        tasks, each_in_processes(_course, basis, tasks, n_processes), strict=True
    ):
        found[question][row] = course
        if time.monotonic() - began_s > COMPUTES_S:
            break
    return found


def _course(basis: Basis, task: tuple[ForecastOptions, int]) -> SimulatedStudy:
    from tuner.core.planning.forecast import simulate

    return simulate(basis, *task)
