"""Bounded least squares by Gauss-Newton steps, few if the start is near the solution."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tuner.core.model.demand import Array

_MOST_STEPS = 12  #: three to five are usual
_MOST_HALVINGS = 4  #: halvings of a step that is too long
_MOST_TURNS = 4  #: attempts at a step per parameter, which usually reaches a bound once or never
_LEVEL = 1e-9  #: relative slope of the sum of squares that counts as 0
_WORTH = 1e-8  #: smallest share of the sum of squares that a step must gain in the linear approximation


def least_squares_near(look: Callable[[Array], tuple[Array, Array]], at: Array, most: Array) -> Array | None:
    """Return the parameters, each between 0 and *most*, that minimize the sum of squares, starting from *at*.

    Args:
        look: function that returns residuals and their Jacobian.
        at: start parameters.
        most: of each parameter.

    Returns:
        None if the steps do not converge: a slower method is needed.
    """
    at = np.clip(at, 0.0, most)
    off, jacobian = look(at)
    if not np.isfinite(off).all() or not np.isfinite(jacobian).all():
        return None
    square = float(off @ off)
    for _ in range(_MOST_STEPS):
        step = bounded_step(jacobian, off, at, most)
        left = off + jacobian @ step
        if square - float(left @ left) <= _WORTH * square:
            return at
        for _ in range(_MOST_HALVINGS):
            new = np.clip(at + step, 0.0, most)
            new_off, new_jacobian = look(new)
            new_square = float(new_off @ new_off)
            if new_square < square and np.isfinite(new_jacobian).all():
                break
            step = step / 2
        else:
            return None
        at, off, jacobian, square = new, new_off, new_jacobian, new_square
    return None


def bounded_step(jacobian: Array, off: Array, at: Array, most: Array) -> Array:
    """Return the step from *at* that minimizes ``off + jacobian @ step``, each parameter from 0 to *most*.

    Mostly it is found by setting all parameters beyond their bounds to the bounds at once; if one of them
    would then move back, by going to the first bound only, repeatedly.

    Source: Stark & Parker, Bounded-variable least-squares (1995), which begins with all of them on a bound.
    """
    low, high = -at, most - at
    step: Array = np.zeros(len(at))
    free: NDArray[np.bool_] = np.ones(len(at), dtype=bool)
    while free.any():
        step = _best(jacobian, off, step, free)
        leaves = free & ((step < low) | (step > high))
        if not leaves.any():
            break
        step = np.clip(step, low, high)
        free &= ~leaves
    if _inward(jacobian, off, step, free, low) is None:
        return step
    return _from_bound_to_bound(jacobian, off, low, high)


def _from_bound_to_bound(jacobian: Array, off: Array, low: Array, high: Array) -> Array:
    step: Array = np.zeros(len(low))
    free: NDArray[np.bool_] = np.ones(len(low), dtype=bool)
    for _ in range(_MOST_TURNS * len(low)):
        towards = _best(jacobian, off, step, free) if free.any() else step
        leaves = free & ((towards < low) | (towards > high))
        if leaves.any():
            bound = np.where(towards < low, low, high)
            shares = np.full(len(low), np.inf)
            shares[leaves] = (bound - step)[leaves] / (towards - step)[leaves]
            first = shares <= shares.min()
            step = step + shares.min() * (towards - step)
            step[first] = bound[first]
            free &= ~first
            continue
        step = towards
        n = _inward(jacobian, off, step, free, low)
        if n is None:
            break
        free[n] = True
    return step


def _best(jacobian: Array, off: Array, step: Array, free: NDArray[np.bool_]) -> Array:
    """Return *step* with the *free* parameters at their joint optimum, without bounds."""
    best = step.copy()
    rest = off + jacobian[:, ~free] @ step[~free]
    best[free] = np.linalg.lstsq(jacobian[:, free], -rest, rcond=None)[0]
    return best


def _inward(jacobian: Array, off: Array, step: Array, free: NDArray[np.bool_], low: Array) -> int | None:
    """Return the parameter that would move back from its bound the most; None if *step* is the optimum."""
    if free.all():
        return None
    left = off + jacobian @ step
    inward = np.where(step <= low, -1.0, 1.0) * (left @ jacobian)  # above 0: it would move back
    inward[free] = 0.0
    n = int(np.argmax(inward))
    level = _LEVEL * np.abs(jacobian[:, n]).max() * np.sqrt(float(left @ left))
    return n if inward[n] > level else None
