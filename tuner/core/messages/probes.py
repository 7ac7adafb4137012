"""Warnings of the probes, which count finished items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.core.messages.catalogue import warning, with_reasons
from tuner.core.text.figures import pluralize

if TYPE_CHECKING:
    from tuner.core.domain.layout import Layout
    from tuner.core.text.statsd import Passed

_MOST_NAMES = 5


@warning(
    "count-restarted",
    "If a count of items restarts from 0, tuner misses the items that finished since it last read the count.",
    "Find out why the count of items restarted. A restart is normal if workers replace themselves "
    "(`max-requests`) or Celery's broker was down. A launch fails if its count of items restarts more "
    "than three times.",
)
def count_restarted(source: str, series: str, before: float, after: float) -> str:
    fell = f"{series} fell from {before:g} to {after:g}"
    return f"{source} restarted its count: {fell}; earlier counts are kept"


@warning(
    "cross-check-gap",
    "The measurement stays valid, although the second count of items (`cross_check`) is missing.",
    "Follow the advice for the invalid window `probe-gap`.",
)
def cross_check_gap(layout: Layout, probe: str, gap_s: float, problem: str) -> str:
    gap = with_reasons(f"{probe} had no new count for {gap_s:.1f} s", problem)
    return f"{layout}: {gap}; its window is not checked"


@warning(
    "log-cut",
    "If a log becomes very long, tuner itself deletes the beginning of the log (`log-long`).",
    "Let logrotate rename the log (`create`) instead of truncating it (`copytruncate`), or log less.",
)
def log_cut(layout: Layout, log: object, n_times: int) -> str:
    return (
        f"{layout}: {log} was truncated, rewritten or freed {pluralize(n_times, 'time')}; lines that were not"
        " read before are not counted"
    )


@warning(
    "log-lines-long",
    "",
    "Choose a `pattern` that matches at the beginning of the log line, or log shorter lines.",
)
def log_lines_long(layout: Layout, log: object, n_lines: int) -> str:
    lines = f"{pluralize(n_lines, 'longer line')} of {log}"
    return f"{layout}: the probe searched only the first 64 KiB of {lines}"


@warning(
    "packets-lost",
    "",
    "Follow the advice for the invalid window `packets-lost`.",
)
def packets_lost(layout: Layout, n_packets: int) -> str:
    dropped = f"the kernel dropped {pluralize(n_packets, 'packet')} to statsd"
    return f"{layout}: {dropped}, so their counts are missing"


@warning(
    "statsd-lines",
    "",
    "If tuner cannot read statsd lines, correct the code of the service that sends them. If lines have "
    "a type other than counter (`|c`), set the config key `probe.name` to the name of a counter. If "
    "lines are not metrics, find the program that sends them.",
)
def statsd_lines(layout: Layout, why: Passed, n_lines: int, names: str, example: str) -> str:
    lines = pluralize(n_lines, "line")
    of_names = f"{lines} of {names} sent to statsd"
    problem = {
        "unreadable": f"could not read {of_names}, so the windows they came in are invalid",
        "other-type": f"did not count {of_names}, because their type is not counter (c)",
        "no-metric": f"did not count {lines} sent to statsd, because they are not metrics",
    }[why]
    return f"{layout}: {problem}; for example '{example}'"


@warning(
    "statsd-names",
    "",
    "Set the config key `probe.name` to a counter that the warning lists. Statsd clients often add a "
    "prefix to the counter's name.",
)
def statsd_names(layout: Layout, names: str, others: Sequence[str]) -> str:
    more = " and others" if len(others) > _MOST_NAMES else ""
    return f"{layout}: statsd received no counter {names}, but {', '.join(others[:_MOST_NAMES])}{more}"
