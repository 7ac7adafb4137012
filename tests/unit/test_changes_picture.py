from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.planning.compared import StudyComparison
from tuner.core.ranking.study_difference import Changes, LayoutChange
from tuner.core.stats.interval import Estimate
from tuner.reports.charts.changes import changes_picture
from tuner.reports.charts.picture import NARROW, WIDE

from ..wording import wording
from .test_compared import BEFORE, changed

SVG = "{http://www.w3.org/2000/svg}"


def drawn(found: StudyComparison, width: int = WIDE) -> ElementTree.Element:
    picture = changes_picture(found, width=width)
    assert picture is not None
    return ElementTree.fromstring(picture.svg(standalone=True))


def of_ratios(*ratios: Estimate, shared: Estimate | None = None) -> StudyComparison:
    rows = tuple(
        LayoutChange(Layout(n + 1, 1), ratio, None, (3, 3), (9.0 - n, 9.0 - n))
        for n, ratio in enumerate(ratios)
    )
    found = changed({})
    throughput = Changes(rows, shared, len(rows), (3, 3), 0.95)
    first = found.after.ranking.rows[0]
    ranked = replace(found.after.ranking, rows=tuple(replace(first, layout=one.layout) for one in rows))
    after = replace(found.after, ranking=ranked)
    return replace(found, after=after, figures={**found.figures, "throughput": throughput})


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_it_has_a_row_for_each_layout_and_one_for_all_within_its_frame(width: int) -> None:
    picture = drawn(changed(dict.fromkeys(BEFORE, 0.5)), width)
    wide, high = (float(part) for part in picture.attrib["viewBox"].split()[2:])
    texts = list(picture.iter(f"{SVG}text"))

    assert {*BEFORE, "all together", "surely changed"} <= {one.text for one in texts}
    for one in texts:
        assert 0 <= float(one.attrib["x"]) <= wide <= width
        assert 0 <= float(one.attrib["y"]) <= high


def test_what_surely_changed_what_may_be_luck_and_what_is_not_known_are_of_unlike_shape() -> None:
    found = of_ratios(Estimate(1.2, 1.1, 1.3), Estimate(0.98, 0.9, 1.1), Estimate(1.1))
    picture = drawn(found)
    result = [one.text for one in picture.iter(f"{SVG}title")][1:]

    assert result == [
        wording("compare.picture-surely-more"),
        wording("compare.picture-less"),
        wording("compare.picture-noise-unknown"),
    ]
    legend = {one.text for one in picture.iter(f"{SVG}text")}
    assert {"surely changed", "not significant", wording("report.nothing-tells-noise")} <= legend
    assert "all together" not in legend
    assert len(picture.findall(f".//{SVG}circle[@class='open']")) == 2  # the mark, and its sign in the legend


def test_an_interval_that_reaches_far_out_does_not_squeeze_all_others() -> None:
    found = of_ratios(Estimate(1.1, 1.05, 1.15), Estimate(1.02, 0.1, 300.0))
    ticks = [one.text for one in drawn(found).iter(f"{SVG}text") if one.attrib.get("class") == "s m c"]

    assert "30000" not in ticks
    assert {"-20", "0", "20"} <= set(ticks)


def test_more_layouts_than_can_be_shown_are_named_by_their_number() -> None:
    found = of_ratios(*[Estimate(1.0, 0.9, 1.1)] * 70)

    assert wording("report.more-layouts-table") in [one.text for one in drawn(found).iter(f"{SVG}text")]


def test_nothing_is_drawn_of_nothing() -> None:
    assert changes_picture(of_ratios()) is None
