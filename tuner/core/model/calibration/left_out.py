"""The error of the model on layouts that were left out of the fit, and the terms that reduce it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from statistics import fmean, stdev
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tuner.core.domain.layout import Layout
from tuner.core.model.calibration.clocks import Clocks
from tuner.core.model.calibration.gauss_newton import bounded_step
from tuner.core.model.calibration.joint_fit import TERMS, Fit, Problem, StandardResiduals
from tuner.core.model.calibration.per_item import log_throughputs
from tuner.core.model.demand import Array
from tuner.core.model.nodes import Indices

# Fits near a known fit: of all folds at once, and with one more term. Used to choose terms.
#
# A study of 22 layouts needs 500 such fits, of some 30 solutions of the network each. All folds together
# take about as many as one of them: each starts from the fit to all layouts and continues in steps of
# Gauss and Newton with the Jacobian of that fit, without the rows of left-out layouts and updated by
# Broyden's rule, so that the network is solved once for each step, for all folds at once. If a fold
# leads far away, its Jacobian is computed again. The result is accurate enough for the choice, within 0.2 %
# of throughput as a rule; reported errors of left-out layouts come from separate fits (`left_out`).

_MOST_STEPS = 6  #: steps with one Jacobian
_MOST_TURNS = 4  #: number of Jacobians
_SETTLED = 1e-3  #: smallest step in units of each parameter's scale; throughput is then within 0.1 %
_FAR = 0.02  #: change of log throughput from the point of the Jacobian, above which it is computed again


def log_errors(problem: Problem, folds: Sequence[Sequence[Layout]], fit: Fit) -> list[float]:
    """Return the error of each layout of *folds*, in their order, by a fit without its fold.

    Args:
        problem: the measurements.
        folds: disjoint groups of layouts, without 1x1.
        fit: fit to all layouts; the fits of the folds have its terms.

    Returns:
        The logarithm of predicted over measured throughput.
    """
    layouts = list(problem.items)
    compared = problem.compared(layouts, fit.terms)
    seen = ~np.array([compared.rows_of(fold) for fold in folds])
    at = np.tile(compared.placed(fit), (len(folds), 1))
    off, jacobian = (np.repeat(one[None], len(folds), axis=0) for one in (fit.off, fit.jacobian))
    cost = _costs(off, seen)
    left = np.arange(len(folds))
    for turn in range(_MOST_TURNS):
        if turn:
            off[left], jacobian[left] = compared.linear(at[left])
        before = compared.log_errors(off)
        settled = _walk(compared, seen, jacobian, at, off, left)
        far = np.abs(compared.log_errors(off) - before).max(axis=1) > _FAR
        left = left[~settled[left] | far[left]]
        if not len(left):
            break
    errors = compared.log_errors(off)
    for n in np.union1d(left, np.flatnonzero(_costs(off, seen) > cost + 1e-9)):
        # it does not converge: fitted separately
        own = problem.fit([one for one in layouts if one not in folds[n]], fit.terms, fit)
        errors[n] = compared.log_errors(compared.rows(compared.placed(own)[None, :])[0])
    return [float(errors[n, compared.layouts.index(one)]) for n, fold in enumerate(folds) for one in fold]


def _walk(
    compared: StandardResiduals,
    seen: NDArray[np.bool_],
    jacobian: Array,
    at: Array,
    off: Array,
    left: Indices,
) -> NDArray[np.bool_]:
    """Step the folds *left* until they converge; return which did. Overwrites *at*, *off*, *jacobian*."""
    settled = np.ones(len(at), dtype=bool)
    settled[left] = False
    for _ in range(_MOST_STEPS):
        before, steps = off[left], np.empty((len(left), at.shape[1]))
        for i, n in enumerate(left):
            steps[i] = bounded_step(jacobian[n, seen[n]], off[n, seen[n]], at[n], compared.most)
            settled[n] = np.abs(steps[i]).max() <= _SETTLED
        at[left] += steps
        foretold = before + (jacobian[left] @ steps[:, :, None])[:, :, 0]
        off[left] = foretold  # the last step needs no exact residuals
        moves = ~settled[left]
        left, steps, foretold = left[moves], steps[moves], foretold[moves]
        if not len(left):
            break
        off[left] = compared.rows(at[left])
        # Broyden's update: along the step the Jacobian now equals the measured difference
        unseen = off[left] - foretold
        squares = np.maximum((steps**2).sum(axis=1), 1e-300)
        jacobian[left] += unseen[:, :, None] * (steps / squares[:, None])[:, None, :]
    return settled


def nearly_without(problem: Problem, fold: Sequence[Layout], fit: Fit) -> Fit:
    """Return a start for a fit without *fold*: *fit*, to all layouts, one step towards the remaining layouts.

    The information of 1x1 is not removed if 1x1 is in the fold.
    """
    compared = problem.compared(list(problem.items), fit.terms)
    at, seen = compared.placed(fit), ~compared.rows_of(fold)
    step = bounded_step(fit.jacobian[seen], fit.off[seen], at, compared.most)
    return replace(fit, values=(at + step) * compared.scale)


@dataclass(frozen=True, slots=True)
class Gain:
    """Value of one additional term if the model were linear."""

    cost: float  #: decrease of the sum of squares
    near: Fit  #: starting point of the fit with the term


def gains_of_terms(problem: Problem, terms: Sequence[str], fit: Fit) -> dict[str, Gain]:
    """Return the value of each of *terms* in addition to those of *fit*, a fit to all layouts."""
    compared = problem.compared(list(problem.items), (*fit.terms, *terms))
    at = compared.placed(fit)
    n_known = len(fit.values)
    off, jacobian = fit.off, np.hstack([fit.jacobian, compared.slopes(at, fit.off, n_known)])
    found = {}
    for n, term in enumerate(terms, start=n_known):
        some = [*range(n_known), n]
        step = bounded_step(jacobian[:, some], off, at[some], compared.most[some])
        left = off + jacobian[:, some] @ step
        near = replace(fit, values=(at[some] + step) * compared.scale[some], terms=(*fit.terms, term))
        found[term] = Gain(float(off @ off - left @ left) / 2, near)
    return found


def _costs(off: Array, seen: NDArray[np.bool_]) -> Array:
    costs: Array = (np.where(seen, off, 0.0) ** 2).sum(axis=1)
    return costs


_LEAST_LAYOUTS = 6  #: fewest layouts to choose terms on; with fewer, a term and a coincidence look the same
_FOLDS = 8  #: most folds when terms are chosen
_WORTH = (
    4.0  #: decrease of the sum of squares needed for a term; a useless parameter reaches it in 1 of 20 cases
)
#: share of _WORTH, in the linear approximation, below which a term is not fitted (usually the two agree to 1
#: %)
_NEARLY = 0.5
_MOST_TERMS = 2
_USUAL_LAUNCH_SD = 0.02
_USUAL_DF = 2


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A measured layout, and its prediction by a calibration without it."""

    layout: Layout
    measured_per_s: float
    predicted_per_s: float
    measured_active: float | None  #: mean number of active tasks; None: not measured
    predicted_active: float
    n_seen: int  #: number of layouts that the calibration used
    method: Literal["alone", "joint"] = "joint"

    @property
    def log_error(self) -> float:
        """Return the logarithm of predicted over measured throughput."""
        return log(self.predicted_per_s / self.measured_per_s)


def launch_noise_sd(groups: Mapping[Layout, Sequence[Clocks]]) -> float:
    """Estimate the sd of a launch's log throughput, over all layouts; a prior of 2 % counts as two more."""
    squares, df = _USUAL_DF * _USUAL_LAUNCH_SD**2, _USUAL_DF
    for windows in groups.values():
        launches = log_throughputs(windows)
        squares += launches.squares
        df += launches.n - 1
    return sqrt(squares / df)


def left_out(problem: Problem, folds: Sequence[Sequence[Layout]], start: Fit) -> list[HeldOut]:
    """Predict the layouts of each fold by a fit to all other layouts; *start* is a fit to all."""
    found = []
    for fold in folds:
        seen = problem.without(fold)
        fit = seen.fit(list(seen.items), start.terms, nearly_without(problem, fold, start))
        found.extend(predicted_by(problem, seen, fit, fold))
    return found


def predicted_by(
    problem: Problem,
    seen: Problem,
    fit: Fit,
    layouts: Sequence[Layout],
    method: Literal["alone", "joint"] = "joint",
) -> list[HeldOut]:
    """Return *layouts* as measured and as predicted by *fit*, a fit to *seen*, which does not have them."""
    reported = problem.predict(fit, layouts, seen.looks)
    return [
        HeldOut(
            layout=layout,
            measured_per_s=exp(problem.logs[layout]),
            predicted_per_s=float(reported.throughput_per_s[n]),
            measured_active=problem.items[layout].n_active,
            predicted_active=float(reported.load[n]),
            n_seen=len(seen.items),
            method=method,
        )
        for n, layout in enumerate(layouts)
    ]


def folds_of(problem: Problem) -> list[list[Layout]]:
    """Return at most 8 folds with every layout but 1x1 once; neighbours are in different folds."""
    layouts = [layout for layout in problem.items if layout.total_threads > 1]
    n_folds = min(_FOLDS, len(layouts))
    return [layouts[n::n_folds] for n in range(n_folds)]


def with_terms_of_worth(problem: Problem, base: Fit) -> Fit:
    """Return the fit to all layouts with the terms that predict left-out layouts better, beyond chance.

    They are at most 2, mostly none: then it is *base*. A term is tried if it reduces the sum of squares of
    the measured layouts; it is kept if the mean square error of left-out layouts falls by more than the
    standard error of that difference.
    """
    if len(problem.items) < _LEAST_LAYOUTS:
        return base
    folds, fit, best = folds_of(problem), base, None
    while len(fit.terms) < _MOST_TERMS:
        tried = [(_squares(problem, folds, more), more) for more in _with_one_more(problem, fit)]
        if not tried:
            break
        best = best or _squares(problem, folds, fit)
        squares, more = min(tried, key=lambda one: fmean(one[0]))
        gains = [before - after for before, after in zip(best, squares, strict=True)]
        if fmean(gains) <= stdev(gains) / sqrt(len(gains)):
            break
        best, fit = squares, more
    return fit


def _with_one_more(problem: Problem, fit: Fit) -> Iterator[Fit]:
    """Yield fits with one more term than *fit*, each better by more than a useless term would be."""
    terms = [term for term in _sensible(problem, fit) if term not in fit.terms]
    for term, gain in gains_of_terms(problem, terms, fit).items() if terms else ():
        if gain.cost > _WORTH / 2 * _NEARLY:
            more = problem.fit(list(problem.items), (*fit.terms, term), gain.near)
            if fit.cost - more.cost > _WORTH / 2:
                yield more


def _sensible(problem: Problem, fit: Fit) -> list[str]:
    has_threads = any(layout.threads > 1 for layout in problem.items)
    has_processes = any(layout.processes > 1 for layout in problem.items)
    allowed = {
        "process_cores": has_processes,
        "cpu_per_process_ratio": has_processes,
        "blocked_per_process_ratio": has_processes
        and (1 - problem.looks.spawning_ratio) * fit.values[3] > 0.02 * fit.values[[0, 2, 3, 4]].sum(),
        "threaded_asleep_s": has_threads,
        "convoy_ratio": has_threads and problem.machine.has_gil,
    }
    return [term for term in TERMS if allowed[term]]


def _squares(problem: Problem, folds: Sequence[Sequence[Layout]], fit: Fit) -> list[float]:
    return [error**2 for error in log_errors(problem, folds, fit)]
