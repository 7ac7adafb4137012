"""Least squares between bounds by steps of Gauss and Newton: few of them, where one begins near the best."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tuner.core.model.demand import Array

_MOST_STEPS = 12  #: three to five are the rule
_MOST_HALVINGS = 4  #: of a step that is too long
_MOST_TURNS = 4  #: of a step, for each parameter: it mostly comes to a bound once, or never
_LEVEL = 1e-9  #: slope of the sum of squares that is none, over that of all residuals together
_WORTH = 1e-8  #: a step is made that takes so much off the sum of squares, if all were linear


def least_squares_near(look: Callable[[Array], tuple[Array, Array]], at: Array, most: Array) -> Array | None:
    """The parameters from *at* on, each between 0 and *most*, that make the sum of squares smallest.

    Args:
        look: gives residuals and their Jacobian.
        at: to begin at.
        most: of each parameter.

    Returns:
        None where steps do not settle: something slower has to find it.
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
    """The step from *at* that makes ``off + jacobian @ step`` smallest, each parameter between 0 and *most*.

    The free parameters go towards the best that they can do together, as far as the first bound, on which
    one of them stays; when none is in the way, one that would go back between its bounds is set free again.

    Source: Stark & Parker, Bounded-variable least-squares (1995), which begins with all of them on a bound.
    """
    low, high = -at, most - at
    step: Array = np.zeros(len(at))
    free: NDArray[np.bool_] = np.ones(len(at), dtype=bool)
    for _ in range(_MOST_TURNS * len(at)):
        if free.any():
            towards = step.copy()
            rest = off + jacobian[:, ~free] @ step[~free]
            towards[free] = np.linalg.lstsq(jacobian[:, free], -rest, rcond=None)[0]
            leaves = free & ((towards < low) | (towards > high))
            if leaves.any():
                bound = np.where(towards < low, low, high)
                shares = np.full(len(at), np.inf)
                shares[leaves] = (bound - step)[leaves] / (towards - step)[leaves]
                first = shares <= shares.min()
                step = step + shares.min() * (towards - step)
                step[first] = bound[first]
                free &= ~first
                continue
            step = towards
            if free.all():
                break
        left = off + jacobian @ step
        inward = np.where(step <= low, -1.0, 1.0) * (left @ jacobian)  # above 0: it would go back
        inward[free] = 0.0
        n = int(np.argmax(inward))
        if inward[n] <= _LEVEL * np.abs(jacobian[:, n]).max() * np.sqrt(float(left @ left)):
            break
        free[n] = True
    return step
