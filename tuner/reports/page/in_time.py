"""Section of the HTML page with all windows in time order and the reasons of invalid ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from math import ceil

from tuner.core.domain.records import WARMING_BLOCK, WindowRecord
from tuner.core.ranking.overview import Overview
from tuner.core.text.figures import pluralize
from tuner.reports.charts.in_time import Series, in_time
from tuner.reports.charts.slices import (
    TurnsSeen,
    compare_turns,
    left_out_of,
    slices_picture,
    summary_of,
    title_of,
)
from tuner.reports.charts.timeline import describe_no_valid_window, timeline_picture
from tuner.reports.model.model import format_signed, items, load
from tuner.reports.page.blocks import Block, Limits, Section, Shown, Text, draw_pictures, thin_table
from tuner.reports.text.formats import Table

_FIXED_WORK = (
    "fixed work: CPU time of the same computation in each window. It increases when the host becomes slower."
)
_MOST_TOLD = 40  #: largest number of invalid windows and failed launches with a row each


def time_section(overview: Overview, limits: Limits) -> Section:
    """Return the chart, the invalid windows, and a table of all windows."""
    blocks: list[Block] = []
    seen = in_time(overview)
    blocks += draw_pictures(
        lambda width, name: timeline_picture(
            overview,
            width=width,
            name=name,
            most=limits.marks if width > 500 else limits.narrow_marks,
            seen=seen,
        ),
        "timeline",
    )
    if not blocks:
        return Section("windows", "Every window in time order", [Text(["Nothing has been launched yet."])])
    if all(window.void or window.block == WARMING_BLOCK for window in overview.windows):
        text = "The picture shows launches and invalid windows, and no throughput."
        blocks.append(Text([f"{describe_no_valid_window(overview)} {text}"]))
    blocks.append(Text([_void_sentence(overview, seen.void)]))
    if rows := _troubles(overview, seen.void):
        left = len(rows) - _MOST_TOLD
        rest = f"{left} more are left out here." if left > 0 else ""
        table = Table(
            ("time (UTC)", "layout", "block", "event", "reason"), tuple(rows[:_MOST_TOLD]), frozenset({2})
        )
        blocks.append(Shown("void", "Invalid windows and launches with an error", table, left_out=rest))
    if settling := (*overview.ranking.settling, *overview.ranking.settling_facts):
        blocks.append(Text(settling, "note"))
    if overview.windows:
        if any(window.fixed_work_cpu_s for window in overview.windows):
            blocks.append(Text([_FIXED_WORK]))
        blocks.append(_windows(seen.course, limits.windows))
    return Section("windows", "Every window in time order", blocks)


def _void_sentence(overview: Overview, windows: Sequence[WindowRecord]) -> str:
    counts = Counter(reason.slug for window in windows for reason in window.void)
    n_failed = sum(launch.error is not None for _, launch in overview.launches)
    taken = f"{pluralize(len(overview.windows), 'window')} of {pluralize(len(overview.launches), 'launch')}"
    why = ", ".join(f"{slug} {n}" for slug, n in sorted(counts.items(), key=lambda one: (-one[1], one[0])))
    void = f"{len(windows)} invalid ({why})" if windows else "none invalid"
    failed = f"; {pluralize(n_failed, 'launch')} ended with an error"
    return (
        f"{taken}: {void}{failed if n_failed else ''}. Invalid windows are not used, and are measured again."
    )


def _troubles(overview: Overview, windows: Sequence[WindowRecord]) -> list[tuple[str, ...]]:
    """Return a row for each invalid window, and for each launch whose error is not its window's."""
    errors = {number: launch.error for number, launch in overview.launches if launch.error is not None}
    found = []
    for window in windows:
        why = "; ".join(f"{reason.slug}: {reason.detail}" for reason in window.void)
        ended = (errors.get(window.launch_id) or "").endswith(why)
        if ended:
            del errors[window.launch_id]
        what = "invalid window, launch error" if ended else "invalid window"
        found.append((window.started_wall_s, str(window.layout), window.block, what, why))
    found += [
        (launch.started_wall_s, str(launch.layout), launch.block, "launch error", errors[number])
        for number, launch in overview.launches
        if number in errors
    ]
    return [
        (_moment(wall_s), layout, _block(block), what, why)
        for wall_s, layout, block, what, why in sorted(found)
    ]


def _windows(course: Series, most: int) -> Shown:
    windows = course.windows
    every = max(1, ceil(len(windows) / most))
    has_speed = any(window.fixed_work_cpu_s for window in windows)
    rows = [
        (
            _moment(window.started_wall_s),
            str(window.layout),
            _block(window.block),
            f"{window.length_s:.0f} s",
            items(600 * (window.n_done / window.length_s)),
            "-" if off is None else format_signed(off),
            load(window.load1_mean),
            *([_fixed_work(window)] if has_speed else []),
            ", ".join(reason.slug for reason in window.void),
        )
        for window, off in zip(windows[::every], course.off[::every], strict=True)
    ]
    headers = (
        "time (UTC)", "layout", "block", "length", "items/10 min", "against its mean", "load1",
        *(["fixed work"] if has_speed else []), "invalid because",
    )  # fmt: skip
    table = Table(headers, tuple(rows), frozenset(range(2, len(headers) - 1)))
    rest = (
        f"One window in {every} is shown, {len(rows)} of {len(windows)}: the study file has all of them."
        if every > 1
        else ""
    )
    return Shown("windows-table", "The windows as a table", table, is_folded=True, left_out=rest)


def _fixed_work(window: WindowRecord) -> str:
    """Return the CPU time of the fixed computation, which increases when the host becomes slower."""
    cpu_s = window.fixed_work_cpu_s
    return "-" if cpu_s is None else f"{1000 * cpu_s / window.length_s:.2f} ms"


def _block(block: int) -> str:
    return "-" if block == WARMING_BLOCK else str(block + 1)


def _moment(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


# Section of the HTML page on layouts that took turns.


def slices_sections(overview: Overview, limits: Limits) -> list[Section]:
    """Return the chart, its explanation and its figures; empty if no layouts took turns."""
    seen = compare_turns(overview)
    if seen is None:
        return []
    blocks: list[Block] = [
        *draw_pictures(
            lambda width, name: slices_picture(overview, width=width, name=name, seen=seen), "slices"
        ),
        Text([" ".join(filter(None, [summary_of(seen), left_out_of(seen)]))]),
    ]
    table, rest = thin_table(_table(seen), limits.rows)
    blocks.append(Shown("slices-table", "The same as a table", table, is_folded=True, left_out=rest))
    return [Section("slices", title_of(seen), blocks)]


def _table(seen: TurnsSeen) -> Table:
    rows = [
        (
            datetime.fromtimestamp(one.at_s, UTC).strftime("%Y-%m-%d %H:%M:%S"),
            str(one.block + 1),
            str(one.layout),
            f"{100 * one.ratio:.1f} %",
        )
        for one in seen.turns
        if one.layout != seen.best
    ]
    headers = ("time (UTC)", "block", "layout", f"percent of {seen.best}")
    return Table(headers, tuple(rows), frozenset({1, 3}))
