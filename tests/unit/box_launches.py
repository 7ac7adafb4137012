"""Launches of layouts on boxes, made up: what the tests of fleets are about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tuner.core.stats.mixed_model import BoxTable, box_table
from tuner.core.stats.two_way_anova import Observation


def whole(
    n_layouts: int, n_boxes: int, n_blocks: int, value: Callable[[int, int, int], float]
) -> tuple[list[Observation], dict[int, int]]:
    """Every layout once in each of *n_blocks* blocks of each box, and the box of each block.

    *value* is given layout, box and block, the latter numbered over all boxes.
    """
    seen = [
        Observation(layout, box * n_blocks + block, value(layout, box, box * n_blocks + block))
        for box in range(n_boxes)
        for block in range(n_blocks)
        for layout in range(n_layouts)
    ]
    return seen, {box * n_blocks + block: box for box in range(n_boxes) for block in range(n_blocks)}


def drawn(
    random: Random,
    *,
    effects: Sequence[float],
    levels: Sequence[float],
    n_blocks: int,
    noise: float,
    drift: float = 0.0,
    apart: float = 0.0,
) -> BoxTable:
    """A table of such launches with normal noise; all are logarithms."""
    of_block: dict[int, float] = {}
    of_pair: dict[tuple[int, int], float] = {}

    def value(layout: int, box: int, block: int) -> float:
        drifted = of_block.setdefault(block, random.gauss(0, drift))
        own = of_pair.setdefault((layout, box), random.gauss(0, apart))
        return effects[layout] + levels[box] + drifted + own + random.gauss(0, noise)

    return box_table(*whole(len(effects), len(levels), n_blocks, value), len(effects))
