from __future__ import annotations

from collections.abc import Sequence
from math import exp, log, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tuner.core.domain.layout import Layout, parse_layout, parse_layouts
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.window import VoidReason
from tuner.core.ranking.ranked import RankedLayout, Ranking
from tuner.core.ranking.ranking import rank
from tuner.core.stats.groups import compare
from tuner.core.stats.two_way_anova import Observation

from ..raising import raises
from ..wording import wording

pytestmark = pytest.mark.pythons


def study(layouts: str, cores: int = 4, box_cores: float = 4.0) -> StudyRecord:
    return StudyRecord(
        service="test", strategy="all", layouts=tuple(parse_layouts(layouts)), cores=cores,
        box_cores=box_cores, window_s=60.0, warmup_s=None, n_blocks=3, windows_per_launch=1, seed=1,
        budget_s=None, created_wall_s=0.0, config=StoredConfig("{}"),
    )  # fmt: skip


class Launches:
    """Windows as a study takes them; every launch gets the next id."""

    def __init__(self) -> None:
        self.windows: list[WindowRecord] = []
        self._launch_id = 0

    def launch(self, layout: str, block: int, n_done: Sequence[int], **facts: object) -> None:
        self._launch_id += 1
        for index, count in enumerate(n_done):
            values = {
                "launch_id": self._launch_id, "block": block, "layout": parse_layout(layout), "box": "box",
                "index": index, "attempt": 1, "started_wall_s": 0.0, "length_s": 60.0, "n_done": count,
                "n_failed": 0, "load1_mean": 2.0, "load1_max": 3.0, "n_active_mean": 2.5,
                "service_cpu_s": 120.0, "tuner_cpu_s": 0.1, "backend_cpu_s": 0.0, "foreign_cpu_s": 0.0,
                "steal_s": 0.0, "pss_bytes": 1e8, "void": (), **facts,
            }  # fmt: skip
            self.windows.append(WindowRecord(**values))  # type: ignore[arg-type]


def taken(table: dict[str, Sequence[Sequence[int]]]) -> list[WindowRecord]:
    """layout -> per block the items of each window of its launch; an empty launch was not made."""
    launches = Launches()
    for layout, per_block in table.items():
        for block, n_done in enumerate(per_block):
            launches.launch(layout, block, n_done)
    return launches.windows


def ranks(ranking: Ranking) -> dict[str, int | None]:
    return {str(row.layout): row.rank for row in ranking.rows}


def row(ranking: Ranking, layout: str) -> RankedLayout:
    return next(one for one in ranking.rows if one.layout == parse_layout(layout))


def test_noise_that_leaves_nothing_known_gives_no_interval_instead_of_one_beyond_all_numbers() -> None:
    windows = taken({"1x4": [[600], [6]], "4x1": [[660], [300]]})

    ranking = rank(study("1x4,4x1"), windows, confidence=0.999, current=Layout(1, 4))

    ratio = row(ranking, "4x1").ratio_to_current
    assert ratio is not None
    assert (ratio.low, ratio.high) == (None, None)
    assert set(ranks(ranking).values()) == {1}


CLEAR = {
    "4x1": [[1000], [1101], [899]],
    "2x2": [[1010], [1100], [901]],
    "1x4": [[500], [551], [450]],
}


def test_what_is_not_known_apart_shares_a_rank() -> None:
    ranking = rank(study("1x4,2x2,4x1"), taken(CLEAR))

    assert ranks(ranking) == {"2x2": 1, "4x1": 1, "1x4": 3}
    assert [str(one.layout) for one in ranking.rows] == ["2x2", "4x1", "1x4"]


def test_the_limit_is_tukeys_for_all_pairs() -> None:
    table = {"4x1": (1000, 1140, 905), "2x2": (1010, 1100, 950), "1x4": (500, 551, 450)}
    numbers = {name: number for number, name in enumerate(table)}
    seen = [
        Observation(numbers[name], block, log(n))
        for name, values in table.items()
        for block, n in enumerate(values)
    ]
    # By hand: residuals of the whole table, 4 degrees of freedom, and scipy's studentized range of 3.
    logs = {name: [log(n) for n in values] for name, values in table.items()}
    level = {name: sum(values) / 3 for name, values in logs.items()}
    of_block = [sum(values[block] for values in logs.values()) / 3 for block in range(3)]
    grand = sum(of_block) / 3
    residual_ss = sum(
        (logs[name][block] - level[name] - of_block[block] + grand) ** 2
        for name in logs
        for block in range(3)
    )
    half = stats.studentized_range.ppf(0.95, 3, 4) * sqrt(residual_ss / 4 / 3)
    ratio = compare(seen, 3, 0.95).ratio(numbers["4x1"], numbers["1x4"])

    assert ratio is not None
    assert (ratio.low, ratio.high) == pytest.approx(
        (exp(level["4x1"] - level["1x4"] - half), exp(level["4x1"] - level["1x4"] + half)), rel=1e-6
    )


def test_layouts_with_the_same_figures_share_a_rank_though_arithmetic_rounds() -> None:
    figures = [[333], [777], [1234], [17], [3]]
    table = {"4x1": figures, "2x2": figures, "1x4": figures, "8x1": [[2 * n] for [n] in figures]}

    assert ranks(rank(study("4x1,2x2,1x4,8x1"), taken(table))) == {"8x1": 1, "1x4": 2, "2x2": 2, "4x1": 2}


def test_the_noise_of_windows_comes_from_within_launches() -> None:
    # Each launch has two windows 10 % apart: sd = 0.1 / sqrt(2) of the mean; the launches differ by far more.
    table = {"4x1": [[95, 105], [190, 210]], "2x2": [[950, 1050], [950, 1050]]}
    noise = rank(study("4x1,2x2"), taken(table)).noise

    assert noise.window is not None
    assert noise.window.mean == pytest.approx(0.1 / sqrt(2))


def test_drift_that_hits_all_layouts_alike_does_not_hide_a_difference() -> None:
    # The box does half in block 1; within each block 4x1 does 10 % more, give or take one item.
    table = {"4x1": [[1100], [550], [1101]], "2x2": [[1000], [500], [1001]]}
    ranking = rank(study("4x1,2x2"), taken(table))
    best, second = ranking.rows

    assert ranks(ranking) == {"4x1": 1, "2x2": 2}
    assert best.throughput_per_10min.low is not None
    assert second.throughput_per_10min.high is not None
    assert best.throughput_per_10min.low < second.throughput_per_10min.high  # though their intervals overlap


def test_many_windows_of_one_launch_are_no_more_than_one_value() -> None:
    # Launches differ by 10 %, their windows hardly: as 1000 windows they would be told apart.
    table = {
        "4x1": [[1100 + i % 2 for i in range(200)], [1000] * 200],
        "2x2": [[1000 + i % 2 for i in range(200)], [1010] * 200],
    }

    assert ranks(rank(study("4x1,2x2"), taken(table))) == {"4x1": 1, "2x2": 1}


def test_throughput_is_per_ten_minutes_whatever_the_window() -> None:
    launches = Launches()
    for block in range(2):
        launches.launch("4x1", block, [100], length_s=30.0)
        launches.launch("2x2", block, [2000, 2000], length_s=600.0)
    ranking = rank(study("4x1,2x2"), launches.windows)

    assert row(ranking, "4x1").throughput_per_10min.mean == pytest.approx(2000)
    assert row(ranking, "2x2").throughput_per_10min.mean == pytest.approx(2000)


def test_the_mean_is_the_plain_mean_over_launches() -> None:
    table = {"4x1": [[100, 200], [300]], "2x2": [[100], [400]]}
    ranking = rank(study("4x1,2x2"), taken(table))

    assert row(ranking, "4x1").throughput_per_10min.mean == pytest.approx(10 * (150 + 300) / 2)
    assert row(ranking, "2x2").throughput_per_10min.mean == pytest.approx(10 * (100 + 400) / 2)


def test_one_block_ranks_everything_first_and_says_why() -> None:
    ranking = rank(study("4x1,2x2"), taken({"4x1": [[1000]], "2x2": [[10]]}))

    assert ranks(ranking) == {"4x1": 1, "2x2": 1}
    assert all(one.throughput_per_10min.low is None for one in ranking.rows)
    assert ranking.notes == (wording("rank.one-block-says-nothing"),)


def test_a_single_layout_is_ranked_with_an_interval() -> None:
    ranking = rank(study("4x1"), taken({"4x1": [[100], [110], [105]]}))
    [only] = ranking.rows

    assert only.rank == 1
    assert only.throughput_per_10min.low is not None
    assert 900 < only.throughput_per_10min.low < 1050
    assert ranking.notes == ()


def test_void_windows_are_counted_and_never_used() -> None:
    launches = Launches()
    for block in range(3):
        launches.launch("4x1", block, [1000])
        launches.launch("4x1", block, [5], void=(VoidReason("source-dry", "0 left"),), load1_max=99.0)
        launches.launch("2x2", block, [1000])
    ranking = rank(study("4x1,2x2"), launches.windows)
    got = row(ranking, "4x1")

    assert (got.n_windows, got.n_void) == (3, 3)
    assert got.throughput_per_10min.mean == pytest.approx(10_000)
    assert got.load1_max == 3.0


def test_a_layout_with_void_windows_only_comes_last_with_the_reasons() -> None:
    launches = Launches()
    for block in range(3):
        launches.launch("4x1", block, [10])
        launches.launch(
            "2x2", block, [900], void=(VoidReason("worker-died", "pid 7"), VoidReason("disturbed", ""))
        )
    launches.launch("2x2", 3, [900], void=(VoidReason("worker-died", "pid 8"),))
    got = rank(study("2x2,4x1"), launches.windows).rows[-1]

    assert str(got.layout) == "2x2"
    assert (got.rank, got.n_windows, got.n_void) == (None, 0, 4)
    assert got.reason == wording("rank.no-window-counts-and-why")
    assert got.throughput_per_10min.mean is None
    assert (got.load1_mean, got.cpu_ratio, got.pss_bytes) == (None, None, None)


def test_a_layout_whose_launches_failed_says_how() -> None:
    failed = LaunchRecord(
        block=0, position=1, attempt=1, layout=Layout(2, 2), box="box", started_wall_s=0.0,
        running_after_s=None, warmup_s=None, settled=None, error="worker 1 of 2 exited with 3",
    )  # fmt: skip
    table = {"4x1": [[100], [100]]}

    assert row(rank(study("4x1,2x2"), taken(table)), "2x2").reason == wording("rank.window-taken")
    result = rank(study("4x1,2x2"), taken(table), launches=[failed])
    assert row(result, "2x2").reason == wording("rank.launch-gave-window-worker")


def test_a_layout_that_stood_still_for_a_launch_is_shown_but_not_ranked() -> None:
    table = {"4x1": [[100], [101], [99]], "2x2": [[100], [0], [100]], "1x4": [[90, 0], [91, 0], [92, 1]]}
    ranking = rank(study("4x1,2x2,1x4"), taken(table))

    # a window of 0 is a window; a launch of 0 has no logarithm
    assert ranks(ranking) == {"4x1": 1, "1x4": 2, "2x2": None}
    assert row(ranking, "2x2").reason == wording("rank.finished-item-launches")
    assert row(ranking, "2x2").throughput_per_10min.mean == pytest.approx(10 * 200 / 3)


def test_nothing_measured_gives_rows_without_ranks() -> None:
    ranking = rank(study("4x1,2x2"), [])

    assert ranks(ranking) == {"2x2": None, "4x1": None}
    assert ranking.noise.window is None


def test_layouts_that_share_no_block_are_not_compared_and_that_is_said() -> None:
    late = {"1x4": [[], [], [10], [11]], "1x2": [[], [], [11], [10]]}
    windows = taken({"4x1": [[100], [101]], "2x2": [[102], [100]], **late})
    ranking = rank(study("4x1,2x2,1x4,1x2"), windows, current=Layout(4, 1))

    assert set(ranks(ranking).values()) == {1}
    assert row(ranking, "1x4").ratio_to_current is None
    assert wording("rank.groups-share-block") in ranking.notes[0]


def test_the_same_block_on_two_boxes_is_two_blocks() -> None:
    launches = Launches()
    for box, factor in (("slow", 1), ("fast", 4)):
        for block in range(2):
            launches.launch("4x1", block, [1100 * factor + block], box=box)
            launches.launch("2x2", block, [1000 * factor], box=box)
    ranking = rank(study("4x1,2x2"), launches.windows)

    assert ranks(ranking) == {"4x1": 1, "2x2": 2}


def test_the_launch_that_warms_the_page_cache_is_left_out() -> None:
    launches = Launches()
    launches.launch("4x1", WARMING_BLOCK, [1])
    for block in range(2):
        launches.launch("4x1", block, [100])

    assert row(rank(study("4x1"), launches.windows), "4x1").n_windows == 2


def test_ratios_to_the_current_layout_agree_with_the_ranks() -> None:
    ranking = rank(study("1x4,2x2,4x1"), taken(CLEAR), current=parse_layout("1x4"))
    better, own = row(ranking, "4x1").ratio_to_current, row(ranking, "1x4").ratio_to_current

    assert ranking.current == parse_layout("1x4")
    assert better is not None
    assert better.low is not None
    assert better.mean == pytest.approx(2.0, rel=0.01)
    assert 1 < better.low < 2
    assert own is not None
    assert (own.mean, own.low, own.high) == (1.0, 1.0, 1.0)


def test_a_current_layout_without_windows_gives_no_ratios() -> None:
    ranking = rank(study("1x4,2x2,4x1,8x1"), taken(CLEAR), current=parse_layout("8x1"))

    assert [one.ratio_to_current for one in ranking.rows] == [None] * 4


def test_load_cpu_and_memory_are_means_over_time_and_windows() -> None:
    launches = Launches()
    launches.launch("4x1", 0, [100], load1_mean=1.0, load1_max=1.5, n_active_mean=None, pss_bytes=None)
    launches.launch(
        "4x1", 1, [300], length_s=180.0, load1_mean=3.0, load1_max=9.0, n_active_mean=4.0,
        service_cpu_s=600.0, pss_bytes=3e8,
    )  # fmt: skip
    got = row(rank(study("4x1"), launches.windows), "4x1")

    assert got.load1_mean == pytest.approx((1 * 60 + 3 * 180) / 240)
    assert got.load1_max == 9.0
    assert got.n_active_mean == pytest.approx(4.0)
    assert got.pss_bytes == pytest.approx(3e8)
    assert got.cpu_ratio == pytest.approx((120 + 600) / (4 * 240))


def test_the_cpu_share_is_of_the_cores_that_were_there() -> None:
    launches = Launches()
    launches.launch("4x1", 0, [100])  # 120 s of CPU in 60 s

    for cores, box_cores in ((24, 2), (2, 8)):
        record = study("4x1", cores=cores, box_cores=box_cores)
        assert row(rank(record, launches.windows), "4x1").cpu_ratio == pytest.approx(1.0)


def test_more_confidence_separates_less() -> None:
    table = {"4x1": [[1000], [1030], [990]], "2x2": [[950], [961], [955]]}

    assert ranks(rank(study("4x1,2x2"), taken(table), confidence=0.8))["2x2"] == 2
    assert ranks(rank(study("4x1,2x2"), taken(table), confidence=0.99))["2x2"] == 1


@pytest.mark.parametrize("confidence", [0.49, 1.0])
def test_a_confidence_that_means_nothing_is_refused(confidence: float) -> None:
    with raises(ValueError, wording("rank.a-confidence-from")):
        rank(study("4x1"), [], confidence=confidence)


counts = st.lists(st.lists(st.integers(0, 2000), max_size=3), min_size=1, max_size=4)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from(["4x1", "2x2", "1x4", "8x1@x"]), counts, min_size=1), st.randoms())
def test_whatever_was_measured_gives_a_sound_ranking_in_any_order(
    table: dict[str, list[list[int]]], random: object
) -> None:
    record, windows = study(",".join(table)), taken(table)
    ranking = rank(record, windows)
    shuffled = list(windows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    again = rank(record, shuffled)

    assert ranks(again) == ranks(ranking)
    assert sorted(one.layout for one in ranking.rows) == sorted(record.layouts)
    known = [one.rank for one in ranking.rows if one.rank is not None]
    assert known == sorted(known)
    assert not known or known[0] == 1
    for one in ranking.rows:
        estimate = one.throughput_per_10min
        assert (one.rank is None) == (one.reason is not None)
        assert (estimate.low is None) == (estimate.high is None)
        if estimate.low is not None and estimate.high is not None:
            assert estimate.mean is not None
            assert 0 <= estimate.low <= estimate.mean * (1 + 1e-9)
            assert estimate.mean <= estimate.high * (1 + 1e-9)
