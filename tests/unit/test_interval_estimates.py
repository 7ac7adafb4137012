from __future__ import annotations

from math import exp, log, sqrt
from random import Random

import pytest
from scipy import stats

from tuner.core.stats.interval import LaunchMean, estimate_throughputs

from .launch_table import TABLE, fitted, launches

pytestmark = pytest.mark.pythons


def test_one_layout_has_the_usual_t_interval_of_its_launches() -> None:
    seen = launches({0: TABLE[0]})
    [got] = estimate_throughputs(seen, fitted(seen), 0.95)
    logs = [log(value) for value in TABLE[0]]
    mean = sum(logs) / 3
    sd = sqrt(sum((value - mean) ** 2 for value in logs) / 2)
    factor = exp(stats.t.ppf(0.975, 2) * sd / sqrt(3))

    assert got.mean == pytest.approx(11.0)
    assert (got.low, got.high) == pytest.approx((11.0 / factor, 11.0 * factor))


def test_with_several_layouts_the_variance_is_pooled_and_blocks_weigh_more_in_its_df() -> None:
    seen = launches(TABLE)
    got = estimate_throughputs(seen, fitted(seen), 0.9)[1]
    # By hand, for a whole table of k layouts and b blocks: (MS of blocks + (k - 1) MS of residuals) / (k b).
    logs = [[log(value) for value in values] for values in TABLE.values()]
    grand = sum(map(sum, logs)) / 6
    of_block = [(logs[0][block] + logs[1][block]) / 2 for block in range(3)]
    of_layout = [sum(row) / 3 for row in logs]
    ms_blocks = 2 * sum((mean - grand) ** 2 for mean in of_block) / 2
    ms_residual = (
        sum(
            (logs[layout][block] - of_layout[layout] - of_block[block] + grand) ** 2
            for layout in range(2)
            for block in range(3)
        )
        / 2
    )
    assert ms_blocks > ms_residual
    variance = (ms_blocks + ms_residual) / 6
    weighed = 3 * ms_blocks  # 1 + 4 / 2 times
    df = (weighed + ms_residual) ** 2 / (weighed**2 / 2 + ms_residual**2 / 2)
    factor = exp(stats.t.ppf(0.95, df) * sqrt(variance))

    assert got.mean == pytest.approx(14.0)
    assert (got.low, got.high) == pytest.approx((14.0 / factor, 14.0 * factor))


def test_blocks_that_differ_less_than_launches_do_not_narrow_the_interval() -> None:
    # The same residuals twice; blocks agree more than chance would have it, the first time wholly.
    residual = (0.3, -0.1, -0.2)
    widths = []
    for drift in ((0.0, 0.0, 0.0), (0.05, -0.05, 0.0)):
        seen = [
            LaunchMean(layout, block, exp(sign * residual[block] + drift[block]), 1, 0.0)
            for layout, sign in ((0, 1), (1, -1))
            for block in range(3)
        ]
        [got, _] = estimate_throughputs(seen, fitted(seen), 0.95)
        assert got.low is not None
        assert got.high is not None
        widths.append(log(got.high / got.low))

    assert widths[0] == pytest.approx(widths[1])


@pytest.mark.parametrize("drift_sd", [0.0, 0.01])
def test_the_interval_of_a_layout_that_was_left_after_two_blocks_holds(drift_sd: float) -> None:
    # One degree of freedom tells the noise between launches: its mean square is often far too small.
    random, n, n_held = Random(1), 1500, 0
    design = [(0, block) for block in range(8)] + [(1, 0), (1, 1)]
    for _ in range(n):
        drift = [random.gauss(0, drift_sd) for _ in range(8)]
        seen = [
            LaunchMean(layout, block, exp(drift[block] + random.gauss(0, 0.02)), 1, 0.0)
            for layout, block in design
        ]
        [_, left] = estimate_throughputs(seen, fitted(seen), 0.95)
        n_held += left.low is None or left.high is None or left.low <= 1 <= left.high

    assert n_held / n >= 0.91  # 92 %; without more weight for that mean square 88 %


def test_one_block_gives_means_without_intervals() -> None:
    seen = launches({0: (10.0,), 1: (12.0,)})
    got = estimate_throughputs(seen, fitted(seen), 0.95)

    assert [one.mean for one in got] == pytest.approx([10.0, 12.0])
    assert [(one.low, one.high) for one in got] == [(None, None)] * 2


def test_layouts_that_never_share_a_block_have_no_interval() -> None:
    seen = [LaunchMean(0, 0, 10.0, 1, 0.0), LaunchMean(1, 1, 12.0, 1, 0.0)]

    assert [one.low for one in estimate_throughputs(seen, fitted(seen), 0.95)] == [None, None]


def test_launches_that_agree_to_the_last_digit_leave_no_width() -> None:
    seen = launches({0: (10.0, 10.0), 1: (10.0, 10.0)})
    [got, _] = estimate_throughputs(seen, fitted(seen), 0.95)

    assert (got.low, got.high) == pytest.approx((10.0, 10.0))


def test_a_layout_missing_from_a_good_block_is_put_right() -> None:
    seen = [one for one in launches({0: (10.0, 20.0), 1: (10.0, 20.0)}) if (one.layout, one.block) != (1, 1)]
    got = estimate_throughputs(seen, fitted(seen), 0.95)

    assert got[0].mean == pytest.approx(15.0)
    assert got[1].mean == pytest.approx(15.0)  # as much in the block that it was in, so as much on average


def test_means_are_in_the_ratio_of_the_effects_though_a_layout_missed_the_fast_blocks() -> None:
    table = {0: (10.0, 11.0, 40.0), 1: (20.0, 22.0, 80.0), 2: (15.0, 16.5, 60.0)}
    seen = [one for one in launches(table) if (one.layout, one.block) != (2, 2)]

    got = [one.mean for one in estimate_throughputs(seen, fitted(seen), 0.95)]

    assert got == pytest.approx([61 / 3, 122 / 3, 91.5 / 3])
