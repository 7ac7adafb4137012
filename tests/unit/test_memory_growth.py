"""How fast memory grows: a start, a step and garbage collection are no leak."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from tuner.app.study_queries import rank_file
from tuner.core.stats.interval import Estimate
from tuner.core.stats.variance import pool_slopes
from tuner.core.windows.memory_growth import Look, MemoryGrowth, growth_slopes, pool_growth
from tuner.reports.ranking.evidence import describe_caveats
from tuner.reports.ranking.ranking_data import render_ranking_json
from tuner.reports.ranking.ranking_words import notes
from tuner.study.aging import memory_growth

from ..leaking_studies import MB, A, kept, measured
from ..wording import wording

HOUR_S, DAY_S = 3600.0, 86_400.0


def looks(
    draw: random.Random,
    *,
    leak_per_h: float = 0.0,
    start: float = 40.0,
    start_s: float = 60.0,
    step_at_s: float | None = None,
    lasts_s: float = 600.0,
) -> list[Look]:
    """MB of one launch: a start that takes *start_s*, and a saw-tooth."""
    phase, found = draw.random(), []
    for n in range(int(lasts_s / 5) + 1):
        at_s = 5.0 * n
        memory = 300 + leak_per_h * at_s / HOUR_S - start * math.exp(-at_s / start_s)
        memory += 4 * ((phase + at_s / 70) % 1.0) + draw.gauss(0, 0.3)
        found.append((at_s, MB * (memory + (8.0 if step_at_s is not None and at_s >= step_at_s else 0.0))))
    return found


def growth(launches: list[list[Look]]) -> Estimate:
    return pool_slopes({"layout": growth_slopes(launches)}, 0.9)["layout"]


def test_a_leak_of_a_megabyte_a_minute_is_found_beside_a_start() -> None:
    draw = random.Random(1)
    found = growth([looks(draw, leak_per_h=60.0) for _ in range(3)])

    assert found.low is not None
    assert found.low > 0
    assert found.mean == pytest.approx(60 * MB, rel=0.3)


@pytest.mark.parametrize("start", [0.0, 40.0, 300.0])
def test_a_start_alone_is_no_leak(start: float) -> None:
    draw = random.Random(2)
    found = growth([looks(draw, start=start) for _ in range(3)])

    assert not MemoryGrowth(found, 300 * MB, DAY_S).is_shown


def test_a_step_in_one_launch_is_no_leak() -> None:
    draw = random.Random(3)
    found = growth([looks(draw, step_at_s=at_s) for at_s in (300.0, None, None)])

    assert not MemoryGrowth(found, 300 * MB, DAY_S).is_shown


def test_one_launch_of_half_an_hour_is_enough() -> None:
    found = growth([looks(random.Random(4), leak_per_h=60.0, lasts_s=1800.0)])

    assert MemoryGrowth(found, 300 * MB, DAY_S).is_shown


def of_layouts(*launches: list[Look]) -> MemoryGrowth:
    """The growth of a layout with these launches; another layout without growth has three."""
    draw = random.Random(9)
    others = [looks(draw) for _ in range(3)]
    found = pool_growth({"one": launches, "other": others}, {"one": 300 * MB, "other": 300 * MB}, 0.95, DAY_S)
    return found["one"]


def test_a_start_of_ten_minutes_looks_like_a_leak_until_a_launch_of_an_hour_shows_its_end() -> None:
    draw = random.Random(6)
    short = [looks(draw, start_s=600.0) for _ in range(3)]
    long = looks(draw, start_s=600.0, lasts_s=3600.0)
    before, after = of_layouts(*short), of_layouts(*short, long)

    assert before.is_shown
    assert before.early_per_h is None
    assert not after.is_shown
    assert after.is_ending


def test_a_leak_still_shows_in_the_second_half_of_a_launch_of_an_hour() -> None:
    draw = random.Random(7)
    short = [looks(draw, leak_per_h=60.0) for _ in range(3)]
    found = of_layouts(*short, looks(draw, leak_per_h=60.0, lasts_s=3600.0))

    assert found.is_shown
    assert not found.is_ending
    assert found.per_h.mean == pytest.approx(60 * MB, rel=0.3)


def test_launches_under_five_minutes_show_nothing() -> None:
    draw = random.Random(5)

    assert growth_slopes([looks(draw, leak_per_h=600.0, lasts_s=240.0) for _ in range(8)]) == []
    assert growth_slopes([[], [(0.0, 1.0)]]) == []


def test_memory_that_falls_stays_as_it_is_after_the_horizon() -> None:
    falls = MemoryGrowth(Estimate(-5.0, -6.0, -4.0), 100.0, DAY_S)

    assert falls.after(Estimate(100.0, 90.0, 110.0)) == Estimate(100.0, 90.0, 110.0)
    assert not falls.is_shown


def test_a_small_growth_that_is_certain_is_of_no_concern() -> None:
    assert not MemoryGrowth(Estimate(1.0, 0.9, 1.1), 2000.0, DAY_S).is_shown
    assert MemoryGrowth(Estimate(2.0, 1.9, 2.1), 2000.0, DAY_S).is_shown


def test_a_leak_of_the_best_layout_is_reported_beside_the_answer(tmp_path: Path) -> None:
    record, ranking = rank_file(kept(tmp_path / "s.tuner.db", measured(MB / 60)))
    told = [one for one in notes(record, ranking) if one.startswith("The memory of 4x6 grows")]
    facts = json.loads(render_ranking_json(record, ranking))["layouts"]

    assert told == [wording("rank.best-layout-leaks")]
    assert told[0] in describe_caveats(record, ranking)
    assert facts[0]["memory_growth"]["is_shown"]
    assert facts[0]["memory_growth"]["bytes_per_h"]["mean"] == pytest.approx(60 * MB, rel=1e-3)


def test_a_service_without_a_leak_shows_none(tmp_path: Path) -> None:
    record, ranking = rank_file(kept(tmp_path / "s.tuner.db", measured(0.0)))

    assert not any("memory of" in one for one in notes(record, ranking))


def test_windows_that_were_not_read_leave_the_growth_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    store = measured(MB / 60)
    monkeypatch.setattr("tuner.study.aging.MOST_WINDOWS", 3)

    assert list(memory_growth(store, store.sums(), 0.95, DAY_S)) == [A]
