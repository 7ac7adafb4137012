from __future__ import annotations

from tuner.core.domain.layout import Layout
from tuner.core.ranking.anova import blocks_of
from tuner.core.windows.launch_sums import LaunchTally

A, B = Layout(1, 4), Layout(4, 1)


def launches(*blocks: tuple[str, int]) -> list[LaunchTally]:
    """Launches with the ids 1, 2, ... in these blocks, a box and a number each."""
    return [LaunchTally(A if n % 2 else B, block, n) for n, block in enumerate(blocks, start=1)]


def test_the_blocks_of_a_grid_are_as_they_were_run() -> None:
    seen = launches(("x", 0), ("x", 0), ("x", 1), ("x", 2))

    assert blocks_of(seen, joins_single=False) == {1: 0, 2: 0, 3: 1, 4: 2}


def test_whole_blocks_stay_and_every_four_launches_that_stand_alone_are_joined() -> None:
    seen = launches(("x", 0), ("x", 0), *(("x", block) for block in range(1, 7)), ("x", 7), ("x", 7))

    assert blocks_of(seen, joins_single=True) == {
        1: 0, 2: 0, 3: 1, 4: 1, 5: 1, 6: 1, 7: 2, 8: 2, 9: 3, 10: 3,
    }  # fmt: skip


def test_launches_of_two_boxes_are_never_joined() -> None:
    seen = launches(("x", 0), ("y", 0), ("x", 1), ("y", 1))
    got = blocks_of(seen, joins_single=True)

    assert got[1] == got[3] != got[2] == got[4]


def test_the_order_of_the_list_does_not_matter() -> None:
    seen = launches(*(("x", block) for block in range(9)))

    assert blocks_of(seen[::-1], joins_single=True) == blocks_of(seen, joins_single=True)


def test_each_group_of_launches_that_took_turns_is_a_block() -> None:
    seen = launches(*[("x", 0)] * 4, ("x", 1), ("x", 1))
    for one, heat in zip(seen, (0, 0, 1, 1, None, None), strict=True):
        one.heat = heat

    assert blocks_of(seen, joins_single=True) == {1: 0, 2: 0, 3: 1, 4: 1, 5: 2, 6: 2}
