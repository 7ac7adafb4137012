"""The uncertainty of a prediction: intervals, and which layout is best.

An interval is for a window of a fresh launch of the layout. It combines four sources of error, on the
logarithmic scale:

- *demands*: their uncertainty; the network is solved again for each draw of them;
- *model*: the distance of layouts that were left out of the fit from the model;
- *beyond*: extrapolation beyond the measurements, which grows with the distance in doublings;
- *noise*: of a window and a launch.

Figures are predicted from the middle of the demands; draws of them only give the width of the interval on
each side: no draw exceeds the capacity of the cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from tuner.core.domain.layout import Layout
from tuner.core.model.demand import Demands, LayoutDemands, Terms, layout_demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import Prediction, solve
from tuner.core.model.prediction.extrapolation import (
    CalibratedRange,
    core_doublings,
    doublings_outside,
    reasons,
)
from tuner.core.model.prediction.whatif import WhatIf
from tuner.core.model.profile import Profile
from tuner.core.stats.interval import Estimate

Array = NDArray[np.float64]

CONFIDENCE = 0.9
#: Without one layout of the published 24-core table, the network is off by 8.7 % on average: 0.11 over the
#: log2(24 / 2) doublings of the cores on which it is calibrated.
PER_DOUBLING_OF_CORES_SD = 0.03
#: Real windows were compared with the model up to 8 workers on 2 cores, so the misfit is known for layouts up
#: to this number of doublings from the measured ones.
CHECKED_DOUBLINGS = 3.0
PER_DOUBLING_OF_LAYOUT_SD = 0.03  #: beyond these doublings: assumed as for cores
#: The load predicted from 1x1 is off by 7 % outside convoys, and by 14 % in them (root mean squares,
#: docs/method/model.md), of which the misfit of throughput is 4 %.
LOAD_SD = 0.06
CONVOY_LOAD_SD = 0.13
_NEARLY_IDLE = 0.1  #: share of idle cores from which busy cores are as uncertain as throughput
_CONVOY = 0.9  #: share of the time for which the GIL is held, above which there is a convoy
ALIKE = 0.001  #: relative difference of throughputs that counts as equal; the model is less exact
_N_DRAWS = 40  #: number of draws of the demands that are solved
_N_SCORES = 51  #: number of normal quantiles for the remaining uncertainty around each draw
_LEAST_DRAWS = 9
_MOST_STATES = 4_000_000  #: states of all layouts and draws, which take about half a second
_AT_ONCE = 400_000  #: states solved in one call


@dataclass(frozen=True, slots=True)
class TrustedLayout:
    """Prediction of a layout. Intervals have the confidence of the whole."""

    layout: Layout
    throughput_per_s: Estimate
    load: Estimate  #: mean number of tasks that run or are uninterruptible
    #: busy cores in the kernel's CPU accounting, regardless of the speed of second threads
    cpu_cores: Estimate
    beyond: tuple[str, ...]  #: reasons why it is outside the measured range; empty: it is inside
    n_children: float  #: mean number of children that run or wait for a core


@dataclass(frozen=True, slots=True)
class Trusted:
    """Predictions of layouts, with their uncertainty."""

    rows: tuple[TrustedLayout, ...]  #: rows in the order of the requested layouts
    best: Layout  #: layout with the largest predicted throughput; of equal ones, the smallest
    as_good: tuple[Layout, ...]  #: layouts that may be as good as *best*, likeliest first
    middle: Prediction  #: prediction without intervals
    confidence: float


def predict_with_intervals(
    profile: Profile,
    draws: Sequence[Demands],
    misfit_sd: float,
    seen: CalibratedRange,
    machine: Machine,
    layouts: Sequence[Layout],
    *,
    what_if: WhatIf | None = None,
    middle: Prediction | None = None,
    term_draws: Sequence[Terms] = (),
    confidence: float = CONFIDENCE,
) -> Trusted:
    """Predict *layouts* on *machine*, with intervals.

    Args:
        profile: demands, terms and noise.
        draws: of the demands, from their uncertainty; one alone counts as known.
        misfit_sd: standard deviation of log throughput around the model, of layouts that it did not see.
        seen: the range of the calibration.
        machine: the host to predict for.
        layouts: at least one.
        what_if: changes of demands and interpreter.
        middle: the simulation of the layouts, with changes; None: use the network.
        term_draws: the terms that go with each of the *draws*; none: those of the profile.
        confidence: of each interval by itself.
    """
    change = what_if or WhatIf()
    machine = change.of_machine(machine)
    demands = change.of_demands(profile.demands)
    terms = change.of_terms(profile.terms)
    network = solve(_of(demands, terms, layouts), machine)
    middle = network if middle is None else middle
    runnable = middle.n_core_waiting + middle.throughput_per_s * demands.cpu_s
    busy = middle.busy_cores
    doublings = np.asarray([core_doublings(seen, float(one)) for one in busy])
    drawn = _solved_draws(
        change.of_draws(draws, profile.demands),
        [change.of_terms(one) for one in term_draws] or [terms] * len(draws),
        seen,
        machine,
        layouts,
        doublings,
    )
    model_sd = _model_sd(misfit_sd, seen, layouts, doublings)
    noise_sd = float(np.hypot(profile.noise.window_sd, profile.noise.launch_sd))
    around = np.hypot(model_sd, noise_sd)
    # Cores that are all busy cannot be busier: their interval does not depend on that of throughput.
    idle_ratio = np.minimum(1.0, (1 - middle.core_utilization_ratio) / _NEARLY_IDLE)

    load_around = np.hypot(model_sd, _load_sd(middle, layouts))
    throughput = _ends(
        middle.throughput_per_s, _ratio(drawn.throughput_per_s, network.throughput_per_s), around, confidence
    )
    load = _ends(middle.load, _ratio(drawn.load, network.load), load_around, confidence)
    cpu = _ends(busy, _ratio(drawn.busy_cores, network.busy_cores), idle_ratio * around, confidence)
    children = runnable * (demands.child_s / demands.cpu_s if demands.cpu_s else 0.0)
    rows = tuple(
        TrustedLayout(
            layout=layout,
            throughput_per_s=throughput[at],
            load=_at_most(load[at], _most_load(demands, terms, layout, throughput[at])),
            cpu_cores=_at_most(cpu[at], machine.cores),
            beyond=tuple(
                reasons(
                    seen,
                    machine,
                    layout,
                    cpu_cores=float(busy[at]),
                    n_runnable=float(runnable[at]),
                )
            ),
            n_children=float(children[at]),
        )
        for at, layout in enumerate(layouts)
    )
    best = order_of(layouts, middle)[0]
    may_be_best = _may_be_best(best, middle, drawn, model_sd, confidence)
    return Trusted(
        rows=rows,
        best=layouts[best],
        as_good=tuple(layouts[at] for at in order_of(layouts, middle) if at != best and may_be_best[at]),
        middle=middle,
        confidence=confidence,
    )


def draw_throughputs(
    profile: Profile,
    draws: Sequence[Demands],
    seen: CalibratedRange,
    layouts: Sequence[Layout],
    *,
    term_draws: Sequence[Terms] = (),
) -> Array:
    """Return items/s of *layouts* on the calibrated host for draws of the demands, shape (draws, layouts).

    The misfit of the model is not included. Arguments as of `predict_with_intervals`.
    """
    machine = seen.machine
    busy = solve(_of(profile.demands, profile.terms, layouts), machine).busy_cores
    doublings = np.asarray([core_doublings(seen, float(one)) for one in busy])
    terms = list(term_draws) or [profile.terms] * len(draws)
    return _solved_draws(draws, terms, seen, machine, layouts, doublings).throughput_per_s


def order_of(layouts: Sequence[Layout], middle: Prediction) -> list[int]:
    """Return places of *layouts*, largest throughput first; if equal, fewest threads first."""
    return best_first(layouts, middle.throughput_per_s)


def best_first(layouts: Sequence[Layout], throughput_per_s: Sequence[float] | Array) -> list[int]:
    """Return the places of *layouts* as `order_of` does."""
    logs = np.log(throughput_per_s)
    found: list[int] = []
    left = sorted(range(len(layouts)), key=lambda at: -logs[at])
    while left:
        alike = [at for at in left if logs[at] >= logs[left[0]] - ALIKE]
        found += sorted(alike, key=lambda at: (layouts[at].total_threads, layouts[at].processes, layouts[at]))
        left = left[len(alike) :]
    return found


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Drawn figures, shape (draws, layouts)."""

    throughput_per_s: Array
    load: Array
    busy_cores: Array


def _solved_draws(
    draws: Sequence[Demands],
    terms: Sequence[Terms],
    seen: CalibratedRange,
    machine: Machine,
    layouts: Sequence[Layout],
    doublings: Array,
) -> _Drawn:
    """Solve the network for draws of the demands and of the unmeasured properties of *machine*."""
    widest = max(one.total_threads for one in layouts)
    n_most = max(_LEAST_DRAWS, min(_N_DRAWS, _MOST_STATES // (len(layouts) * widest)))
    pairs = list(zip(draws, terms, strict=True))
    used = _thin(pairs, n_most) if len(pairs) > 1 else pairs * n_most
    each = [_of(*one, layouts) for one in used]
    stretched = [
        _stretch(one, np.exp(PER_DOUBLING_OF_CORES_SD * doublings * score))
        for one, score in zip(each, _normal_scores(len(used)), strict=True)
    ]
    gains = (machine.smt_gain_ratio,) if machine.physical_cores is None else seen.smt_gains
    per_call = max(1, _AT_ONCE // (len(layouts) * widest))
    found: list[Prediction] = []
    for number, gain in enumerate(gains):
        mine = stretched[number :: len(gains)]
        box = replace(machine, smt_gain_ratio=gain)
        found += [
            solve(_together(mine[first : first + per_call]), box) for first in range(0, len(mine), per_call)
        ]
    shape = (-1, len(layouts))
    return _Drawn(
        np.concatenate([one.throughput_per_s for one in found]).reshape(shape),
        np.concatenate([one.load for one in found]).reshape(shape),
        np.concatenate([one.busy_cores for one in found]).reshape(shape),
    )


def _thin(draws: Sequence[tuple[Demands, Terms]], n_most: int) -> list[tuple[Demands, Terms]]:
    """Return at most *n_most* draws, evenly from all."""
    if len(draws) <= n_most:
        return list(draws)
    return [draws[at * len(draws) // n_most] for at in range(n_most)]


def _normal_scores(n: int) -> Array:
    """Return the normal quantiles of n equal shares, in an order unrelated to that of the draws."""
    scores = [NormalDist().inv_cdf((rank + 0.5) / n) for rank in range(n)]
    Random(n).shuffle(scores)
    return np.asarray(scores)


def _of(demands: Demands, terms: Terms, layouts: Sequence[Layout]) -> LayoutDemands:
    processes, threads = [one.processes for one in layouts], [one.threads for one in layouts]
    return layout_demands(demands, terms, processes, threads)


def _stretch(of: LayoutDemands, by: Array) -> LayoutDemands:
    """Return *of* with CPU times multiplied by *by*."""
    return replace(of, gil_s=of.gil_s * by, python_s=of.python_s * by, child_s=of.child_s * by)


def _together(each: Sequence[LayoutDemands]) -> LayoutDemands:
    """Return one batch: all layouts of the first draw, then of the second ..."""
    names = LayoutDemands.__dataclass_fields__
    return LayoutDemands(**{name: np.concatenate([getattr(one, name) for one in each]) for name in names})


def _model_sd(misfit_sd: float, seen: CalibratedRange, layouts: Sequence[Layout], doublings: Array) -> Array:
    """Return the standard deviation of each layout's log throughput around the model, by itself."""
    outside = np.asarray([doublings_outside(seen.layouts, layout) for layout in layouts])
    of_layout = PER_DOUBLING_OF_LAYOUT_SD * np.maximum(0.0, outside - CHECKED_DOUBLINGS)
    found: Array = np.sqrt(misfit_sd**2 + of_layout**2 + (PER_DOUBLING_OF_CORES_SD * doublings) ** 2)
    return found


def _load_sd(middle: Prediction, layouts: Sequence[Layout]) -> Array:
    several = np.asarray([one.threads > 1 for one in layouts])
    in_convoy = several & (middle.gil_utilization_ratio > _CONVOY)
    return np.where(in_convoy, CONVOY_LOAD_SD, LOAD_SD)


def _may_be_best(
    best: int, middle: Prediction, drawn: _Drawn, model_sd: Array, confidence: float
) -> NDArray[np.bool_]:
    """Return which layouts may be as good as *best*: shared errors (demands, host) cancel."""
    behind = np.log(middle.throughput_per_s[best]) - np.log(middle.throughput_per_s)
    of_draws = np.log(drawn.throughput_per_s[:, [best]] / drawn.throughput_per_s).var(axis=0, ddof=1)
    quantile = NormalDist().inv_cdf((1 + confidence) / 2)
    found: NDArray[np.bool_] = behind <= quantile * np.sqrt(of_draws + model_sd**2 + model_sd[best] ** 2)
    return found


def _ratio(drawn: Array, middle: Array) -> Array:
    """Return *drawn* over *middle* for each draw; 1 if either is 0."""
    known = (middle > 0) & (drawn > 0)
    found: Array = np.where(known, drawn, 1.0) / np.where(known, middle, 1.0)
    return found


def _ends(middle: Array, drawn_ratio: Array, around: Array, confidence: float) -> list[Estimate]:
    """Return the interval of each layout: draws, as ratios of *middle*, with normal errors of sd *around*."""
    scores = np.asarray([NormalDist().inv_cdf((rank + 0.5) / _N_SCORES) for rank in range(_N_SCORES)])
    known = middle > 0  # a value of 0 is certain
    ratio = np.where(known, drawn_ratio, 1.0)
    logs = np.log(np.where(known, middle, 1.0)) + np.log(ratio)[:, None, :] + scores[None, :, None] * around
    tail = (1 - confidence) / 2
    low, high = np.quantile(logs.reshape(-1, len(middle)), [tail, 1 - tail], axis=0)
    return [
        Estimate(float(mid), min(float(mid), float(one)), max(float(mid), float(other)))
        for mid, one, other in zip(middle, known * np.exp(low), known * np.exp(high), strict=True)
    ]


def _most_load(demands: Demands, terms: Terms, layout: Layout, per_s: Estimate) -> float:
    """Return the largest load: one task per thread or its child, and other tasks active for items *per_s*."""
    of_others = demands.others_s * (per_s.high or 0.0)
    return layout.total_threads + terms.process_cores * layout.processes + of_others


def _at_most(estimate: Estimate, most: float) -> Estimate:
    mean, low, high = (
        None if one is None else min(one, most) for one in (estimate.mean, estimate.low, estimate.high)
    )
    return Estimate(mean, low, high)
