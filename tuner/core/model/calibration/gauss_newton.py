"""Least squares between bounds by steps of Gauss and Newton: few of them, where one begins near the best."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tuner.core.model.demand import Array

_MOST_STEPS = 12  #: three to five are the rule
_MOST_HALVINGS = 4  #: of a step that is too long
_MOST_FREED = 8  #: parameters that lay on a bound, one after the other
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
    if not (np.isfinite(off).all() and np.isfinite(jacobian).all()):
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
            if new_square < square:
                break
            step = step / 2
        else:
            return None
        at, off, jacobian, square = new, new_off, new_jacobian, new_square
    return None


def bounded_step(jacobian: Array, off: Array, at: Array, most: Array) -> Array:
    """The step from *at* that makes ``off + jacobian @ step`` smallest, each parameter between 0 and *most*.

    Parameters that would leave are put on their bound, and the others found anew, until none leaves; then one
    that would go back between its bounds is set free again, and so on, as long as that makes it smaller.

    Source: Stark & Parker, Bounded-variable least-squares (1995), which begins with all of them on a bound.
    """
    low, high = -at, most - at
    step: Array = np.zeros(len(at))
    free: NDArray[np.bool_] = np.ones(len(at), dtype=bool)
    best, smallest = step, np.inf
    for _ in range(_MOST_FREED):
        while free.any():
            rest = off + jacobian[:, ~free] @ step[~free]
            step[free] = np.linalg.lstsq(jacobian[:, free], -rest, rcond=None)[0]
            leaves = free & ((step < low) | (step > high))
            if not leaves.any():
                break
            step[leaves] = np.clip(step, low, high)[leaves]
            free &= ~leaves
        if free.all():
            return step
        left = off + jacobian @ step
        square = float(left @ left)
        if square >= smallest:
            return best
        best, smallest = step.copy(), square
        inward = np.where(step <= low, -1.0, 1.0) * (left @ jacobian)  # above 0: it would go back
        inward[free] = 0.0
        n = int(np.argmax(inward))
        if inward[n] <= _LEVEL * np.abs(jacobian[:, n]).max() * np.sqrt(square):
            return best
        free[n] = True
    return best
