"""The order in which layouts are run: randomised blocks."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tuner.core.domain.layout import Layout

MOST_TIMES = 1_000_000  #: of launches of a layout, windows of a launch, attempts; of anything a study counts


def blocks(layouts: Sequence[Layout], n_blocks: int, seed: int) -> tuple[tuple[Layout, ...], ...]:
    """Each layout once per block, every block in a fresh random order.

    What the box does over hours then meets all layouts alike: it goes into the difference between blocks, not
    between layouts. The same layouts and seed give the same order in every version of Python, and a larger
    *n_blocks* only adds blocks at the end: a study that is resumed or prolonged finds its place again.

    Args:
        layouts: in the order of the study's record; each is named once.
        n_blocks: 0 or more.
        seed: any integer; only its absolute value counts.

    Raises:
        ValueError: no layout, one named twice, or a negative number of blocks.
    """
    if not layouts or len(set(layouts)) < len(layouts):
        raise ValueError("a block has one or more layouts, each once")
    if n_blocks < 0:
        raise ValueError(f"{n_blocks} blocks")
    random = Random(seed)
    return tuple(_shuffle(layouts, random) for _ in range(n_blocks))


def _shuffle(layouts: Sequence[Layout], random: Random) -> tuple[Layout, ...]:
    # Fisher-Yates written out over getrandbits, whose stream is fixed by the Mersenne twister; how
    # Random.shuffle uses that stream has changed between versions.
    order = list(layouts)
    for last in range(len(order) - 1, 0, -1):
        other = _below(last + 1, random)
        order[last], order[other] = order[other], order[last]
    return tuple(order)


def _below(n: int, random: Random) -> int:
    """An integer of 0..n-1, each equally likely: bits are drawn until they give one."""
    n_bits = n.bit_length()
    while (value := random.getrandbits(n_bits)) >= n:
        pass
    return value
