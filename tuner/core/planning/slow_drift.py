"""Whether a box drifted on within blocks: then its blocks look calmer than what it does over hours.

Layouts run in random order within a block. How far a launch is from the next, once layouts are taken off,
does then not depend on the order within blocks, unless the box moved on meanwhile: neighbours are alike.

It is found in 98 % of pairs of studies with 24 layouts, in 47 % of those with 6 layouts in 5 blocks, where
the drift's correlation is 0.9 after ten minutes; where it does not go on, in 2 to 3 % (bench/compare.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from math import fsum
from random import Random

from tuner.core.search.recheck import Launched

LEAST_SHARE = 0.01  #: how often it is found where it is not
_SHUFFLES = 499
_SWEEPS = 10


def drifts_on(launches: Sequence[Launched]) -> bool:
    """Whether *launches*, in the order in which they ran, show that the box drifted on within blocks.

    A permutation test: orders within blocks that would have done as well are drawn, always the same ones.
    """
    blocks = _without_layouts(launches)
    seen = _alikeness(blocks)
    random = Random(len(launches))
    n_as_alike = 0
    for _ in range(_SHUFFLES):
        for block in blocks:
            random.shuffle(block)
        n_as_alike += _alikeness(blocks) >= seen
        if n_as_alike + 1 > LEAST_SHARE * (_SHUFFLES + 1):
            return False
    return True


def _alikeness(blocks: Sequence[Sequence[float]]) -> float:
    values = [value for block in blocks for value in block]
    return -fsum((one - other) ** 2 for one, other in pairwise(values))


def _without_layouts(launches: Sequence[Launched]) -> list[list[float]]:
    """Per block, in order, what layouts do not explain; they are fitted beside the blocks, by turns."""
    left = [launch.value for launch in launches]
    of_layouts, of_blocks = defaultdict(list), defaultdict(list)
    for place, launch in enumerate(launches):
        of_layouts[launch.layout].append(place)
        of_blocks[launch.block].append(place)
    levels = dict.fromkeys(range(len(launches)), 0.0)
    for _ in range(_SWEEPS):
        for is_block, groups in ((False, of_layouts.values()), (True, of_blocks.values())):
            for places in groups:
                mean = fsum(left[place] for place in places) / len(places)
                for place in places:
                    left[place] -= mean
                    levels[place] += mean if is_block else 0.0
    return [[left[place] + levels[place] for place in places] for places in of_blocks.values()]
