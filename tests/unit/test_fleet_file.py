"""What is said of a study file that was measured on several boxes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.adapters.sqlite.store import SqliteStore
from tuner.app.study_queries import overview, rank_file
from tuner.core.errors import ConfigError
from tuner.core.ranking.live_status import board_of
from tuner.core.ranking.ranked import RankingOptions
from tuner.reports.charts.timeline import timeline_picture
from tuner.reports.page import render_page
from tuner.reports.ranking.ranking import render_ranking

from ..fleet_files import ALIKE, BEGAN_S, A, B, C, fleet_file
from ..wording import key_of, start_of, wording


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return fleet_file(tmp_path / "s.tuner.db")


@pytest.fixture
def slow_file(tmp_path: Path) -> Path:
    """Its third box gives a fifth less than the others."""
    gives = {**ALIKE, "box-3": {layout: 0.8 * value for layout, value in ALIKE["box-3"].items()}}
    return fleet_file(tmp_path / "slow.tuner.db", gives)


def test_the_ranking_says_on_how_many_boxes_and_for_which_it_holds(file: Path) -> None:
    record, ranking = rank_file(file)
    text = render_ranking(record, ranking, "simple")

    assert {row.layout: row.rank for row in ranking.rows} == {B: 1, C: 2, A: 3}
    assert " on 3 hosts, " in text.splitlines()[0]
    assert wording("fleet.holds-for-boxes-like-these") in text
    assert "\nbox-2 " in text


def test_a_box_that_is_slower_is_named_in_text_and_json(slow_file: Path) -> None:
    record, ranking = rank_file(slow_file)
    facts = json.loads(render_ranking(record, ranking, "json"))["boxes"]
    (slow,) = (one for one in facts["levels"] if one["box"] == "box-3")

    assert any(note.startswith(wording("fleet.box-slower-than-others")) for note in facts_notes(slow_file))
    assert slow["differs"]
    assert slow["level"]["mean"] == pytest.approx(0.8 ** (2 / 3), rel=0.02)
    assert slow["level"]["low"] < slow["level"]["mean"] < slow["level"]["high"] < 1
    assert facts["n_boxes"] == 3


def facts_notes(file: Path) -> list[str]:
    notes: list[str] = json.loads(render_ranking(*rank_file(file), "json"))["study"]["notes"]
    return notes


def test_a_study_of_one_box_says_nothing_of_boxes(tmp_path: Path) -> None:
    file = fleet_file(tmp_path / "one.tuner.db", {"box-1": ALIKE["box-1"]}, joined=False)
    record, ranking = rank_file(file)

    assert ranking.boxes is None
    assert "boxes" not in json.loads(render_ranking(record, ranking, "json"))
    assert "box-1" not in render_ranking(record, ranking, "simple")
    assert 'id="boxes"' not in render_page(overview(file))


def test_a_fleet_of_which_one_box_measured_says_that_it_is_of_this_box_alone(tmp_path: Path) -> None:
    file = fleet_file(tmp_path / "one.tuner.db", {"box-1": ALIKE["box-1"]})

    assert wording("fleet.one-box-alone", box="box-1") in rank_file(file)[1].notes


def test_one_box_can_be_looked_at_and_one_left_out(slow_file: Path) -> None:
    _, alone = rank_file(slow_file, question=RankingOptions(boxes=("box-3",)))
    _, others = rank_file(slow_file, question=RankingOptions(without_boxes=("box-3",)))

    assert alone.boxes is None
    assert wording("fleet.one-box-alone", box="box-3") in alone.notes
    assert {row.layout: row.n_windows for row in alone.rows} == {A: 3, B: 3, C: 3}
    assert others.boxes is not None
    assert [one.box for one in others.boxes.levels] == ["box-1", "box-2"]
    assert others.boxes.differing == ()


@pytest.mark.parametrize(
    ("question", "problem", "hint"),
    [
        (
            RankingOptions(boxes=("box-9",)),
            wording("fleet.box-unknown", box="box-9"),
            wording("fleet.those-are", boxes="box-1, "),
        ),
        (
            RankingOptions(without_boxes=("bx-2",)),
            wording("fleet.without-box-unknown", box="bx-2"),
            wording("fleet.did-you-mean", meant="box-2"),
        ),
        (
            RankingOptions(boxes=("box-1",), without_boxes=("box-1",)),
            wording("fleet.no-box-left"),
            wording("fleet.those-are", boxes="box-1, box-2, box-3."),
        ),
    ],
    ids=key_of,
)
def test_a_box_that_is_not_there_is_refused_with_those_that_are(
    file: Path, question: RankingOptions, problem: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        rank_file(file, question=question)

    assert caught.value.problem == problem
    assert hint in (caught.value.hint or "")


def test_a_layout_that_wins_on_one_box_and_collapses_on_another_is_reported(tmp_path: Path) -> None:
    gives = {
        "box-1": {A: 10.0, B: 20.0, C: 18.0},
        "box-2": {A: 10.0, B: 20.0, C: 18.0},
        "box-3": {A: 10.0, B: 10.0, C: 18.0},
    }
    notes = facts_notes(fleet_file(tmp_path / "s.tuner.db", gives))

    (result,) = (note for note in notes if note.startswith(wording("fleet.measured-best-on")))
    assert wording("fleet.best-on-a-box") in start_of(result)
    assert result.endswith(" less than 4x1.")


def test_the_report_has_a_section_of_the_boxes_with_what_they_are_not_alike_in(slow_file: Path) -> None:
    with SqliteStore.open(slow_file) as store:
        store.end_box("box-2", BEGAN_S + 5000.0, "not heard of for 20 s")
    text = render_page(overview(slow_file))

    assert 'id="boxes"' in text
    assert wording("report.what-boxes-alike") in text
    assert "python" in text
    assert wording("fleet.heard-no-more") in text
    assert wording("fleet.box-slower") in text


def test_a_board_says_on_how_many_boxes_it_was_measured(file: Path) -> None:
    assert board_of(overview(file)).n_boxes == 3


def test_the_picture_of_windows_has_a_lane_for_each_box(file: Path) -> None:
    fleet, one = overview(file), overview(file)
    alone = [window for window in one.windows if window.box == "box-1"]
    launches = [launch for launch in one.launches if launch[1].box == "box-1"]
    pictures = [timeline_picture(each) for each in (fleet, replace(one, windows=alone, launches=launches))]

    assert pictures[0] is not None
    assert pictures[1] is not None
    assert pictures[0].height - pictures[1].height == pytest.approx(2 * 38.0, abs=20.0)
