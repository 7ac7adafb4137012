"""Memory of a layout from other layouts: per process, per further thread, per child, and shared by all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from tuner.core.defaults import CONFIDENCE
from tuner.core.domain.layout import Layout
from tuner.core.model.profile import ProfileMemory
from tuner.core.stats.interval import Estimate
from tuner.core.stats.quantiles import student_t_quantile

Array = NDArray[np.float64]

_PARTS = ("process", "thread", "child", "shared")
_SHARED = _PARTS.index("shared")
#: unexplained share of a column, after the columns before it, that is needed to separate its part
_APART = 0.1
#: a column is empty below this ratio to that of processes: rounding errors are not children
_LEAST_SIZE = 1e-3
#: least improvement of the fit by the shared memory: its square, as a ratio of the remaining variance
_LEAST_GAIN = 5.0


@dataclass(frozen=True, slots=True)
class MemorySeen:
    """Proportional set size of one layout, on average over a window or several."""

    layout: Layout
    n_children: float  #: mean number of children that ran at a time
    pss_bytes: float
    n_windows: int = 1


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """Fitted memory of a process, a further thread, a running child, and of all layouts alike, if the layouts
    determine them."""

    #: None: the layouts do not determine it; the memory of the process is always determined
    memory: ProfileMemory
    #: standard deviation of layouts around the fit, as a ratio; None: too few layouts
    error_ratio: float | None
    df: int  #: number of layouts minus number of fitted parts
    #: covariance of the parts, bytes squared
    covariance: Array = field(default_factory=lambda: np.zeros((len(_PARTS), len(_PARTS))))

    def of(self, layout: Layout, n_children: float, confidence: float) -> Estimate:
        """Return the bytes of *layout* while *n_children* run.

        If the memory of further threads is not known and the layout has some, there is only a lower end,
        which does not include them.
        """
        row = _row(layout, n_children)
        parts = [getattr(self.memory, f"{part}_bytes") or 0.0 for part in _PARTS]
        mean = float(row @ np.asarray(parts))
        if layout.threads > 1 and "thread" not in self.identified:
            return Estimate(None, mean, None)
        if self.error_ratio is None:
            return Estimate(mean)
        sd = sqrt(max(0.0, float(row @ self.covariance @ row)) + (self.error_ratio * mean) ** 2)
        margin = student_t_quantile((1 + confidence) / 2, self.df) * sd
        return Estimate(mean, max(0.0, mean - margin), mean + margin)

    @property
    def identified(self) -> frozenset[str]:
        """Return which parts have separate estimates."""
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
    """Fit the parts to *seen*, none below 0; None if no memory was measured.

    It minimizes squared relative errors over layouts (the windows of one are averaged). A part that layouts
    do not separate (no layout with two threads; children in proportion to threads) is included in the rest.
    The memory that all layouts need alike (a main process, pages that processes share) is 0 unless it clearly
    improves the fit.
    """
    layouts = _by_layout(seen)
    if not layouts:
        return None
    n_layouts = len(layouts)
    design = np.asarray([_row(one.layout, one.n_children) / one.pss_bytes for one in layouts])
    identified = _identified_columns(design)
    values, used = _non_negative(design, identified)
    if len(design) > len(identified) + 1:
        values, used, identified = _fit_shared(design, values, used, identified)
    error_ratio, covariance, df = None, np.zeros((len(_PARTS), len(_PARTS))), n_layouts - len(identified)
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


@dataclass(frozen=True, slots=True)
class MemoryLeftOut:
    """Memory of a layout, and its prediction by a fit to all other layouts."""

    measured_bytes: float
    #: None: the other layouts do not determine each part of the memory that all layouts together determine
    predicted_bytes: float | None


def leave_memory_out(seen: Iterable[MemorySeen]) -> dict[Layout, MemoryLeftOut]:
    """Return each layout with the prediction by a fit without it; none if only one layout was measured.

    The prediction is for the measured number of children.
    """
    layouts = _by_layout(seen)
    whole = fit_memory(layouts)
    found = {}
    for one in layouts:
        fit = fit_memory(other for other in layouts if other is not one)
        if fit is not None and whole is not None:
            mean = fit.of(one.layout, one.n_children, CONFIDENCE).mean
            found[one.layout] = MemoryLeftOut(
                one.pss_bytes, mean if fit.identified >= whole.identified else None
            )
    return found


def _by_layout(seen: Iterable[MemorySeen]) -> list[MemorySeen]:
    """Return the mean over the windows of each layout, without windows in which no memory was measured."""
    of_layout: dict[Layout, list[MemorySeen]] = defaultdict(list)
    for one in seen:
        if one.pss_bytes > 0:
            of_layout[one.layout].append(one)
    found = []
    for layout, own in of_layout.items():
        pss = sum(one.pss_bytes * one.n_windows for one in own)
        children = sum(one.n_children * one.n_windows for one in own)
        n_windows = sum(one.n_windows for one in own)
        found.append(MemorySeen(layout, children / n_windows, pss / n_windows, n_windows))
    return found


def _row(layout: Layout, n_children: float) -> Array:
    more_threads = layout.processes * (layout.threads - 1)
    return np.asarray([layout.processes, more_threads, n_children, 1.0], dtype=float)


def _fit_shared(
    design: Array, values: Array, used: list[int], identified: list[int]
) -> tuple[Array, list[int], list[int]]:
    """Return the fit with memory that all layouts need alike, if that is clearly better; else as given."""
    if not _is_apart(design, identified, _SHARED):
        return values, used, identified
    more, more_used = _non_negative(design, [*identified, _SHARED])
    left, left_with = (float(np.sum((1 - design @ one) ** 2)) for one in (values, more))
    df = len(design) - len(identified) - 1
    if left - left_with <= _LEAST_GAIN * left_with / df:
        return values, used, identified
    return more, more_used, [*identified, _SHARED]


def _identified_columns(design: Array) -> list[int]:
    """Return the columns before *shared* that earlier columns do not nearly explain."""
    kept: list[int] = [0]
    for column in range(1, _SHARED):
        if len(design) > len(kept) and _is_apart(design, kept, column):
            kept.append(column)
    return kept


def _is_apart(design: Array, kept: list[int], column: int) -> bool:
    target = design[:, column]
    size = float(np.linalg.norm(target))
    if size <= _LEAST_SIZE * float(np.linalg.norm(design[:, 0])):
        return False
    explained, *_ = np.linalg.lstsq(design[:, kept], target, rcond=None)
    return float(np.linalg.norm(target - design[:, kept] @ explained)) > _APART * size


def _non_negative(design: Array, identified: list[int]) -> tuple[Array, list[int]]:
    """Return the parts, and the columns of those above 0: the best choice of columns without negative parts.

    The solution with no part below 0 is the plain least squares of some choice of columns, of 15 for four.
    """
    found: list[tuple[float, Array, list[int]]] = []
    for n_used in range(1, len(identified) + 1):
        for used in map(list, combinations(identified, n_used)):
            values = np.zeros(len(_PARTS))
            values[used], *_ = np.linalg.lstsq(design[:, used], np.ones(len(design)), rcond=None)
            if (values >= 0).all():
                found.append((float(np.linalg.norm(1 - design @ values)), values, used))
    _, values, used = min(found, key=lambda one: one[0])
    return values, used
