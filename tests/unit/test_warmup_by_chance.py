"""How many launches that never settled are too many for chance, and what a study then prints."""

from __future__ import annotations

import json
from math import comb
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord, StudyRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.ranking.ranking import rank
from tuner.core.stats.interval import most_by_chance
from tuner.core.warmup.report import (
    ALARM_LEVEL,
    FALSE_ALARM_RATIO,
    SettlingCount,
    alarm_of,
    summarize_settling,
)
from tuner.reports.ranking.ranking_data import render_ranking_json
from tuner.reports.ranking.ranking_words import notes

from ..wording import wording

LAYOUTS = tuple(Layout(processes, 1) for processes in range(1, 80))
CHANCE_OF_79 = 9  #: ten or more have a probability of 0.6 %, nine or more one of 1.7 %
STUDY = StudyRecord(
    service="s", strategy="all", layouts=LAYOUTS, cores=79, box_cores=79.0, window_s=60.0, warmup_s=None,
    n_blocks=1, windows_per_launch=1, seed=1, budget_s=None, created_wall_s=0.0, config=StoredConfig("{}"),
)  # fmt: skip


def launch(layout: Layout, **known: Any) -> LaunchRecord:
    usual: dict[str, Any] = {
        "block": 0, "position": 0, "attempt": 1, "box": "box", "started_wall_s": 0.0, "running_after_s": 1.0,
        "warmup_s": 10.0, "settled": True,
    }  # fmt: skip
    return LaunchRecord(layout=layout, **{**usual, **known})


def launches(n_never: int, *, n: int = 79, why: str = "trend: it fell") -> list[LaunchRecord]:
    """One of each layout; the first *n_never* of them did not settle."""
    return [
        launch(layout, settled=place >= n_never, unsettled=why if place < n_never else None)
        for place, layout in enumerate(LAYOUTS[:n])
    ]


@given(st.integers(0, 120), st.floats(0.001, 0.5), st.floats(0.0005, 0.2))
def test_the_most_by_chance_is_where_the_binomial_tail_falls_to_the_level(
    n: int, p: float, level: float
) -> None:
    def more_than(n_hits: int) -> float:
        return sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n_hits + 1, n + 1))

    found = most_by_chance(n, p, level)

    assert more_than(found) <= level * (1 + 1e-9)
    assert found <= int(n * p) or more_than(found - 1) > level * (1 - 1e-9)


def test_one_launch_of_79_that_did_not_settle_is_a_fact_and_no_alarm() -> None:
    found = summarize_settling(launches(1), 60.0)

    assert found.alarms == ()
    assert found.facts == (wording("rank.one-of-79-did-not-settle"),)


def test_as_many_as_chance_gives_are_no_alarm_and_one_more_is() -> None:
    as_many = summarize_settling(launches(CHANCE_OF_79), 60.0)
    one_more = summarize_settling(launches(CHANCE_OF_79 + 1), 60.0)

    assert (as_many.alarms, len(as_many.facts)) == ((), 1)
    assert one_more.facts == ()
    assert one_more.alarms[0] == wording("rank.ten-of-79-did-not-settle")
    assert len(one_more.alarms) == 1 + CHANCE_OF_79 + 1


def test_a_layout_that_never_settles_is_an_alarm_though_the_study_as_a_whole_is_not() -> None:
    of_one = [launch(LAYOUTS[0], settled=False, unsettled="levels: two") for _ in range(4)]
    found = summarize_settling([*launches(1), *of_one], 60.0)

    assert not found.count.is_alarm
    assert found.alarms == (wording("rank.each-launch-never-settled"),)


@pytest.mark.parametrize("why", ["idle: no item was finished", "short: only 12 s were seen of it"])
def test_what_noise_cannot_give_is_always_an_alarm(why: str) -> None:
    found = summarize_settling(launches(1, why=why), 60.0)

    assert found.count.n_never == 0
    assert found.alarms == (wording("rank.only-launch-never-settled", layout="1x1", why=why),)


def test_launches_that_all_settled_are_not_worth_a_word() -> None:
    found = summarize_settling(launches(0), 60.0)

    assert (found.alarms, found.facts) == ((), ())


def test_the_ranking_carries_the_fact_and_the_figures_into_json() -> None:
    ranking = rank(STUDY, [], launches=launches(1))

    assert ranking.settling == ()
    assert wording("rank.one-of-79-did-not-settle") in notes(STUDY, ranking)
    assert json.loads(render_ranking_json(STUDY, ranking))["study"]["never_settled"] == {
        "n_launches": 79,
        "n_never": 1,
        "n_expected": pytest.approx(79 * FALSE_ALARM_RATIO),
        "n_by_chance": CHANCE_OF_79,
        "is_alarm": False,
    }


def warned(ran: list[LaunchRecord]) -> list[str]:
    """What a study warns of, launch by launch."""
    count, found = SettlingCount(), []
    for one in ran:
        count.add(one)
        if (warning := alarm_of(one, count)) is not None:
            found.append(warning.text)
    return found


def test_a_running_study_warns_of_the_launch_that_is_one_more_than_chance_gives() -> None:
    before = [launch(layout) for layout in LAYOUTS[CHANCE_OF_79 + 1 :]]
    never = launches(CHANCE_OF_79 + 1)[: CHANCE_OF_79 + 1]

    assert warned([*before, *never[:-1]]) == []
    assert warned([*before, *never]) == [wording("grid.one-more-than-chance")]


def test_a_running_study_warns_at_once_of_what_noise_cannot_give() -> None:
    idle = launch(LAYOUTS[0], settled=False, unsettled="idle: no item was finished")

    assert warned([idle]) == [wording("grid.never-settled", layout="1x1", why=idle.unsettled)]


def test_alarms_of_steady_studies_are_as_rare_as_the_level_says() -> None:
    """By the binomial itself, for every number of launches up to 200."""
    for n in range(1, 201):
        most = most_by_chance(n, FALSE_ALARM_RATIO, ALARM_LEVEL)
        p = FALSE_ALARM_RATIO
        tail = sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(most + 1, n + 1))

        assert tail <= ALARM_LEVEL
