"""A table of launches, small enough for its statistics to be worked out by hand."""

from __future__ import annotations

from math import log

from tuner.core.stats.interval import LaunchMean
from tuner.core.stats.two_way_anova import AdditiveFit, Observation, fit

# items per second: layout -> what its launches gave in blocks 0, 1, 2
TABLE = {0: (10.0, 12.0, 11.0), 1: (13.0, 16.0, 13.0)}


def launches(
    table: dict[int, tuple[float, ...]], n_windows: int = 1, window_ss: float = 0.0
) -> list[LaunchMean]:
    """One launch of each layout in each block, as *table* has them."""
    return [
        LaunchMean(layout, block, value, n_windows, window_ss)
        for layout, values in table.items()
        for block, value in enumerate(values)
    ]


def fitted(seen: list[LaunchMean]) -> AdditiveFit:
    """The fit to the logarithms of *seen*."""
    n_layouts = 1 + max(one.layout for one in seen)
    return fit([Observation(one.layout, one.block, log(one.throughput_per_s)) for one in seen], n_layouts)
