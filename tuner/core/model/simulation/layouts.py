"""Layouts simulated event by event, with the results of the network and quantiles of residence time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError
from tuner.core.model.demand import SECONDS, Array, Demands, LayoutDemands, Terms
from tuner.core.model.machine import Machine
from tuner.core.model.network import Prediction, waking
from tuner.core.model.prediction.whatif import WhatIf
from tuner.core.model.profile import Profile
from tuner.core.model.simulation.scenario import Scenario, Simulated, scenario_of

_N_ITEMS = 8000  #: number of measured items per layout, which gives throughput to about half a percent
#: measured items per thread, and their largest number, for many threads
_N_ITEMS_PER_THREAD, _MOST_ITEMS = 100, 200_000
#: number of items before the measurement, because all threads begin their first item at once
_N_WARM_ITEMS, _N_WARM_ITEMS_PER_THREAD = 1000, 5
_OF_AN_ITEM = (*SECONDS, "others_s")


@dataclass(frozen=True, slots=True)
class SimulatedLayouts:
    """Results of a simulation of layouts."""

    prediction: Prediction  #: prediction with the layouts in their order
    residence_p95_s: Mapping[Layout, float]  #: 95th percentile of the residence time of items


def scenarios(
    profile: Profile, machine: Machine, layouts: Sequence[Layout], what_if: WhatIf
) -> list[Scenario]:
    """Return a scenario for each of *layouts*, long enough for its threads to fall out of step.

    Remaining error, compared with much longer runs (four services, 1x12 to 48x48, 24 and 96 cores): 1 % of
    throughput, and 3 % of load and of the 95 % quantile of residence times, for times with the usual scatter
    (cv 0.2 to 0.5); 2 % and 7 % for exponential times. If all items are exactly equal (cv 0), threads stay in
    step for hundreds of items each: throughput may be wrong by 10 %, a small load by a multiple of it.

    Raises:
        ConfigError: a layout cannot be simulated: hand-overs of the GIL would take all its time, so the
            simulation would never end; or an item takes the GIL thousands of times.
    """
    demands, terms = what_if.of_demands(profile.demands), what_if.of_terms(profile.terms)
    box = what_if.of_machine(machine)
    return [_scenario(demands, terms, box, layout) for layout in layouts]


def simulate_layouts(asked: Sequence[Scenario], found: Sequence[Simulated]) -> SimulatedLayouts:
    """Combine the results *found* of the scenarios *asked*.

    The load is that of the simulated network, plus tasks without events: threads that wake up for the GIL
    (`network.waking`, at the simulated throughput and line), and tasks of other processes.
    """
    columns = {
        one.name: np.asarray([getattr(result, one.name) for result in found]) for one in fields(Prediction)
    }
    used = np.asarray([one.process_cores for one in asked])
    cores = np.asarray([one.cores for one in asked])
    of, machine = _layout_demands(asked, used), asked[0].machine
    cores_busy = np.clip((columns["busy_cores"] - used) / cores, 0.0, 1.0)
    per_s = columns["throughput_per_s"]
    columns["load"] += waking(machine, of, columns["n_gil_waiting"], per_s, cores_busy) + per_s * of.others_s
    p95 = {one.layout: result.residence_p95_s for one, result in zip(asked, found, strict=True)}
    return SimulatedLayouts(Prediction(**columns), p95)


def _scenario(demands: Demands, terms: Terms, machine: Machine, layout: Layout) -> Scenario:
    """Return the scenario of *layout*, with as many items as its threads need."""
    n = layout.total_threads
    n_items = max(_N_ITEMS, min(_N_ITEMS_PER_THREAD * n, _MOST_ITEMS))
    n_warm_items = max(_N_WARM_ITEMS, _N_WARM_ITEMS_PER_THREAD * n)
    try:
        return scenario_of(demands, machine, layout, terms, n_items=n_items, n_warm_items=n_warm_items)
    except ValueError as error:
        raise ConfigError(
            f"{layout} cannot be simulated: {error}",
            hint="Use --by network, or see gil_visits, handover and switch_interval in the profile.",
        ) from error


def _layout_demands(asked: Sequence[Scenario], process_cores: Array) -> LayoutDemands:
    """Return the demands of items in each of *asked*, in the form of the network."""
    return LayoutDemands(
        processes=np.asarray([float(one.layout.processes) for one in asked]),
        threads=np.asarray([float(one.layout.threads) for one in asked]),
        process_cores=process_cores,
        **{name: np.asarray([getattr(one.demands, name) for one in asked]) for name in _OF_AN_ITEM},
    )
