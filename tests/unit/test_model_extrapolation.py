"""What of a prediction lies beyond what was measured, and how far."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.domain.layout import Layout, parse_layout, parse_layouts
from tuner.core.model.machine import Machine
from tuner.core.model.prediction.extrapolation import (
    CalibratedRange,
    core_doublings,
    doublings_outside,
    reasons,
)

from ..wording import wording

SQUARE = parse_layouts("1x1,4x1,1x4,4x4")
LAYOUTS = st.builds(Layout, st.integers(1, 64), st.integers(1, 64))


def told(seen: CalibratedRange, layout: Layout) -> list[str]:
    """Of a layout that keeps less than a core busy."""
    return reasons(seen, seen.machine, layout, cpu_cores=0.9, n_runnable=0.9)


def outside(measured: str, layout: str) -> float:
    return doublings_outside(parse_layouts(measured), parse_layout(layout))


@pytest.mark.parametrize("layout", ["1x1", "4x4", "2x2", "3x3", "1x3", "4x2"])
def test_what_lies_between_measured_layouts_is_inside(layout: str) -> None:
    assert doublings_outside(SQUARE, parse_layout(layout)) == 0


@pytest.mark.parametrize(
    ("measured", "layout", "doublings"),
    [
        ("1x1", "8x1", 3.0),
        ("1x1", "8x16", 5.0),  # 3 and 4 at right angles
        ("1x1,4x1", "2x1", 0.0),  # on the line between two
        ("1x1,4x1", "2x2", 1.0),
        ("1x1,2x1,8x1", "16x1", 1.0),  # three in a line
        ("1x1,4x1,1x4", "4x4", 2**0.5),
        ("1x1,4x1,1x4,4x4", "16x4", 2.0),
        ("1x1,4x1,1x4,4x4", "8x8", 2**0.5),
    ],
)
def test_the_distance_is_counted_in_doublings(measured: str, layout: str, doublings: float) -> None:
    assert outside(measured, layout) == pytest.approx(doublings)


@given(measured=st.lists(LAYOUTS, min_size=1, max_size=8), layout=LAYOUTS)
def test_no_layout_is_further_away_than_from_the_nearest_measured_one(
    measured: list[Layout], layout: Layout
) -> None:
    nearest = min(doublings_outside([one], layout) for one in measured)

    assert 0 <= doublings_outside(measured, layout) <= nearest + 1e-9


@given(measured=st.lists(LAYOUTS, min_size=1, max_size=8))
def test_a_measured_layout_is_inside(measured: list[Layout]) -> None:
    assert max(doublings_outside(measured, one) for one in measured) <= 1e-9


def test_why_a_layout_is_outside_is_reported_in_its_own_numbers() -> None:
    seen = CalibratedRange(Machine(2), tuple(SQUARE))

    assert told(seen, Layout(8, 2)) == [wording("model.more-processes", n=4)]
    assert told(seen, Layout(1, 8)) == [wording("model.more-threads", n=4)]
    assert told(seen, Layout(8, 8)) == [
        wording("model.more-processes", n=4),
        wording("model.more-threads", n=4),
    ]
    assert told(seen, Layout(2, 2)) == []
    assert told(CalibratedRange(Machine(2), (Layout(1, 1),)), Layout(2, 1)) == [
        wording("model.more-than-one-process")
    ]
    corner = CalibratedRange(Machine(2), tuple(parse_layouts("1x1,4x1,1x4")))
    assert told(corner, Layout(4, 4)) == [wording("model.between-measured-layouts")]


def test_more_cores_are_extrapolation_for_those_who_use_them() -> None:
    seen, box = CalibratedRange(Machine(2), tuple(SQUARE)), Machine(24)

    idle = reasons(seen, box, Layout(1, 1), cpu_cores=0.9, n_runnable=0.9)
    busy = reasons(seen, box, Layout(4, 4), cpu_cores=12.0, n_runnable=13.0)

    assert idle == []
    assert busy == [wording("model.more-cores-busy")]
    assert core_doublings(seen, 0.9) == 0
    assert core_doublings(seen, 8.0) == pytest.approx(2.0, abs=0.05)


def test_full_cores_of_the_measured_box_are_no_extrapolation() -> None:
    seen = CalibratedRange(Machine(2), tuple(SQUARE))

    assert reasons(seen, Machine(2), Layout(4, 4), cpu_cores=2.01, n_runnable=15.0) == []


def test_second_threads_of_cores_count_as_seen_once_layouts_filled_them() -> None:
    smt = Machine(4, physical_cores=2)
    alone, full = (
        CalibratedRange(smt, (Layout(1, 1),)),
        CalibratedRange(smt, (Layout(1, 1), Layout(4, 4)), busy_cores=2.6),
    )

    assert wording("model.smt") in reasons(alone, smt, Layout(4, 1), cpu_cores=2.4, n_runnable=3.0)
    assert reasons(full, smt, Layout(4, 4), cpu_cores=2.6, n_runnable=9.0) == []
    few = reasons(alone, smt, Layout(1, 1), cpu_cores=0.8, n_runnable=0.8)
    assert few == []


def test_another_interpreter_is_extrapolation() -> None:
    seen = CalibratedRange(Machine(2), tuple(SQUARE))
    free = Machine(2, has_gil=False)

    assert reasons(seen, free, Layout(1, 1), cpu_cores=0.9, n_runnable=0.9) == ["no GIL"]


def test_cores_that_were_busy_are_known_and_so_are_the_two_the_model_was_checked_on() -> None:
    box = Machine(24)
    alone, wide = (
        CalibratedRange(box, (Layout(1, 1),), busy_cores=0.9),
        CalibratedRange(box, tuple(SQUARE), busy_cores=12.0),
    )

    assert core_doublings(alone, 2.0) == core_doublings(wide, 12.0) == 0.0
    assert core_doublings(alone, 16.0) == pytest.approx(3.0, abs=0.05)
    assert core_doublings(wide, 24.0) == pytest.approx(1.0, abs=0.05)
    assert wording("model.more-cores-busy") in reasons(
        alone, box, Layout(4, 1), cpu_cores=3.5, n_runnable=4.0
    )
