"""Demands from 1x1: read off the clocks, with intervals that hold what they promise, and what is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError
from tuner.core.model.calibration.alone import estimate_solo_demands
from tuner.core.model.calibration.calibrate import Calibration, calibrate_alone
from tuner.core.model.calibration.clocks import Clocks
from tuner.core.model.calibration.sampling import Sampling
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict
from tuner.core.stats.quantiles import student_t_quantile

from ..raising import raises
from ..wording import wording
from .synthetic_clocks import ALONE, BOX, Noise, layouts, study_of

ITEM = Demands(0.02, child_s=0.03, asleep_s=0.04, blocked_s=0.01)
STARTING = Demands(0.02, child_s=0.03, asleep_s=0.04, blocked_s=0.004, spawn_s=0.006)
USUAL = Noise()


def changed(windows: Sequence[Clocks], **changes: float | None) -> list[Clocks]:
    return [replace(window, **changes) for window in windows]  # type: ignore[arg-type]


def width(calibration: Calibration, name: str) -> float:
    """Of the interval, as a ratio of its middle."""
    one = calibration.profile.intervals[name]
    assert one.mean is not None
    assert one.low is not None
    assert one.high is not None
    return (one.high - one.low) / one.mean


def test_each_demand_is_read_off_its_clock() -> None:
    found = calibrate_alone(study_of(ITEM, ALONE), BOX).profile.demands

    assert found.gil_s == pytest.approx(0.02, rel=1e-3)
    assert found.child_s == pytest.approx(0.03, rel=1e-3)
    assert found.asleep_s == pytest.approx(0.04, rel=1e-3)
    assert found.blocked_s == pytest.approx(0.01, rel=1e-3)
    assert (found.python_s, found.spawn_s) == (0, 0)


def test_what_starting_children_takes_stands_apart_from_other_uninterruptible_waiting() -> None:
    found = calibrate_alone(study_of(STARTING, ALONE), BOX).profile.demands

    assert found.spawn_s == pytest.approx(0.006, rel=1e-3)
    assert found.blocked_s == pytest.approx(0.004, rel=1e-3)
    assert found.asleep_s == pytest.approx(0.04, rel=1e-3)


def test_tasks_of_others_that_are_active_for_an_item_are_reported_by_1x1() -> None:
    windows = study_of(replace(ITEM, others_s=0.004), ALONE)
    calibration = calibrate_alone(windows, BOX)

    assert calibration.profile.demands.others_s == pytest.approx(0.004, rel=0.05)
    assert {draw.others_s for draw in calibration.draws} == {calibration.profile.demands.others_s}
    assert calibrate_alone(study_of(ITEM, ALONE), BOX).profile.demands.others_s == pytest.approx(0, abs=1e-5)


def test_where_nobody_told_what_starting_children_takes_it_is_part_of_other_uninterruptible_waiting() -> None:
    """Clocks of older studies, or of workers that belong to another user."""
    calibration = calibrate_alone(changed(study_of(STARTING, ALONE), spawning_s=None), BOX)
    found = calibration.profile.demands

    assert (found.spawn_s, found.blocked_s) == (0.0, pytest.approx(0.01, rel=1e-3))
    assert "spawn_s" not in calibration.profile.intervals
    assert {draw.spawn_s for draw in calibration.draws} == {0.0}


def test_state_d_that_was_hardly_ever_seen_is_not_split() -> None:
    """Of 600 s of looks, 4 found a thread in D: all of them while it was starting a child."""
    rare = changed(study_of(STARTING, ALONE)[:1], blocked_s=4.0, spawning_s=4.0)
    enough = changed(rare, blocked_s=6.0, spawning_s=6.0)

    assert calibrate_alone(rare, BOX).profile.demands.spawn_s == 0.0
    assert calibrate_alone(rare, BOX).profile.demands.blocked_s > 0.0
    assert calibrate_alone(enough, BOX).profile.demands.blocked_s == 0.0
    assert calibrate_alone(enough, BOX).profile.demands.spawn_s > 0.0


def test_children_that_start_in_no_time_have_an_interval_that_says_so() -> None:
    """Forked and not vforked: nothing of state D is their start, and that is known."""
    interval = calibrate_alone(study_of(ITEM, ALONE), BOX).profile.intervals["spawn_s"]

    assert interval.mean == 0.0
    assert interval.high is not None
    assert 0 < interval.high < 0.02 * ITEM.blocked_s


def test_the_start_of_children_is_as_uncertain_as_a_count_of_its_looks() -> None:
    """A Poisson count of n: 1 / sqrt(n) of it. Waits in D that are no start add nothing to that."""
    windows = study_of(STARTING, ALONE, noise=USUAL, n_launches=60)
    n_seen = sum(window.spawning_s or 0.0 for window in windows)
    interval = calibrate_alone(windows, BOX).profile.intervals["spawn_s"]
    assert interval.high is not None
    assert interval.low is not None

    expected = 2 * student_t_quantile(0.95, 61) * 0.006 / sqrt(n_seen)
    assert interval.high - interval.low == pytest.approx(expected, rel=0.35)


@settings(max_examples=50, deadline=None)
@given(
    st.tuples(*[st.floats(1e-3, 10.0)] * 4),
    st.floats(0.0, 0.9),
)
def test_what_was_calibrated_on_1x1_predicts_1x1(parts: tuple[float, ...], foreign_cores: float) -> None:
    gil_s, child_s, asleep_s, blocked_s = parts
    item = Demands(gil_s, child_s=child_s, asleep_s=asleep_s, blocked_s=blocked_s)
    windows = study_of(item, ALONE, foreign_cores=foreign_cores, length_s=1e5)
    profile = calibrate_alone(windows, BOX).profile
    result = predict(profile.demands, BOX, ALONE)

    assert result.throughput_per_s[0] == pytest.approx(windows[0].throughput_per_s, rel=0.01)
    assert profile.demands.total_s == pytest.approx(item.total_s, rel=0.01)


def test_time_spent_waiting_for_a_core_is_nobodys_demand() -> None:
    windows = study_of(ITEM, ALONE)
    n_done = windows[0].n_done
    slower = changed(windows, length_s=600 + 0.005 * n_done, run_delay_s=0.005 * n_done)

    assert calibrate_alone(slower, BOX).profile.demands.asleep_s == pytest.approx(0.04, rel=1e-3)


def test_an_item_waits_while_its_backend_computes_as_it_does_for_a_child() -> None:
    windows = study_of(ITEM, ALONE)
    at_work = [replace(one, child_cpu_s=0.0, backend_cpu_s=one.child_cpu_s) for one in windows]

    assert estimate_solo_demands(at_work, BOX).mean == pytest.approx(estimate_solo_demands(windows, BOX).mean)
    assert wording("model.share-of-backends") in said(at_work)
    assert wording("model.backends-of-the-config") not in said(windows)


def test_strangers_that_leave_less_than_a_core_make_no_demand_larger() -> None:
    """One core, a third of it taken: computing takes half as long again, and the clocks say why."""
    box = Machine(1)
    windows = changed(study_of(ITEM, ALONE, machine=box, foreign_cores=1 / 3), run_delay_s=None)
    found = calibrate_alone(windows, box).profile.demands

    assert found.asleep_s == pytest.approx(0.04, rel=0.01)
    assert found.cpu_s == pytest.approx(0.05, rel=0.01)


def times_held(n_studies: int, n_launches: int, item: Demands = ITEM) -> dict[str, float]:
    """How often the 90 % interval of each demand holds it; launches scatter by 1 % or by 2 %."""
    held: dict[str, list[bool]] = {"gil_s": [], "child_s": [], "asleep_s": [], "blocked_s": []}
    if item.spawn_s:
        held["spawn_s"] = []
    for seed in range(n_studies):
        noise = replace(USUAL, launch=0.01 if seed % 2 else 0.02)
        windows = study_of(item, ALONE, noise=noise, n_launches=n_launches, seed=seed)
        intervals = calibrate_alone(windows, BOX, sampling=Sampling(n_draws=1)).profile.intervals
        for name, of_name in held.items():
            interval = intervals[name]
            assert interval.low is not None
            assert interval.high is not None
            of_name.append(interval.low <= getattr(item, name) <= interval.high)
    return {name: float(np.mean(of_name)) for name, of_name in held.items()}


@pytest.mark.parametrize("item", [ITEM, STARTING])
@pytest.mark.parametrize("n_launches", [1, 3])
def test_intervals_hold_the_truth_as_often_as_they_say(n_launches: int, item: Demands) -> None:
    """Of 150 intervals of a true 90 %, 84 % or fewer hold it in one of a hundred."""
    assert min(times_held(150, n_launches, item).values()) > 0.84


@pytest.mark.full
@pytest.mark.parametrize("item", [ITEM, STARTING])
@pytest.mark.parametrize("n_launches", [1, 2, 3, 5, 8])
def test_intervals_hold_the_truth_as_often_as_they_say_whatever_was_measured(
    n_launches: int, item: Demands
) -> None:
    """Of 500 intervals of a true 90 %, 433 or fewer hold it in one of a hundred."""
    assert min(times_held(500, n_launches, item).values()) > 433 / 500


def test_more_launches_make_it_surer_and_more_scatter_less_sure() -> None:
    few, many = (study_of(ITEM, ALONE, noise=USUAL, n_launches=n) for n in (2, 8))
    wild = study_of(ITEM, ALONE, noise=replace(USUAL, launch=0.1), n_launches=8)

    assert width(calibrate_alone(many, BOX), "gil_s") < 0.6 * width(calibrate_alone(few, BOX), "gil_s")
    assert width(calibrate_alone(wild, BOX), "gil_s") > 3 * width(calibrate_alone(many, BOX), "gil_s")


def test_a_single_short_window_is_far_less_sure_of_state_d_which_is_looked_at_once_a_second() -> None:
    short = study_of(ITEM, ALONE, n_launches=1, n_windows=1, length_s=30)
    long = study_of(ITEM, ALONE, n_launches=1, n_windows=1, length_s=3000)

    assert width(calibrate_alone(short, BOX), "blocked_s") > 2 * width(
        calibrate_alone(long, BOX), "blocked_s"
    )


def test_one_launch_leaves_the_time_of_an_item_open_by_what_is_assumed_of_launches() -> None:
    """2 % of each clock and of the residence time, as two launches more would tell it: t with 2 degrees."""
    windows = study_of(ITEM, ALONE, n_launches=1, n_windows=10)
    result = estimate_solo_demands(windows, BOX)
    of_total = np.linalg.norm(result.root.sum(axis=0))
    interval = calibrate_alone(windows, BOX).profile.intervals["gil_s"]

    assert result.df == 2
    assert of_total == pytest.approx(0.02 * ITEM.total_s, rel=0.01)
    assert interval.high == pytest.approx(0.02 * (1 + 0.02 * student_t_quantile(0.95, 2)), rel=0.01)


def test_with_many_launches_the_standard_error_is_that_of_their_mean() -> None:
    windows = study_of(ITEM, ALONE, noise=replace(USUAL, cpu=0.0), n_launches=60)
    interval = calibrate_alone(windows, BOX).profile.intervals["gil_s"]
    assert interval.high is not None
    assert interval.low is not None

    expected = 2 * student_t_quantile(0.95, 61) * 0.01 * 0.02 / sqrt(60)
    assert interval.high - interval.low == pytest.approx(expected, rel=0.25)


def test_draws_are_as_uncertain_as_the_intervals_and_more_launches_bring_them_together() -> None:
    windows = study_of(ITEM, ALONE, noise=USUAL, n_launches=6)
    calibration = calibrate_alone(windows, BOX, sampling=Sampling(n_draws=4000))
    drawn = [one.gil_s for one in calibration.draws]
    interval = calibration.profile.intervals["gil_s"]

    assert len(drawn) == 4000
    assert np.quantile(drawn, [0.05, 0.95]) == pytest.approx([interval.low, interval.high])
    assert np.mean(drawn) == pytest.approx(calibration.profile.demands.gil_s, rel=0.01)


def test_the_same_seed_draws_the_same() -> None:
    windows = study_of(ITEM, ALONE, noise=USUAL)
    one, same, other = (calibrate_alone(windows, BOX, sampling=Sampling(seed=seed)) for seed in (5, 5, 6))

    assert one.draws == same.draws
    assert one.draws != other.draws
    assert one.profile.demands == other.profile.demands


def test_the_scatter_of_counts_gives_that_of_demands() -> None:
    """Four demands that scatter by 0.4 each: the residence time by 0.4 sqrt(sum of squares) / sum."""
    parts = np.array([0.02, 0.03, 0.01, 0.04])
    of_residence = 0.4 * sqrt((parts**2).sum()) / parts.sum()
    windows = changed(study_of(ITEM, ALONE), count_dispersion=of_residence**2)

    assert calibrate_alone(windows, BOX).profile.demands.cv_ratio == pytest.approx(0.4, rel=0.01)


def test_counts_too_few_to_scatter_leave_the_usual() -> None:
    windows = changed(study_of(ITEM, ALONE, length_s=5), count_dispersion=0.01)

    assert calibrate_alone(windows, BOX).profile.demands.cv_ratio == 0.5
    assert calibrate_alone(study_of(ITEM, ALONE), BOX).profile.demands.cv_ratio == 0.5


def test_other_layouts_are_not_looked_at() -> None:
    windows = study_of(ITEM, layouts("1x1", "1x4"))

    assert calibrate_alone(windows, BOX) == calibrate_alone(windows[:6], BOX)
    assert calibrate_alone(windows, BOX).n_windows == 6


def test_without_clocks_of_children_all_cpu_is_python_and_that_is_said() -> None:
    windows = changed(study_of(ITEM, ALONE), worker_cpu_s=None, child_cpu_s=None, source="service")  # type: ignore[arg-type]
    calibration = calibrate_alone(windows, BOX)

    assert (calibration.profile.demands.gil_s, calibration.profile.demands.child_s) == pytest.approx(
        (0.05, 0)
    )
    assert any("not separated" in note for note in calibration.notes)


def said(windows: Sequence[Clocks], machine: Machine = BOX) -> str:
    return "\n".join(calibrate_alone(windows, machine).notes)


def test_what_the_windows_cannot_tell_is_said() -> None:
    windows = study_of(ITEM, ALONE)
    shell = changed(windows, worker_cpu_s=0.1, child_cpu_s=windows[0].service_cpu_s - 0.1)
    side_by_side = changed(windows, child_cpu_s=windows[0].length_s)

    assert "There was one launch" in said(windows[:2])
    assert "There was one launch" not in said(windows)
    assert wording("model.python-that-lets-go") in said(windows)
    assert wording("model.python-that-lets-go") not in said(windows, replace(BOX, has_gil=False))
    assert "state D" not in said(windows)
    assert wording("model.counts-as-sleep") in said(changed(windows, blocked_s=None))
    assert wording("model.what-items-told-probe") in said(changed(windows, source="probe"))  # type: ignore[arg-type]
    assert wording("model.masters-start-workers") in said(shell)
    assert wording("model.compute-side-side") in said(side_by_side)
    assert wording("model.compute-side-side") not in said(windows)


def test_nothing_to_calibrate_on_is_one_clear_error() -> None:
    windows = study_of(ITEM, ALONE)

    with raises(ConfigError, wording("model.no-window-to-calibrate-on")):
        calibrate_alone([], BOX)
    with raises(ConfigError, wording("model.no-window-of-1x1")) as caught:
        calibrate_alone(study_of(ITEM, layouts("1x2", "2x1")), BOX)
    assert "1x1" in (caught.value.hint or "")
    with raises(ConfigError, wording("model.no-window-with-cpu")):
        calibrate_alone(changed(windows, service_cpu_s=0.0), BOX)
    variants = [*windows, replace(windows[0], layout=replace(windows[0].layout, variant="gthread"))]
    with raises(ConfigError, wording("model.two-variants")):
        calibrate_alone(variants, BOX)


def test_one_short_launch_leaves_no_draw_in_which_an_item_asks_for_nothing() -> None:
    alone = Clocks(ALONE[0], 1, 5.0, 65, 0, 2.86, worker_cpu_s=2.2, child_cpu_s=0.6)
    found = calibrate_alone([alone], Machine(2))

    assert len(found.draws) == 200
    assert all(draw.total_s >= 0.999e-3 * found.profile.demands.total_s for draw in found.draws)


def test_a_backend_waits_for_a_core_as_the_threads_of_items_do_where_others_fill_the_host() -> None:
    """Others use 1.9 of 2 cores, at a lower priority: an item computes for 4 ms and waits for 1 ms meanwhile.
    So a backend's 2 ms take 2.5, not 20. The 6 ms of other threads are taken off sleep, as all own CPU."""
    window = Clocks(
        Layout(1, 1), 1, 100.0, 1000, 0, service_cpu_s=10.0, worker_cpu_s=10.0,
        child_cpu_s=0.0, item_cpu_s=4.0, run_delay_s=1.0, blocked_s=0.0, backend_cpu_s=2.0, foreign_cores=1.9,
    )  # fmt: skip

    asleep_s = estimate_solo_demands([window], Machine(2)).mean[3]

    assert asleep_s == pytest.approx(0.1 - 0.010 - 0.001 - 0.0025)
