"""The two-way additive model: value of a launch = layout + block + noise, by least squares.

Blocks may be incomplete and hold a layout more than once. Values are logarithms of throughput, so that
effects are ratios: another process takes a share of every layout's throughput, not a number of items.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import NamedTuple


class Observation(NamedTuple):
    """One launch, on the logarithmic scale."""

    layout: int  #: number of the layout: 0, 1, ...
    block: int  #: number of the block: 0, 1, ...
    value: float


@dataclass(frozen=True, slots=True)
class AdditiveFit:
    """Least squares estimates, and the values that their uncertainty follows from.

    Layouts are compared within a block only, directly or through other layouts. Layouts that no chain of
    shared blocks joins are in different components; their difference is not known.
    """

    effects: tuple[float, ...]  #: value of each layout in an average block of its component
    components: tuple[int, ...]  #: component of each layout
    n_blocks_of: tuple[int, ...]  #: number of blocks of each component
    residual_ss: float  #: sum of squares that neither layout nor block explains
    residual_df: int
    block_ss: float  #: sum of squares that blocks explain beyond layouts
    block_df: int
    block_ss_per_variance: float  #: expected block_ss per unit of the variance between blocks (Henderson III)
    effect_variance: tuple[
        float, ...
    ]  #: for each layout, the variance of its effect per unit of residual variance
    _inverse: tuple[
        tuple[tuple[float, ...], ...] | float, ...
    ]  # per component; a number: balanced, 1 / launches
    _place: tuple[int, ...]  # per layout: row in its component's inverse

    @property
    def residual_variance(self) -> float | None:
        """Return the variance of one launch around layout + block; None without degrees of freedom."""
        return self.residual_ss / self.residual_df if self.residual_df else None

    def difference_variance(self, one: int, other: int) -> float | None:
        """Return the variance of a difference of effects per unit of residual variance, or None."""
        if self.components[one] != self.components[other]:
            return None
        inverse = self._inverse[self.components[one]]
        if isinstance(inverse, float):
            return 2 * inverse if one != other else 0.0
        i, j = self._place[one], self._place[other]
        return max(0.0, inverse[i][i] + inverse[j][j] - 2 * inverse[i][j])


def fit(observations: Sequence[Observation], n_layouts: int) -> AdditiveFit:
    """Fit layouts and blocks to *observations*; each of the *n_layouts* layouts has one or more.

    Source: intra-block analysis of incomplete blocks (Searle, Linear Models, 1971); for the variance between
    blocks Henderson's method III (1953).
    """
    if not observations or {seen.layout for seen in observations} != set(range(n_layouts)):
        raise ValueError("every layout needs an observation")
    centre = fsum([value for _, _, value in observations]) / len(observations)
    cells: dict[int, dict[int, int]] = defaultdict(dict)  # block -> layout -> launches
    block_sum: dict[int, float] = defaultdict(float)
    layout_sum = [0.0] * n_layouts
    n_of = [0] * n_layouts
    for layout, block, value in observations:
        counts = cells[block]
        counts[layout] = counts.get(layout, 0) + 1
        block_sum[block] += value - centre
        layout_sum[layout] += value - centre
        n_of[layout] += 1
    size = {block: sum(counts.values()) for block, counts in cells.items()}
    components, blocks_of = _components(cells, n_layouts)
    layouts_of: list[list[int]] = [[] for _ in blocks_of]
    for layout, component in enumerate(components):
        layouts_of[component].append(layout)

    # Q: each layout's total less the means of its blocks
    adjusted = list(layout_sum)
    for block, counts in cells.items():
        for layout, n in counts.items():
            adjusted[layout] -= n * block_sum[block] / size[block]
    tau = [0.0] * n_layouts
    place = [0] * n_layouts
    effect_variance = [0.0] * n_layouts
    effects = [0.0] * n_layouts
    beta: dict[int, float] = {}
    inverses: list[tuple[tuple[float, ...], ...] | float] = []
    for layouts, blocks in zip(layouts_of, blocks_of, strict=True):
        for row, layout in enumerate(layouts):
            place[layout] = row
        inverse = _inverse_information(layouts, [cells[block] for block in blocks], n_of)
        inverses.append(inverse)
        for layout in layouts:
            tau[layout] = (
                adjusted[layout] * inverse
                if isinstance(inverse, float)
                else fsum(
                    entry * adjusted[other]
                    for entry, other in zip(inverse[place[layout]], layouts, strict=True)
                )
            )
        weight: dict[int, float] = defaultdict(float)  # share of each layout in the mean of the block effects
        for block in blocks:
            beta[block] = (block_sum[block] - fsum(n * tau[lay] for lay, n in cells[block].items())) / size[
                block
            ]
            for layout, n in cells[block].items():
                weight[layout] += n / size[block] / len(blocks)
        level = fsum(beta[block] for block in blocks) / len(blocks)
        # The effect is a mean of block means plus a contrast of layouts, which are uncorrelated.
        of_means = fsum(1 / size[block] for block in blocks) / len(blocks) ** 2
        of_contrasts = _contrast_variances(inverse, [weight[layout] for layout in layouts])
        for layout, of_contrast in zip(layouts, of_contrasts, strict=True):
            effects[layout] = centre + tau[layout] + level
            effect_variance[layout] = of_means + of_contrast

    residual_ss = fsum(
        [(value - centre - tau[layout] - beta[block]) ** 2 for layout, block, value in observations]
    )
    layout_mean = [total / n for total, n in zip(layout_sum, n_of, strict=True)]
    within_layouts_ss = fsum(
        [(value - centre - layout_mean[layout]) ** 2 for layout, _, value in observations]
    )
    n_components = len(blocks_of)
    squares = fsum([n * n / n_of[layout] for counts in cells.values() for layout, n in counts.items()])
    return AdditiveFit(
        effects=tuple(effects),
        components=tuple(components),
        n_blocks_of=tuple(len(blocks) for blocks in blocks_of),
        residual_ss=residual_ss,
        residual_df=len(observations) - n_layouts - len(cells) + n_components,
        block_ss=max(0.0, within_layouts_ss - residual_ss),
        block_df=len(cells) - n_components,
        block_ss_per_variance=len(observations) - squares,
        effect_variance=tuple(effect_variance),
        _inverse=tuple(inverses),
        _place=tuple(place),
    )


def _components(cells: Mapping[int, Mapping[int, int]], n_layouts: int) -> tuple[list[int], list[list[int]]]:
    """Return the component of each layout, and the blocks of each component."""
    blocks_with: list[list[int]] = [[] for _ in range(n_layouts)]
    for block, counts in cells.items():
        for layout in counts:
            blocks_with[layout].append(block)
    component = [-1] * n_layouts
    blocks_of: list[list[int]] = []
    for start in range(n_layouts):
        if component[start] >= 0:
            continue
        component[start] = len(blocks_of)
        waiting, blocks = [start], set()
        while waiting:
            for block in blocks_with[waiting.pop()]:
                if block in blocks:
                    continue
                blocks.add(block)
                for layout in cells[block]:
                    if component[layout] < 0:
                        component[layout] = component[start]
                        waiting.append(layout)
        blocks_of.append(sorted(blocks))
    return component, blocks_of


def _inverse_information(
    layouts: Sequence[int], blocks: Sequence[Mapping[int, int]], n_of: Sequence[int]
) -> tuple[tuple[float, ...], ...] | float:
    """Return a generalised inverse of the layouts' information matrix (the last layout's effect is 0)."""
    patterns = Counter(tuple(sorted(counts.items())) for counts in blocks)
    if len(patterns) == 1 and len(set(blocks[0].values())) == 1:
        # The same in every block: effects are plain means, apart from a constant that drops out of
        # differences.
        return 1 / n_of[layouts[0]]
    row_of = {layout: row for row, layout in enumerate(layouts)}
    last = len(layouts) - 1
    matrix = [[0.0] * last for _ in range(last)]
    for row, layout in enumerate(layouts[:last]):
        matrix[row][row] = float(n_of[layout])
    for pattern, times in patterns.items():
        size = sum(n for _, n in pattern)
        entries = [(row_of[layout], n) for layout, n in pattern if row_of[layout] < last]
        for row, n in entries:
            target, factor = matrix[row], times * n / size
            for column, other_n in entries:
                target[column] -= factor * other_n
    _invert(matrix)
    return (*((*row, 0.0) for row in matrix), (0.0,) * len(layouts))


def _invert(matrix: list[list[float]]) -> None:
    """Invert a positive definite matrix in place, by Gauss-Jordan; no pivoting is needed for such."""
    for pivot, pivot_row in enumerate(matrix):
        scale = 1 / pivot_row[pivot]
        pivot_row[pivot] = 1.0
        pivot_row[:] = [entry * scale for entry in pivot_row]
        for index, row in enumerate(matrix):
            factor = row[pivot]
            if index == pivot or factor == 0.0:
                continue
            row[pivot] = 0.0
            row[:] = [entry - factor * by for entry, by in zip(row, pivot_row, strict=True)]


def _contrast_variances(
    inverse: tuple[tuple[float, ...], ...] | float, weights: Sequence[float]
) -> list[float]:
    """Return the variance of each layout's effect less the weighted mean, per unit of residual variance."""
    if isinstance(inverse, float):
        mean_square = fsum(weight * weight for weight in weights)
        return [max(0.0, inverse * (1 - 2 * weight + mean_square)) for weight in weights]
    with_mean = [fsum(entry * weight for entry, weight in zip(row, weights, strict=True)) for row in inverse]
    of_mean = fsum(weight * product for weight, product in zip(weights, with_mean, strict=True))
    return [
        max(0.0, row[index] - 2 * product + of_mean)
        for index, (row, product) in enumerate(zip(inverse, with_mean, strict=True))
    ]
