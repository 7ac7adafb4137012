from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.domain.window import VoidReason
from tuner.core.ranking.overview import Overview
from tuner.core.text.safe_text import visible
from tuner.reports.charts import frame, heat_map_svg, ranking_svg, shares_svg, timeline_svg, trade_svg
from tuner.reports.charts.frame import amount_colour, ink_on, labels, luminance, scale_for, tick_texts
from tuner.reports.charts.in_time import stretches_of, time_axis
from tuner.reports.charts.picture import NARROW, WIDE, in_markup

from ..overviews import RECORDED, hostile, recorded_overview
from ..wording import wording

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module", params=RECORDED)
def overview(request: pytest.FixtureRequest) -> Overview:
    return recorded_overview(request.param)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_picture_stands_by_itself_and_keeps_within_its_frame(overview: Overview, width: int) -> None:
    for one in (overview, hostile(overview)):
        for text in (
            ranking_svg(one, width=width, standalone=True),
            heat_map_svg(one, width=width, standalone=True),
            trade_svg(one, "load", width=width, standalone=True),
            trade_svg(one, "memory", width=width, standalone=True),
            timeline_svg(one, width=width, standalone=True),
            shares_svg(one, width=width, standalone=True),
        ):
            root = ElementTree.fromstring(text)
            wide, high = (float(part) for part in root.attrib["viewBox"].split()[2:])

            assert wide <= width
            assert root.find(f"{SVG}title").text  # type: ignore[union-attr]
            assert root.find(f"{SVG}desc").text  # type: ignore[union-attr]
            assert not [key for element in root.iter() for key in element.attrib if "href" in key]
            assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
                *("svg", "title", "desc", "style", "rect", "g", "text", "line", "circle", "path", "defs"),
                "pattern",
            }
            for element in root.iter(f"{SVG}text"):
                assert 0 <= float(element.attrib["x"]) <= wide
                assert 0 <= float(element.attrib["y"]) <= high


def test_a_picture_of_the_ranking_names_every_layout(overview: Overview) -> None:
    text = ranking_svg(overview)

    assert [row.layout for row in overview.ranking.rows if f">{row.layout}<" not in text] == []


@given(
    st.lists(st.floats(-1e9, 1e9).map(lambda one: round(one, 3)), min_size=1, max_size=20), st.integers(2, 12)
)
def test_an_axis_holds_its_values_and_has_round_ticks_that_differ(values: list[float], most: int) -> None:
    scale = scale_for(values, 0, 100)
    texts = tick_texts(scale.ticks(most))

    near = 1e-6 * (scale.high - scale.low)
    assert scale.low <= min(values) + near
    assert scale.high >= max(values) - near
    assert len(texts) == len(set(texts)) <= most + 2
    assert all(0 <= scale(value) <= 100 for value in values)


def test_ticks_are_written_as_people_write_them() -> None:
    assert tick_texts([0.0, 0.5, 1.0]) == ["0.0", "0.5", "1.0"]
    assert tick_texts([0.0, 20_000.0, 40_000.0]) == ["0", "20k", "40k"]
    assert tick_texts([-2.0, 0.0, 2.0]) == ["-2", "0", "2"]


def test_a_long_pause_is_cut_out_of_the_time_axis() -> None:
    axis = time_axis(stretches_of([(0, 600), (600, 1200), (90_000, 90_600)]), 0, 314)

    assert [(from_s, to_s) for from_s, to_s, _, _ in axis.stretches] == [(0, 1200), (90_000, 90_600)]
    assert (axis(0), axis(1200), axis(45_000), axis(90_600)) == (0, 200, 214, 314)


def test_every_word_on_a_colour_can_be_read() -> None:
    constants = [getattr(frame, name) for name in dir(frame) if name.isupper() and not name.startswith("_")]
    kinds = [value for value in constants if isinstance(value, str) and value.startswith("#")]
    assert kinds
    for colour in [*(amount_colour(n / 50) for n in range(51)), *kinds]:
        other = 0.0 if ink_on(colour) == "#000" else 1.0
        light, dark = max(luminance(colour), other), min(luminance(colour), other)

        assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_amounts_grow_in_lightness_so_that_a_copy_in_grey_says_the_same() -> None:
    lights = [luminance(amount_colour(n / 20)) for n in range(21)]

    assert all(left < right for left, right in pairwise(lights))


def test_text_that_hides_is_made_visible_and_long_text_is_cut() -> None:
    assert visible("a\u202eb\x1b[0m\ud800\ufeff") == "a\\u202eb [0m\ufffd\\ufeff"
    assert visible("x" * 100, 10) == "x" * 9 + "…"
    assert in_markup('<a href="x">') == "&lt;a href=&quot;x&quot;&gt;"


@given(st.text())
def test_no_text_can_leave_its_element(text: str) -> None:
    root = ElementTree.fromstring(f"<text a='{in_markup(text)}'>{in_markup(text)}</text>")

    assert list(root) == []
    in_markup(text).encode("utf-8")


def test_a_name_stands_on_no_line_or_is_left_out() -> None:
    point = (100.0, 100.0, "4x6", False)
    across, up = (0.0, 100.0, 300.0, 0.0), (100.0, 0.0, 0.0, 200.0)
    everywhere = [(0.0, float(y), 300.0, 0.0) for y in range(60, 140, 4)]

    def places(lines: list[tuple[float, float, float, float]]) -> list[tuple[float, float]]:
        found = labels([point], 300, lines=lines)
        return [(float(x), float(y)) for x, y in re.findall(r'x="([0-9.]+)" y="([0-9.]+)"', found)]

    ((x, base),) = places([across, up])
    assert base < 99  # not beside the mark, where the line goes on
    assert x > 101
    assert places([]) == [(110.0, 104.0)]
    assert places(everywhere) == []


@pytest.mark.parametrize("n", [1, 3])
def test_a_study_whose_windows_are_all_void_says_so_in_its_picture(overview: Overview, n: int) -> None:
    reason = (VoidReason("worker-died", "process 0"),)
    windows = [replace(one, void=reason) for one in overview.windows if one.block >= 0][:n]
    nothing = replace(overview, windows=windows)

    drawn = timeline_svg(nothing)

    result = wording("report.only-window-void") if n == 1 else wording("report.all-windows-void", n=3)
    assert drawn.count(result) == 2
    assert ">counts<" not in drawn
    assert ">a window<" not in drawn
    assert "No valid window" not in timeline_svg(overview)
