"""Warnings about a launch: its workers, items and warm-up."""

from __future__ import annotations

from tuner.core.domain.layout import Layout
from tuner.core.messages import warning
from tuner.core.text.figures import percent, pluralize, render_duration, render_size

_COUNT_ALL_THE_SAME = "its windows count all the same"


_few_items = warning(
    "few-items",
    "A window should contain at least 20 items, and last at least three times as long as the longest item.",
    "Set `--window` to the printed length, or feed shorter items.",
)


@_few_items
def few_items(layout: Layout, n_items: int, window_s: float, enough_s: float) -> str:
    return (
        f"{layout}: {pluralize(n_items, 'item')} ended in a window of {render_duration(round(window_s, 1))},"
        f" and one item more or less changes its throughput by {percent(1 / n_items)}: {_would_do(enough_s)}"
    )


@_few_items
def short_window(
    layout: Layout, window_s: float, n_times: int, item_s: float, enough_s: float, *, is_longest: bool
) -> str:
    """Return the text; *item_s* is the length of the longest item, or the mean length."""
    item = "the longest item" if is_longest else "the mean item"
    return (
        f"{layout}: a window of {render_duration(round(window_s, 1))} is shorter than {n_times} times {item}"
        f" ({_time(item_s)}): {_would_do(enough_s)}"
    )


@warning(
    "gil-came-back",
    "The results of the study hold for Python with the GIL, not for Python without the GIL.",
    "Use a version of the printed module that supports Python without the GIL. You can also keep the "
    "GIL off with `PYTHON_GIL=0`, but the printed module may then crash.",
)
def gil_came_back(module: str | None, variant: str) -> str:
    why = "a module was" if module is None else f"module {module} was"
    whose = f"the workers of {variant}" if variant else "the workers"
    return f"Python switched the GIL on again in {whose}: {why} imported without free-threading support"


@warning(
    "inner-threads",
    "A numeric library in the workers starts its own threads.",
    "To find the best number of library threads, use `--axis omp=1,auto` (see [Inner "
    "threads](inner-threads.md)).",
)
def inner_threads(layout: Layout, n_threads: int, cores: float, cause: str) -> str:
    return f"{layout} runs {pluralize(n_threads, 'computing thread')} on {pluralize(cores, 'core')}: {cause}"


_launch_failed = warning(
    "launch-failed",
    "",
    "See [A launch that fails](#a-launch-that-fails) for frequent reasons and their remedies.",
)


@_launch_failed
def launch_failed(problem: str, attempt: int, most_attempts: int) -> str:
    return f"{problem} (attempt {attempt} of {most_attempts})"


@_launch_failed
def launch_lost_its_source(problem: str) -> str:
    return f"{problem} (this attempt does not count)"


@warning(
    "log-long",
    "",
    "Let the service write less to its log, because much output slows the service down. A probe that "
    "reads the log may miss lines (`log-cut`).",
)
def log_long(program: int, n_programs: int, layout: Layout, most_bytes: int, kept_bytes: int) -> str:
    """Return the text; *program* counts from 1."""
    return (
        f"process {program} of {n_programs} of {layout} has logged more than {most_bytes >> 20} MiB; tuner"
        f" keeps the last {kept_bytes >> 20} MiB of its log"
    )


_memory_grows = warning(
    "memory-grows",
    "A service whose start takes over two minutes can also cause the warning `memory-grows`.",
    "Find the memory leak, or restart the service regularly.",
)


@_memory_grows
def memory_grows(
    layout: Layout,
    per_h: tuple[float, float, float],
    now_bytes: float,
    later_bytes: float,
    horizon_s: float,
    *,
    is_long: bool,
) -> str:
    """Return the text; *per_h*: bytes per hour and the ends of their interval; *is_long*: long launches."""
    grows, least, most = map(render_size, per_h)
    when = " in the second half of a long launch" if is_long else ""
    measure = "" if is_long else "measure with a longer --window whether it ends; else "
    return (
        f"the memory of {layout} grows by {grows} per hour ({least} to {most}){when},"
        f" from {render_size(now_bytes)} to {render_size(later_bytes)} after {render_duration(horizon_s)}"
        f" if this growth continues: {measure}find the leak, or restart the service regularly"
    )


@_memory_grows
def memory_confirmed(layout: Layout, per_h: float, rival: Layout | None, lasts_s: float) -> str:
    """Return the text; *per_h* are bytes per hour, and each launch *lasts_s*."""
    return (
        f"the memory of {layout} grows by {render_size(per_h)} per hour; to find out whether this growth"
        f" continues, tuner now measures {_for_longer(layout, rival, lasts_s)}"
    )


def _for_longer(layout: Layout, rival: Layout | None, lasts_s: float) -> str:
    lasts = render_duration(lasts_s)
    return f"{layout} for {lasts}" if rival is None else f"{layout} and {rival} for {lasts} each"


_mixed_items = warning(
    "mixed-items",
    "",
    "Measure with the same mix and order of items as in production, and with long windows. You can "
    "also measure short and long items in two separate studies. If another program fills the queue, "
    "first check that the queue is never empty.",
)


@_mixed_items
def mixed_items(
    layout: Layout, median_s: float, long_ratio: float, n_times: float, long_time_ratio: float
) -> str:
    """Return the text; *long_ratio* of items take *n_times* the median, and *long_time_ratio* of the time."""
    return (
        f"{layout}: short and long items are mixed. Half of them take {_time(median_s)} or less, and"
        f" {percent(long_ratio)} take {n_times:g} times that or more, which is {percent(long_time_ratio)} of"
        " the time. Throughput depends on their mix and order"
    )


@_mixed_items
def uneven_counts(layout: Layout, within_s: float, fewest: int, most: int, dispersion: float) -> str:
    """Return the text; *dispersion* is the variance of the counts within *within_s*, over their mean."""
    return (
        f"{layout}: short and long items seem to be mixed, or are reported in batches. Within"
        f" {render_duration(within_s)}, {fewest} to {most} items end, which varies {dispersion:.0f} times as"
        " much as items of one kind do. Throughput depends on the mix and the order of items"
    )


_never_settled = warning(
    "never-settled",
    "Throughput was often not steady at the end of the warm-up, more often than chance can explain.",
    "See [Warm-up](warmup.md) for the meaning of the printed reason. If the service starts slowly, "
    "raise the longest warm-up (`--warmup-cap`).",
)


@_never_settled
def warmup_cut(layout: Layout, how: str) -> str:
    return f"{layout}: {how}, before it had settled; {_COUNT_ALL_THE_SAME}"


@_never_settled
def never_settled(layout: Layout, why: str | None, by_chance: str = "", *, of_layout: bool = False) -> str:
    """Return the text; *by_chance* compares all launches, or those *of_layout*, with what chance explains."""
    seen = f" ({why})" if why else ""
    compared = f": {'of this layout, ' if of_layout else ''}{by_chance}" if by_chance else ""
    return f"{layout} never settled{seen}{compared}; {_COUNT_ALL_THE_SAME}"


@warning(
    "nothing-counted",
    "",
    "Follow the advice for the invalid window `no-items`. Press Ctrl-C twice to stop the study at once.",
)
def nothing_counted(layout: Layout, warmup_s: float, problem: str, clue: str) -> str:
    """Return the text; *clue* is a sentence on what the service may be."""
    why = (f": {problem}" if problem else "") + (f". {clue}" if clue else "")
    return f"{layout} counted no item in {warmup_s:.0f} s of warm-up{why}"


@warning(
    "over-limit",
    "tuner does not rank a layout that a safety limit stopped, and ends the study with exit code 5.",
    "If the safety limit is too low, measure the layout in another study with a higher limit (see [Safety "
    "limits](brake.md)).",
)
def over_limit(layout: Layout, passed: str) -> str:
    return f"a safety limit stopped {layout} {passed}; the study continues without this layout"


@warning(
    "several-interpreters",
    "",
    "Throughput, load and memory are correct, but do not rely on `tuner explain` and `tuner predict` "
    "for this service.",
)
def several_interpreters(layout: Layout, n: int) -> str:
    return (
        f"{layout}: a worker process has {n} interpreters with a GIL each (subinterpreters), which tuner does"
        " not support: its statements on the GIL hold for the first interpreter only"
    )


@warning(
    "stopped-by-kill",
    "",
    "Set the config key `stop.wait` to more than the duration of the longest item, or check that "
    "`stop.signal` ends the service.",
)
def stopped_by_kill(layout: Layout, n_killed: int, n_programs: int, wait_s: float, signal: str) -> str:
    return (
        f"{n_killed} of {n_programs} processes of {layout} did not stop within {wait_s:g} s of {signal} and"
        " were killed; unfinished work may be lost"
    )


_throughput_falls = warning(
    "throughput-falls",
    "The loss of throughput per hour is larger than the loss that you accept (`--within`).",
    "Restart the service regularly, or measure with a longer `--window` whether the loss continues.",
)


@_throughput_falls
def throughput_falls(layout: Layout, loss: float, least: float, most: float, *, is_long: bool) -> str:
    """Return the text; the *loss* is a share per hour, *least* and *most* are the ends of its interval.

    *is_long*: a long launch shows it.
    """
    measure = "" if is_long else ", or measure with a longer --window"
    return (
        f"{layout} loses {percent(loss)} of its throughput per hour after its start ({100 * least:.3g} to"
        f" {percent(most)}){' in a long launch' if is_long else ''}: restart it regularly{measure}"
    )


@_throughput_falls
def throughput_confirmed(
    layout: Layout, loss: tuple[float, float, float], rival: Layout | None, lasts_s: float
) -> str:
    """Return the text; *loss* is a share per hour and the ends of its interval, and each launch *lasts_s*."""
    mean, least, most = loss
    return (
        f"{layout} loses {percent(mean)} of its throughput per hour after its start ({100 * least:.3g} to"
        f" {percent(most)}); to find out whether this continues, tuner now measures"
        f" {_for_longer(layout, rival, lasts_s)}"
    )


def _would_do(enough_s: float) -> str:
    return f"a window of {render_duration(enough_s)} is long enough (--window, --min-window)"


def _time(seconds: float) -> str:
    if seconds >= 100:
        return f"{seconds:.0f} s"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
