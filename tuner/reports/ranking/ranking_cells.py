"""Number formats of the ranking's cells and sentences; ``-`` stands for unknown values."""

from __future__ import annotations

from collections.abc import Callable

from tuner.core.ranking.ranked import RankedLayout, Ranking, value_beside
from tuner.core.ranking.study_difference import is_surely_changed
from tuner.core.stats.interval import Estimate

#: larger values are printed in powers of ten: a limit that large only means that nothing is known
_LARGE = 1e9


def load_cell(row: RankedLayout) -> str:
    """Return the settled load: in short windows, load1 is mostly that of the previous layout."""
    return number_cell(row.settled_load, ".2f")


def memory_cell(row: RankedLayout) -> str:
    """Return memory in MB."""
    return number_cell(None if row.pss_bytes is None else row.pss_bytes / 1e6, ".0f", " MB")


def items_cell(value: float | None) -> str:
    """Return a number of items with at least three digits."""
    if value is None:
        return "-"
    return f"{value:.0f}" if 100 <= value < _LARGE else f"{value:.3g}"


#: interval of which the ends are so far apart that it gives no information
UNKNOWN = "unknown"
UNKNOWN_MEANS = (
    "Unknown: the upper end of the interval is more than 10 times the lower end, so the figure cannot be"
    " estimated."
)


def interval_cell(estimate: Estimate, show: Callable[[float], str], *, is_decisive: bool = False) -> str:
    """Return an interval: ``2560 to 2640``; *is_decisive*: it shows a difference, however wide it is."""
    if estimate.low is None or estimate.high is None:
        return "-"
    if estimate.is_too_wide and not is_decisive:
        return UNKNOWN
    return f"{show(estimate.low)} to {show(estimate.high)}"


def beside_cell(row: RankedLayout, ranking: Ranking) -> str:
    """Return the interval that the group of a row rests on."""
    return interval_cell(value_beside(row, ranking), items_cell, is_decisive=row.group == "slower")


def ratio_cell(ratio: Estimate) -> str:
    """Return the interval of a ratio to another layout's value."""
    return interval_cell(ratio, times_cell, is_decisive=is_surely_changed(ratio))


def in_brackets(estimate: Estimate) -> str:
    """Return the interval of an amount after a blank: `` (2560 to 2640)``; empty if there is none."""
    interval = interval_cell(estimate, items_cell)
    if interval == "-":
        return ""
    return " (unknown interval)" if interval == UNKNOWN else f" ({interval})"


def times_cell(value: float | None) -> str:
    """Return a ratio: ``1.31``."""
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 1000 else f"{value:.3g}"


def percent_cell(value: float | None) -> str:
    """Return a share: ``87 %``."""
    return "-" if value is None else f"{100 * value:.0f} %"


def number_cell(value: float | None, spec: str, unit: str = "") -> str:
    """Return a number in its format, with its unit."""
    return "-" if value is None else f"{value:{spec}}{unit}"
