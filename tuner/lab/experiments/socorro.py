"""Socorro experiment, processes or threads: the crash processor in the published layouts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from tuner.core.domain.layout import Layout, grid_of
from tuner.core.domain.records import WindowRecord
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict
from tuner.core.text.figures import pluralize
from tuner.lab.experiments import socorro_claims
from tuner.lab.experiments.experiment import At, LabClaim, LabFigure, LabRun, Model, Row, Spread
from tuner.lab.experiments.socorro_runs import (
    FAR,
    HERE,
    PUBLISHED,
    REFERENCE,
    SINGLE,
    THREADED,
    demands_in,
    far_machine,
    figures_of,
    machine_in,
    medians,
    point,
    runs_of_windows,
    simulated_runs,
    with_ratios,
)
from tuner.lab.experiments.studied import Simulate, Study

_POOL = {
    name: {"options": {"producer_consumer_class": name}} for name in (THREADED, SINGLE)
}  #: variants by task manager
_SPAWN = {name: {"options": {"spawn_path": name}} for name in ("vfork", "posix_spawn")}
_WHOLE = {"window": "15s", "warmup": "6s"}
#: A quick run accepts windows on a busy host, and the claims report how busy it was.
_QUICK = {"window": "6s", "warmup": "5s", "foreign_limit": 10_000, "memory_pressure_limit": 1}
_ALONE = Layout(1, 1)


class Socorro:
    """The processor of crash reports: Python that starts a C program for each item."""

    name = "socorro"
    title = "one process of many threads, or many processes of one?"
    publication = "socorro_2014"
    what = (
        "tuner's crash processor analyses synthetic crash dumps, which need as much CPU and wait as long as "
        "those of 2014. Load is the mean number of active tasks. Python CPU is the CPU use of a worker "
        "process without its child processes. The rows for 24 cores are not measured: tuner simulates them "
        "from the CPU and waiting times of 1x1 on this host. The model and the simulation "
        "describe the same queueing network."
    )
    parameters = ("box", "task manager", "processes", "threads")
    figures = (
        LabFigure("ratio", "times 1x24", 2, caption="throughput of each layout, divided by that of 1x24"),
        LabFigure("items_per_10min", "items/10 min", 0),
        LabFigure("load", "load", 1),
        LabFigure("cpu_percent", "CPU %", 0),
        LabFigure("python_percent", "a process' Python CPU %", 0),
        LabFigure("gil_waiting", "in line for the GIL", 1),
    )
    needs = ()

    def published(self, seeds: Mapping[str, Any]) -> dict[At, dict[str, float]]:
        """Return six layouts on 24 cores; on this host, items relative to 1x24, because hosts differ."""
        data = {(one["processes"], one["threads"]): one for one in seeds[self.publication]["layouts"]}
        items = {Layout(*key): float(one["items_per_10min"]) for key, one in data.items()}
        found: dict[At, dict[str, float]] = {}
        for layout, n in items.items():
            ratio = {"ratio": n / items[REFERENCE]}
            load = _load(data[layout.processes, layout.threads].get("load"), data)
            found[point(HERE, layout)] = ratio
            found[point(FAR, layout)] = {
                **ratio,
                "items_per_10min": n,
                **({} if load is None else {"load": load}),
            }
        return found

    def points(self, published: Sequence[At], *, quick: bool) -> list[At]:
        """Return the published points and the reference points; further ones depend on the host's cores."""
        alone = [point(HERE, _ALONE, THREADED), point(HERE, _ALONE, SINGLE)]
        more = [] if quick else [point(HERE, PUBLISHED[0], SINGLE), point(FAR, _ALONE)]
        return sorted([*published, *alone, *more], key=lambda at: (at[0] == FAR, at[1] == SINGLE, at[2:]))

    def studies(
        self, n_cores: int, python: str | None, pythons: Mapping[str, str], *, quick: bool
    ) -> list[Study]:
        """Return the studies of layouts on this host; unless *quick*, also of interpreters and ways to
        spawn.
        """
        threaded = [*PUBLISHED, _ALONE] + ([] if quick else grid_of("divisors", n_cores))
        single = [_ALONE] if quick else [one for one in threaded if one.threads == 1]
        layouts = [replace(one, variant=THREADED) for one in dict.fromkeys(threaded)]
        layouts += [replace(one, variant=SINGLE) for one in dict.fromkeys(single)]
        usual = _QUICK if quick else _WHOLE
        run_by = {} if python is None else {"interpreter": [python]}
        asked = [
            Study(
                "layouts",
                f"{pluralize(len(layouts), 'layout')}, task managers included",
                _settings({**run_by, "axes": {"pool": _POOL}}, layouts, usual),
            )
        ]
        if pythons and not quick:
            axes = {
                "python": {name: {"interpreter": [one]} for name, one in pythons.items()},
                "spawn": _SPAWN,
            }
            variants = [f"{version}+{spawn}" for version in pythons for spawn in _SPAWN]
            layouts = [replace(one, variant=name) for one in (_ALONE, REFERENCE) for name in variants]
            own = {"axes": axes, "options": {"producer_consumer_class": THREADED}}
            what = f"Python {', '.join(pythons)}, each with {pluralize(len(_SPAWN), 'way')} to start a child"
            asked.append(Study("interpreters", what, _settings(own, layouts, usual)))
        return asked

    def left_out(self, python: str | None, pythons: Mapping[str, str], *, quick: bool) -> list[str]:
        """Return the reasons for not comparing interpreters, if any."""
        if quick:
            return ["Only a run without --quick compares interpreters and ways to start a child."]
        if python is not None:
            return ["A run with one --python compares no interpreters; with several, or none, it does."]
        return [] if pythons else ["No Python 3.11 to 3.15 was found by name or of pyenv to compare."]

    def panel(self, at: At) -> tuple[str, str]:
        """Return the panel of a point: one for each host, and one for interpreters."""
        box, manager = str(at[0]), str(at[1])
        _, mark, interpreter = manager.partition(", ")
        return (f"{box}, by interpreter and way to start a child", interpreter) if mark else (box, manager)

    def runs_of(self, windows: Sequence[WindowRecord], machine: Machine) -> list[LabRun]:
        """Return a run for each valid window."""
        return runs_of_windows(windows, machine)

    def together(self, runs: Sequence[LabRun], simulate: Simulate) -> list[LabRun]:
        """Return all runs with those of the simulated larger host, relative to 1x24."""
        return with_ratios([*runs, *simulated_runs(runs, simulate)])

    def model(self, runs: Mapping[At, Mapping[str, Spread]]) -> Model:
        """Return the analytic network, fitted to 1x1 of each task manager and interpreter."""
        modelled: dict[At, dict[str, float]] = {}
        fitted, demands_here = [], None
        for at in runs:
            box, manager, *_ = at
            anchor = point(HERE, _ALONE, str(manager))
            demands = demands_in(medians(runs[anchor])) if anchor in runs else None
            if demands is None:
                continue
            values = medians(runs[at])
            machine = machine_in(values) if box == HERE else far_machine(machine_in(medians(runs[anchor])))
            if at == anchor:
                fitted.append(at)
            if manager == THREADED:
                demands_here = demands
            layout = Layout(int(at[2]), int(at[3]))
            modelled[at] = figures_of(predict(demands, machine, [layout]), 0, layout, demands)
        for at, values in modelled.items():
            reference = point(str(at[0]), REFERENCE, THREADED)
            beside = modelled.get(reference)
            if beside is not None and at != reference:  # relative to itself it is always 1
                values["ratio"] = values["items_per_10min"] / beside["items_per_10min"]
        return Model(modelled, frozenset(fitted), _describe_fit(runs, modelled, fitted, demands_here))

    def findings(self, rows: Sequence[Row]) -> list[LabClaim]:
        """Return the claims on this host and on 24 simulated cores, on task managers and interpreters."""
        return socorro_claims.findings(rows)

    def follows(self, rows: Sequence[Row]) -> str:
        """Return the best layout here, and on 24 cores."""
        return socorro_claims.follows(rows)


def _settings(
    service: Mapping[str, Any], layouts: Sequence[Layout], usual: Mapping[str, Any]
) -> dict[str, Any]:
    options = {"profile": "socorro-2014", **service.get("options", {})}
    return {
        "service": {"kind": "crash-processor", "name": "socorro", **service, "options": options},
        "study": {"strategy": "all", "layouts": list(map(str, layouts)), **usual},
    }


def _load(text: str | None, layouts: Mapping[tuple[int, int], Mapping[str, Any]]) -> float | None:
    """Return the load in *text*, or a share of another's; None for a bound ("never above 16")."""
    if text is None:
        return None
    steady = re.fullmatch(r"steady at (\d+)", text)
    if steady is not None:
        return float(steady[1])
    share = re.fullmatch(r"(\d+) % of the load of (\d+)x(\d+)", text)
    if share is None:
        return None
    other = _load(layouts[int(share[2]), int(share[3])].get("load"), layouts)
    return None if other is None else float(share[1]) / 100 * other


def _describe_fit(
    runs: Mapping[At, Mapping[str, Spread]],
    modelled: Mapping[At, Mapping[str, float]],
    fitted: Sequence[At],
    demands: Demands | None,
) -> str:
    """Return the fitted values, and the error of the model's throughput on this host and on the simulated
    one.
    """
    if demands is None:
        return "Without a run of 1x1 there is no model."
    shares = {
        "stackwalker": demands.child_s,
        "Python": demands.gil_s,
        "waiting": demands.waiting_s,
    }
    total_s = sum(shares.values())
    lines = [
        f"The model {'of each task manager and Python ' * (len(fitted) > 1)}is fitted to 1x1. In 1x1 an item "
        f"takes {1e3 * total_s:.1f} ms ("
        + ", ".join(f"{name} {100 * part_s / total_s:.0f} %" for name, part_s in shares.items())
        + ")."
    ]
    for box, beside in ((HERE, "measured"), (FAR, "simulated")):
        errors = {
            at: modelled[at]["items_per_10min"] / runs[at]["items_per_10min"].median - 1
            for at in modelled
            if at[0] == box and at not in fitted
        }
        if errors:
            worst = max(errors, key=lambda at: abs(errors[at]))
            lines.append(
                f"The throughput of the model differs from the {beside} throughput by "
                f"{100 * fmean(map(abs, errors.values())):.1f} % on average over "
                f"{pluralize(len(errors), 'row')}, and by {100 * errors[worst]:+.1f} % at most "
                f"({worst[1]}, {worst[2]:g}x{worst[3]:g})."
            )
    return " ".join(lines)
