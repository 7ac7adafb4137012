"""Warnings about a study: its budget, its answer, and layouts that take turns."""

from __future__ import annotations

from typing import Literal

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Agreement, LostInSlices
from tuner.core.messages import warning
from tuner.core.text.figures import format_block, list_names, percent, pluralize, render_duration, render_size


@warning(
    "box-not-quiet",
    "",
    "When other programs no longer disturb the host, continue the study with `tuner grid --resume "
    "FILE`. If the other programs must run, begin a new study with `--slices auto`, so that they disturb "
    "all layouts equally. If the service allows no slices, use `--foreign-limit 64`, so that other "
    "processes make no window invalid.",
)
def box_not_quiet(n_launches: int) -> str:
    return (
        f"stopping: {n_launches} launches in a row without a valid window. `tuner doctor` shows which"
        " processes disturb this host. If they must run, begin a new study with --slices auto, or with a"
        " higher --foreign-limit (less precise)"
    )


_braked = warning(
    "braked",
    "When a safety limit stops a study, the exit code is 6, or 3 if the study has no valid measurement.",
    "Find the programs that load the host, then continue the study with `tuner grid --resume FILE` "
    "(see [Safety limits](brake.md)).",
)


@_braked
def braked(layout: Layout, passed: str, still_over: str | None) -> str:
    """Return the text; *still_over*: limit that the host exceeds without a layout; None: it recovered."""
    still = f"; although no layout runs, {still_over}" if still_over else ""
    return f"a safety limit stopped {layout} {passed}{still}; the study stops"


@_braked
def braked_before_start(over: str) -> str:
    return f"although no layout runs, {over}; no layout is started"


_budget_over = warning(
    "budget-over",
    "",
    "Continue the study later with `tuner grid --resume FILE`.",
)


@_budget_over
def budget_over(n_blocks: int, partial_block: int | None) -> str:
    """Return the text; *partial_block* has begun and is not complete, counted from 0."""
    partial = "" if partial_block is None else f"; {format_block(partial_block)} is incomplete"
    return f"the budget ends after {pluralize(n_blocks, 'block')}{partial}"


@_budget_over
def budget_over_in_fleet(n_windows: int) -> str:
    return f"the budget ends after {pluralize(n_windows, 'window')}"


_budget_short = warning(
    "budget-short",
    "The rest of the time limit (`--budget`) may be too short for the next measurements.",
    "Use a longer `--budget`, fewer layouts or a shorter `--warmup-cap` (see [How long a study "
    "takes](time.md)).",
)


@_budget_short
def warmups_cut(block: int, needs: str, left: str) -> str:
    return (
        f"{format_block(block)} may take {needs}, but the budget leaves {left}: its warm-ups are cut short "
        "where necessary"
    )


@_budget_short
def no_time_for_window(layout: Layout) -> str:
    return f"{layout} was stopped: the budget has no time left for its window"


_cell_void = warning(
    "cell-void",
    "",
    "With `--strategy race`, tuner measures the printed layout again if it may still be the best. "
    "With `--strategy all`, a missing measurement makes the study end with exit code 5.",
)


@_cell_void
def block_without_window(layout: Layout, block: int) -> str:
    return f"{layout} has no valid window in {format_block(block)}"


@_cell_void
def block_without_window_on(layout: Layout, block: int, host: str) -> str:
    return f"{layout} has no valid window in {format_block(block)} on {host}"


@warning(
    "chosen-otherwise",
    "The installed version of tuner chooses the next layouts and determines the confidence of the result.",
    "No action is needed.",
)
def chosen_otherwise(n_blocks: int, first: int) -> str:
    return (
        f"another version of tuner chose the layouts of {n_blocks} blocks of the file (first:"
        f" {format_block(first)}), and this version would choose others; all windows count, and the study"
        " continues"
    )


@warning(
    "fails-alike",
    "If launches fail in the same way even in the smallest layout, the study stops with exit code 3.",
    "Fix the problem that the `launch-failed` warnings report, then type `tuner grid --resume FILE`.",
)
def fails_alike(n_launches: int, smallest: Layout) -> str:
    return (
        f"{pluralize(n_launches, 'launch')} failed in the same way, even {smallest}, and no window is"
        " valid yet; no other layout is tried"
    )


@warning(
    "grid-grows",
    "",
    "To keep tuner from adding larger layouts, use `--layouts` or `--max-connections` "
    "(see [Growth](method/growth.md)).",
)
def grid_grows(began: str, reached: str, n_before: int, n_now: int) -> str:
    return (
        f"throughput rose with twice the threads or processes of {began}, up to {reached}: the grid grows"
        f" from {n_before} to {n_now} layouts"
    )


@warning(
    "left-out",
    "",
    "Earlier warnings contain the reason why the layout gave no valid window.",
)
def left_out(layout: Layout) -> str:
    return f"{layout} gave no valid window at any attempt; it is left out"


@warning(
    "never-started",
    "If even the smallest layout does not run, the study stops with exit code 3.",
    "Fix the problem that the earlier warnings report, then type `tuner grid --resume FILE`.",
)
def never_started(service: str, smallest: Layout, *, failed_in: Literal["start", "warm-up"]) -> str:
    does_not = "start" if failed_in == "start" else "finish its warm-up"
    return f"{service} does not {does_not}, not even as {smallest}; no other layout is tried"


_source_away = warning(
    "source-away",
    "When the broker answers again, tuner repeats the launch.",
    "Start the broker. If the study has stopped, continue the study with `tuner grid --resume FILE`.",
)


@_source_away
def source_away(why: str, longest_wait_s: float) -> str:
    return f"{why}; waiting for the broker for at most {render_duration(longest_wait_s)}"


@_source_away
def source_is_back(layout: Layout) -> str:
    return f"the source that {layout} lost is back: the study continues"


_SOURCE_GIVEN_UP = "the study stops. When the source is back, continue with --resume"


@_source_away
def source_lost_often(n_launches: int) -> str:
    return f"{n_launches} launches in a row lost their source; {_SOURCE_GIVEN_UP}"


@_source_away
def source_stays_away(waited_s: int, why: str) -> str:
    return f"after {render_duration(waited_s)}: {why}; {_SOURCE_GIVEN_UP}"


@warning(
    "heat-smaller",
    "With `--slices auto`, tuner starts several layouts at once. A layout that does not fit into "
    "memory runs later.",
    "Free some memory, or use `--slices off` to run the layouts one after the other.",
)
def no_memory_for_heat(n: int, free_bytes: float, largest_bytes: float) -> str:
    return (
        f"only {pluralize(n, 'layout')} fit into memory at the same time: {render_size(free_bytes)} of "
        f"memory is free, and a layout takes up to {render_size(largest_bytes)}"
    )


#: advice for a comparison of launches that lose throughput in slices
WITHOUT_SLICES = (
    "The figures in slices are wrong. Use --slices off, or let the service report each item at once."
)


def slower_in_slices(lost: LostInSlices) -> str:
    """Return the problem of launches that lose throughput in slices."""
    launches = f"launches of {list_names(lost.layouts)}" if lost.layouts else "the launches"
    return (
        f"in slices, {launches} have {percent(lost.ratio)} less throughput than before, when each ran alone:"
        " the probe reports items late, or the layouts disturb each other"
    )


@warning(
    "slices-lose-throughput",
    "Throughput in slices is clearly (10 %) lower than in the warm-ups of the same launches.",
    "Let the service report each item at once, or use `--slices off`.",
)
def slices_lose_throughput(lost: LostInSlices) -> str:
    return f"{slower_in_slices(lost)}; {_ALONE_FROM_NOW}"


#: consequence if slices give wrong results
_ALONE_FROM_NOW = "windows in slices count no longer, and layouts run one after the other from now on"


def slices_were_wrong(file: str) -> str:
    """Return why layouts run one after the other although they took turns in *file*."""
    return f"Layouts that took turns in {file} gave wrong figures."


@warning(
    "slices-disagree",
    "The printed ratios of throughputs, in slices and without slices, differ significantly (99 % "
    "confidence).",
    "In later studies, use `--slices off`.",
)
def slices_disagree(seen: Agreement) -> str:
    return (
        f"layouts that stay started disturb each other here: {seen.layout} / {seen.other} is"
        f" {seen.in_slices:.2f} in slices and {seen.alone:.2f} alone; {_ALONE_FROM_NOW}"
    )


@warning(
    "slices-too-long",
    "Because of the long items, tuner runs the layouts one after the other.",
    "Use `--slices off`.",
)
def slices_too_long(layout: str, residence_s: float) -> str:
    return (
        f"an item of {layout} takes {residence_s:.2g} s, too long to switch between layouts every few seconds"
    )
