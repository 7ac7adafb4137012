"""What a ranking says of launches that did not settle."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord, StudyRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.ranking.ranking import rank
from tuner.core.warmup.report import summarize_settling
from tuner.reports.ranking.ranking_words import notes

from ..wording import start_of, wording

A, B = Layout(1, 4), Layout(4, 1)


def percent_in(text: str) -> float:
    """The first percentage that *text* has."""
    return float(re.findall(r"([\d.e+-]+) %", text)[0])


def launch(layout: Layout, settled: bool | None = True, **known: Any) -> LaunchRecord:
    usual: dict[str, Any] = {
        "block": 0, "position": 0, "attempt": 1, "box": "box", "started_wall_s": 0.0, "running_after_s": 1.0,
        "warmup_s": 10.0,
    }  # fmt: skip
    return LaunchRecord(layout=layout, settled=settled, **{**usual, **known})


def test_launches_that_settled_or_were_not_judged_are_not_worth_a_word() -> None:
    result = summarize_settling([launch(A), launch(B, None), launch(A, trend_ratio_per_h=0.01)], 60.0)

    assert (result.alarms, result.facts) == ((), ())


def test_what_never_settled_is_counted_by_layout_with_the_last_reason() -> None:
    result = summarize_settling(
        [
            launch(B, False, unsettled="trend: loses 3 % an hour"),
            launch(A),
            launch(A, False, unsettled="levels: two"),
            launch(A, False, block=WARMING_BLOCK),
        ],
        60.0,
    )

    assert result.facts == ()
    assert result.alarms == (
        wording("rank.two-of-3-did-not-settle"),
        wording("rank.launches-never-settled"),
        wording("rank.only-launch-never-settled", layout="4x1", why="trend: loses 3 % an hour"),
    )


def test_a_leak_that_no_launch_shows_alone_is_reported_of_all_together() -> None:
    leaking = [launch(A, trend_ratio_per_h=-0.05 + 0.01 * (-1) ** n) for n in range(12)]
    wandering = [launch(A, trend_ratio_per_h=0.05 * (-1) ** n) for n in range(12)]

    (result,) = summarize_settling(leaking, 3600.0).alarms
    assert wording("rank.launches-lose-their-throughput") in start_of(result)
    assert summarize_settling(wandering, 3600.0).alarms == ()


def test_a_steep_leak_of_short_launches_is_stated_over_their_window_and_not_over_an_hour() -> None:
    """A slope of 7.2 means an hour would be a loss of 720 %."""
    steep = [launch(A, trend_ratio_per_h=-7.2 + 0.1 * (-1) ** n, window_s=60.0) for n in range(12)]

    (result,) = summarize_settling(steep, 600.0).alarms
    assert wording("rank.steep-launches-lose") in start_of(result)


@given(st.floats(-1e5, -1e-3), st.floats(1, 3600))
def test_launches_never_lose_more_than_all_of_their_throughput(slope_per_h: float, window_s: float) -> None:
    steep = [launch(A, trend_ratio_per_h=slope_per_h * (1 + 0.01 * (-1) ** n)) for n in range(12)]

    (result,) = summarize_settling(steep, window_s).alarms
    assert 0 <= percent_in(result) <= 100


def test_the_ranking_carries_it_into_every_report() -> None:
    study = StudyRecord(
        service="s", strategy="all", layouts=(A, B), cores=4, box_cores=4.0, window_s=60.0, warmup_s=None,
        n_blocks=1, windows_per_launch=1, seed=1, budget_s=None, created_wall_s=0.0,
        config=StoredConfig("{}"),
    )  # fmt: skip
    found = notes(study, rank(study, [], launches=iter([launch(A, False, unsettled="idle: no item")])))

    assert wording("rank.only-launch-never-settled", layout="1x4", why="idle: no item") in found
