"""Runs of the crash processor: windows measured on this host, and simulations of a larger host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from statistics import median

from tuner.core.defaults import TEN_MINUTES_S
from tuner.core.domain.layout import Layout, grid_of
from tuner.core.domain.records import WARMING_BLOCK, WindowRecord
from tuner.core.model.calibration.calibrate import calibrate_alone
from tuner.core.model.calibration.clocks import clocks_of
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import Prediction
from tuner.core.model.prediction.whatif import WhatIf
from tuner.core.model.profile import Profile
from tuner.core.model.simulation.layouts import scenarios, simulate_layouts
from tuner.lab.experiments.experiment import FOREIGN, SIMULATED, USABLE_CORES, At, LabRun, Spread, is_quiet
from tuner.lab.experiments.studied import Simulate

HERE = "this box"
CORES = 24  #: cores of the published host; a test compares them with the publication
FAR = f"{CORES} cores, simulated"
#: task managers: one with a queue, and one with a single thread and no queue
THREADED, SINGLE = "threaded", "single"
REFERENCE = Layout(1, 24)  #: layout in production at the time; other layouts are compared with it
#: the published layouts; a test compares them with the publication
PUBLISHED = tuple(Layout(p, t) for p, t in ((24, 1), (12, 2), (4, 6), (2, 12), (1, 24), (1, 12)))
_DEMAND = "demand_"  #: prefix of fields of `Demands` among the values of a run of 1x1


def runs_of_windows(windows: Sequence[WindowRecord], machine: Machine) -> list[LabRun]:
    """Return every valid window as a run of its layout and variant."""
    return [
        LabRun(point(HERE, window.layout), window.block, _values(window, machine))
        for window in windows
        if not window.void and window.block != WARMING_BLOCK and window.n_done
    ]


def point(box: str, layout: Layout, manager: str | None = None) -> At:
    """Return the point of a layout; its variant is its task manager, or ``PYTHON+SPAWN`` of a threaded
    one.
    """
    named = layout.variant or THREADED
    if manager is None:
        manager = named if "+" not in named else f"{THREADED}, {named.replace('+', ' ')}"
    return (box, manager, float(layout.processes), float(layout.threads))


def _values(window: WindowRecord, machine: Machine) -> dict[str, float]:
    """Return the figures of a window; of 1x1 also the demands of an item."""
    length_s, n_processes = window.length_s, window.layout.processes
    values = {
        "items_per_10min": TEN_MINUTES_S * window.n_done / length_s,
        "load": window.n_active_mean,
        "cpu_percent": 100 * window.service_cpu_s / length_s,
        "python_percent": None
        if window.worker_cpu_s is None
        else 100 * window.worker_cpu_s / length_s / n_processes,
        "gil_waiting": None if window.gil_waiting_s is None else window.gil_waiting_s / length_s,
        FOREIGN.key: (window.foreign_cpu_s + window.steal_s) / length_s,
        "n_failed": float(window.n_failed),
        USABLE_CORES: machine.cores,
        "n_physical": machine.physical_cores,
        "has_gil": float(machine.has_gil),
    }
    if window.layout.total_threads == 1:
        found = calibrate_alone([clocks_of(window)], machine).profile.demands
        values |= {f"{_DEMAND}{one.name}": float(getattr(found, one.name)) for one in fields(Demands)}
    return {key: float(value) for key, value in values.items() if value is not None}


def demands_in(values: Mapping[str, float]) -> Demands | None:
    """Return the demands of an item by a run of 1x1, or by medians of runs; None: another layout."""
    data = {one.name: values.get(f"{_DEMAND}{one.name}") for one in fields(Demands)}
    if None in data.values():
        return None
    known = {name: float(value) for name, value in data.items() if value is not None}
    return Demands(**{**known, "n_gil_visits": max(1, round(known["n_gil_visits"]))})  # type: ignore[arg-type]


def medians(spreads: Mapping[str, Spread]) -> dict[str, float]:
    """Return the median of each figure."""
    return {key: spread.median for key, spread in spreads.items()}


def machine_in(values: Mapping[str, float]) -> Machine:
    """Return the host of a run, with the other processes during it."""
    return Machine(
        cores=values[USABLE_CORES],
        physical_cores=values.get("n_physical"),
        foreign_cores=values.get(FOREIGN.key, 0.0),
        has_gil=values["has_gil"] > 0,
    )


def far_machine(here: Machine) -> Machine:
    """Return a host like *here*, with as many cores as the published one."""
    share = 1.0 if here.physical_cores is None else here.physical_cores / here.cores
    physical = None if here.physical_cores is None else share * CORES
    return replace(here, cores=float(CORES), physical_cores=physical, foreign_cores=0.0)


def figures_of(found: Prediction, n: int, layout: Layout, demands: Demands) -> dict[str, float]:
    """Return the modelled figures of *layout*, its number *n*, as a window would have them."""
    of_python = (demands.gil_s + demands.python_s) / demands.cpu_s
    return {
        "items_per_10min": TEN_MINUTES_S * float(found.throughput_per_s[n]),
        "load": float(found.load[n]),
        "cpu_percent": 100 * float(found.busy_cores[n]),
        "python_percent": 100 * float(found.busy_cores[n]) * of_python / layout.processes,
        "gil_waiting": float(found.n_gil_waiting[n]),
    }


def simulated_runs(runs: Sequence[LabRun], simulate: Simulate) -> list[LabRun]:
    """Return simulated runs on a larger host, from the demands of 1x1 in each block."""
    layouts = list(dict.fromkeys([*PUBLISHED, Layout(1, 1), *grid_of("divisors", CORES)]))
    found = []
    for run in runs:
        demands = demands_in(run.values)
        if run.at != point(HERE, Layout(1, 1)) or demands is None:
            continue
        machine = far_machine(machine_in(run.values))
        disturbed = {FOREIGN.key: run.values[FOREIGN.key]}  # disturbances of 1x1 also affect its simulation
        asked = scenarios(Profile("socorro", demands, machine), machine, layouts, WhatIf())
        asked = [replace(one, seed=run.block + 1) for one in asked]
        reported = simulate_layouts(asked, simulate(asked)).prediction
        for n, layout in enumerate(layouts):
            figures = figures_of(reported, n, layout, demands)
            found.append(LabRun(point(FAR, layout), run.block, {**figures, **_of_box(machine), **disturbed}))
    return found


def _of_box(machine: Machine) -> dict[str, float]:
    physical = {} if machine.physical_cores is None else {"n_physical": machine.physical_cores}
    return {USABLE_CORES: machine.cores, **physical, "has_gil": float(machine.has_gil), SIMULATED: 1.0}


def with_ratios(runs: Sequence[LabRun]) -> list[LabRun]:
    """Return each run with its items relative to REFERENCE, threaded, on its host.

    The reference is of the same block in the same study, else the median of all. Disturbed references are
    used only if there are no others.
    """
    found = []
    for run in runs:
        reference = point(str(run.at[0]), REFERENCE, THREADED)
        those = [one for one in runs if one.at == reference and one.values["items_per_10min"]]
        quiet = [one for one in those if is_quiet(one)]
        same = {one.block: one.values["items_per_10min"] for one in quiet or those}
        values = dict(run.values)
        if same:
            own = same.get(run.block) if run.at[1] in (THREADED, SINGLE) else None
            values["ratio"] = values["items_per_10min"] / (own or median(same.values()))
        found.append(replace(run, values=values))
    return found
