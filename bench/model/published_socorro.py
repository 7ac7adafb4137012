"""The Socorro table of 2014 as a descriptive fit: variants of the network, their errors and predictions.

Every variant is fitted in the same way, to the throughput of the layouts and to the published statements on
their loads. Residuals are logarithms of the throughput, and the distance of a load from its range. A global
search by differential evolution (seeded, all candidates of a generation in one solve) is followed by least
squares. The fit is repeated for each layout that is left out, with its throughput and its load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import differential_evolution, least_squares

from tuner.core.domain.layout import Layout
from tuner.core.model.demand import Demands, LayoutDemands, Terms, layout_demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import Prediction, solve

Array = NDArray[np.float64]

WINDOW_S = 600.0
CORES = 24.0
PHYSICAL_CORES = 12.0  #: of the variants with SMT: what a box of 24 logical cores most likely had
UNMEASURED = (Layout(8, 6), Layout(3, 8), Layout(6, 4))
WORST_RATIO = 0.10  #: the bar: a variant that misses no layout by more describes the table
LOAD_WEIGHT = 0.2  #: a load that is one task out of its range weighs like a throughput off by 20 %
LOAD_TOLERANCE = 0.1  #: tasks out of its range that still count as within
GAINS = (0.0, 0.3, 0.6)  #: of SMT, where the global searches begin
ROUNDS = 8  #: of the fixed point between a backend and those who use it

#: What may be searched, with its bounds. Demands in seconds per item.
BOUNDS = {
    "gil_s": (0.2, 0.8),
    "child_s": (0.2, 10.0),
    "asleep_s": (0.0, 6.0),
    "blocked_s": (0.0, 6.0),
    "process_cores": (0.0, 0.5),
    "cpu_per_process_ratio": (0.0, 0.15),
    "blocked_per_process_ratio": (0.0, 0.5),
    "blocked_per_visitor_ratio": (0.0, 1.0),  # each other task in the backend makes it slower by this
    "threaded_asleep_s": (0.0, 4.0),
    "convoy_ratio": (0.0, 1.0),
    "smt_gain_ratio": (0.0, 0.6),
}
SYMBOLS = {
    "gil_s": "g",
    "child_s": "c",
    "asleep_s": "w",
    "blocked_s": "d",
    "process_cores": "a",
    "cpu_per_process_ratio": "mP",
    "blocked_per_process_ratio": "mD",
    "blocked_per_visitor_ratio": "mV",
    "threaded_asleep_s": "q",
    "convoy_ratio": "omega",
    "smt_gain_ratio": "gain",
}


TERMS = frozenset(field.name for field in fields(Terms))


@dataclass(frozen=True)
class Row:
    """One published layout."""

    layout: Layout
    items_per_10min: float
    load_text: str | None


@dataclass(frozen=True)
class Variant:
    name: str
    free: tuple[str, ...]  #: names in BOUNDS
    fits_loads: bool = True


BASE = ("gil_s", "child_s", "asleep_s")
D = (*BASE, "blocked_s")
MP, MD, MV = "cpu_per_process_ratio", "blocked_per_process_ratio", "blocked_per_visitor_ratio"
Q, A, OMEGA, SMT = "threaded_asleep_s", "process_cores", "convoy_ratio", "smt_gain_ratio"
VARIANTS = (
    Variant("base, throughput only", BASE, fits_loads=False),
    Variant("base", BASE),
    Variant("+ d", D),
    Variant("+ a", (*BASE, A)),
    Variant("+ mP", (*BASE, MP)),
    Variant("+ d mD", (*D, MD)),
    Variant("+ q", (*BASE, Q)),
    Variant("+ omega", (*BASE, OMEGA)),
    Variant("+ SMT", (*BASE, SMT)),
    Variant("+ a q", (*BASE, A, Q)),
    Variant("+ mP q", (*BASE, MP, Q)),
    Variant("+ d mD q", (*D, MD, Q)),
    Variant("+ d mV q", (*D, MV, Q)),
    Variant("+ SMT q", (*BASE, SMT, Q)),
    Variant("+ SMT mP q", (*BASE, SMT, MP, Q)),
    Variant("+ d, all terms", (*D, A, MP, MD, Q, OMEGA)),
    Variant("+ d, all, SMT", (*D, A, MP, MD, Q, OMEGA, SMT)),
)


@dataclass(frozen=True)
class Fit:
    """One variant, fitted; layouts in the order of the table, throughput per ten minutes."""

    variant: Variant
    values: dict[str, float]
    items: tuple[float, ...]
    errors: tuple[float, ...]  #: model over measured, less 1
    loads: tuple[float, ...]
    misses: tuple[str, ...]  #: what is told about loads and does not hold
    left_out: tuple[float, ...]  #: errors of the fits that did not see the layout
    unmeasured: tuple[float, ...]  #: UNMEASURED
    order: tuple[str, ...]  #: layouts, best first

    @property
    def worst(self) -> float:
        return max(abs(one) for one in self.errors)

    def as_json(self) -> dict[str, Any]:
        return {
            "variant": self.variant.name,
            "free": list(self.variant.free),
            "values": self.values,
            "items_per_10min": list(self.items),
            "error_ratio": list(self.errors),
            "worst_ratio": self.worst,
            "load": list(self.loads),
            "load_misses": list(self.misses),
            "left_out_error_ratio": list(self.left_out),
            "order": list(self.order),
            "unmeasured_items_per_10min": dict(zip(map(str, UNMEASURED), self.unmeasured, strict=True)),
        }


def rows_of(seeds: dict[str, Any]) -> list[Row]:
    return [
        Row(Layout(one["processes"], one["threads"]), float(one["items_per_10min"]), one.get("load"))
        for one in seeds["socorro_2014"]["layouts"]
    ]


def fit_all(rows: Sequence[Row], variants: Sequence[Variant], seed: int, n_generations: int) -> list[Fit]:
    return [fit_one(rows, one, seed, n_generations) for one in variants]


def fit_one(rows: Sequence[Row], variant: Variant, seed: int, n_generations: int) -> Fit:
    best = search(rows, variant, seed, n_generations)
    layouts = [row.layout for row in rows]
    seen = predicted(variant, best[None, :], layouts)
    items = WINDOW_S * seen.throughput_per_s
    left_out = []
    for number, row in enumerate(rows):
        others = [*rows[:number], *rows[number + 1 :]]
        blind = predicted(variant, search(others, variant, seed, n_generations)[None, :], [row.layout])
        left_out.append(WINDOW_S * blind.throughput_per_s[0] / row.items_per_10min - 1)
    loads = dict(zip(map(str, layouts), seen.load.tolist(), strict=True))
    ranked = sorted(zip(items, map(str, layouts), strict=True), reverse=True)
    return Fit(
        variant,
        dict(zip(variant.free, best.tolist(), strict=True)),
        tuple(items.tolist()),
        tuple((items / [row.items_per_10min for row in rows] - 1).tolist()),
        tuple(seen.load.tolist()),
        tuple(load_misses(loads)),
        tuple(map(float, left_out)),
        tuple((WINDOW_S * predicted(variant, best[None, :], UNMEASURED).throughput_per_s).tolist()),
        tuple(name for _, name in ranked),
    )


def search(rows: Sequence[Row], variant: Variant, seed: int, n_generations: int) -> Array:
    """Return the best values of the free parameters of *variant*; shape (free,)."""
    bounds = [BOUNDS[name] for name in variant.free]
    low, high = np.array(bounds).T
    starts = []
    for gain in GAINS if SMT in variant.free else (None,):
        held = [(gain, gain) if name == SMT else BOUNDS[name] for name in variant.free]
        found = differential_evolution(
            lambda columns: (residuals(rows, variant, np.atleast_2d(columns.T)) ** 2).sum(axis=1),
            held,
            rng=seed,
            maxiter=n_generations,
            popsize=10,
            polish=False,
            vectorized=True,
            updating="deferred",
            tol=1e-3,
        )
        starts.append((found.fun, found.x))
    _, start = min(starts, key=lambda one: float(one[0]))

    def jacobian(at: Array) -> Array:
        step = 1e-5 * (high - low)
        step = np.where(at + step > high, -step, step)
        moved = residuals(rows, variant, np.vstack([at, at + np.diag(step)]))
        columns: Array = ((moved[1:] - moved[0]) / step[:, None]).T
        return columns

    inside = low + np.clip((start - low) / (high - low), 1e-6, 1 - 1e-6) * (high - low)
    polished = least_squares(
        lambda at: residuals(rows, variant, at[None, :])[0],
        inside,
        jac=jacobian,
        bounds=(low, high),
        x_scale=high - low,
        max_nfev=100,
    )
    return np.asarray(polished.x if 2 * polished.cost < min(starts)[0] else start)


def residuals(rows: Sequence[Row], variant: Variant, values: Array) -> Array:
    """Shape (candidates, residuals)."""
    got = predicted(variant, values, [row.layout for row in rows])
    shape = (len(values), len(rows))
    measured = np.array([row.items_per_10min for row in rows]) / WINDOW_S
    throughput = np.log(got.throughput_per_s.reshape(shape) / measured)
    if not variant.fits_loads:
        return throughput
    load = {str(row.layout): got.load.reshape(shape)[:, number] for number, row in enumerate(rows)}
    return np.column_stack([throughput, *(LOAD_WEIGHT * one for one in load_excesses(load))])


# What the article says about loads, as ranges of their means, in tasks.
STEADY_AT_24 = (23.5, 24.5)
RARELY_ABOVE, NEVER_ABOVE = 9.0, 16.0
SHARE_OF_24X1 = (0.775, 0.825)


def load_excesses(load: dict[str, Any]) -> list[Any]:
    """Return by how many tasks the loads are outside of the published ranges."""
    excesses = []
    if "24x1" in load:
        excesses.append(outside(load["24x1"], *STEADY_AT_24))
    if "1x24" in load:
        excesses.append(outside(load["1x24"], 0.0, RARELY_ABOVE))
    if "2x12" in load:
        excesses.append(outside(load["2x12"], 0.0, NEVER_ABOVE))
    if "12x2" in load and "24x1" in load:
        excesses.append(24 * outside(load["12x2"] / load["24x1"], *SHARE_OF_24X1))
    return excesses


def outside(value: Any, low: float, high: float) -> Any:
    return np.maximum(0.0, low - value) + np.maximum(0.0, value - high)


def load_misses(load: dict[str, float]) -> list[str]:
    """In words."""
    lines = ("24x1 steady at 24", "1x24 rarely above 9", "2x12 never above 16", "12x2 at 80 % of 24x1")
    return [text for text, excess in zip(lines, load_excesses(load), strict=True) if excess > LOAD_TOLERANCE]


def predicted(variant: Variant, values: Array, layouts: Sequence[Layout]) -> Prediction:
    """Every candidate (rows of *values*) on every layout, one after the other: candidates x layouts long."""
    if SMT in variant.free:
        gains = values[:, variant.free.index(SMT)]
        different = np.unique(gains)
        if len(different) > 1:  # a machine each
            return together(
                [predicted(variant, values[gains == gain], layouts) for gain in different],
                np.concatenate([np.flatnonzero(gains == gain) for gain in different]),
                len(layouts),
            )
        machine = Machine(CORES, PHYSICAL_CORES, smt_gain_ratio=float(gains[0]))
    else:
        machine = Machine(CORES)
    demands, visitor_ratio = candidates_demands(variant.free, values, layouts)
    got = solve(demands, machine)
    if MV not in variant.free:
        return got
    alone_s = demands.blocked_s
    for _ in range(ROUNDS):  # the backend slows down by those who are in it
        slow_s = alone_s * (1 + visitor_ratio * np.maximum(0.0, got.n_blocked - 1))
        demands = replace(demands, blocked_s=0.5 * (demands.blocked_s + slow_s))
        got = solve(demands, machine)
    return got


def candidates_demands(
    names: Sequence[str], values: Array, layouts: Sequence[Layout]
) -> tuple[LayoutDemands, Array]:
    """Return the demands of the layouts for each candidate, and the slowdown of the backend per visitor."""
    processes, threads = [one.processes for one in layouts], [one.threads for one in layouts]
    each, visitor_ratios = [], []
    for row in values.tolist():
        value = dict(zip(names, row, strict=True))
        value.pop(SMT, None)
        visitor_ratios += [value.pop(MV, 0.0)] * len(layouts)
        terms = Terms(**{name: value.pop(name) for name in list(value) if name in TERMS})
        each.append(layout_demands(Demands(**value), terms, processes, threads))
    together = LayoutDemands(
        *(np.concatenate([getattr(one, field.name) for one in each]) for field in fields(LayoutDemands))
    )
    return together, np.array(visitor_ratios)


def together(parts: Sequence[Prediction], candidates: Array, n_layouts: int) -> Prediction:
    """*parts* put back into the order of their *candidates*."""
    places = np.argsort((candidates[:, None] * n_layouts + np.arange(n_layouts)).ravel())
    return Prediction(
        *(np.concatenate([getattr(one, field.name) for one in parts])[places] for field in fields(Prediction))
    )
