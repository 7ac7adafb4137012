"""The use cases of the model: estimate the demands of an item, predict layouts, calibrate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.app.collection import pause_collection
from tuner.app.plan_builder import build_plan
from tuner.app.session import load_request, new_session
from tuner.app.study_queries import explanation_of, overview_of, rank_store, rules_of
from tuner.bootstrap import stores
from tuner.bootstrap.stores import open_store
from tuner.config.load import Given
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.errors import ConfigError
from tuner.ports import Store
from tuner.study.aging import memory_growth
from tuner.study.calibration_run import MADE_BY, N_LAUNCHES, N_WINDOWS, WINDOW_S, calibration_study

if TYPE_CHECKING:
    from tuner.app.session import Options
    from tuner.bootstrap.wire import Say, Session
    from tuner.core.model.calibration.calibrated import Calibrated
    from tuner.core.model.diagnosis.explanation import Explanation
    from tuner.core.model.diagnosis.sizing import Rule
    from tuner.core.model.machine import Machine
    from tuner.core.model.prediction.whatif import WhatIf
    from tuner.core.model.profile import Profile
    from tuner.core.model.simulation.layouts import SimulatedLayouts
    from tuner.core.ranking.overview import Overview
    from tuner.core.ranking.ranked import RankingOptions
    from tuner.core.windows.launch_sums import Sums


@pause_collection()
def predict(
    file: Path,
    *,
    current: str | None = None,
    confidence: float | None = None,
    question: RankingOptions | None = None,
) -> tuple[Overview, Calibrated | str]:
    """Return the overview of the study in *file*, and the model of the variant of its best layout.

    If the model cannot be fitted, a sentence with the reason takes its place. Arguments as for
    `study_queries.rank_file`.
    """
    with open_store(file, read_only=True) as store:
        sums = store.sums()
        seen = overview_of(store, file, current=current, confidence=confidence, question=question, sums=sums)
        return seen, _prediction_of(store, seen, sums)


def _prediction_of(store: Store, seen: Overview, sums: Sums) -> Calibrated | str:
    variants = {layout.variant for layout in seen.study.layouts}
    variant = seen.ranking.rows[0].layout.variant if len(variants) > 1 else None
    from tuner.study.calibration_run import read_calibration

    try:
        # only the file name, because pages show no folders of this host
        return read_calibration(
            store, seen.name, variant=variant, sums=sums, throughput_per_s=seen.ranking.throughput_per_s
        )
    except ConfigError as error:
        return f"{error.problem}."


def calibrate_file(file: Path, *, variant: str | None = None) -> Calibrated:
    """Calibrate the service in *file*, a study or a profile in YAML, from all windows of one variant.

    *variant* names the variant; None: the service without a variant, or the study's only variant.

    Raises:
        ConfigError: the file is neither, or has nothing to calibrate on.
    """
    if file.suffix.lower() in (".yaml", ".yml"):
        if variant is not None:
            raise ConfigError(
                f"--variant {variant}: {file} is a profile, and a profile has only one variant of"
                " the service",
                hint="Give the study that it was made from, or leave --variant out.",
            )
        from tuner.config.profile import read_profile
        from tuner.core.model.calibration.calibrated import of_profile

        return of_profile(read_profile(file))
    from tuner.study.calibration_run import read_calibration

    with open_store(file, read_only=True) as store:
        sums = store.sums()
        per_s = rank_store(store, file, sums=sums).ranking.throughput_per_s
        return read_calibration(store, str(file), variant=variant, sums=sums, throughput_per_s=per_s)


def calibrate_variants(file: Path) -> tuple[list[Calibrated], dict[str, str]]:
    """Calibrate each variant of the service in *file*; also return the error text of each that failed.

    Raises:
        ConfigError: no variant can be calibrated.
    """
    if file.suffix.lower() in (".yaml", ".yml"):
        return [calibrate_file(file)], {}
    from tuner.study.calibration_run import read_calibration

    found, missing = [], {}
    with open_store(file, read_only=True) as store:
        variants = list(dict.fromkeys(layout.variant for layout in store.study().layouts))
        sums = store.sums()
        per_s = rank_store(store, file, sums=sums).ranking.throughput_per_s
        for variant in variants:
            try:
                found.append(
                    read_calibration(store, str(file), variant=variant, sums=sums, throughput_per_s=per_s)
                )
            except ConfigError as error:
                if len(variants) == 1:
                    raise
                missing[variant] = error.problem
    if not found:
        raise ConfigError(next(iter(missing.values())), hint=f"tuner rank {file} prints the reason.")
    return found, missing


def write_profile(file: Path, calibrated: Calibrated) -> None:
    """Write *calibrated* as a profile that `tuner grid --simulate` and `tuner predict` read."""
    from tuner.adapters.text_file import replace_text
    from tuner.config.profile import render_profile

    replace_text(file, render_profile(calibrated.calibration.profile))


def simulate_layouts(
    profile: Profile, machine: Machine, layouts: Sequence[Layout], what_if: WhatIf
) -> SimulatedLayouts:
    """Simulate *layouts* on *machine*, event by event, with the changes of *what_if*.

    Raises:
        ConfigError: the simulator program is missing, or one of *layouts* cannot be simulated.
    """
    from tuner.adapters.virtual.simulator import simulate_all
    from tuner.core.model.simulation.layouts import scenarios, simulate_layouts

    asked = scenarios(profile, machine, layouts, what_if)
    return simulate_layouts(asked, simulate_all(asked))


# The calibration: launches of one process with one thread, to estimate the demands of an item.


def begin_calibration(
    config: Path | None,
    options: Options,
    say: Say,
    launches: int | None,
    windows: int | None,
    study: Path | None,
    simulate: Path | None,
) -> Session:
    """Begin a calibration.

    Args:
        config: a config in YAML; None: no config.
        options: the settings given on the command line.
        launches: number of launches; None: 3.
        windows: windows of each launch; None: 2.
        study: the file; None: it is named after the service.
        simulate: the profile to simulate; None: a real service runs.

    Raises:
        ConfigError: the settings cannot be used here, or the file exists.
    """
    options = {
        ("study", "strategy"): Given(MADE_BY, "all"),
        ("study", "layouts"): Given(MADE_BY, "1x1"),
        **options,
    }
    settings, profile = load_request(config, options, simulate)
    usual = build_plan(settings, profile, options, say)
    record = calibration_study(
        usual,
        n_launches=launches or N_LAUNCHES,
        n_windows=windows or N_WINDOWS,
        window_s=usual.window_s if ("study", "window") in options else min(WINDOW_S, usual.window_s),
    )
    file = study if study is not None else Path(f"{record.service}.calibrate.tuner.db")
    return new_session(settings, record, file)


def has_windows(file: Path) -> bool:
    """Return whether the study in *file* has a valid window."""
    with stores.open_store(file, read_only=True) as store:
        return any(not window.void for window in store.windows())


# The explanation of a study.


@pause_collection()
def explain_file(
    file: Path,
    *,
    question: RankingOptions | None = None,
    confidence: float | None = None,
    cores: float | None = None,
) -> tuple[StudyRecord, Explanation | str, Sequence[Rule]]:
    """Return the study in *file*, the bottlenecks of its layouts (or why unknown), and sizing rules.

    The rules are for *cores* (None: the study's cores), those of the fastest layout's variant first.
    *question* may limit memory; *confidence* (None: the study's own) applies to the comparison with limits.

    Raises:
        ConfigError: *confidence* is given without a limit.
    """
    from tuner.core.ranking.ranked import RankingOptions

    asked = question or RankingOptions()
    with open_store(file, read_only=True) as store:
        record = store.study()
        limits = asked.limits_of(record)
        if confidence is not None and not limits:
            raise ConfigError(
                f"{file} has no limits, and --confidence is of these alone",
                hint="Add --max-memory, or leave --confidence out.",
            )
        sums = store.sums()
        seen = rank_store(store, file, question=asked, sums=sums)
        found, ranking = seen.explanation, seen.ranking
        if confidence is not None:
            from tuner.core.ranking.ranking import rank

            growth = memory_growth(store, sums, confidence, asked.horizon_of(record))
            judged = rank(record, seen.sums, confidence=confidence, limits=limits, growth=growth)
            found = explanation_of(record, seen.sums, judged.verdicts)
            if not isinstance(found, str):
                found = found.with_throughput(ranking.throughput_per_s)
        if not isinstance(found, str):
            trends = {row.layout: row.trend_per_h for row in ranking.rows if row.trend_per_h is not None}
            grows = {row.layout: row.memory_growth for row in ranking.rows if row.memory_growth is not None}
            found = replace(found, trends_per_h=trends, memory_growth=grows)
    return record, found, rules_of(found, cores)
