"""Processes or threads? The best layout of each shape, of each variant of a service.

A layout is of processes alone (8x1), of threads alone in one process (1x8), or of both (2x4). 1x1 is either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tuner.core.domain.layout import Layout
from tuner.core.model.prediction.trust import Trusted, TrustedLayout, best_first

Shape = Literal["processes", "threads", "both"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
#: comparison with the best of all: it is the best, may be as good, or is predicted to be slower; unknown: the
#: predictions are too inexact for a comparison
Standing = Literal["best", "as-good", "slower", "unknown"]


@dataclass(frozen=True, slots=True)
class ShapeBest:
    """The best layout of one shape and variant."""

    variant: str
    shape: Shape
    row: TrustedLayout
    of_best: float  #: its throughput as a share of the best one's
    standing: Standing
    place: int  #: index of its prediction


def shape_of(layout: Layout) -> Shape:
    """Return whether *layout* has several processes, several threads, or both."""
    if layout.threads == 1 or not layout.has_threads:
        return "processes"
    return "threads" if layout.processes == 1 else "both"


def shape_bests(predictions: Sequence[Trusted], *, are_too_inexact: bool = False) -> list[ShapeBest]:
    """Return the best layout of each predicted shape, best first; of one prediction, `Trusted.best` is it.

    Args:
        predictions: one for each variant of a service, for the same host.
        are_too_inexact: whether they are too inexact to compare layouts; each standing is then unknown.
    """
    every = [(place, row) for place, one in enumerate(predictions) for row in one.rows]
    order = best_first([row.layout for _, row in every], [_mean(row) for _, row in every])
    first: dict[tuple[int, Shape], TrustedLayout] = {}
    for place, row in (every[at] for at in order):
        first.setdefault((place, shape_of(row.layout)), row)
    found = [(place, shape, row) for (place, shape), row in first.items()]
    if not found:
        return []
    best_place, _, best = found[0]
    return [
        ShapeBest(
            variant=row.layout.variant,
            shape=shape,
            row=row,
            of_best=_mean(row) / _mean(best) if _mean(best) else 1.0,
            standing="unknown"
            if are_too_inexact
            else _standing(row, best, predictions[best_place] if place == best_place else None),
            place=place,
        )
        for place, shape, row in found
    ]


def _standing(row: TrustedLayout, best: TrustedLayout, same: Trusted | None) -> Standing:
    """Return the standing: in one variant shared errors cancel; else intervals must not overlap."""
    if row is best:
        return "best"
    if same is not None:
        return "as-good" if row.layout in same.as_good or row.layout == same.best else "slower"
    high, low = row.throughput_per_s.high, best.throughput_per_s.low
    return "slower" if high is not None and low is not None and high < low else "as-good"


def _mean(row: TrustedLayout) -> float:
    return row.throughput_per_s.mean or 0.0
