from __future__ import annotations

import io
import re

from tuner.adapters.terminal import LineProgress, render_window
from tuner.core.layout import Layout
from tuner.core.window import Reading, Sample, Usage, VoidReason, Window

from ..wording import end_of, wording

LAYOUT = Layout(4, 6)


def sample(at_s: float, n_done: int, load1: float, n_active: int | None) -> Sample:
    return Sample(at_s, n_done, 0, load1, 1.0, 1.0, n_active)


def usage(at_s: float) -> Usage:
    return Usage(at_s, at_s, 0, 0, 0, 0, 0, 0, None, 4, 24, None, None, None)


def window(*, n_done: int = 2612, n_failed: int = 0, void: tuple[VoidReason, ...] = ()) -> Window:
    samples = (sample(0, 0, 18.0, 20), sample(600, n_done, 19.0, 22))
    return Window(
        LAYOUT, 0, 1, 0.0, 600.008, n_done, n_failed, samples, (usage(0), usage(600)),
        (Reading(0, 0, 0), Reading(600, n_done, n_failed)), void,
    )  # fmt: skip


def test_a_window_is_one_line_with_its_throughput_load_and_what_is_left() -> None:
    line = render_window(window(), 1, 7, 66, None)

    assert line == wording("grid.window-of-a-block")
    assert re.search(
        r"windows of 10m, 3 h 10 min left, until \d\d:\d\d\)$", render_window(window(), 1, 7, 66, 11400.0)
    )
    race = render_window(window(), 1, 7, 66, 11400.0, is_race=True)
    assert re.search(r"\(7 of at most 66 windows of 10m, at most 3 h 10 min left, until \d\d:\d\d\)$", race)


def test_failed_items_are_not_hidden() -> None:
    assert "3 failed" in render_window(window(n_failed=3), 0, 1, 1, None)


def test_a_void_window_says_why_and_no_throughput() -> None:
    void = (VoidReason("source-dry", "the source ran out"), VoidReason("disturbed", "others used 2 cores"))

    line = render_window(window(void=void), 0, 1, 1, None)

    assert line == wording("rank.void-window")


def test_without_a_terminal_a_window_is_a_line_and_a_warning_carries_its_slug() -> None:
    output = io.StringIO()
    progress = LineProgress(output)

    progress.launch_started(LAYOUT, 2, 0, 100.0)
    progress.warming_up(LAYOUT, 1.0, 3.0)
    progress.sampled(LAYOUT, 1.0, 600.0, sample(1, 3, 1.0, 1), 3.0)
    progress.window_taken(window(), 1, 3, 60.0)
    progress.warning("left-out", "4x6 failed")

    first, second = output.getvalue().splitlines()
    assert re.match(r"\d\d:\d\d:\d\d 4x6 block 3: 2 612 items/10 min", first)
    assert wording("grid.failed-and-left-out") in end_of(second)


def test_nobody_reading_any_more_stops_no_study() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    progress = LineProgress(Gone())
    progress.launch_started(LAYOUT, 0, 0, 3600.0)
    progress.sampled(LAYOUT, 300.0, 600.0, sample(1, 3, 17.5, 21), 4.35)
    progress.window_taken(window(), 1, 3, 60.0)
    progress.warning("left-out", "4x6 failed")
