"""A few layouts that stand for many: for a first look at a grid too large to measure."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot, log2

from tuner.core.domain.layout import Layout


def spread_subset(layouts: Sequence[Layout], n: int) -> list[Layout]:
    """At most *n* of *layouts*, far from each other, in their own order.

    Distance is counted in doublings of processes and threads, since that is how throughput changes. The first
    two are the largest mob of processes and the largest single process; each further one is the farthest from
    those already chosen, ties going to the layout named first.
    """
    if len(layouts) <= n:
        return list(layouts)
    most_processes = max(layouts, key=lambda layout: (layout.processes, -layout.threads))
    chosen = [most_processes]
    while len(chosen) < n:
        left = [layout for layout in layouts if layout not in chosen]
        if len(chosen) == 1:
            chosen.append(max(left, key=lambda layout: (-layout.processes, layout.threads)))
        else:
            chosen.append(max(left, key=lambda layout: min(_doublings(layout, other) for other in chosen)))
    return [layout for layout in layouts if layout in chosen]


def _doublings(one: Layout, other: Layout) -> float:
    if one.variant != other.variant:
        return float("inf")
    return hypot(log2(one.processes / other.processes), log2(one.threads / other.threads))
