"""Each layout by its own noise, and blocks that drift slowly: what a full grid may claim then."""

from __future__ import annotations

from math import cos, log, pi, sqrt
from random import Random
from statistics import fmean

import pytest
from scipy import stats

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Goal, Observed
from tuner.core.search.strategies.full_grid import GridFit
from tuner.core.stats.groups import Comparison, compare
from tuner.core.stats.interval import (
    INDEPENDENT,
    LaunchMean,
    drift_between_blocks,
    estimate_throughputs,
    slow_drift,
)
from tuner.core.stats.own_noise import estimate_own_noise, mixture_reach, mixture_tail
from tuner.core.stats.two_way_anova import Observation, fit

LOUD = (5.0, *[1.0] * 7)  #: one layout of eight scatters five times as much as the others


def table(random: Random, noisy: tuple[float, ...], n_blocks: int, drift: float = 0.06) -> list[Observation]:
    """Whole blocks of layouts that are equally fast; *noisy*: their noise, in 2 %."""
    seen = []
    for block in range(n_blocks):
        of_block = random.gauss(0, drift)
        seen += [
            Observation(layout, block, of_block + random.gauss(0, 0.02 * factor))
            for layout, factor in enumerate(noisy)
        ]
    return seen


def calls_a_difference(compared: Comparison) -> bool:
    layouts = range(len(compared.fit.effects))
    return max(compared.n_better(layouts)) > 0


@pytest.mark.parametrize(("n_blocks", "at_most"), [(3, 0.08), (5, 0.05)])
def test_a_layout_noisier_than_all_others_makes_no_false_differences(n_blocks: int, at_most: float) -> None:
    random, n = Random(1), 200
    studies = [table(random, LOUD, n_blocks) for _ in range(n)]
    pooled, own = (
        fmean(calls_a_difference(compare(one, 8, 0.95, by_own_noise=by_own)) for one in studies)
        for by_own in (False, True)
    )

    assert pooled > 0.1
    assert own <= at_most + 2 * sqrt(at_most * (1 - at_most) / n)


@pytest.mark.parametrize(("n_blocks", "wider"), [(3, 1.27), (5, 1.12), (8, 1.06)])
def test_where_all_scatter_alike_intervals_are_hardly_wider(n_blocks: int, wider: float) -> None:
    random, widths = Random(2), []
    for _ in range(100):
        compared = compare(table(random, (1.0,) * 8, n_blocks), 8, 0.95, by_own_noise=True)
        tukey = (compared.limit or 0) * sqrt(2 / n_blocks * (compared.fit.residual_variance or 0))
        widths.append(
            fmean(compared.half_width(one, other) or 0 for one in range(8) for other in range(one)) / tukey
        )

    assert 1 <= fmean(widths) <= wider


def test_a_quiet_layout_is_compared_more_exactly_than_a_noisy_one() -> None:
    compared = compare(table(Random(3), LOUD, 8), 8, 0.95, by_own_noise=True)
    quiet, noisy = compared.half_width(1, 2), compared.half_width(0, 1)

    assert quiet is not None
    assert noisy is not None
    assert noisy > 1.7 * quiet
    assert compared.own_noise is not None
    assert sqrt(compared.own_noise.variance(0)) == pytest.approx(0.1, rel=0.5)
    assert sqrt(compared.own_noise.variance(1)) == pytest.approx(0.02, rel=0.5)


def test_of_two_layouts_nothing_tells_whose_noise_it_is() -> None:
    seen = table(Random(4), (1.0, 5.0), 6)

    assert estimate_own_noise(seen, fit(seen, 2)) is None
    one, other = compare(seen, 2, 0.95, by_own_noise=True), compare(seen, 2, 0.95)
    assert one.half_width(0, 1) == other.half_width(0, 1)


def test_a_block_that_lacks_layouts_and_a_layout_with_one_launch_are_no_obstacle() -> None:
    seen = [one for one in table(Random(5), LOUD, 5) if (one.layout, one.block) not in {(1, 2), (4, 0)}]
    seen.append(Observation(8, 3, 0.0))
    compared = compare(seen, 9, 0.95, by_own_noise=True)

    assert compared.half_width(8, 1) is None  # a single launch
    assert (compared.half_width(0, 4) or 0) > (compared.half_width(2, 4) or 0)


@pytest.mark.parametrize("tail", [0.001, 0.025, 0.3])
def test_the_reach_of_a_mixture_is_where_its_tail_is(tail: float) -> None:
    scales = [(0.7, 1.0, 14.0), (0.2, 3.0, 4.0), (0.1, 0.2, 2.5)]
    reach = mixture_reach(scales, tail)
    by_scipy = sum(weight * stats.t.sf(reach / scale, df) for weight, scale, df in scales)

    assert mixture_tail(reach, scales) == pytest.approx(tail, rel=1e-6)
    assert by_scipy == pytest.approx(tail, rel=1e-6)


def half_a_tide(random: Random, n_blocks: int) -> list[float]:
    """What the host does in each of *n_blocks*, over half of a tide of 10 %."""
    phase = random.uniform(0, 2 * pi)
    return [0.1 * cos(phase + pi * block / n_blocks) for block in range(n_blocks)]


def test_blocks_in_a_slow_tide_count_for_fewer_and_independent_ones_do_not() -> None:
    random = Random(6)
    slow = [slow_drift([one + random.gauss(0, 0.01) for one in half_a_tide(random, 8)]) for _ in range(50)]
    fast = [slow_drift([random.gauss(0, 0.06) for _ in range(8)]) for _ in range(50)]

    def times(parts: tuple) -> float:  # type: ignore[type-arg]
        return fmean([sum(part.weight * part.times * part.of_blocks for part in parts)])

    assert fmean(times(one) for one in slow) > 2
    assert fmean(times(one) for one in fast) < 1.5
    assert slow_drift([0.0, 1.0]) == slow_drift([1.0, 1.0, 1.0]) == INDEPENDENT


def test_the_intervals_of_means_hold_also_where_a_tide_is_slower_than_the_study() -> None:
    random, before, after = Random(7), 0, 0
    for _ in range(60):
        tide = half_a_tide(random, 8)
        seen = [
            Observation(layout, block, tide[block] + random.gauss(0, 0.05))
            for block in range(8)
            for layout in range(8)
        ]
        fitted = fit(seen, 8)
        launches = [LaunchMean(one.layout, one.block, 2.718281828**one.value, 1, 0.0) for one in seen]
        drift = drift_between_blocks(seen, fitted)
        for found, known in ((estimate_throughputs(launches, fitted, 0.95), False),
                             (estimate_throughputs(launches, fitted, 0.95, None, drift), True)):  # fmt: skip
            held = sum((one.low or 0) <= 1 <= (one.high or 0) for one in found)
            before, after = (before, after + held) if known else (before + held, after)

    assert before / 480 < 0.8
    assert after / 480 > max(0.83, before / 480 + 0.1)


def test_a_full_grid_answers_as_its_ranking_groups() -> None:
    random, layouts = Random(8), tuple(Layout(1, threads) for threads in range(1, 9))
    grid = GridFit(Goal(layouts))
    seen = []
    for block in range(4):
        for number, layout in enumerate(layouts):
            value = 10.0 - 0.4 * number + random.gauss(0, 0.8 if number == 0 else 0.1)
            grid.add([Observed(layout, value, 10 * block + number, 0.0, 0.0, 600.0)], block)
            seen.append(Observation(number, block, log(value)))
        grid.end_block(block)
    compared = compare(seen, 8, 0.95, by_own_noise=True)
    best = max(range(8), key=lambda number: compared.fit.effects[number])
    better = dict(zip(layouts, compared.n_better(range(8)), strict=True))
    answer = grid.answer(())

    assert answer.layout == layouts[best]
    assert set(answer.ties) == {x for x in layouts if not better[x] and x != layouts[best]}
    assert 0 < len(answer.ties) < 7
