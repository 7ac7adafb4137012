"""Fits that are near one that is known: of all folds at once, and with one term more. For choosing terms.

A study of 22 layouts asks for 500 such fits, of some 30 solutions of the network each. All folds together
take about as many as one of them: each starts from the fit that saw all layouts and goes on by steps of
Gauss and Newton with the Jacobian of that fit, less the rows of what is left out and brought up to date by
Broyden's rule, so that the network is solved once for each step, for all folds in one go. Where a fold leads
far away, its Jacobian is taken anew.
What comes out is near enough to choose by, within 0.2 % of throughput as a rule; what is told of layouts left
out are fits of their own (`left_out`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuner.core.domain.layout import Layout
from tuner.core.model.calibration.gauss_newton import bounded_step
from tuner.core.model.calibration.joint_fit import Fit, Problem, StandardResiduals
from tuner.core.model.demand import Array
from tuner.core.model.nodes import Indices

_MOST_STEPS = 6  #: with one Jacobian
_MOST_TURNS = 4  #: Jacobians
_SETTLED = 1e-3  #: of each parameter's scale: throughput is then within 0.1 %
_FAR = 0.02  #: change of a logarithm of throughput, from where the Jacobian was taken


def log_errors(problem: Problem, folds: Sequence[Sequence[Layout]], fit: Fit) -> list[float]:
    """Of each layout of *folds*, in their order: how far off a fit is that did not see its fold.

    Args:
        problem: what was measured.
        folds: no layout stands in two, 1x1 in none.
        fit: to all layouts; those of the folds have its terms.

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
        # it does not settle: fitted by itself
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
    """Go on with the folds *left* until they settle; which did. *at*, *off*, *jacobian* are written over."""
    settled = np.ones(len(at), dtype=bool)
    settled[left] = False
    for _ in range(_MOST_STEPS):
        before, steps = off[left], np.empty((len(left), at.shape[1]))
        for i, n in enumerate(left):
            steps[i] = bounded_step(jacobian[n, seen[n]], off[n, seen[n]], at[n], compared.most)
            settled[n] = np.abs(steps[i]).max() <= _SETTLED
        at[left] += steps
        foretold = before + (jacobian[left] @ steps[:, :, None])[:, :, 0]
        off[left] = foretold  # of a step that is the last one nothing more is asked
        moves = ~settled[left]
        left, steps, foretold = left[moves], steps[moves], foretold[moves]
        if not len(left):
            break
        off[left] = compared.rows(at[left])
        # Broyden's update: along the step the Jacobian is now what it was seen to be
        unseen = off[left] - foretold
        squares = np.maximum((steps**2).sum(axis=1), 1e-300)
        jacobian[left] += unseen[:, :, None] * (steps / squares[:, None])[:, None, :]
    return settled


def nearly_without(problem: Problem, fold: Sequence[Layout], fit: Fit) -> Fit:
    """To begin at where *fold* is left out: *fit*, to all layouts, a step on towards what the others say.

    What 1x1 says by itself is not taken back, where it is in the fold.
    """
    compared = problem.compared(list(problem.items), fit.terms)
    at, seen = compared.placed(fit), ~compared.rows_of(fold)
    step = bounded_step(fit.jacobian[seen], fit.off[seen], at, compared.most)
    return replace(fit, values=(at + step) * compared.scale)


@dataclass(frozen=True, slots=True)
class Gain:
    """What one term more is worth if the model were linear."""

    cost: float  #: that it takes off
    near: Fit  #: to begin at where it is fitted


def gains_of_terms(problem: Problem, terms: Sequence[str], fit: Fit) -> dict[str, Gain]:
    """What each of *terms* is worth beside those that *fit*, to all layouts, has."""
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
