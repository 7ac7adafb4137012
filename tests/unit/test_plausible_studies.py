"""Plausible studies: throughputs and noise that agree with a pilot, as uncertain as it leaves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log, sqrt
from statistics import fmean, median, stdev

import numpy as np
import pytest
from numpy.typing import NDArray

from tuner.core.domain.layout import Layout, divisors_grid
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict
from tuner.core.planning.pilot import DriftSquare, PilotLevel, Squares
from tuner.core.planning.plausible import draw_noises, draw_surfaces
from tuner.core.stats.variance import MeanSquare

GRID = tuple(divisors_grid(4))
LARGE_GRID = tuple(divisors_grid(24))
SECOND_SD, WINDOW_SD, LAUNCH_SD = 0.3, 0.04, 0.02


def squares(df: int, *, drift_sd: float = 0.0) -> Squares:
    """The mean squares of a pilot of three windows of 25 s per launch, as they are on average."""
    of_window = WINDOW_SD**2 + SECOND_SD**2 / 25
    of_launch = LAUNCH_SD**2 + of_window / 3
    return Squares(
        residual=MeanSquare(of_launch, df),
        windows=MeanSquare(of_window, 2 * df),
        second=MeanSquare(SECOND_SD**2, 10 * df),
        second_alone=None,
        window_s=25.0,
        per_window=1 / 3,
        per_second=1 / 75,
        drift=DriftSquare(MeanSquare(of_launch + 8 * drift_sd**2, df), 8.0),
    )


def items_per_s(layouts: Sequence[Layout], cores: float, n: int = 1) -> NDArray[np.float64]:
    """Items/s of a service with a child and some Python, by the network, (n draws, layouts)."""
    of = predict(Demands(gil_s=0.6, child_s=3.3, asleep_s=0.5), Machine(cores), layouts)
    return np.tile(of.throughput_per_s, (n, 1))


def n_tied(rows: list[tuple[float, ...]]) -> float:
    """The mean number of layouts within 2 % of the best one."""
    return fmean(sum(value > 0.98 * max(row) for value in row) for row in rows)


def test_surfaces_go_through_what_was_measured() -> None:
    known = {Layout(1, 4): PilotLevel(log(100.0), 400), Layout(4, 1): PilotLevel(log(150.0), 1)}
    rows = draw_surfaces(GRID, known, None, [0.02**2] * 400, seed=1)
    at = GRID.index(Layout(1, 4)), GRID.index(Layout(4, 1)), GRID.index(Layout(2, 2))

    sure, less_sure, unseen = ([log(row[place]) for row in rows] for place in at)
    assert fmean(sure) == pytest.approx(log(100.0), abs=0.001)
    assert stdev(sure) < 0.002
    assert fmean(less_sure) == pytest.approx(log(150.0), abs=0.01)
    assert 0.01 < stdev(less_sure) < 0.03
    assert stdev(unseen) > 0.03
    assert rows == draw_surfaces(GRID, known, None, [0.02**2] * 400, seed=1)


def test_layouts_that_fill_the_cores_are_nearly_alike() -> None:
    (truth,) = items_per_s(LARGE_GRID, 24.0)
    measured = (Layout(24, 1), Layout(1, 48), Layout(1, 12), Layout(3, 4))
    known = {layout: PilotLevel(log(truth[LARGE_GRID.index(layout)]), 6) for layout in measured}
    predicted = items_per_s([*LARGE_GRID, *measured], 24.0, 5)
    of_network, smooth = (
        n_tied(draw_surfaces(LARGE_GRID, known, by_model, [0.05**2] * 200, seed=2))
        for by_model in (predicted, None)
    )

    assert n_tied([tuple(truth)]) >= 4
    assert smooth + 0.5 < of_network <= n_tied([tuple(truth)])


def test_surfaces_that_the_network_does_not_have_are_drawn_as_smooth() -> None:
    known = {one: PilotLevel(log(1000.0 / one.processes**2), 100) for one in LARGE_GRID[::2]}
    predicted = items_per_s([*LARGE_GRID, *known], 24.0, 5)
    drawn = draw_surfaces(LARGE_GRID, known, predicted, [0.01**2] * 50, seed=3)

    at = next(n for n, one in enumerate(LARGE_GRID) if one.processes == 4 and one not in known)
    assert fmean(log(row[at]) for row in drawn) == pytest.approx(log(1000.0 / 4**2), abs=0.2)


def test_a_variant_has_its_own_level() -> None:
    grid = tuple(Layout(p, 2, variant) for variant in ("a", "b") for p in (1, 2, 4))
    known = {one: PilotLevel(log(100.0 * one.processes) - (one.variant == "b"), 50) for one in grid[::2]}
    rows = draw_surfaces(grid, known, None, [0.02**2] * 400, seed=4)

    assert fmean(log(row[0] / row[3]) for row in rows) == pytest.approx(1.0, abs=0.5)


def test_well_known_noise_is_drawn_as_it_is() -> None:
    drawn = draw_noises(squares(4000, drift_sd=0.03), 100, seed=1)
    noises = [one.noise for one in drawn]

    assert fmean(one.sample_sd_1s for one in noises) == pytest.approx(SECOND_SD, rel=0.02)
    assert fmean(one.window_sd for one in noises) == pytest.approx(WINDOW_SD, rel=0.1)
    assert fmean(one.launch_sd for one in noises) == pytest.approx(LAUNCH_SD, rel=0.1)
    assert fmean(one.drift_sd for one in noises) == pytest.approx(0.03, rel=0.1)
    of_launch = LAUNCH_SD**2 + WINDOW_SD**2 / 3 + SECOND_SD**2 / 75
    assert fmean(one.launch_variance for one in drawn) == pytest.approx(of_launch, rel=0.1)


def test_noise_from_few_launches_is_uncertain() -> None:
    few, many = ([one.noise.launch_sd for one in draw_noises(squares(df), 400, seed=1)] for df in (3, 300))

    assert max(few) / min(few) > 4 * max(many) / min(many)
    assert median(few) == pytest.approx(LAUNCH_SD, rel=0.5)


def test_launches_alike_by_chance_may_still_have_noise() -> None:
    alike = replace(squares(3), residual=MeanSquare(0.0, 3))
    drawn = [one.noise.launch_sd for one in draw_noises(alike, 200, seed=1)]

    assert 0.002 < fmean(drawn) < 0.02


def test_without_several_windows_per_launch_all_other_noise_is_that_of_launches() -> None:
    one_window = replace(
        squares(4000),
        residual=MeanSquare(LAUNCH_SD**2 + WINDOW_SD**2 + SECOND_SD**2 / 25, 4000),
        windows=None,
        per_window=1.0,
        per_second=1 / 25,
    )
    drawn = [one.noise for one in draw_noises(one_window, 50, seed=1)]

    assert {one.window_sd for one in drawn} == {0.0}
    assert fmean(one.launch_sd for one in drawn) == pytest.approx(sqrt(LAUNCH_SD**2 + WINDOW_SD**2), rel=0.1)


def test_noise_in_turns_lacks_what_layouts_share() -> None:
    found = replace(
        squares(4000), windows=None, per_window=1.0, second_alone=MeanSquare(4 * SECOND_SD**2, 4000)
    )
    (drawn,) = draw_noises(found, 1, seed=1)

    assert drawn.noise_in_turns.sample_sd_1s == pytest.approx(SECOND_SD, rel=0.05)
    assert drawn.noise.sample_sd_1s == pytest.approx(2 * SECOND_SD, rel=0.05)
    assert replace(drawn.noise, sample_sd_1s=0.0) == replace(drawn.noise_in_turns, sample_sd_1s=0.0)
