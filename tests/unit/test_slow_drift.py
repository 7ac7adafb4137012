from __future__ import annotations

from random import Random

from tuner.core.domain.layout import Layout
from tuner.core.planning.compared import drifts_on
from tuner.core.search.recheck import Launched
from tuner.core.search.suite import Drift

from ..luck import at_most

LAYOUTS = [Layout(n, 1) for n in range(1, 25)]


def launches(seed: int, *, goes_on: bool) -> list[Launched]:
    """24 layouts in 3 blocks, in random order; the box moves on with each, or with each block."""
    random = Random(seed)
    drift = Drift(0.06, 0.9, random)
    found = []
    for block in range(3):
        level = random.gauss(0, 0.06)
        for layout in random.sample(LAYOUTS, len(LAYOUTS)):
            box = drift.at(720.0 * (len(found) + 1)) if goes_on else level
            found.append(Launched(block, layout, layout.processes + box + random.gauss(0, 0.025)))
    return found


def test_a_box_that_drifts_on_within_blocks_is_reported_from_one_that_does_not() -> None:
    n = 60
    on = sum(drifts_on(launches(seed, goes_on=True)) for seed in range(n))
    steady = sum(drifts_on(launches(seed, goes_on=False)) for seed in range(n))

    assert on / n >= 0.7
    assert steady / n <= at_most(0.01, n)


def test_too_few_launches_tell_nothing() -> None:
    assert not drifts_on([])
    assert not drifts_on([Launched(0, LAYOUTS[0], 1.0)])
    assert not drifts_on([Launched(block, layout, 1.0) for block in range(3) for layout in LAYOUTS])
