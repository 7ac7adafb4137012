"""The analysis of bench/model/mixes.py: figures with known errors, peers that must find their own law."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import pytest

from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.domain.records import StudyRecord, WindowRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.window import VoidReason
from tuner.core.model.calibration.clocks import Clocks
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict

from ..bench_modules import MODEL, loaded
from ..raising import raises
from ..wording import start_of, wording

LAYOUTS = [
    *map(parse_layout, ["1x1", "1x2", "1x4", "1x8", "2x1", "2x2", "2x4", "4x1", "4x2", "8x1"]),
]
DEMANDS = Demands(gil_s=0.034, child_s=0.009, asleep_s=0.017)
WINDOW_S = 30.0


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    with loaded(
        "convoy",
        "mix_active",
        "mix_figures",
        "mix_judging",
        "mix_peers",
        "mix_points",
        "mix_registry",
        "mix_report",
        "mix_worker",
        folder=MODEL,
    ) as modules:
        yield modules


def study() -> StudyRecord:
    return StudyRecord(
        service="mix-gil-heavy",
        strategy="all",
        layouts=tuple(LAYOUTS),
        cores=2,
        box_cores=2.0,
        window_s=WINDOW_S,
        warmup_s=5.0,
        n_blocks=4,
        windows_per_launch=1,
        seed=1,
        budget_s=None,
        created_wall_s=datetime(2026, 11, 21, tzinfo=UTC).timestamp(),
        config=StoredConfig("{}"),
    )


def run_of(bench: Any, off: dict[str, float], sd: float = 0.0, n: int = 4) -> Any:
    """*n* windows of each layout as the network has them, times what *off* says of it, times noise."""
    random, points = Random(5), []
    for at, layout in enumerate(LAYOUTS):
        result = predict(DEMANDS, Machine(cores=2.0), [layout])
        for block in range(n):
            by = off.get(str(layout), 1.0) * random.lognormvariate(0, sd)
            per_s = float(result.throughput_per_s[0]) * by
            n_done = round(per_s * 1e6)  # a long count, so that rounding is no error of its own
            length_s = n_done / per_s
            points.append(
                bench.mix_points.Point(
                    layout=layout,
                    clocks=Clocks(
                        layout=layout,
                        launch_id=100 * at + block,
                        length_s=length_s,
                        n_done=n_done,
                        n_failed=0,
                        service_cpu_s=DEMANDS.cpu_s * n_done,
                        worker_cpu_s=DEMANDS.gil_s * n_done,
                        child_cpu_s=DEMANDS.child_s * n_done,
                        run_delay_s=0.0,
                        blocked_s=0.0,
                        child_blocked_s=0.0,
                        block=block,
                    ),
                    throughput_per_s=per_s,
                    load=float(result.load[0]),
                    load_of_kernel=1.1 * float(result.load[0]),
                    others_cores=0.0,
                )
            )
    mix = bench.mix_registry.Mix("gil-heavy", python=0.034, child=0.009, asleep=0.017)
    return bench.mix_points.MixRun(mix, study(), Path("gil-heavy.tuner.db"), tuple(points), 0)


def judged_of(bench: Any, run: Any, n_subsets: int = 0) -> Any:
    """Without the simulation, which is a process of its own."""
    peers = [name for name in bench.mix_judging.PEERS if name != "simulation"]
    return bench.mix_judging.judge(run, peers, n_subsets)


# ------------------------------------------------------------------------------------------------ figures


def test_errors_are_reported_of_their_sizes_not_their_signs(bench: Any) -> None:
    off = bench.mix_figures.relative_errors({"a": 11.0, "b": 9.0, "c": 10.0}, {"a": 10.0, "b": 10.0})

    errors = bench.mix_figures.errors_of(off.values())

    assert off == pytest.approx({"a": 0.1, "b": -0.1})
    assert (errors.n, errors.mean, errors.most) == (2, pytest.approx(0.1), pytest.approx(0.1))


def test_the_90th_percentile_of_ten_errors_is_the_ninth(bench: Any) -> None:
    errors = bench.mix_figures.errors_of([k / 100 for k in range(1, 11)])

    assert errors.p90 == pytest.approx(0.09)
    assert errors.median == pytest.approx(0.055)


def test_no_errors_are_none_not_zero(bench: Any) -> None:
    assert bench.mix_figures.errors_of([]) is None


def test_pairs_that_differ_by_less_than_4_percent_are_not_counted(bench: Any) -> None:
    measured = {"a": 1.00, "b": 1.039, "c": 1.2}

    assert bench.mix_figures.ordered_pairs({"a": 2, "b": 1, "c": 3}, measured) == (2, 2)
    assert bench.mix_figures.ordered_pairs({"a": 3, "b": 2, "c": 1}, measured) == (0, 2)
    assert bench.mix_figures.ordered_pairs({"a": 1, "b": 1, "c": 1}, measured) == (0, 2)  # ties are not right


def test_the_regret_is_what_the_chosen_layout_loses_to_the_measured_best(bench: Any) -> None:
    measured = {"a": 90.0, "b": 100.0}

    assert bench.mix_figures.regret({"a": 2.0, "b": 1.0}, measured) == pytest.approx(0.1)
    assert bench.mix_figures.regret({"a": 1.0, "b": 1.1}, measured) == 0


def test_only_points_with_an_interval_count_for_coverage(bench: Any) -> None:
    points = [("a", 1.0), ("a", 2.1), ("b", 5.0)]

    assert bench.mix_figures.covered({"a": (0.9, 2.0)}, points) == (1, 2)


# -------------------------------------------------------------------------------------------------- peers


def points_of(bench: Any, of: dict[Layout, float]) -> list[Any]:
    clocks = Clocks(LAYOUTS[0], 1, WINDOW_S, 1, 0, 1.0)
    return [bench.mix_points.Point(layout, clocks, value, None, None, 0.0) for layout, value in of.items()]


def test_the_scalability_law_finds_its_own_parameters(bench: Any) -> None:
    def law(n: float) -> float:
        return float(bench.mix_peers.usl(np.asarray(float(n)), 12.0, 0.08, 0.004))

    half = bench.mix_peers.half_of(LAYOUTS)

    result = bench.mix_peers.by_usl(points_of(bench, {one: law(one.total_threads) for one in half}), LAYOUTS)

    for layout in LAYOUTS:
        assert result[layout].throughput_per_s == pytest.approx(law(layout.total_threads), rel=1e-3)


def test_the_law_in_two_dimensions_tells_processes_from_threads(bench: Any) -> None:
    def law(one: Layout) -> float:
        both = np.asarray(float(one.processes)), np.asarray(float(one.threads))
        return float(bench.mix_peers.usl_2d(both, 9.0, 0.02, 0.001, 0.3, 0.01))

    result = bench.mix_peers.by_usl_2d(points_of(bench, {one: law(one) for one in LAYOUTS}), LAYOUTS)

    for layout in LAYOUTS:
        assert result[layout].throughput_per_s == pytest.approx(law(layout), rel=1e-3)


def test_a_law_of_three_parameters_is_not_fitted_to_two_numbers_of_workers(bench: Any) -> None:
    with raises(ValueError, wording("bench.three-numbers-workers")):
        bench.mix_peers.by_usl(points_of(bench, {LAYOUTS[0]: 1.0, LAYOUTS[1]: 2.0}), LAYOUTS)


def test_half_of_the_layouts_hold_few_and_many_workers(bench: Any) -> None:
    half = bench.mix_peers.half_of(LAYOUTS)

    assert len(half) == 5
    assert {one.total_threads for one in half} == {1, 2, 4, 8}


def test_the_bounds_are_those_of_the_textbook(bench: Any) -> None:
    measured = {
        layout: bench.mix_points.Measured(layout, 1, 1.0, None, None, 0.1)
        for layout in map(parse_layout, ("1x1", "1x8", "8x1"))
    }

    result = bench.mix_peers.by_bounds(DEMANDS, Machine(cores=2.0), measured)

    assert [one.throughput_per_s for one in result.values()] == pytest.approx(
        [1 / 0.060, 1 / 0.034, (2 - 0.1) / 0.043]
    )


# ------------------------------------------------------------------------------------------------ judging


def test_a_model_that_is_right_is_found_to_be_right(bench: Any) -> None:
    judged = judged_of(bench, run_of(bench, {}))

    figures = bench.mix_report.figures_of(judged, judged.peer("network"))

    assert figures.throughput.most < 0.002
    assert figures.throughput.n == 9  # 1x1 is what it was calibrated on
    assert figures.load.most < 0.005
    assert figures.load_of_kernel.mean == pytest.approx(1 - 1 / 1.1, abs=0.005)
    assert figures.pairs[0] == figures.pairs[1] > 30
    assert figures.regret == 0
    assert judged.n_covered == judged.n_points == 36


def test_a_layout_that_is_off_shows_by_as_much(bench: Any) -> None:
    judged = judged_of(bench, run_of(bench, {"4x2": 1 / 1.2}))

    figures = bench.mix_report.figures_of(judged, judged.peer("network"))

    assert figures.throughput.most == pytest.approx(0.2, abs=0.003)
    assert figures.throughput.mean == pytest.approx(0.2 / 9, abs=0.003)
    assert judged.n_covered == 32  # the windows of all others
    assert figures.pairs[0] < figures.pairs[1]


def test_a_box_that_ran_faster_is_no_error_at_its_own_speed(bench: Any) -> None:
    faster, full = DEMANDS.scaled(gil_s=0.8, child_s=0.8), parse_layout("8x1")
    by = float(predict(faster, Machine(cores=2.0), [full]).throughput_per_s[0]) / float(
        predict(DEMANDS, Machine(cores=2.0), [full]).throughput_per_s[0]
    )
    run = run_of(bench, {str(full): by})
    points = tuple(
        replace(point, clocks=_with_cpu(point.clocks, faster)) if point.layout == full else point
        for point in run.points
    )

    judged = judged_of(bench, replace(run, points=points))

    measured = judged.measured[full].throughput_per_s
    at_own_speed = judged.peer("own speed").predicted[full].throughput_per_s
    assert judged.peer("network").predicted[full].throughput_per_s / measured == pytest.approx(0.8, rel=0.01)
    assert at_own_speed / measured == pytest.approx(1.0, rel=0.005)


def _with_cpu(clocks: Clocks, demands: Demands) -> Clocks:
    return replace(
        clocks,
        service_cpu_s=demands.cpu_s * clocks.n_done,
        worker_cpu_s=demands.gil_s * clocks.n_done,
        child_cpu_s=demands.child_s * clocks.n_done,
    )


def test_what_is_measured_in_a_convoy_is_kept_apart(bench: Any) -> None:
    judged = judged_of(bench, run_of(bench, {}))

    assert {str(one) for one in judged.convoy} >= {"1x4", "1x8"}
    is_convoy, predicted = bench.mix_judging.is_convoy, bench.mix_peers.Predicted
    assert is_convoy(Layout(1, 2), predicted(1.0, 1.0, 0.81))
    assert not is_convoy(Layout(1, 2), predicted(1.0, 1.0, 0.79))
    assert not is_convoy(Layout(2, 1), predicted(1.0, 1.0, 1.0))  # nobody to line up with
    figures = bench.mix_report.figures_of(judged, judged.peer("network"))
    assert figures.convoy_load.n == len(judged.convoy)
    assert figures.load.n == 9 - len(judged.convoy)  # without 1x1


def test_what_joint_fits_left_out_is_predicted_where_the_model_is_right(bench: Any) -> None:
    left_out = judged_of(bench, run_of(bench, {}, sd=0.01), n_subsets=3).left_out

    assert len(left_out.throughput) == 3 * 4
    assert bench.mix_figures.errors_of(left_out.throughput).p90 < 0.04
    assert left_out.n_points == 3 * 4 * 4


def test_every_choice_for_a_joint_fit_has_1x1_and_six_layouts(bench: Any) -> None:
    chosen = bench.mix_judging.subsets(LAYOUTS)

    assert len(chosen) == len({tuple(one) for one in chosen}) == 12
    assert all(len(set(one)) == 6 and one[0] == Layout(1, 1) for one in chosen)
    assert chosen == bench.mix_judging.subsets(reversed(LAYOUTS))


def test_a_peer_that_cannot_speak_is_named_with_its_reason(bench: Any) -> None:
    run = run_of(bench, {})
    few = replace(run, points=tuple(one for one in run.points if one.layout.total_threads < 3))

    judged = judged_of(bench, few)

    assert wording("bench.three-numbers-workers") in start_of(judged.peer("USL(N)").silent)
    assert wording("bench.says-nothing-three-numbers") in bench.mix_report.render([judged], [])
    assert judged.left_out is None


# --------------------------------------------------------------------------------------------------- bars


def verdicts(bench: Any, runs: list[Any]) -> dict[str, str]:
    return {bar.what: bar.verdict for bar in bench.mix_report.bars([judged_of(bench, run) for run in runs])}


def test_bars_are_missed_by_one_layout_that_is_off(bench: Any) -> None:
    right, off = run_of(bench, {}), run_of(bench, {"8x1": 1 / 1.1})

    assert verdicts(bench, [right])["throughput: largest error"] == "met"
    assert verdicts(bench, [right, off])["throughput: largest error"] == "MISSED"


def test_intervals_that_hold_everything_miss_their_bar(bench: Any) -> None:
    found = verdicts(bench, [run_of(bench, {})])

    assert found[wording("bench.windows-in-interval")] == "MISSED"  # 100 %
    assert found[wording("bench.windows-that-these-are")] == "MISSED"  # 36 of 200


def test_a_mix_that_1x1_cannot_know_is_shown_and_holds_no_bar(bench: Any) -> None:
    run = run_of(bench, {"8x1": 0.5})
    beyond = replace(run, mix=replace(run.mix, beyond="nobody can"))

    assert verdicts(bench, [beyond])["throughput: largest error"] == "not measured"
    assert "nobody can" in bench.mix_report.render([judged_of(bench, beyond)], [])


def test_the_report_has_every_layout_and_every_peer(bench: Any) -> None:
    judged = judged_of(bench, run_of(bench, {}))

    text = bench.mix_report.render([judged], ["mixed was measured before it was registered"])

    assert wording("bench.warning-mixed-measured-before") in text
    for name in ("1x8 convoy", "8x1", "network", "bounds", "USL(N)", "USL(P,T)"):
        assert name in text
    result = bench.mix_report.as_json([judged], [])
    assert result["mixes"][0]["layouts"]["2x2"]["predicted"]["network"]["fitted"] is False
    assert result["mixes"][0]["layouts"]["1x1"]["predicted"]["network"]["fitted"] is True


# --------------------------------------------------------------------------------------- registry, worker


def test_four_mixes_or_more_are_registered_on_ten_layouts(bench: Any) -> None:
    registry = bench.mix_registry.read_registry()

    assert {"gil-heavy", "child-heavy", "wait-heavy", "mixed"} <= {
        one.name for one in registry.mixes if not one.beyond
    }
    assert list(registry.layouts) == LAYOUTS
    for one in registry.mixes:
        item_s = one.python + one.native + one.child + one.asleep + one.blocked
        assert 0.02 <= item_s <= 0.2, one.name


def test_a_mix_measured_before_it_was_registered_or_with_other_values_is_reported(bench: Any) -> None:
    of, registry = bench.mix_registry, bench.mix_registry.read_registry()
    mix = registry.mix("mixed")

    def recorded(mix: Any, wall_s: float) -> StudyRecord:
        config = StoredConfig.of_sections({"service": {"environment": of.mix_environment(mix)}})
        return replace(study(), config=config, created_wall_s=wall_s)

    later_s = registry.registered.timestamp() + 60
    assert of.unregistered(recorded(mix, later_s), registry) is None
    assert "other values" in of.unregistered(recorded(replace(mix, python=0.5), later_s), registry)
    assert wording("bench.before-registered") in of.unregistered(recorded(mix, later_s - 120), registry)


@pytest.mark.parametrize("cv", [0.0, 0.3, 0.7])
def test_a_deck_has_the_mean_and_scatter_that_were_requested(bench: Any, cv: float) -> None:
    deck = bench.mix_worker.deck_of(cv)

    assert fmean(deck) == pytest.approx(1)
    assert pstdev(deck) == pytest.approx(cv, abs=1e-9)
    assert min(deck) > 0


def test_sizes_are_dealt_a_whole_deck_at_a_time(bench: Any) -> None:
    stream = bench.mix_worker.sizes(0.5, Random(1))
    n = bench.mix_worker.DECK

    first, second = [next(stream) for _ in range(n)], [next(stream) for _ in range(n)]

    assert sorted(first) == sorted(second) == sorted(bench.mix_worker.deck_of(0.5))
    assert first != second


def test_looks_count_within_the_window_only(bench: Any) -> None:
    looks = [
        bench.mix_active.Looks(at, at + 1.0, 10, 10, 10 * active) for at, active in ((0, 9), (1, 2), (2, 4))
    ]

    assert bench.mix_active.mean_active(looks, 1.0, 3.0) == (3, 20)
    assert bench.mix_active.mean_active(looks, 1.5, 1.9) is None


def test_half_a_line_of_a_measurement_that_was_killed_is_not_a_look(bench: Any, tmp_path: Path) -> None:
    file = tmp_path / "mixed.active.csv"
    file.write_text("1.000,2.000,10,20,21\n2.000,3.0\n\n5.000,6.000,9,18,18\n", encoding="ascii")

    looks = bench.mix_active.read_looks(file)

    assert [(one.begin_s, one.n, one.running, one.active) for one in looks] == [
        (1, 10, 20, 21),
        (5, 9, 18, 18),
    ]


# ------------------------------------------------------------------------------------------------- points


def window(**changes: Any) -> WindowRecord:
    """Ten seconds of 2x1 in which strangers used 0.1 core and tuner 0.02."""
    usual = WindowRecord(
        launch_id=1,
        block=0,
        layout=Layout(2, 1),
        box="here",
        index=0,
        attempt=1,
        started_wall_s=100.0,
        length_s=10.0,
        n_done=200,
        n_failed=0,
        load1_mean=1.0,
        load1_max=1.2,
        n_active_mean=2.0,
        service_cpu_s=15.0,
        tuner_cpu_s=0.2,
        backend_cpu_s=0.0,
        foreign_cpu_s=1.0,
        steal_s=0.3,
        pss_bytes=None,
        void=(),
        n_active_from_load1=1.92,
    )
    return replace(usual, **changes)


def test_what_others_ran_is_taken_off_the_load(bench: Any) -> None:
    looks = [bench.mix_active.Looks(100.0 + k, 101.0 + k, 10, 18, 19) for k in range(10)]

    point = bench.mix_points.point_of(window(), [], looks)

    assert point.throughput_per_s == 20
    assert point.load == pytest.approx(1.9 - 0.1)
    assert point.load_of_kernel == pytest.approx(1.92 - 0.1 - 0.02)  # the kernel looks at tuner, too
    assert point.others_cores == pytest.approx(0.1 + 0.02 + 0.03)


def test_a_window_without_looks_has_no_load_rather_than_none_at_all(bench: Any) -> None:
    point = bench.mix_points.point_of(window(n_active_from_load1=None), [], [])

    assert (point.load, point.load_of_kernel) == (None, None)


def test_windows_that_strangers_disturbed_are_left_out(bench: Any) -> None:
    does_count = bench.mix_points.does_count

    assert does_count(window(foreign_cpu_s=1.5), 0.15)
    assert not does_count(window(foreign_cpu_s=1.51), 0.15)
    assert not does_count(window(void=(VoidReason("worker-died", "seen"),)), 0.15)
    assert not does_count(window(n_done=0), 0.15)


# ------------------------------------------------------------------------------------------------- convoy


def test_the_causes_of_an_excess_add_up_to_it(bench: Any) -> None:
    seen = bench.convoy.Seen(
        items_per_s=50.0,
        own_cpu_s=0.01,
        child_cpu_s=0.01,
        holder=0.9,
        waiters=0.8,
        children=1.1,
        blocked=0.05,
        run_delay=0.9,
        wakes_per_s=900.0,
        box=3.0,
        others_cores=0.0,
        load1=None,
    )

    excess = bench.convoy.excess_of(seen, plain=1.9, network=2.5)

    assert excess.total == pytest.approx(seen.service - 1.9)
    assert (excess.by_waiters, excess.by_blocked) == (0.8, 0.05)
    assert excess.by_rest == pytest.approx(0.1)


def test_a_switch_interval_is_tried_at_the_most_threads_and_one_thread_comes_first(bench: Any) -> None:
    cases = bench.convoy.cases_of("python", "3.12.1", [4, 2])

    assert cases[0].threads == 1
    assert {one.interval_ms for one in cases if one.threads == 4} == {1, 5, 20}
    assert {one.interval_ms for one in cases if one.threads < 4} == {5}
