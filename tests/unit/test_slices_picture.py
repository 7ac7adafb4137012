"""The picture of layouts that took turns: throughput relative to the best one over time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tuner.adapters.clock import STOP_S
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.app.study_queries import overview_of
from tuner.core.domain.layout import Layout
from tuner.core.ranking.overview import Overview
from tuner.reports.charts import timeline_svg
from tuner.reports.charts.in_time import in_time
from tuner.reports.charts.picture import NARROW, WIDE
from tuner.reports.charts.slices import compare_turns, left_out_of, slices_picture, summary_of
from tuner.reports.page import render_page
from tuner.study.pilot_run import pairs_strategy
from tuner.study.run import run_study

from ..overviews import RECORDED, recorded_overview
from ..wording import wording
from .heat_studies import RATES, box_with_places, heat_study, measured

BEST = Layout(4, 1)


def overview(store: MemoryStore) -> Overview:
    return overview_of(store, Path("no-such.tuner.db"))


@pytest.fixture(scope="module")
def in_turns() -> Overview:
    """Items are whole, so that windows of 20 s are too short for ratios of 3 %."""
    return overview(measured(heat_study(min_window_s=60.0), box_with_places()))


def test_each_group_compares_its_layouts_with_the_best_one(in_turns: Overview) -> None:
    seen = compare_turns(in_turns)
    assert seen is not None
    assert seen.best == BEST
    assert len(seen.of(BEST)) == seen.n_groups - seen.n_without > 2
    for one in seen.turns:
        assert one.ratio == pytest.approx(RATES[one.layout] / RATES[BEST], rel=0.03)
    moments = [one.at_s for one in seen.of(BEST)]
    assert moments == sorted(moments)


def test_groups_without_the_best_layout_are_left_out_and_counted(in_turns: Overview) -> None:
    before = compare_turns(in_turns)
    assert before is not None
    left = [one for one in in_turns.windows if (one.block, one.layout) not in ((1, BEST), (2, BEST))]
    seen = compare_turns(replace(in_turns, windows=left))
    assert seen is not None
    assert (before.n_without, seen.n_without, seen.n_groups) == (0, 2, before.n_groups)
    assert left_out_of(before) == ""
    assert left_out_of(seen) == wording("report.groups-left-out", n=2, groups=seen.n_groups)


def test_windows_alone_are_compared_in_the_same_picture(in_turns: Overview) -> None:
    seen = compare_turns(in_turns)
    assert seen is not None
    assert seen.alone is not None
    assert seen.alone.layout == Layout(2, 2)
    assert seen.alone.ratio == pytest.approx(24 / 30, rel=0.02)
    assert seen.alone.at_s > max(one.at_s for one in seen.turns)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_picture_keeps_within_its_frame_and_names_its_layouts(in_turns: Overview, width: int) -> None:
    picture = slices_picture(in_turns, width=width)
    assert picture is not None
    root = ElementTree.fromstring(picture.svg(standalone=True))
    wide, high = (float(part) for part in root.attrib["viewBox"].split()[2:])
    texts = list(root.iter("{http://www.w3.org/2000/svg}text"))
    assert wide <= width
    assert all(
        0 <= float(text.attrib["x"]) <= wide and 0 <= float(text.attrib["y"]) <= high for text in texts
    )
    assert {"4x1", "2x2"} <= {text.text for text in texts}


def test_the_page_of_a_study_in_turns_has_the_picture_and_how_to_read_it(in_turns: Overview) -> None:
    page = render_page(in_turns)
    seen = compare_turns(in_turns)
    assert seen is not None
    assert '<section id="slices"' in page
    assert summary_of(seen) == wording("report.turns-relative-to-best", best="4x1")
    assert summary_of(seen) in page


def test_a_study_without_turns_has_no_such_picture() -> None:
    one = recorded_overview(RECORDED[0])
    assert compare_turns(one) is None
    assert slices_picture(one) is None
    assert '<section id="slices"' not in render_page(one)


def rectangles(drawn: str, class_: str) -> list[tuple[float, float, float, float]]:
    """Left, right, top and bottom of the rectangles of a class, without that of the legend."""
    found = [one.attrib for one in ElementTree.fromstring(drawn).iter() if one.attrib.get("class") == class_]
    numbers = [[float(one[key]) for key in ("x", "width", "y", "height")] for one in found if "width" in one]
    return [(x, x + wide, y, y + high) for x, wide, y, high in numbers if x >= 0]


def test_a_window_in_slices_ends_with_its_launch_less_its_stop(in_turns: Overview) -> None:
    seen, launches = in_time(in_turns), dict(in_turns.launches)
    for window in in_turns.windows:
        launch = launches[window.launch_id]
        counted_until_s = window.started_wall_s + window.length_s
        if launch.heat is None:
            assert seen.ended_s(window) == counted_until_s
        else:
            assert launch.ended_wall_s is not None
            assert launch.ended_wall_s - seen.ended_s(window) == pytest.approx(STOP_S, abs=0.01)
            assert seen.ended_s(window) > counted_until_s + window.length_s / 2


def test_a_window_in_slices_ends_when_the_next_one_of_its_launch_starts() -> None:
    study = heat_study(strategy="all", n_blocks=1, n_resident=2, layouts=(BEST,), windows_per_launch=2)
    store = MemoryStore(study)
    run_study(box_with_places(), store, MemoryProgress(), PlannedStop(), pairs_strategy(study))
    seen = in_time(overview(store))

    for number, _ in store.launches():
        first, second = (one for one in seen.course.windows if one.launch_id == number)
        assert seen.ended_s(first) == second.started_wall_s > first.started_wall_s + first.length_s + 5


def test_the_picture_of_all_windows_shows_windows_that_took_turns_beside_each_other(
    in_turns: Overview,
) -> None:
    drawn = timeline_svg(in_turns, standalone=True)
    windows, launches = rectangles(drawn, "counts"), rectangles(drawn, "launch")

    assert len(windows) == len(in_turns.windows)
    for left, right, top, bottom in windows:
        assert min(abs(end - right) for _, end, *_ in launches) < 4
        assert all(
            right <= other_left
            or other_right <= left
            or bottom <= other_top + 0.2
            or other_bottom <= top + 0.2
            for other_left, other_right, other_top, other_bottom in windows
            if (other_left, other_top) != (left, top)
        )


def test_names_of_launches_that_took_turns_do_not_overlap(in_turns: Overview) -> None:
    lane = rectangles(drawn := timeline_svg(in_turns, standalone=True), "launch")[0][2]
    texts = [one for one in ElementTree.fromstring(drawn).iter() if one.tag.endswith("text")]
    named = sorted(float(one.attrib["x"]) for one in texts if 0 < lane - float(one.attrib["y"]) < 8)

    assert named
    assert all(after - before > 20 for before, after in pairwise(named))
