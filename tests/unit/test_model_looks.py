"""What looks tell: the part of state D that is the start of children, and who else is active for an item."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tuner.core.domain.layout import Layout
from tuner.core.model.calibration.clocks import Clocks
from tuner.core.model.calibration.per_item import (
    Looks,
    Spawning,
    estimate_looks,
    estimate_others_s,
    estimate_spawning,
)

WINDOW = Clocks(Layout(1, 1), 1, 600.0, 1000, 0, 60.0, blocked_s=40.0, spawning_s=30.0, child_blocked_s=0.0)


def test_the_part_is_that_of_the_looks_that_found_a_thread_in_d() -> None:
    result = estimate_spawning([WINDOW, replace(WINDOW, blocked_s=20.0, spawning_s=0.0)])

    assert result == Spawning(n_starting=30.0, n_other=30.0)
    assert result.ratio == 0.5


def test_children_that_wait_uninterruptibly_themselves_are_not_being_started() -> None:
    assert estimate_spawning([replace(WINDOW, child_blocked_s=20.0)]) == Spawning(30.0, 30.0)


def test_the_smallest_layouts_are_asked_and_larger_ones_only_where_they_saw_little() -> None:
    """On a busy box a child waits for a core before it runs its program."""
    busy = replace(WINDOW, layout=Layout(2, 2), blocked_s=500.0, spawning_s=490.0)
    seen = [replace(WINDOW, blocked_s=100.0, spawning_s=60.0), busy]

    assert estimate_spawning(seen) == Spawning(60.0, 40.0)
    assert estimate_spawning([WINDOW, busy]) == Spawning(520.0, 20.0)


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
    assert estimate_spawning([untold]) is None
    assert estimate_spawning([untold, WINDOW]) is not None


def test_draws_scatter_as_so_many_looks_do() -> None:
    """A Beta of 30.5 and 10.5: its standard deviation is sqrt(p q / (n + 2))."""
    drawn = Spawning(30.0, 10.0).drawn(4000, seed=1)

    assert np.mean(drawn) == pytest.approx(30.5 / 41, abs=0.005)
    assert np.std(drawn) == pytest.approx((30.5 * 10.5 / 41**2 / 42) ** 0.5, rel=0.05)
    assert list(drawn) == list(Spawning(30.0, 10.0).drawn(4000, seed=1))


#: 20 items a second, each 10 ms on a core, 10 ms in D and 5 ms in a child: 0.5 task. 0.1 are others'
BESIDE = Clocks(
    Layout(1, 1),
    1,
    3600.0,
    72_000,
    0,
    1080.0,
    worker_cpu_s=720.0,
    child_cpu_s=360.0,
    run_delay_s=0.0,
    blocked_s=720.0,
    n_active=0.6,
)


def test_who_is_active_beside_an_item_is_reported_per_item() -> None:
    assert estimate_others_s([BESIDE]) == pytest.approx(0.005, rel=0.01)


@pytest.mark.parametrize(
    "accounted",
    [
        replace(BESIDE, run_delay_s=360.0),
        replace(BESIDE, beside_delay_s=360.0),
        replace(BESIDE, child_blocked_s=360.0),
        replace(BESIDE, backend_cpu_s=360.0),
        replace(BESIDE, n_active=0.5),
        replace(BESIDE, n_active=0.3),
        replace(BESIDE, strangers_cores=0.1),
    ],
)
def test_what_items_and_strangers_do_themselves_is_nobody_elses(accounted: Clocks) -> None:
    assert estimate_others_s([accounted]) == pytest.approx(0.0, abs=1e-9)


def test_strangers_wait_for_a_core_as_long_as_items_do_for_each_second_of_cpu() -> None:
    """An item waits 20 ms for its 10 ms, and strangers use half a core: one of their tasks waits."""
    busy = replace(BESIDE, run_delay_s=1440.0, strangers_cores=0.5, n_active=0.5 + 0.4 + 0.5 + 1.0)

    assert estimate_others_s([busy]) == pytest.approx(0.0, abs=1e-9)


def test_few_looks_and_many_strangers_tell_little_of_others() -> None:
    """60 looks at 0.6 task leave 0.1 task open, which is all that was seen: half of what was expected."""
    short = replace(
        BESIDE,
        length_s=60.0,
        n_done=1200,
        service_cpu_s=18.0,
        worker_cpu_s=12.0,
        child_cpu_s=6.0,
        blocked_s=12.0,
    )
    beside_strangers = replace(BESIDE, strangers_cores=1.0, n_active=1.6)

    assert estimate_others_s([short]) == pytest.approx(0.005 * 0.2**2 / (0.2**2 + 0.6 / 60))
    assert estimate_others_s([beside_strangers]) == pytest.approx(
        0.005 * 0.2**2 / (0.2**2 + 0.5**2), rel=0.01
    )


def test_who_is_active_beside_larger_layouts_is_not_taken_for_others() -> None:
    """They stand in lines, as the model has them."""
    larger = replace(BESIDE, layout=Layout(2, 2), n_active=4.0)

    assert estimate_others_s([larger]) == 0.0
    assert estimate_others_s([BESIDE, larger]) == estimate_others_s([BESIDE])
    assert estimate_others_s([replace(BESIDE, n_active=None)]) == 0.0


def test_all_that_looks_tell_comes_together() -> None:
    window = replace(BESIDE, spawning_s=360.0, child_blocked_s=0.0)

    assert estimate_looks([window]) == Looks(Spawning(360.0, 360.0), estimate_others_s([window]))
    assert estimate_looks([window]).spawning_ratio == 0.5
    assert Looks().spawning_ratio == 0.0
