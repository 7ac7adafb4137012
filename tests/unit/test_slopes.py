"""The slope that launches share: how often its interval holds the truth, and who weighs how much."""

from __future__ import annotations

import math
import random

import pytest

from tuner.core.stats.variance import Slope, pool_slopes

N_STUDIES = 400


def launch(draw: random.Random, true: float, error: float, *, extra: float = 1.0) -> Slope:
    """One whose own standard error has five degrees of freedom, and scatters *extra* times as much."""
    seen = error * math.sqrt(sum(draw.gauss(0, 1) ** 2 for _ in range(5)) / 5)
    return Slope(true + extra * error * draw.gauss(0, 1), seen**2, 600.0)


@pytest.mark.parametrize(("n_leader", "extra"), [(1, 1.0), (3, 1.0), (3, 2.0), (8, 2.0)])
def test_the_interval_of_a_layout_holds_the_truth_as_often_as_said(n_leader: int, extra: float) -> None:
    draw, n_held, true = random.Random(1), 0, -0.05
    for _ in range(N_STUDIES):
        groups = {f"other {n}": [launch(draw, 0.0, 0.02, extra=extra) for _ in range(2)] for n in range(6)}
        groups["leader"] = [launch(draw, true, 0.02, extra=extra) for _ in range(n_leader)]
        found = pool_slopes(groups, 0.95)["leader"]
        assert found.low is not None
        assert found.high is not None
        n_held += found.low <= true <= found.high

    assert n_held / N_STUDIES >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / N_STUDIES)


def test_a_short_launch_weighs_less_than_a_long_one() -> None:
    short, long = Slope(-1.0, 0.1**2 * 8, 300.0), Slope(-0.5, 0.1**2, 600.0)

    found = pool_slopes({"a": [short, long]}, 0.95)["a"]

    assert found.mean == pytest.approx((-1.0 - 8 * 0.5) / 9)


def test_launches_that_disagree_are_less_certain_than_their_own_errors_say() -> None:
    agree = [Slope(-0.05 + 0.001 * n, 0.01**2, 600.0) for n in (-1, 0, 1)]
    disagree = [Slope(-0.05 + 0.1 * n, 0.01**2, 600.0) for n in (-1, 0, 1)]

    found = pool_slopes({"agree": agree, "disagree": disagree}, 0.95)

    assert found["agree"].mean == pytest.approx(-0.05)
    assert found["disagree"].high is not None
    assert found["disagree"].high > 0


def test_layouts_of_one_launch_each_have_no_interval() -> None:
    found = pool_slopes({"a": [Slope(-0.05, 0.01**2, 600.0)], "b": [Slope(0.0, 0.01**2, 600.0)]}, 0.95)

    assert (found["a"].mean, found["a"].low, found["a"].high) == (-0.05, None, None)
