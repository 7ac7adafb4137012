"""The part of state D that is the start of children: from which windows, and how sure it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tuner.core.layout import Layout
from tuner.core.model.calibration.clocks import Clocks
from tuner.core.model.calibration.spawning import Spawning, told_spawning

WINDOW = Clocks(Layout(1, 1), 1, 600.0, 1000, 0, 60.0, blocked_s=40.0, spawning_s=30.0, child_blocked_s=0.0)


def test_the_part_is_that_of_the_looks_that_found_a_thread_in_d() -> None:
    told = told_spawning([WINDOW, replace(WINDOW, blocked_s=20.0, spawning_s=0.0)])

    assert told == Spawning(n_starting=30.0, n_other=30.0)
    assert told.ratio == 0.5


def test_children_that_wait_uninterruptibly_themselves_are_not_being_started() -> None:
    assert told_spawning([replace(WINDOW, child_blocked_s=20.0)]) == Spawning(30.0, 30.0)


def test_the_smallest_layouts_are_asked_and_larger_ones_only_where_they_saw_little() -> None:
    """On a busy box a child waits for a core before it runs its program."""
    busy = replace(WINDOW, layout=Layout(2, 2), blocked_s=500.0, spawning_s=490.0)
    seen = [replace(WINDOW, blocked_s=100.0, spawning_s=60.0), busy]

    assert told_spawning(seen) == Spawning(60.0, 40.0)
    assert told_spawning([WINDOW, busy]) == Spawning(520.0, 20.0)


@pytest.mark.parametrize(
    "untold",
    [
        replace(WINDOW, spawning_s=None),
        replace(WINDOW, blocked_s=None, spawning_s=None),
        replace(WINDOW, blocked_s=4.0, spawning_s=2.0),
        replace(WINDOW, blocked_s=0.0, spawning_s=0.0),
    ],
)
def test_where_nobody_told_or_hardly_anything_was_seen_nothing_is_known(untold: Clocks) -> None:
    assert told_spawning([untold]) is None
    assert told_spawning([untold, WINDOW]) is not None


def test_draws_scatter_as_so_many_looks_do() -> None:
    """A Beta of 30.5 and 10.5: its standard deviation is sqrt(p q / (n + 2))."""
    drawn = Spawning(30.0, 10.0).drawn(4000, seed=1)

    assert np.mean(drawn) == pytest.approx(30.5 / 41, abs=0.005)
    assert np.std(drawn) == pytest.approx((30.5 * 10.5 / 41**2 / 42) ** 0.5, rel=0.05)
    assert list(drawn) == list(Spawning(30.0, 10.0).drawn(4000, seed=1))
