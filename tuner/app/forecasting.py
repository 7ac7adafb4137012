"""The use case of `tuner plan`: a pilot, and the estimated duration of a study."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout, whole_cores

if TYPE_CHECKING:
    from tuner.app.session import Options
    from tuner.bootstrap.wire import Say, Session
    from tuner.config.study import StudySettings
    from tuner.core.domain.records import StudyRecord
    from tuner.core.domain.strategy import Kind, Slices
    from tuner.core.planning.forecast import Basis, ForecastOptions, SimulatedStudy
    from tuner.core.planning.pilot import Pilot
    from tuner.core.planning.plausible import Array
    from tuner.ports import Store
    from tuner.reports.plan import Order, Plan, SlicesForecast

COMPUTES_S = 20.0  #: time limit of the simulations; the forecast uses those finished by then
N_STUDIES = 100  #: largest number of simulated studies per question
_PILOT = 600.0


@dataclass(frozen=True, slots=True)
class Unknown:
    """A study of which no forecast can be made."""

    order: Order
    why: str


def begin_pilot(
    config: Path | None,
    options: Options,
    say: Say,
    pilot: str | None,
    study: Path | None,
    simulate: Path | None,
) -> Session:
    """Begin a pilot, from which the duration of a study is estimated.

    Args:
        config: a config in YAML; None: no config.
        options: the settings given on the command line.
        pilot: its approximate duration, as typed (such as ``10m``); None: ten minutes.
        study: the file; None: it is named after the service.
        simulate: the profile to simulate; None: a real service runs.

    Raises:
        ConfigError: the settings cannot be used here, or the file exists.
    """
    from tuner.app.layouts_in_turns import n_layouts_in_turns
    from tuner.app.plan_builder import build_plan
    from tuner.app.session import load_request, naming_option, new_session
    from tuner.config.load import Given
    from tuner.core.text.figures import parse_duration
    from tuner.study.pilot_run import pilot_study

    with naming_option("--pilot"):
        lasts_s = _PILOT if pilot is None else parse_duration(pilot)
    options = {("study", "strategy"): Given("tuner plan", "race"), **options}
    settings, profile = load_request(config, options, simulate)
    record = pilot_study(build_plan(settings, profile, options, say), lasts_s)
    if settings.study.slices == "auto":  # of the planned study: the pilot runs one layout at a time
        n_resident = n_layouts_in_turns(settings, say, is_simulated=profile is not None)
        record = replace(record, n_resident=n_resident)
    file = study if study is not None else Path(f"{record.service}.pilot.tuner.db")
    return new_session(settings, record, file)


def forecast_of(file: Path, slices: Slices | None = None) -> tuple[StudyRecord, Plan | Unknown]:
    """Simulate the planned study of *file*; return its record, and a forecast or the reason for none.

    *slices*: whether to simulate it in turns, too; None: as in the file.

    Raises:
        ConfigError: *slices* is auto, but it cannot be found out here whether layouts can take turns.
    """
    from tuner.bootstrap import stores
    from tuner.core.defaults import WITHIN
    from tuner.core.messages.study import slices_were_wrong
    from tuner.core.planning.forecast import CAUSES, ForecastOptions, cost_of, questions, savings
    from tuner.core.text.safe_text import visible
    from tuner.reports.plan import Order, Plan
    from tuner.study.counted import counts_slices, recalled_race
    from tuner.study.pilot_run import read_pilot

    with stores.open_store(file, read_only=True) as store:
        record, known_race = store.study(), recalled_race(store)
        pilot, has_wrong_slices = read_pilot(store, known_race), not counts_slices(store, known_race)
        asked = _study_settings(record)
        layouts = _layouts(record, asked)
        predicted = None if pilot is None else _predict_throughputs(store, record, [*layouts, *pilot.levels])
    if slices is not None:
        asked = asked.model_copy(update={"slices": slices})
    kind: Kind = asked.kind or "strict"
    within = WITHIN if asked.within is None else asked.within
    if pilot is None:
        why = (
            f"{file} has no layout with two launches, so neither the variation between launches nor the"
            " duration of a study can be estimated."
        )
        order = Order(record.service, layouts, kind, within, asked.confidence)
        return record, Unknown(order, why)
    if has_wrong_slices and slices is None:
        n_resident, why_not = 1, slices_were_wrong(visible(file.name))
    else:
        n_resident, why_not = turns_of(record, file, slices)
    basis = _basis(record, asked, layouts, pilot, predicted, n_resident)
    began_s = time.monotonic()
    courses = _simulate_questions(basis, questions(kind, within, in_turns=basis.n_resident > 1))
    known = {question: list(rows.values()) for question, rows in courses.items() if rows}
    first = courses[ForecastOptions(kind, within)]
    return record, Plan(
        order=Order(record.service, basis.layouts, kind, within, basis.confidence),
        pilot=pilot,
        costs={
            one: cost_of(rows, basis.launch_s)
            for one, rows in known.items()
            if one.halved is None and not one.in_turns
        },
        savings=savings(first, {cause: courses[ForecastOptions(kind, within, cause)] for cause in CAUSES}),
        min_window_s=basis.min_window_s,
        max_window_s=basis.max_window_s,
        computed_s=time.monotonic() - began_s,
        drift_sd=sqrt(fmean(one.noise.drift_sd**2 for one in basis.studies)),
        grows=_growth(file, record, basis.layouts),
        slices=_slices(
            record, asked, basis, why_not, known.get(ForecastOptions(kind, within, in_turns=True))
        ),
    )


def turns_of(record: StudyRecord, file: Path, slices: Slices | None) -> tuple[int, str]:
    """Return the most layouts that take turns in the planned study, and why only one (empty: unknown)."""
    from tuner.app.plan_builder import stored_settings
    from tuner.bootstrap.parts.gates import takes_turns
    from tuner.core.domain.records import is_simulated

    if slices == "off":
        return 1, ""
    if record.n_resident > 1:
        return record.n_resident, ""
    is_unknown = record.provenance.is_fleet or record.config.lacks_secrets
    if slices is None and (_study_settings(record).slices != "auto" or is_unknown):
        return 1, ""
    settings = stored_settings(record, file, "tuner plan CONFIG --slices auto")
    n_resident, why = takes_turns(
        settings, is_simulated=is_simulated(record), on_fleet=record.provenance.is_fleet
    )
    return (1 if slices is None else n_resident), why


def _slices(
    record: StudyRecord,
    asked: StudySettings,
    basis: Basis,
    why_not: str,
    simulated: Sequence[SimulatedStudy] | None,
) -> SlicesForecast | None:
    """Forecast the planned study if layouts take turns; None: slices are not requested."""
    from tuner.core.planning.forecast import cost_of
    from tuner.reports.plan import SlicesForecast

    if basis.n_resident == 1:
        return SlicesForecast(1, None, why_not) if asked.slices == "auto" else None
    return SlicesForecast(
        min(basis.n_resident, len(basis.layouts)),
        None if not simulated else cost_of(simulated, basis.launch_s),
        was_in_turns=record.n_resident > 1 and record.provenance.made_by != "tuner plan",
    )


def _growth(file: Path, record: StudyRecord, layouts: Sequence[Layout]) -> str | None:
    """Return a sentence that the grid may grow; None: it cannot grow, or has grown already."""
    from tuner.app import model
    from tuner.core.search.growth import corner_of
    from tuner.reports.plan import growth_sentence

    if not record.provenance.may_grow or record.provenance.grid_grew is not None:
        return None
    _, found, _ = model.explain_file(file)
    if isinstance(found, str):
        return growth_sentence(layouts, None, ())
    most = corner_of([one.layout for one in found.diagnoses])
    return growth_sentence(layouts, most, found.bound_by[most])


def _study_settings(record: StudyRecord) -> StudySettings:
    """Return the study section of the config, which holds no secrets."""
    from tuner.config.study import StudySettings

    return StudySettings.model_validate(record.config.study)


def _layouts(record: StudyRecord, asked: StudySettings) -> tuple[Layout, ...]:
    """Return the layouts of the planned study; a pilot launches some of them."""
    if record.provenance.made_by != "tuner plan":
        return record.layouts
    service = record.config.service
    connections = "threads" if service.connections is None else service.connections
    threads_of = {one.variant: one.has_threads for one in record.layouts}
    return asked.layouts_for(
        record.cores, threads_of, connections, service.pooled_variants, service.one_process_variants
    )


def _predict_throughputs(store: Store, record: StudyRecord, layouts: Sequence[Layout]) -> Array | None:
    """Return items/s of *layouts* by the queueing model for possible demands, (demands, layouts).

    None: a variant cannot be calibrated on the study, or the study's figure is not throughput.
    """
    import numpy as np

    from tuner.core.errors import ConfigError
    from tuner.core.model.prediction.trust import draw_throughputs
    from tuner.study.calibration_run import read_calibration

    if record.objective != "throughput":
        return None
    drawn: dict[str, Iterator[Array]] = {}
    n_draws = []
    for variant in dict.fromkeys(layout.variant for layout in layouts):
        try:
            one = read_calibration(store, "the study", variant=variant)
        except ConfigError:  # for example none of its layouts was measured: then other draws are used
            return None
        found, own = one.calibration, [layout for layout in layouts if layout.variant == variant]
        rows = draw_throughputs(found.profile, found.draws, one.seen, own, term_draws=found.term_draws)
        drawn[variant] = iter(rows.T)
        n_draws.append(len(rows))
    return np.array([next(drawn[layout.variant])[: min(n_draws)] for layout in layouts]).T


def _basis(
    record: StudyRecord,
    asked: StudySettings,
    layouts: Sequence[Layout],
    pilot: Pilot,
    predicted: Array | None,
    n_resident: int,
) -> Basis:
    from tuner.core.defaults import SHORTEST_IN_TURNS_S, SHORTEST_WINDOW_S
    from tuner.core.planning.forecast import FEWEST_FOR_P90, Basis
    from tuner.core.planning.plausible import draw_studies

    shortest_s = asked.min_window or min(SHORTEST_WINDOW_S, asked.window)
    return Basis(
        layouts=tuple(layouts),
        studies=tuple(draw_studies(layouts, pilot, predicted, 2 * N_STUDIES + FEWEST_FOR_P90, asked.seed)),
        launch_s=pilot.launch_s,
        min_window_s=shortest_s,
        max_window_s=asked.window,
        confidence=asked.confidence,
        cores=record.cores,
        seed=asked.seed,
        n_resident=n_resident,
        min_window_in_turns_s=asked.min_window or min(SHORTEST_IN_TURNS_S, asked.window),
    )


def _simulate_questions(
    basis: Basis, asked: list[ForecastOptions]
) -> dict[ForecastOptions, dict[int, SimulatedStudy]]:
    """Simulate all questions, study by study, for `COMPUTES_S` seconds; at least the first question.

    The first question is the requested study: it has as many studies before the others as
    `Cost.shows_p90` requires, and then twice as many.
    """
    from tuner.adapters.proc.cores import usable_cores
    from tuner.adapters.processes.worker_processes import each_in_processes
    from tuner.core.planning.forecast import FEWEST_FOR_P90

    found: dict[ForecastOptions, dict[int, SimulatedStudy]] = {question: {} for question in asked}
    more = [(asked[0], row) for row in range(N_STUDIES, len(basis.studies))]
    tasks = more[:FEWEST_FOR_P90]
    for row, other in enumerate(more[FEWEST_FOR_P90:]):
        tasks += [*((question, row) for question in asked), other]
    began_s = time.monotonic()
    n_processes = whole_cores(usable_cores().count)
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
