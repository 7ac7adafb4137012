"""Memory of a layout from other layouts: per process, per further thread, per child."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from tuner.core.domain.layout import Layout
from tuner.core.model.profile import ProfileMemory
from tuner.core.stats.interval import Estimate
from tuner.core.stats.quantiles import student_t_quantile

Array = NDArray[np.float64]

_PARTS = ("process", "thread", "child")
#: unexplained share of a column, after the columns before it, that is needed to separate its part
_APART = 0.1


@dataclass(frozen=True, slots=True)
class MemorySeen:
    """Proportional set size of one layout, on average over a window or several."""

    layout: Layout
    n_children: float  #: mean number of children that ran at a time
    pss_bytes: float
    n_windows: int = 1


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """Fitted memory of a process, a further thread and a running child, if the layouts determine them."""

    #: None: the layouts do not determine it; the memory of the process is always determined
    memory: ProfileMemory
    #: standard deviation of layouts around the fit, as a ratio; None: too few layouts
    error_ratio: float | None
    df: int  #: number of layouts minus number of fitted parts
    #: covariance of the three parts, bytes squared
    covariance: Array = field(default_factory=lambda: np.zeros((3, 3)))

    def of(self, layout: Layout, n_children: float, confidence: float) -> Estimate:
        """Return the bytes of *layout* while *n_children* run.

        If the memory of further threads is not known and the layout has some, there is only a lower end,
        which does not include them.
        """
        row = _row(layout, n_children)
        parts = (self.memory.process_bytes, self.memory.thread_bytes, self.memory.child_bytes)
        mean = float(row @ np.asarray([part or 0.0 for part in parts]))
        if layout.threads > 1 and "thread" not in self.identified:
            return Estimate(None, mean, None)
        if self.error_ratio is None:
            return Estimate(mean)
        sd = sqrt(max(0.0, float(row @ self.covariance @ row)) + (self.error_ratio * mean) ** 2)
        margin = student_t_quantile((1 + confidence) / 2, self.df) * sd
        return Estimate(mean, max(0.0, mean - margin), mean + margin)

    @property
    def identified(self) -> frozenset[str]:
        """Return which of process, thread and child have separate estimates."""
        return frozenset(part for part in _PARTS if getattr(self.memory, f"{part}_bytes") is not None)

    @property
    def unidentified(self) -> str:
        """Return a sentence with the part that cannot be separated; empty if all parts can."""
        if "thread" not in self.identified:
            return "The memory of a further thread cannot be estimated from the measured layouts."
        if "child" not in self.identified:
            return "The memory of a running child cannot be separated from that of its thread or process."
        return ""


def fit_memory(seen: Iterable[MemorySeen]) -> MemoryFit | None:
    """Fit the three parts to *seen*, none below 0; None if no memory was measured.

    It minimizes squared relative errors over layouts (the windows of one are averaged). A part that layouts
    do not separate (no layout with two threads; children in proportion to threads) is included in the rest.
    """
    of_layout: dict[Layout, list[MemorySeen]] = defaultdict(list)
    for one in seen:
        if one.pss_bytes > 0:
            of_layout[one.layout].append(one)
    if not of_layout:
        return None
    rows, n_layouts = [], len(of_layout)
    for layout, own in of_layout.items():
        pss = sum(one.pss_bytes * one.n_windows for one in own)
        children = sum(one.n_children * one.n_windows for one in own)
        n_windows = sum(one.n_windows for one in own)
        rows.append(_row(layout, children / n_windows) / (pss / n_windows))
    design = np.asarray(rows)
    identified = _identified_columns(design)
    values, used = _non_negative(design, identified)
    error_ratio, covariance, df = None, np.zeros((3, 3)), n_layouts - len(identified)
    if df > 0:
        residual = 1 - design @ values
        error_ratio = sqrt(float(residual @ residual) / df)
        inverse = np.linalg.pinv(design[:, used].T @ design[:, used])
        covariance[np.ix_(used, used)] = error_ratio**2 * inverse
    return MemoryFit(
        memory=ProfileMemory(**{f"{_PARTS[column]}_bytes": float(values[column]) for column in identified}),
        error_ratio=error_ratio,
        df=df,
        covariance=covariance,
    )


def _row(layout: Layout, n_children: float) -> Array:
    return np.asarray([layout.processes, layout.processes * (layout.threads - 1), n_children], dtype=float)


def _identified_columns(design: Array) -> list[int]:
    """Return the columns, in the order of `_PARTS`, that the columns before them do not nearly explain."""
    kept: list[int] = [0]
    for column in (1, 2):
        target = design[:, column]
        size = float(np.linalg.norm(target))
        if size <= 0 or len(design) <= len(kept):
            continue
        explained, *_ = np.linalg.lstsq(design[:, kept], target, rcond=None)
        if float(np.linalg.norm(target - design[:, kept] @ explained)) > _APART * size:
            kept.append(column)
    return kept


def _non_negative(design: Array, identified: list[int]) -> tuple[Array, list[int]]:
    """Return the parts, and the columns of those above 0: the best choice of columns without negative parts.

    The solution with no part below 0 is the plain least squares of some choice of columns, of 7 for three.
    """
    found: list[tuple[float, Array, list[int]]] = []
    for n_used in range(1, len(identified) + 1):
        for used in map(list, combinations(identified, n_used)):
            values = np.zeros(3)
            values[used], *_ = np.linalg.lstsq(design[:, used], np.ones(len(design)), rcond=None)
            if (values >= 0).all():
                found.append((float(np.linalg.norm(1 - design @ values)), values, used))
    _, values, used = min(found, key=lambda one: one[0])
    return values, used
