"""A layout against itself: known noise, known rates."""

from __future__ import annotations

from math import exp, log, sqrt
from random import Random
from typing import Any

import pytest

from tuner.adapters.virtual.box import Noise, Trouble, VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Observed
from tuner.core.planning.aa_test import Pair, detectable, race_alarm, ranking_alarm, self_test, welch_alarm
from tuner.core.search.strategies.launches import launch_value
from tuner.core.stats.groups import compare
from tuner.core.stats.interval import Estimate, exact_interval
from tuner.core.stats.two_way_anova import Observation
from tuner.study.pilot_run import pairs_strategy, read_self_test
from tuner.study.run import run_study

ONE = Layout(4, 6)


def drawn(
    random: Random,
    n_pairs: int,
    launch_sd: float,
    window_sd: float,
    n_windows: int = 4,
    gap: float = 0.0,
    drift_sd: float = 0.1,
) -> list[Pair]:
    pairs, at_s, number = [], 0.0, 0
    for _ in range(n_pairs):
        block, pair = random.gauss(0, drift_sd), []
        for place in range(2):
            level = block + random.gauss(0, launch_sd) + place * gap
            began_s, windows = at_s, []
            for _ in range(n_windows):
                windows.append(
                    Observed(ONE, exp(level + random.gauss(0, window_sd)), number, began_s, at_s + 30.0, 60.0)
                )
                at_s += 60.0
            at_s += 40.0
            number += 1
            pair.append(tuple(windows))
        pairs.append((pair[0], pair[1]))
    return pairs


def test_identical_layouts_give_no_more_alarms_than_asked_and_welch_on_windows_many() -> None:
    random = Random(1)
    n = 400
    studies = [drawn(random, 6, 0.02, 0.005) for _ in range(n)]
    labels = [False] * 6
    ranking = sum(ranking_alarm(pairs, labels, 0.95) for pairs in studies)
    race = sum(race_alarm(pairs, labels, 0.95, 0.02) for pairs in studies)
    in_one_launch = [drawn(random, 1, 0.02, 0.005, n_windows=20) for _ in range(200)]
    welch = sum(welch_alarm(pairs, [False], 0.95) for pairs in in_one_launch)

    slack = 3 * sqrt(0.05 * 0.95 / n)
    assert abs(ranking / n - 0.05) < slack
    assert race / n < 0.05 + slack
    assert welch / 200 > 0.5


def test_a_true_difference_is_called_one() -> None:
    pairs = drawn(Random(2), 8, 0.005, 0.005, gap=0.05, drift_sd=0.0)

    assert ranking_alarm(pairs, [False] * 8, 0.95)
    assert race_alarm(pairs, [False] * 8, 0.95, 0.02)
    assert not ranking_alarm(pairs, [False, True] * 4, 0.95)


@pytest.mark.parametrize("seed", range(20))
def test_the_rule_tried_is_the_ranking_s_own(seed: int) -> None:
    random = Random(seed)
    pairs = drawn(random, 4, 0.02, 0.01, gap=0.03)
    labels = [random.random() < 0.5 for _ in pairs]
    seen = [
        Observation(int(place != swap), block, log(launch_value(launch)))
        for block, (pair, swap) in enumerate(zip(pairs, labels, strict=True))
        for place, launch in enumerate(pair)
    ]

    assert ranking_alarm(pairs, labels, 0.95) == (max(compare(seen, 2, 0.95).n_better([0, 1])) > 0)


def test_all_labellings_of_few_pairs_are_tried() -> None:
    few = self_test(drawn(Random(3), 5, 0.02, 0.01), launch_s=300.0)

    assert {rate.n for rate in few.rates} == {32}
    assert all(rate.every and rate.low == rate.ratio == rate.high for rate in few.rates)


def test_what_can_be_seen_is_found_nine_times_in_ten() -> None:
    sd = 0.02
    seen = detectable(Estimate(sd, sd, sd), 4.0, 900.0, 0.95)
    assert seen.n_pairs == 8
    assert seen.ratio is not None
    assert seen.ratio.mean is not None
    random, n = Random(5), 1000
    gap = seen.ratio.mean
    found = sum(
        ranking_alarm(drawn(random, 8, sd, 0.0, 1, gap=gap + gap**2 / 2), [False] * 8, 0.95) for _ in range(n)
    )

    # the sum of two quantiles of t is right to about 1 % of power with 7 degrees of freedom
    assert found / n == pytest.approx(0.9, abs=0.015 + 3 * sqrt(0.09 / n))
    assert detectable(Estimate(sd, sd, sd), 0.5, 900.0, 0.95).ratio is None


def test_an_exact_interval_is_that_of_the_books() -> None:
    low, high = exact_interval(0, 10)
    assert (low, high) == (0.0, pytest.approx(1 - 0.025 ** (1 / 10)))
    assert exact_interval(10, 10) == (pytest.approx(0.025 ** (1 / 10)), 1.0)
    assert exact_interval(3, 20) == (pytest.approx(0.0321, abs=1e-4), pytest.approx(0.3789, abs=1e-4))
    low, high = exact_interval(1000, 2000)  # of so many a float cannot hold the ways to choose them
    assert (low, high) == (pytest.approx(1 - high), pytest.approx(0.5 + 1.96 * sqrt(0.25 / 2000), abs=5e-4))
    with pytest.raises(ValueError, match="3 of 2"):
        exact_interval(3, 2)


SERVICE = VirtualService({ONE: 100.0}, settle_s=1.0)
STUDY: dict[str, Any] = {
    "strategy": "aa", "n_blocks": 6, "windows_per_launch": 3, "window_s": 20.0, "warmup_s": 5.0,
    "warms_cache": False,
}  # fmt: skip


def ran(
    store: MemoryStore, *troubles: Trouble, stop_after: int | None = None, noise: Noise | None = None
) -> int:
    progress = MemoryProgress()
    box = VirtualBox(
        SERVICE, noise or Noise(), seed=7, cores=4, clock=VirtualClock.resumed(store), troubles=troubles
    ).box()
    stop = PlannedStop(lambda: stop_after is not None and len(progress.windows) >= stop_after)
    return run_study(box, store, progress, stop, pairs_strategy(store.study())).exit_code


def test_pairs_are_measured_and_read_back_with_their_noise_and_a_sample_of_labellings_is_tried() -> None:
    store = MemoryStore(virtual_study(SERVICE, **{**STUDY, "n_blocks": 16}))
    code = ran(store, noise=Noise(window_sd=0.01, launch_sd=0.02, drift_sd=0.1, sample_sd=0.0))
    found = read_self_test(store)

    assert code == 0
    assert found is not None
    test, pilot = found
    assert test.n_pairs == 16
    assert pilot is not None
    pair_sd = sqrt(0.02**2 + 0.01**2 / 3)
    assert test.pair_sd.mean == pytest.approx(pair_sd, rel=4 / sqrt(32))
    assert pilot.drift is not None
    assert pilot.drift.mean is not None
    assert pilot.drift.mean > 0.04
    assert {rate.n for rate in test.rates} == {312}
    assert all(not rate.every and rate.low <= rate.ratio <= rate.high for rate in test.rates)
    assert test.separate is not None
    assert test.separate.n == 5


def test_pairs_that_were_cut_off_continue_where_they_were() -> None:
    whole, cut = MemoryStore(virtual_study(SERVICE, **STUDY)), MemoryStore(virtual_study(SERVICE, **STUDY))
    ran(whole)
    assert ran(cut, stop_after=8) == 130
    assert ran(cut) == 0

    first, second = read_self_test(whole), read_self_test(cut)
    assert first is not None
    assert second is not None
    assert second[0].n_pairs == first[0].n_pairs == 6
    assert second[0].pair_sd.mean == pytest.approx(first[0].pair_sd.mean)


def test_a_pair_with_a_launch_missing_does_not_count() -> None:
    store = MemoryStore(virtual_study(SERVICE, **{**STUDY, "max_attempts": 2}))
    ran(store, Trouble("dies", ONE, block=2, after_s=1.0))
    found = read_self_test(store)

    assert found is not None
    assert found[0].n_pairs == 5


def test_one_pair_shows_nothing() -> None:
    store = MemoryStore(virtual_study(SERVICE, **{**STUDY, "n_blocks": 1}))
    ran(store)

    assert read_self_test(store) is None
