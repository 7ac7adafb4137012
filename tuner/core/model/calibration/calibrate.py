"""From windows to a calibrated model: demands, their uncertainty, and the error of the model.

`calibrate_alone` uses windows of 1x1, `calibrate_jointly` those of any layouts. `predict_held_out` measures
the error of a calibration for layouts that it did not use: there is no other measure of that error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Literal

import numpy as np

from tuner.core.errors import ConfigError
from tuner.core.model.calibration.alone import USUAL_CV, backend_notes, check_clocks, estimate_solo_demands
from tuner.core.model.calibration.clocks import Clocks
from tuner.core.model.calibration.joint_fit import NAMES, Fit, Problem, parts_of
from tuner.core.model.calibration.left_out import (
    HeldOut,
    launch_noise_sd,
    left_out,
    nearly_without,
    predicted_by,
    with_terms_of_worth,
)
from tuner.core.model.calibration.per_item import by_layout, estimate_looks
from tuner.core.model.calibration.sampling import AS_USUAL, N_DEMANDS, FittedDemands, Sampling
from tuner.core.model.demand import Demands, Terms
from tuner.core.model.machine import Machine
from tuner.core.model.prediction.extrapolation import ASSUMED_SMT_GAINS
from tuner.core.model.profile import Profile

#: Assumed standard deviation of log throughput around the prediction from 1x1 alone, beyond noise. The mean
#: error of 3.2 % over four mixes (docs/method/model.md) corresponds to a standard deviation of 4 %.
ASSUMED_MISFIT_SD = 0.04
_ASSUMED_DF = 2  #: weight of the assumption, as a number of left-out layouts
_LEAST_MISFIT_SD = 0.01
_MOST_TURNS = 24  #: most fits that leave layouts out; with more layouts, several are left out at a time
#: distance from the middle to the mean of an outer third of a normal distribution, in standard deviations
_THIRD = 1.09
#: standard deviation of the share of own CPU that holds the GIL, above which the share is not reported
_SHARE_UNKNOWN_SD = 0.2


@dataclass(frozen=True, slots=True)
class Calibration:
    """Calibration of a service, with its uncertainty."""

    profile: Profile
    method: Literal["alone", "joint"]  #: alone: from 1x1; joint: from all layouts together
    n_windows: int
    draws: tuple[Demands, ...]  #: draws from the joint uncertainty of all demands
    misfit_sd: float  #: standard deviation of log throughput around the model, beyond the noise of windows
    term_draws: tuple[Terms, ...] = ()  #: terms of each draw; empty: the profile's
    #: possible gains of a second thread on a core, as shares
    smt_gains: tuple[float, ...] = ASSUMED_SMT_GAINS
    notes: tuple[str, ...] = ()  #: limitations of these windows, one sentence each
    #: predictions of each layout by a fit without it; empty: not requested
    held_out: tuple[HeldOut, ...] = ()


def calibrate_alone(
    clocks: Sequence[Clocks],
    machine: Machine,
    *,
    name: str = "service",
    sampling: Sampling = AS_USUAL,
) -> Calibration:
    """Calibrate on the windows of 1x1 among *clocks* only.

    Intervals and draws are Student's t over launches. They cover differences between windows and launches
    like these; with one launch, the latter are not known, so 2 % of each demand is assumed and reported.

    Args:
        clocks: of valid windows; for layouts with more threads also of several windows together.
        machine: the host without other processes; their CPU in each window is in its clocks.
        name: of the service.
        sampling: of intervals and draws.

    Raises:
        ConfigError: no window of 1x1, none with CPU, or several variants of the service.
    """
    solo = estimate_solo_demands(clocks, machine)
    mean = np.insert(solo.mean, 1, 1.0)  # all own CPU is assumed to hold the GIL
    root = np.insert(solo.root, 1, 0.0, axis=0)
    looks = estimate_looks([one for one in clocks if one.layout.total_threads == 1])
    found = FittedDemands(mean, root, solo.df, solo.cv_ratio, looks)
    draws, terms, intervals = found.sampled(sampling)
    n_windows = sum(one.layout.total_threads == 1 for one in clocks)
    profile = Profile(
        name=name,
        demands=found.demands,
        machine=machine,
        source=f"{n_windows} window{'s' if n_windows > 1 else ''} of 1x1",
        intervals=intervals,
    )
    return Calibration(profile, "alone", n_windows, draws, ASSUMED_MISFIT_SD, terms, notes=solo.notes)


def calibrate_jointly(
    clocks: Sequence[Clocks],
    machine: Machine,
    *,
    name: str = "service",
    with_terms: bool = True,
    with_errors: bool = True,
    sampling: Sampling = AS_USUAL,
) -> Calibration:
    """Calibrate on all windows, of any layouts, together; 1x1 is the anchor if it was measured.

    Intervals and draws come from the curvature of the fit at its optimum: they are for the demands of this
    model, and are valid only if the model is nearly right.

    Args:
        clocks, machine, name, sampling: as of `calibrate_alone`.
        with_terms: use `Terms` if they predict left-out layouts better.
        with_errors: leave layouts out in turn to estimate the errors of the model; else they are assumed.

    Raises:
        ConfigError: no windows, none with CPU, several variants, or a single layout that is not 1x1.
    """
    problem = _problem(clocks, machine)
    layouts = list(problem.items)
    if len(layouts) == 1:
        if layouts[0].total_threads > 1:
            raise ConfigError(
                f"{layouts[0]} alone cannot separate the demand of an item from the contention between items",
                hint="Measure 1x1 too, or a few layouts (--layouts 1x1,1x4,4x1).",
            )
        return calibrate_alone(clocks, machine, name=name, sampling=sampling)
    base = problem.fit(layouts)
    fit = with_terms_of_worth(problem, base) if with_terms else base
    anchor = next(iter(problem.anchors.values()), None)
    cv_ratio = USUAL_CV if anchor is None else anchor.cv_ratio
    drawn = [*range(N_DEMANDS), *range(len(NAMES), len(fit.values))]
    found = FittedDemands(fit.values[drawn], fit.root[drawn], fit.df, cv_ratio, problem.looks, fit.terms)
    draws, term_draws, intervals = found.sampled(sampling)
    gains = _smt_gains(problem, fit)
    n_windows = sum(one.n_windows for one in clocks)
    profile = Profile(
        name=name,
        demands=found.demands,
        machine=replace(machine, smt_gain_ratio=gains[1]) if gains else machine,
        terms=parts_of(fit.values, fit.terms)[1],
        source=f"{n_windows} windows of {len(layouts)} layouts",
        intervals=intervals,
    )
    errors = _in_turn(problem, base, fit) if with_errors and len(layouts) > 2 else ()
    return Calibration(
        profile=profile,
        method="joint",
        n_windows=n_windows,
        draws=draws,
        term_draws=term_draws,
        misfit_sd=_misfit_sd(problem, errors),
        smt_gains=gains or ASSUMED_SMT_GAINS,
        notes=_notes(problem, fit, anchor is None),
        held_out=errors,
    )


def predict_held_out(
    clocks: Sequence[Clocks], machine: Machine, *, method: Literal["alone", "joint"] | None = None
) -> tuple[HeldOut, ...]:
    """Return each measured layout with its prediction by a calibration without that layout.

    Args:
        clocks, machine: as of `calibrate_jointly`.
        method: "alone": all are predicted from 1x1, which is not among them; "joint": each from all other
            layouts, terms chosen again without it (none are tried if all layouts together need none; beyond
            24 layouts, several are left out at a time). None: joint if there are three layouts or more.

    Returns:
        In the order of layouts; none if a single one was measured.

    Raises:
        ConfigError: as `calibrate_jointly`; "alone" without a window of 1x1.
    """
    problem = _problem(clocks, machine)
    layouts = list(problem.items)
    if method == "alone" or (method is None and len(layouts) < 3):
        estimate_solo_demands(clocks, machine)  # raises an error if data is missing
        others = [layout for layout in layouts if layout not in problem.anchors]
        seen = problem.without(others)
        fit = seen.fit(list(seen.items))
        return tuple(predicted_by(problem, seen, fit, others, "alone")) if others else ()
    base = problem.fit(layouts)
    return _in_turn(problem, base, with_terms_of_worth(problem, base))


def _in_turn(problem: Problem, base: Fit, fit: Fit) -> tuple[HeldOut, ...]:
    """Predict each layout by a fit without it; *base* and *fit* (with terms) are fits to all layouts."""
    layouts = list(problem.items)
    n_turns = min(len(layouts), _MOST_TURNS)
    turns = [layouts[n::n_turns] for n in range(n_turns)]
    if not fit.terms:
        found = left_out(problem, turns, base)
    else:
        found = []
        for turn in turns:
            seen = problem.without(turn)
            near = nearly_without(problem, turn, base)
            own = with_terms_of_worth(seen, seen.fit(list(seen.items), (), near))
            found += predicted_by(problem, seen, own, turn)
    return tuple(sorted(found, key=lambda one: layouts.index(one.layout)))


def _problem(clocks: Sequence[Clocks], machine: Machine) -> Problem:
    check_clocks(clocks)
    groups = by_layout(clocks)
    return Problem(groups, machine, launch_noise_sd(groups))


def _smt_gains(problem: Problem, fit: Fit) -> tuple[float, float, float] | None:
    """Return the gain by a second thread on a core: low, fitted, high; None if the windows do not show it."""
    own = problem.machine.own_cores
    if own == problem.machine.cores or all(layout.total_threads <= own for layout in problem.items):
        return None
    at = NAMES.index("smt_gain_ratio")
    gain, sd = float(fit.values[at]), sqrt(float((fit.root[at] ** 2).sum()))
    low, high = (min(1.0, max(0.0, gain + _THIRD * sd * sign)) for sign in (-1, 1))
    return low, gain, high


def _misfit_sd(problem: Problem, errors: Sequence[HeldOut]) -> float:
    """Return the error of left-out layouts beyond their noise; two assumed errors are included.

    1x1 is left out, because a prediction of 1x1 from larger layouts is a different problem.
    """
    errors = [one for one in errors if one.layout.total_threads > 1]
    squares = _ASSUMED_DF * ASSUMED_MISFIT_SD**2
    squares += sum(one.log_error**2 - problem.noise_sd[one.layout] ** 2 for one in errors)
    return sqrt(max(_LEAST_MISFIT_SD**2, squares / (_ASSUMED_DF + len(errors))))


def _notes(problem: Problem, fit: Fit, has_no_anchor: bool) -> tuple[str, ...]:
    notes = []
    sources = {item.source for item in problem.items.values()}
    if "service" in sources:
        notes.append(
            "In some windows the CPU of workers and children was not kept apart: it is all taken for Python."
        )
    smallest = min(problem.items, key=lambda one: (one.total_threads, one.threads))
    notes += backend_notes(problem.items[smallest])
    if has_no_anchor:
        notes.append(
            "tuner estimated the demands of an item with a model of contention, because 1x1 was not measured."
            " Measure 1x1, too, for better estimates."
        )
    if problem.machine.has_gil and sqrt((fit.root[1] ** 2).sum()) > _SHARE_UNKNOWN_SD:
        notes.append(
            "No layout shows the share of CPU in code that releases the GIL: a process of many threads does."
        )
    return tuple(notes)
