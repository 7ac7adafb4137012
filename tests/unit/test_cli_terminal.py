from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping

from tuner.adapters.terminal.progress import LineProgress, render_window
from tuner.core.domain.layout import Layout
from tuner.core.domain.live import Leading
from tuner.core.domain.strategy import Answer
from tuner.core.domain.window import Reading, Sample, Usage, VoidReason, Window
from tuner.core.stats.interval import Estimate

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

    first, second = output.getvalue().splitlines()[-2:]
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


class Lines:
    """A LineProgress with a clock of its own."""

    def __init__(self, leading: Leading | None = None) -> None:
        self.output, self.now_s = io.StringIO(), 0.0
        self.progress = LineProgress(self.output, leading=leading, now_s=lambda: self.now_s)

    @property
    def reported(self) -> list[str]:
        return [line[9:] for line in self.output.getvalue().splitlines()]


def test_each_phase_of_a_launch_is_a_line() -> None:
    lines = Lines()

    lines.progress.launch_started(LAYOUT, 2, 0, 100.0)
    lines.now_s = 2.0
    lines.progress.warming_up(LAYOUT, 1.0, 3.0)
    lines.progress.warming_up(LAYOUT, 2.0, 3.0)
    lines.progress.sampled(LAYOUT, 1.0, 600.0, sample(1, 3, 1.0, 1), 3.0)
    lines.progress.sampled(LAYOUT, 2.0, 600.0, sample(1, 3, 1.0, 1), 3.0)

    starting, warming, window_ = lines.reported
    assert starting.startswith(wording("grid.line-starting"))
    assert warming == wording("grid.line-warming-up")
    assert window_ == wording("grid.line-window")


def test_no_more_than_half_a_minute_is_silent_whatever_continues() -> None:
    lines = Lines()

    def goes_on(phase: Callable[[float], None]) -> list[str]:
        began_s, before = lines.now_s, len(lines.reported)
        while lines.now_s < began_s + 90.0:
            lines.now_s += 1.0
            phase(lines.now_s - began_s)
            lines.progress.beat()
        return lines.reported[before:]

    lines.progress.launch_started(LAYOUT, 2, 0, None)
    starting = goes_on(lambda _: None)
    warming = goes_on(lambda at_s: lines.progress.warming_up(LAYOUT, at_s, 3.0))
    in_window = goes_on(lambda at_s: lines.progress.sampled(LAYOUT, at_s, 600.0, sample(1, 3, 1.0, 1), 3.0))
    lines.progress.window_taken(window(), 1, 3, None)
    stopping = goes_on(lambda _: None)

    assert starting == [wording("grid.line-still-starting", lasts=f"{n} s") for n in (27, 54, 81)]
    assert [len(part) for part in (warming, in_window, stopping)] == [4, 4, 3]


def test_who_leads_is_a_line_after_the_first_block_and_when_it_changes() -> None:
    class Said:
        best = LAYOUT

        def answer(self) -> Answer:
            return Answer(self.best, False, "strict", ties=(Layout(1, 24),))

        def estimates(self) -> Mapping[Layout, Estimate]:
            return {LAYOUT: Estimate(10.0), Layout(1, 24): Estimate(9.0), Layout(24, 1): Estimate(5.0)}

    said = Said()
    lines = Lines(Leading(said, 5))
    for block in (0, 0, 1, 2):
        lines.progress.launch_started(LAYOUT, block, 0, None)
    said.best = Layout(1, 24)
    lines.progress.launch_started(LAYOUT, 3, 0, None)

    first, second = (line for line in lines.reported if line.startswith("Standing"))
    assert first == wording("grid.standing")
    assert second.startswith(wording("grid.standing-another-leads"))
