"""How far a prediction can be trusted: intervals that hold, and what cannot be told apart."""

from __future__ import annotations

from math import exp, log
from random import Random

import pytest

from tuner.core.domain.layout import Layout, full_grid, parse_layout, parse_layouts
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict
from tuner.core.model.prediction.extrapolation import CalibratedRange
from tuner.core.model.prediction.trust import Trusted, predict_with_intervals
from tuner.core.model.prediction.whatif import parse_what_if
from tuner.core.model.profile import Profile, ProfileNoise
from tuner.core.stats.interval import Estimate

from ..luck import of_studies
from ..wording import wording
from .known_mixes import MIXES

BOX = Machine(2)
LAYOUTS = parse_layouts("1x1,1x2,2x1,1x4,2x2,4x1,1x8,2x4,4x2,8x1")
NOISE = ProfileNoise(window_sd=0.02, launch_sd=0.01)
KNOWN_TO = 0.02  #: each demand, standard deviation
N_STUDIES = 60  #: of each mix


def uncertain(demands: Demands, random: Random) -> Demands:
    factors = {
        name: exp(KNOWN_TO * random.gauss(0, 1)) for name in ("gil_s", "child_s", "asleep_s", "blocked_s")
    }
    return demands.scaled(**factors)


def calibrated(demands: Demands, random: Random, n_draws: int = 64) -> tuple[Profile, list[Demands]]:
    """A calibration that is as far off as its draws say."""
    found = uncertain(demands, random)
    return Profile("s", found, BOX, noise=NOISE), [uncertain(found, random) for _ in range(n_draws)]


def of(text: str, result: Trusted) -> Estimate:
    (row,) = (row for row in result.rows if row.layout == parse_layout(text))
    return row.throughput_per_s


def ends(estimate: Estimate) -> tuple[float, float]:
    assert estimate.mean is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


def width(estimate: Estimate) -> float:
    low, high = ends(estimate)
    return high / low


@pytest.mark.parametrize("mix", MIXES)
def test_nine_in_ten_windows_of_unseen_layouts_lie_in_their_intervals(mix: str) -> None:
    """Layouts differ from the network as on real boxes; demands are uncertain; windows are noisy."""
    truth, random = MIXES[mix], Random(11)
    right = predict(truth, BOX, LAYOUTS).throughput_per_s
    shares = []
    for _ in range(N_STUDIES):
        profile, draws = calibrated(truth, random, n_draws=24)
        result = predict_with_intervals(
            profile, draws, 0.03, CalibratedRange(BOX, (Layout(1, 1),)), BOX, LAYOUTS
        )
        inside = 0
        for row, middle in zip(result.rows, right, strict=True):
            off = 0.0 if row.layout == Layout(1, 1) else 0.03 * random.gauss(0, 1)
            window = middle * exp(off + 0.02 * random.gauss(0, 1) + 0.01 * random.gauss(0, 1))
            low, high = ends(row.throughput_per_s)
            inside += low <= window <= high
        shares.append(inside / len(LAYOUTS))
    share, luck = of_studies(shares)

    assert abs(share - 0.9) < luck
    assert luck < 0.06  # studies enough to see intervals of another confidence


def test_demands_that_are_known_worse_give_wider_intervals() -> None:
    random, truth = Random(3), MIXES["mixed"]
    profile, draws = calibrated(truth, random)
    wide = [one.scaled(gil_s=exp(0.2 * random.gauss(0, 1))) for one in draws]
    seen = CalibratedRange(BOX, (Layout(1, 1),))

    known = predict_with_intervals(profile, draws, 0.02, seen, BOX, LAYOUTS)
    guessed = predict_with_intervals(profile, wide, 0.02, seen, BOX, LAYOUTS)

    assert log(width(of("1x4", guessed))) > 1.5 * log(width(of("1x4", known)))


def test_one_draw_counts_as_known() -> None:
    profile = Profile("s", MIXES["mixed"], BOX, noise=NOISE)

    result = predict_with_intervals(
        profile, [profile.demands], 0.02, CalibratedRange(BOX, tuple(LAYOUTS)), BOX, LAYOUTS
    )

    for row in result.rows:
        assert log(width(row.throughput_per_s)) == pytest.approx(2 * 1.645 * 0.03, rel=0.02)  # 2 %, 2 %, 1 %


def test_a_misfit_that_was_seen_widens_all_intervals() -> None:
    profile, draws = calibrated(MIXES["mixed"], Random(2))
    seen = CalibratedRange(BOX, tuple(LAYOUTS[:5]))

    good = predict_with_intervals(profile, draws, 0.01, seen, BOX, LAYOUTS)
    bad = predict_with_intervals(profile, draws, 0.1, seen, BOX, LAYOUTS)

    for layout in ("1x1", "8x1"):
        assert log(width(of(layout, bad))) > 2 * log(width(of(layout, good)))


def test_layouts_far_from_the_measured_ones_are_known_worse() -> None:
    profile = Profile("s", MIXES["wait"], BOX, noise=NOISE)
    seen, layouts = CalibratedRange(BOX, (Layout(1, 1),)), parse_layouts("1x1,1x8,1x16,1x64")

    result = predict_with_intervals(profile, [profile.demands], 0.02, seen, BOX, layouts)

    at, near, far, further = (width(row.throughput_per_s) for row in result.rows)
    assert at == pytest.approx(near)
    assert near < far < further


def test_more_cores_widen_the_intervals_of_those_who_use_them_and_of_no_others() -> None:
    profile, draws = calibrated(MIXES["child"], Random(4))
    seen = CalibratedRange(BOX, tuple(LAYOUTS))
    layouts = [Layout(1, 1), Layout(8, 1), Layout(24, 1)]

    here = predict_with_intervals(profile, draws, 0.02, seen, BOX, layouts)
    there = predict_with_intervals(profile, draws, 0.02, seen, Machine(24), layouts)

    assert width(of("24x1", there)) > 1.3 * width(of("24x1", here))
    assert width(of("24x1", there)) > width(of("8x1", there)) > width(of("1x1", there))
    assert [row.beyond for row in there.rows] == [
        (),
        (wording("model.more-cores-busy"),),
        (wording("model.more-processes", n=8), wording("model.more-cores-busy")),
    ]


def test_smt_that_was_not_seen_widens_the_intervals_of_full_boxes() -> None:
    profile, draws = calibrated(MIXES["child"], Random(4))
    seen, layouts = CalibratedRange(BOX, tuple(LAYOUTS)), [Layout(2, 1), Layout(24, 1)]

    plain = predict_with_intervals(profile, draws, 0.02, seen, Machine(24), layouts)
    smt = predict_with_intervals(profile, draws, 0.02, seen, Machine(24, physical_cores=12), layouts)

    assert log(width(of("24x1", smt))) > 1.05 * log(width(of("24x1", plain)))
    assert width(of("2x1", smt)) == pytest.approx(width(of("2x1", plain)), rel=0.02)


def test_nothing_is_kept_apart_that_differs_by_less_than_the_model_errs() -> None:
    profile, draws = calibrated(MIXES["child"], Random(6))

    result = predict_with_intervals(profile, draws, 0.02, CalibratedRange(BOX, (Layout(1, 1),)), BOX, LAYOUTS)

    assert result.best not in result.as_good
    values = [of(str(one), result).mean or 0.0 for one in result.as_good]
    assert values == pytest.approx(sorted(values, reverse=True), rel=0.001)
    assert Layout(1, 1) not in result.as_good
    assert set(parse_layouts("2x2,4x1,4x2,2x4,8x1,1x4,1x8")) <= {result.best, *result.as_good}


def test_of_layouts_that_give_the_same_the_smallest_is_best() -> None:
    """Pure waiting: the box gives the same however the threads are split, and a saturated GIL is one too."""
    profile = Profile("s", MIXES["gil"], BOX, noise=NOISE)

    result = predict_with_intervals(
        profile,
        [profile.demands],
        0.02,
        CalibratedRange(BOX, (Layout(1, 1),)),
        BOX,
        parse_layouts("1x16,1x12,1x8"),
    )

    assert (result.best, result.as_good) == (Layout(1, 8), (Layout(1, 12), Layout(1, 16)))


def test_uncertainty_that_layouts_share_does_not_keep_them_from_being_told_apart() -> None:
    """All demands 20 % off together: every level is uncertain, and no difference is."""
    demands, random = MIXES["child"], Random(8)
    off = [exp(0.2 * random.gauss(0, 1)) for _ in range(64)]
    draws = [demands.scaled(gil_s=by, child_s=by, asleep_s=by) for by in off]
    profile = Profile("s", demands, BOX, noise=NOISE)

    result = predict_with_intervals(
        profile, draws, 0.01, CalibratedRange(BOX, tuple(LAYOUTS)), BOX, parse_layouts("1x1,2x1")
    )

    assert width(of("2x1", result)) > 1.7
    assert (result.best, result.as_good) == (Layout(2, 1), ())


def test_a_what_if_moves_the_figures_and_keeps_the_intervals_around_them() -> None:
    profile, draws = calibrated(MIXES["gil"], Random(5))
    change = parse_what_if({"gil": ["x0.5"]}, no_gil=False)
    seen = CalibratedRange(BOX, tuple(LAYOUTS))

    today = predict_with_intervals(profile, draws, 0.02, seen, BOX, LAYOUTS)
    then = predict_with_intervals(profile, draws, 0.02, seen, BOX, LAYOUTS, what_if=change)

    for before, after in zip(today.rows, then.rows, strict=True):
        assert (after.throughput_per_s.mean or 0) > 1.2 * (before.throughput_per_s.mean or 0)
        assert width(after.throughput_per_s) == pytest.approx(width(before.throughput_per_s), rel=0.15)


def test_without_a_gil_threads_do_as_well_as_processes() -> None:
    profile, draws = calibrated(MIXES["gil"], Random(5))
    free = parse_what_if({}, no_gil=True)

    result = predict_with_intervals(
        profile,
        draws,
        0.02,
        CalibratedRange(BOX, tuple(LAYOUTS)),
        BOX,
        parse_layouts("1x4,4x1"),
        what_if=free,
    )

    assert of("1x4", result).mean == pytest.approx(of("4x1", result).mean)
    assert all("no GIL" in row.beyond for row in result.rows)


def test_what_a_box_can_give_bounds_its_intervals() -> None:
    profile, draws = calibrated(MIXES["child"], Random(1))

    result = predict_with_intervals(
        profile, draws, 0.05, CalibratedRange(BOX, (Layout(1, 1),)), BOX, full_grid(2)
    )

    for row in result.rows:
        assert (row.cpu_cores.high or 9) <= 2
        assert (row.load.high or 99) <= row.layout.total_threads
        for estimate in (row.throughput_per_s, row.load, row.cpu_cores):
            assert 0 < (estimate.low or 0) <= (estimate.mean or 0) <= (estimate.high or 0)


def test_tasks_of_others_are_active_beside_every_thread() -> None:
    demands = Demands(gil_s=0.1, others_s=0.02)  # 1x1 has one task of its own, and 0.2 of others
    layouts = parse_layouts("1x1,2x1,1x4")

    result = predict_with_intervals(
        Profile("s", demands, BOX), [demands], 0.05, CalibratedRange(BOX, tuple(layouts)), BOX, layouts
    )

    for row, load in zip(result.rows, predict(demands, BOX, layouts).load, strict=True):
        assert row.load.mean == pytest.approx(float(load))
        assert (row.load.low or 0) < float(load) < (row.load.high or 0)


def test_no_interval_promises_more_than_the_cores_give_for_any_draw() -> None:
    """Nobody knows whether Python holds the GIL: one thread in four gains, all is bounded by the cores."""
    random = Random(7)
    draws = []
    for _ in range(64):
        held = random.random()
        draws.append(Demands(gil_s=0.1 * held, python_s=0.1 * (1 - held)))
    profile = Profile("s", Demands(gil_s=0.01, python_s=0.09), BOX, noise=NOISE)
    seen = CalibratedRange(BOX, parse_layouts("1x1,2x1"))  # type: ignore[arg-type]

    result = predict_with_intervals(profile, draws, 0.02, seen, Machine(8), [Layout(1, 16)])

    (row,) = result.rows
    assert (row.throughput_per_s.high or 999) < 1.35 * 80  # 80 a second fill 8 cores
    assert (row.throughput_per_s.low or 0) < 0.25 * 80


def test_figures_of_the_simulation_stand_in_the_middle_when_they_are_given() -> None:
    profile, draws = calibrated(MIXES["mixed"], Random(1))
    other = predict(profile.demands.scaled(gil_s=2.0), BOX, LAYOUTS)

    result = predict_with_intervals(
        profile, draws, 0.02, CalibratedRange(BOX, (Layout(1, 1),)), BOX, LAYOUTS, middle=other
    )

    assert [row.throughput_per_s.mean for row in result.rows] == list(other.throughput_per_s)
    assert result.middle is other


def test_the_same_question_has_the_same_answer() -> None:
    profile, draws = calibrated(MIXES["mixed"], Random(1))
    seen = CalibratedRange(BOX, (Layout(1, 1),))

    assert (
        predict_with_intervals(profile, draws, 0.02, seen, BOX, LAYOUTS).rows
        == predict_with_intervals(profile, draws, 0.02, seen, BOX, LAYOUTS).rows
    )
