"""Ranks within limits, by objective, of studies that took turns; and the fronts beside them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tuner.core.domain.layout import Layout, parse_layout, parse_layouts
from tuner.core.domain.limits import Limit
from tuner.core.domain.records import StudyRecord, WindowRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.window import VoidReason
from tuner.core.errors import ConfigError
from tuner.core.ranking.ranked import Ranking
from tuner.core.ranking.ranking import rank
from tuner.reports.charts.trade import cost_of

from ..raising import raises
from ..wording import start_of, wording

LOAD, MEMORY = Limit("load", 20.0), Limit("memory_bytes", 1e9)
#: layout -> items in a window, load, memory, CPU seconds
TRUTH = {
    "24x1": (4300.0, 24.0, 1.4e9, 900.0), "12x2": (4200.0, 19.0, 0.7e9, 800.0),
    "4x6": (3600.0, 12.0, 0.3e9, 500.0), "1x24": (1700.0, 6.0, 0.1e9, 300.0),
}  # fmt: skip


def study(strategy: str = "all", **asked: object) -> StudyRecord:
    plain = StudyRecord(
        service="test", strategy=strategy, layouts=tuple(parse_layouts(",".join(TRUTH))),
        cores=24, box_cores=24.0, window_s=60.0, warmup_s=None, n_blocks=4, windows_per_launch=1,
        seed=1, budget_s=None, created_wall_s=0.0, config=StoredConfig("{}"),
    )  # fmt: skip
    return replace(plain, **asked)  # type: ignore[arg-type]


def taken(
    order: list[list[str]], noise: float = 0.002, load_noise: float | None = None, **facts: object
) -> list[WindowRecord]:
    """A window a launch; *order* has the layouts of each block."""
    random, windows = Random(4), []
    for block, texts in enumerate(order):
        for text in texts:
            items, load, memory, cpu_s = TRUTH[text]
            seen = load * (1 + random.gauss(0, noise if load_noise is None else load_noise))
            values = {
                "launch_id": len(windows) + 1, "block": block, "layout": parse_layout(text), "box": "box",
                "index": 0, "attempt": 1, "started_wall_s": 0.0, "length_s": 60.0,
                "n_done": round(items * (1 + random.gauss(0, noise))), "n_failed": 0, "load1_mean": 40.0,
                "load1_max": 50.0, "n_active_mean": 40.0, "service_cpu_s": cpu_s, "tuner_cpu_s": 0.1,
                "backend_cpu_s": cpu_s / 10, "foreign_cpu_s": 0.0, "steal_s": 0.0, "pss_bytes": memory,
                "void": (), "n_active_from_load1": seen, **facts,
            }  # fmt: skip
            windows.append(WindowRecord(**values))  # type: ignore[arg-type]
    return windows


WHOLE = [list(TRUTH)] * 4


def ranks(ranking: Ranking) -> dict[str, int | None]:
    return {str(row.layout): row.rank for row in ranking.rows}


def test_only_what_is_shown_to_keep_the_limits_has_a_rank() -> None:
    got = rank(study(), taken(WHOLE), limits=[LOAD])

    assert ranks(got) == {"12x2": 1, "4x6": 2, "1x24": 3, "24x1": None}
    assert [row.is_kept_out for row in got.rows] == [False, False, False, True]
    assert got.rows[-1].reason is not None
    assert wording("rank.load-with-interval") in start_of(got.rows[-1].reason)
    assert got.rows[-1].reason.endswith("is beyond 20")


def test_the_settled_load_of_a_layout_is_the_figure_that_its_limit_is_compared_with() -> None:
    windows = taken(WHOLE, load_noise=0.3)
    for window in windows[::3]:
        window.n_active_from_load1, window.n_active_mean = None, 7.0  # short windows
    got = rank(study(), windows, limits=[LOAD])

    for row in got.rows:
        assert row.verdict is not None
        assert cost_of(row, "load", None, 24.0) == pytest.approx(row.verdict.findings[0].level)
    assert len({row.settled_load for row in got.rows}) == len(got.rows)


def test_a_second_limit_keeps_more_out_and_the_load_that_remembers_does_not_count() -> None:
    got = rank(study(), taken(WHOLE), limits=[LOAD, Limit("memory_bytes", 0.5e9)])

    assert ranks(got) == {"4x6": 1, "1x24": 2, "24x1": None, "12x2": None}


def test_what_is_not_decided_does_not_win_and_it_is_reported_what_would_decide_it() -> None:
    got = rank(study(), taken(WHOLE, load_noise=0.02), limits=[Limit("load", 19.0)])
    open_ = next(row for row in got.rows if row.layout == Layout(12, 2))

    assert open_.rank is None
    assert open_.verdict is not None
    assert open_.verdict.state == "open"
    assert open_.reason is not None
    assert wording("rank.shown-keep-about") in open_.reason
    assert ranks(got)["4x6"] == 1


def test_void_windows_say_nothing_about_limits() -> None:
    void = taken([["4x6"]], void=(VoidReason("disturbed", ""),), n_active_from_load1=99.0)
    got = rank(study(), taken(WHOLE) + [replace(one, launch_id=900) for one in void], limits=[LOAD])

    assert ranks(got)["4x6"] == 2


def test_a_limit_of_what_nobody_measured_is_refused_with_a_clear_line() -> None:
    with raises(ConfigError, "--max-p95: " + wording("config.no-latency")):
        rank(study(), taken(WHOLE), limits=[Limit("p95_s", 2.0)])
    with raises(ConfigError, wording("rank.memory-limit-untold")):
        rank(study(), taken(WHOLE, pss_bytes=None), limits=[MEMORY])

    assert rank(study(), [], limits=[MEMORY]).rows[0].rank is None  # nothing measured is another matter


def test_items_per_cpu_second_rank_otherwise_than_items() -> None:
    got = rank(study(), taken(WHOLE), objective="throughput-per-cpu", current=Layout(24, 1))
    best = got.rows[0]

    assert ranks(got) == {"4x6": 1, "1x24": 2, "12x2": 3, "24x1": 4}
    assert best.items_per_cpu_s is not None
    assert best.items_per_cpu_s.mean == pytest.approx(3600 / 550, rel=0.01)
    assert best.throughput_per_10min.mean == pytest.approx(36_000, rel=0.01)
    assert best.ratio_to_current is not None
    assert best.ratio_to_current.mean == pytest.approx((3600 / 550) / (4300 / 990), rel=0.01)


def test_a_layout_whose_cpu_was_not_seen_is_not_ranked_by_it() -> None:
    windows = taken(WHOLE)
    windows[0] = replace(windows[0], service_cpu_s=0.0, backend_cpu_s=0.0)
    got = rank(study(), windows, objective="throughput-per-cpu")

    assert ranks(got)["24x1"] is None
    assert got.rows[-1].reason == wording("rank.cpu-seen-launches")


def test_the_front_is_of_what_may_win() -> None:
    got = rank(study(), taken(WHOLE), limits=[LOAD], costs=["load", "cpu"])
    load, cpu = got.fronts

    assert (load.cost, cpu.cost) == ("load", "cpu")
    assert load.reference == Layout(12, 2)
    assert [str(place.layout) for place in load.places] == ["12x2", "4x6", "1x24"]
    assert cpu.places[0].cost == pytest.approx(880 / 60)


TURNS = [list(TRUTH), *([text] for text in ("24x1", "12x2") * 12)]


def test_a_race_that_takes_turns_is_compared_in_blocks_of_four_launches() -> None:
    got = rank(study("race"), taken(TURNS))
    unjoined = rank(study("all"), taken(TURNS))

    assert ranks(got) == {"24x1": 1, "12x2": 2, "4x6": 1, "1x24": 1}  # one launch tells nothing apart
    assert got.noise.residual is not None
    assert set(ranks(unjoined).values()) == {1}  # a block of one launch tells nothing
    assert unjoined.noise.residual is None


def test_limits_of_the_race_itself_are_kept_strictly_and_later_ones_by_the_noise_of_all() -> None:
    own = rank(study("race", limits={"load": 20.0}), taken(TURNS), limits=[LOAD])
    later = rank(study("race"), taken(TURNS), limits=[LOAD])

    assert ranks(own) == {"12x2": 1, "24x1": None, "4x6": None, "1x24": None}  # one launch is no proof
    assert ranks(later) == {"12x2": 1, "4x6": 1, "1x24": 1, "24x1": None}
