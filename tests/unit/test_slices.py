"""The order and the lengths of slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, pairwise
from math import exp
from random import Random
from statistics import fmean

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import LostInSlices, Observed
from tuner.core.domain.window import Sample
from tuner.core.search.heat_race import FIRST_WINDOW_S
from tuner.core.windows.slices import (
    FEWEST_ROUNDS,
    LONGEST_FROZEN_S,
    LONGEST_S,
    MOST_GROWN,
    LoadInSlices,
    SkipControl,
    Slice,
    ThroughputLost,
    items_per_s,
    loads_in_slices,
    noise_of_second,
    slice_for,
    turns,
    williams_rows,
)


@pytest.mark.parametrize("n", range(1, 9))
def test_each_layout_follows_each_other_one_equally_often(n: int) -> None:
    rows = williams_rows(n)
    after = Counter(pair for row in rows for pair in pairwise(row))
    assert all(sorted(row) == list(range(n)) for row in rows)
    assert len(after) == n * (n - 1)
    assert len(set(after.values())) <= 1


@pytest.mark.parametrize("n", [2, 3, 4])
def test_each_round_gives_every_layout_one_slice(n: int) -> None:
    rounds = list(islice(turns(n, Random(7)), 24))
    assert all(sorted(row) == list(range(n)) for row in rounds)
    firsts = Counter(row[0] for row in rounds)
    assert set(firsts.values()) == {24 // n}


def test_the_order_follows_from_the_seed() -> None:
    assert list(islice(turns(4, Random(3)), 20)) == list(islice(turns(4, Random(3)), 20))
    assert list(islice(turns(4, Random(3)), 20)) != list(islice(turns(4, Random(4)), 20))


def test_a_slice_holds_twenty_items_of_each_thread() -> None:
    found = slice_for(0.2, freezes=False)
    assert found.counted_s == pytest.approx(4.0)
    assert found.skip_s == pytest.approx(0.4)


def test_a_slice_of_short_items_is_a_second_long() -> None:
    found = slice_for(0.001, freezes=False)
    assert (found.counted_s, found.skip_s) == (1.0, 0.2)


def test_idle_workers_look_for_items_before_the_counted_part_begins() -> None:
    found = slice_for(0.001, freezes=False, poll_interval_s=1.0)
    assert found.skip_s == pytest.approx(1.2)
    assert found.counted_s == pytest.approx(3.0)
    assert FEWEST_ROUNDS * found.counted_s < FIRST_WINDOW_S  # so the noise in a first window is known


def test_items_of_seconds_need_no_whole_slice_if_they_are_frozen() -> None:
    alone = slice_for(17.0, freezes=False)
    assert alone.is_endless
    assert 1.0 < alone.skip_s <= LONGEST_S  # it was idle, so its first items do not count either
    found = slice_for(17.0, freezes=True)
    assert found.counted_s == LONGEST_FROZEN_S
    assert found.skip_s < found.counted_s


def test_slices_are_longer_if_frozen_items_wait() -> None:
    """A pause does not stop the time of a sleep, so such items have to begin and end in one slice."""
    assert slice_for(0.7, freezes=True, wait_s=0.7) == slice_for(0.7, freezes=False)
    assert slice_for(0.7, freezes=True, wait_s=0.01).counted_s == LONGEST_FROZEN_S
    assert slice_for(17.0, freezes=True, wait_s=0.2).counted_s == pytest.approx(4.0)
    assert slice_for(17.0, freezes=True, wait_s=9.0).is_endless


def items_counted(slice_: Slice, residence_s: float) -> int:
    """Items of a thread in the counted part, if it begins one with the slice, and all take the same time."""
    return int(slice_.length_s / residence_s) - int(slice_.skip_s / residence_s)


@pytest.mark.parametrize(
    ("residence_s", "freezes"), [(0.034, False), (0.048, False), (0.3, True), (0.7, True)]
)
def test_slices_count_as_many_items_as_a_thread_finishes_alone(residence_s: float, freezes: bool) -> None:
    random, slice_ = Random(5), slice_for(residence_s, freezes=freezes, wait_s=residence_s)
    counted = fmean(items_counted(slice_.drawn(random), residence_s) for _ in range(4000))
    assert counted == pytest.approx(slice_.counted_s / residence_s, rel=0.002)


def halves(random: Random, n: int, bias: float, sd: float) -> list[tuple[float, float]]:
    """Rates around 100 in both halves of slices; the first ones are too low by twice the *bias*."""
    return [
        (100 * (1 - 2 * bias) * (1 + random.gauss(0, sd)), 100 * (1 + random.gauss(0, sd))) for _ in range(n)
    ]


def test_the_skipped_part_grows_as_long_as_counted_parts_begin_slower_or_faster() -> None:
    random, control = Random(4), SkipControl()
    for _ in range(3):
        control.learn(halves(random, 40, 0.01, 0.01))
    grown = control.times
    control.learn(halves(random, 400, 0.0, 0.01))
    faster_at_first = SkipControl()
    faster_at_first.learn(halves(random, 40, -0.01, 0.01))

    assert faster_at_first.times == pytest.approx(1.5)
    assert grown == pytest.approx(1.5**3)
    assert control.times == grown
    longer = slice_for(0.2, freezes=False, skip_times=grown)
    assert (longer.counted_s, longer.skip_s) == (pytest.approx(4.0), pytest.approx(0.4 * grown))


LAYOUTS = [Layout(n, 1) for n in range(1, 5)]


def lost(
    random: Random, n: int, losses: Sequence[float], sd: float = 0.05
) -> tuple[float, tuple[Layout, ...]] | None:
    """The loss found in *n* heats of as many layouts as there are *losses*, on a host whose speed changes."""
    seen = ThroughputLost()
    for heat in range(n):
        now = exp(random.gauss(0, sd))
        seen.learn(
            [
                of_warmup(heat, layout, (1 - loss) * now / exp(random.gauss(0, sd)))
                for layout, loss in zip(LAYOUTS, losses, strict=False)
            ]
        )
    found = seen.found
    return None if found is None else (found.ratio, found.layouts)


def of_warmup(heat: int, layout: Layout, ratio: float | None) -> Observed:
    """A window in slices; each layout has one in each heat."""
    launch = len(LAYOUTS) * heat + LAYOUTS.index(layout)
    return Observed(layout, 100.0, launch, 0.0, 0.0, 10.0, turns_s=100.0 * heat, of_warmup=ratio)


def test_throughput_that_launches_lose_in_slices_is_found() -> None:
    assert lost(Random(1), 6, (0.3, 0.3)) == (pytest.approx(0.3, abs=0.05), ())
    assert lost(Random(1), 3, (0.3, 0.3)) is None  # too few
    assert lost(Random(1), 10, (0.04,) * 4) is None  # too little


def test_heats_of_one_block_count_one_by_one() -> None:
    seen = ThroughputLost()
    seen.learn([of_warmup(heat, layout, 0.7 + 0.01 * heat) for layout in LAYOUTS for heat in range(4)])
    found = seen.found
    assert found is not None
    assert found.layouts == ()


def test_throughput_that_only_one_layout_loses_is_found() -> None:
    assert lost(Random(1), 5, (0.0, 0.0, 0.3, 0.0)) == (pytest.approx(0.3, abs=0.1), (LAYOUTS[2],))
    assert lost(Random(1), 10, (0.0, 0.0, 0.04, 0.0)) is None
    assert lost(Random(1), 8, (0.0, 0.5)) == (pytest.approx(0.5, abs=0.1), (LAYOUTS[1],))
    assert lost(Random(1), 8, (0.2, 0.0, 0.5)) == (pytest.approx(0.37, abs=0.1), (LAYOUTS[0], LAYOUTS[2]))
    assert lost(Random(1), 8, (0.2, 0.2, 0.5)) == (pytest.approx(0.32, abs=0.1), ())


def test_a_single_window_without_any_item_is_a_loss() -> None:
    seen = ThroughputLost()
    first, other = of_warmup(0, LAYOUTS[0], 1.0), of_warmup(0, LAYOUTS[1], 0.0)
    assert seen.learn([first, other]) == [first]
    assert seen.found == LostInSlices(1.0, (LAYOUTS[1],))


def test_changes_of_a_busy_host_are_no_lost_throughput() -> None:
    random = Random(2)
    found = [lost(random, n, (0.0,) * 4, 0.3) for _ in range(200) for n in (4, 5, 6, 12)]
    assert sum(one is not None for one in found) <= 8  # 1 %


def samples(*n_done: int) -> list[Sample]:
    return [Sample(float(at_s), n, 0, 0.0, 0.0, 0.0, None) for at_s, n in enumerate(n_done)]


def test_windows_that_cannot_be_compared_with_their_warm_up_show_no_loss() -> None:
    seen = ThroughputLost()
    for heat in range(10):
        alone = replace(of_warmup(heat, LAYOUTS[1], 0.5), turns_s=None)
        seen.learn([of_warmup(heat, LAYOUTS[0], None), alone])
    assert seen.found is None


def test_the_throughput_of_a_warm_up_needs_items_and_time() -> None:
    assert items_per_s(samples(5, 20, 65)) == 30.0
    assert items_per_s(samples(5, 20, 24)) is None
    assert items_per_s(samples(30)) is None
    assert items_per_s([]) is None


def test_the_throughput_before_slices_is_without_the_head_of_a_window_and_a_second_warm_up() -> None:
    warmup = samples(0, 100, 200)
    head = [replace(one, at_s=one.at_s + 2.001) for one in samples(200, 210, 220)]
    again = [replace(one, at_s=one.at_s + 60.0) for one in samples(900, 910, 920)]

    assert items_per_s([*warmup, *head]) == 100.0
    assert items_per_s([*warmup, *again]) == 100.0


def test_a_bias_within_its_noise_or_too_small_to_matter_changes_nothing() -> None:
    random = Random(5)
    for n, bias, sd in ((19, 0.5, 0.01), (40, 0.01, 0.5), (4000, 0.001, 0.001)):
        control = SkipControl()
        control.learn(halves(random, n, bias, sd))
        assert control.times == 1.0


def test_the_skipped_part_does_not_grow_without_end() -> None:
    random, control = Random(6), SkipControl()
    for _ in range(20):
        control.learn(halves(random, 40, 0.05, 0.01))

    assert control.times == MOST_GROWN


def rates_with(shared: Sequence[float], own: Sequence[float], mean: float) -> dict[int, float]:
    """The rates of one launch, by round."""
    return {n: mean * both * each for n, (both, each) in enumerate(zip(shared, own, strict=True))}


def test_the_noise_of_a_second_leaves_out_what_all_layouts_share() -> None:
    random, squares = Random(5), []
    for _ in range(400):
        shared = [random.uniform(0.5, 1.5) for _ in range(16)]
        own = [[1 + random.gauss(0, 0.04) for _ in shared] for _ in range(3)]
        first, *others = (rates_with(shared, one, mean) for one, mean in zip(own, (10, 40, 90), strict=True))
        found = noise_of_second(first, others, counted_s=4.0)
        assert found is not None
        squares.append(found**2)
    assert fmean(squares) ** 0.5 == pytest.approx(0.04 * 2, rel=0.1)  # 0.04 in four seconds


def test_the_noise_of_a_second_needs_three_rounds_of_several_layouts() -> None:
    rates = {0: 10.0, 1: 11.0, 2: 9.0}
    assert noise_of_second(rates, [], 1.0) is None
    assert noise_of_second(rates, [{}], 1.0) is None
    assert noise_of_second(rates, [{0: 5.0, 1: 5.0}], 1.0) is None
    assert noise_of_second(rates, [{0: 0.0, 1: 0.0, 2: 0.0}], 1.0) is None
    assert noise_of_second(rates, [{0: 5.0, 1: 5.5, 2: 4.5}], 1.0) == pytest.approx(0)
    assert noise_of_second(rates, [{0: 5.0, 1: 5.0, 2: 5.0}], 1.0) == pytest.approx(0.1 / 2**0.5)
    ended_early = {0: 5.0}
    assert noise_of_second(rates, [{0: 5.0, 1: 5.0, 2: 5.0}, ended_early], 1.0) == pytest.approx(0.1 / 2**0.5)


def test_the_load_of_a_short_window_is_about_the_mean_of_its_counts() -> None:
    counts = [(101.0, 9), (102.0, 3), (103.0, 2), (104.0, 4), (105.0, 2)]

    (load,) = loads_in_slices(counts, 100.0)

    assert load == pytest.approx(fmean(n for _, n in counts), rel=0.03)


def test_a_count_weighs_as_much_as_the_time_since_the_last_one() -> None:
    load = LoadInSlices(0.0)
    load.advance(3.0, 2)

    assert load.advance(4.0, 6)[2] == pytest.approx((3 * 2 + 6) / 4, rel=0.01)


def test_a_load_average_counts_once_it_covers_a_minute_and_forgets_like_the_kernels() -> None:
    loads = loads_in_slices([(float(at_s), 8 if at_s <= 300 else 2) for at_s in range(601)], 0.0)

    assert len(loads) == 541
    assert max(loads) == pytest.approx(8)
    assert loads[300] == pytest.approx(2 + 6 * exp(-1), rel=0.01)
