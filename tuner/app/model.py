"""What an item asks for, and what layouts would give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.app.collection import collection_paused
from tuner.app.study_queries import overview_of
from tuner.bootstrap.stores import open_store
from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError
from tuner.ports import Store

if TYPE_CHECKING:
    from tuner.core.model.calibration.calibrated import Calibrated
    from tuner.core.model.machine import Machine
    from tuner.core.model.prediction.whatif import WhatIf
    from tuner.core.model.profile import Profile
    from tuner.core.model.simulation.layouts import SimulatedLayouts
    from tuner.core.ranking.overview import Overview
    from tuner.core.ranking.ranking_options import RankingOptions
    from tuner.core.windows.launch_sums import Sums


@collection_paused()
def predict(
    file: Path,
    *,
    current: str | None = None,
    confidence: float | None = None,
    question: RankingOptions | None = None,
) -> tuple[Overview, Calibrated | str]:
    """The study in *file* as it stands, and the model fitted to it, of the variant of its best layout.

    Where that cannot be fitted, why not: a sentence. The arguments are those of `study_queries.ranked`.
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
        # by its name alone, as pages tell no folders of ours
        return read_calibration(store, seen.name, variant=variant, sums=sums)
    except ConfigError as error:
        return f"{error.problem}."


def calibrate_file(file: Path, *, variant: str | None = None) -> Calibrated:
    """The service in *file*: a study, of which every window of one variant is used, or a profile in YAML.

    *variant* is which of them; None: the service as it is, or the only one that the study has.

    Raises:
        ConfigError: it is neither, or has nothing to calibrate on.
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
        return read_calibration(store, str(file), variant=variant)


def calibrate_variants(file: Path) -> tuple[list[Calibrated], dict[str, str]]:
    """The service in *file*, each variant of it by itself, and why others cannot be told.

    Raises:
        ConfigError: there is nothing to calibrate on.
    """
    if file.suffix.lower() in (".yaml", ".yml"):
        return [calibrate_file(file)], {}
    from tuner.study.calibration_run import read_calibration

    found, missing = [], {}
    with open_store(file, read_only=True) as store:
        variants = list(dict.fromkeys(layout.variant for layout in store.study().layouts))
        for variant in variants:
            try:
                found.append(read_calibration(store, str(file), variant=variant))
            except ConfigError as error:
                if len(variants) == 1:
                    raise
                missing[variant] = error.problem
    if not found:
        raise ConfigError(next(iter(missing.values())), hint=f"tuner rank {file} prints the reason.")
    return found, missing


def write_profile(file: Path, calibrated: Calibrated) -> None:
    """Write what *calibrated* found as a profile that `tuner grid --simulate` and `tuner predict` read."""
    from tuner.adapters.text_file import replace_text
    from tuner.config.profile import render_profile

    replace_text(file, render_profile(calibrated.calibration.profile))


def simulate_layouts(
    profile: Profile, machine: Machine, layouts: Sequence[Layout], what_if: WhatIf
) -> SimulatedLayouts:
    """What *layouts* give on *machine*, event by event, with the changes of *what_if* made.

    Raises:
        ConfigError: there is no program that simulates, or one of *layouts* cannot be simulated.
    """
    from tuner.adapters.virtual.simulator import simulate_all
    from tuner.core.model.simulation.layouts import scenarios, simulate_layouts

    asked = scenarios(profile, machine, layouts, what_if)
    return simulate_layouts(asked, simulate_all(asked))
