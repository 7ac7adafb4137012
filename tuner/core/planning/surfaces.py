"""Throughput surfaces as a service may have them, given what is known of some of its layouts.

A Gaussian process over log P and log T, plus a deviation of each layout of its own, through the levels that
were measured. How far it reaches, how much it varies and how large the deviations are is drawn anew for each
surface, in proportion to how well it explains what was measured. Where much was measured the surfaces are
that; where little was, they are smooth and go wherever such surfaces may.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tuner.core.domain.layout import Layout
from tuner.core.planning.pilot import PilotLevel

_REACHES = (1.0, 2.0, 4.0)  #: in logarithms of P and T: how far layouts are alike
_SWINGS = (0.1, 0.3, 1.0)  #: standard deviation of the smooth part, in logarithms of throughput
_OWN = (0.005, 0.01, 0.02, 0.04)  #: of each layout's own deviation
_LEVEL_SD = 10.0  #: of the mean: nothing is known of it


def draw_surfaces(
    layouts: Sequence[Layout], known: Mapping[Layout, PilotLevel], n: int, seed: int
) -> list[tuple[float, ...]]:
    """*n* surfaces over *layouts*: items per second, as they are ordered.

    *known* may hold other layouts too; one at least.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    measured = list(known)
    values = np.array([known[layout].log_value for layout in measured])
    centre = float(values.mean())
    errors = np.diag([max(known[layout].se, 1e-6) ** 2 for layout in measured])
    choices = list(product(_REACHES, _SWINGS, _OWN))
    fits = [_Fit(layouts, measured, values - centre, errors, *choice) for choice in choices]
    evidence = np.array([fit.evidence for fit in fits])
    weights = np.exp(evidence - evidence.max())
    chosen = generator.choice(len(fits), size=n, p=weights / weights.sum())
    return [tuple(np.exp(centre + fits[int(k)].draw(generator)).tolist()) for k in chosen]


class _Fit:
    """The process with given parameters, through what was measured."""

    def __init__(
        self,
        layouts: Sequence[Layout],
        measured: Sequence[Layout],
        values: NDArray[np.float64],
        errors: NDArray[np.float64],
        reach: float,
        swing: float,
        own: float,
    ) -> None:
        joint = _covariance([*layouts, *measured], reach, swing, own)
        n = len(layouts)
        inner = joint[n:, n:] + errors
        root = np.linalg.cholesky(inner)
        scaled = np.linalg.solve(root, values)
        self.evidence = float(-0.5 * scaled @ scaled - np.log(np.diag(root)).sum())
        across = np.linalg.solve(root, joint[n:, :n])
        self._mean = across.T @ scaled
        self._rest = joint[:n, :n] - across.T @ across
        self._root: NDArray[np.float64] | None = None

    def draw(self, generator: np.random.Generator) -> NDArray[np.float64]:
        """One surface, in logarithms."""
        if self._root is None:
            values, vectors = np.linalg.eigh(self._rest)
            self._root = vectors * np.sqrt(np.maximum(values, 0.0))
        surface: NDArray[np.float64] = self._mean + self._root @ generator.standard_normal(len(self._mean))
        return surface


def _covariance(layouts: Sequence[Layout], reach: float, swing: float, own: float) -> NDArray[np.float64]:
    p = np.log([layout.processes for layout in layouts])
    t = np.log([layout.threads for layout in layouts])
    square = ((p[:, None] - p) ** 2 + (t[:, None] - t) ** 2) / reach**2
    covariance = swing**2 * np.exp(-square / 2) + _LEVEL_SD**2
    same = np.array([[float(one == other) for other in layouts] for one in layouts])
    variant = np.array([[float(one.variant != other.variant) for other in layouts] for one in layouts])
    # Variants of a layout have a level of their own, as far from each other as layouts may be.
    covariance -= variant * swing**2 * np.exp(-square / 2) / 2
    found: NDArray[np.float64] = covariance + own**2 * same
    return found
