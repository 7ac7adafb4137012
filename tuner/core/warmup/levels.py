"""Whether a launch moves between levels: a late step, or a service that has two speeds.

The series is cut into stretches of constant mean so that the squared residuals plus a price per cut are least
(optimal partitioning, by dynamic programming). The noise that the price is in units of is taken from
differences of neighbouring blocks, by their median: levels that hold for four blocks leave it alone, and
autocorrelation shorter than a block is in it.

Source: Jackson et al. (2005) for the search; Barrett et al. (2017) segment benchmarks in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

SHORTEST = 30  #: seconds that a level must hold; quicker changes average out within a window
MOST_CELLS = 240  #: the search costs their square
FEWEST_IN_CELL = 10  #: seconds
NOISE_BLOCK = (20, 32)  #: seconds over which the noise is averaged; a fiftieth of what was seen, within these
PRICE = 13.0  #: variances that a cut must save
_NORMAL_MEDIAN_SQUARE = 0.4549  #: the median of a chi-squared with one degree of freedom


@dataclass(frozen=True, slots=True)
class Level:
    """A stretch of constant mean."""

    start: int  #: index of its first value
    stop: int  #: index after its last
    mean: float


def find_levels(values: Sequence[float]) -> list[Level]:
    """The levels of *values*, one a second, in time order; one when they are too few to tell, or steady."""
    n = len(values)
    cell = max(FEWEST_IN_CELL, -(-n // MOST_CELLS))
    n_cells = n // cell
    shortest = max(1, -(-SHORTEST // cell))
    if n_cells < 2 * shortest:
        return [Level(0, n, sum(values) / n)] if n else []
    sums = [sum(values[i * cell : (i + 1) * cell]) / cell for i in range(n_cells)]
    variance = _variance(values, cell)
    starts = _cut_stretches(sums, shortest, PRICE * variance)
    edges = [start * cell for start in starts] + [n]
    return [Level(start, stop, sum(values[start:stop]) / (stop - start)) for start, stop in pairwise(edges)]


def _variance(values: Sequence[float], cell: int) -> float:
    """Of a mean over *cell* values, levels left out; never quite 0."""
    block = max(cell, min(max(len(values) // 50, NOISE_BLOCK[0]), NOISE_BLOCK[1]))
    means = [sum(values[i : i + block]) / block for i in range(0, len(values) - block + 1, block // 2)]
    differences = [(later - earlier) ** 2 / 2 for earlier, later in zip(means, means[2:], strict=False)]
    of_block = median(differences) / _NORMAL_MEDIAN_SQUARE
    tiny = (1e-4 * sum(values) / len(values)) ** 2
    return max(of_block * block / cell, tiny)


def _cut_stretches(means: Sequence[float], shortest: int, price: float) -> list[int]:
    """Where the stretches begin."""
    n = len(means)
    total, squares = [0.0], [0.0]
    for mean in means:
        total.append(total[-1] + mean)
        squares.append(squares[-1] + mean * mean)
    least = [0.0] + [float("inf")] * n
    came_from = [0] * (n + 1)
    for stop in range(shortest, n + 1):
        for start in range(stop - shortest + 1):
            if least[start] == float("inf"):
                continue
            in_it = total[stop] - total[start]
            cost = squares[stop] - squares[start] - in_it * in_it / (stop - start)
            candidate = least[start] + cost + (price if start else 0.0)
            if candidate < least[stop]:
                least[stop], came_from[stop] = candidate, start
    starts = []
    stop = n
    while stop:
        stop = came_from[stop]
        starts.append(stop)
    return starts[::-1]
