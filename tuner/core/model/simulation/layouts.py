"""Layouts simulated event by event, told as the network tells them, with quantiles of residence time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from tuner.core.layout import Layout
from tuner.core.model.machine import Machine
from tuner.core.model.network import Prediction
from tuner.core.model.prediction.whatif import WhatIf
from tuner.core.model.profile import Profile
from tuner.core.model.simulation.scenario import Scenario, Simulated, scenario_of

_N_ITEMS = 8000  #: of each layout: throughput is then known to about half a percent
_N_WARM_ITEMS = 1000


@dataclass(frozen=True, slots=True)
class SimulatedLayouts:
    """What a simulation says of layouts."""

    prediction: Prediction  #: in the order of the layouts
    residence_p95_s: Mapping[Layout, float]  #: what 95 % of the items stay below


def scenarios(
    profile: Profile, machine: Machine, layouts: Sequence[Layout], what_if: WhatIf
) -> list[Scenario]:
    """What to simulate: each of *layouts*, long enough to tell half a percent."""
    demands, box = what_if.of_demands(profile.demands), what_if.of_machine(machine)
    return [
        scenario_of(demands, box, layout, profile.terms, n_items=_N_ITEMS, n_warm_items=_N_WARM_ITEMS)
        for layout in layouts
    ]


def simulated_layouts(layouts: Sequence[Layout], found: Sequence[Simulated]) -> SimulatedLayouts:
    """Put together what was found of each of *layouts*."""
    columns = {
        one.name: np.asarray([getattr(result, one.name) for result in found]) for one in fields(Prediction)
    }
    p95 = {layout: result.residence_p95_s for layout, result in zip(layouts, found, strict=True)}
    return SimulatedLayouts(Prediction(**columns), p95)
