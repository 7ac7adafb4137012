"""Sentences, tables and number formats shared by the reports on the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tuner.core.defaults import TEN_MINUTES_S
from tuner.core.model.calibration.calibrated import Calibrated, LeftOut, LeftOutErrors, measured_sentence
from tuner.core.stats.interval import Estimate
from tuner.core.text.figures import percent, pluralize, render_size
from tuner.reports.ranking.ranking_cells import UNKNOWN
from tuner.reports.text.formats import Table, render_table

#: fields of `Demands` -> name of the demand, in the order in which an item meets them
DEMANDS = {
    "gil_s": "Python with the GIL",
    "python_s": "Python without the GIL",
    "child_s": "CPU of children",
    "asleep_s": "waiting asleep",
    "blocked_s": "waiting uninterruptibly",
    "spawn_s": "starting children",
}
_LARGE = 1e9
_NOTHING_S = 0.5e-6  #: a smaller time per item is a rounding error of the fit and is printed as 0


def headline(calibrated: Calibrated) -> list[str]:
    """Return the source of the figures, and disturbances during the measurement, a sentence each."""
    said = [_source(calibrated)]
    if calibrated.is_disturbed:
        said.append(
            f"Other processes, including tuner, used {calibrated.foreign_cores:.2f} cores during the"
            " measurement; predictions are for a host without them."
        )
    return said


def _source(calibrated: Calibrated) -> str:
    if not calibrated.measured:
        source = f" ({calibrated.where})" if calibrated.where else ""
        return f"{calibrated.service}, from a profile{source}."
    where = f" on {calibrated.where}" if calibrated.where else ""
    joint = ", fitted together" if calibrated.calibration.method == "joint" else ""
    return (
        f"{calibrated.service}{where}: from {measured_sentence(calibrated.measured)}"
        f" on {pluralize(calibrated.seen.machine.cores, 'core')}{joint}."
    )


def source_facts(calibrated: Calibrated) -> dict[str, Any]:
    """Return the source of the figures as JSON fields; null: not stored in a profile."""
    profile = calibrated.calibration.profile
    is_profile = not calibrated.measured
    layouts = profile.measured if is_profile else calibrated.seen.layouts
    return {
        "where": calibrated.where or None,
        "method": None if is_profile else calibrated.calibration.method,
        "windows": None if is_profile else calibrated.calibration.n_windows,
        "foreign_cores": calibrated.foreign_cores,
        "simulated": bool(calibrated.simulated),
        "layouts": [str(one) for one in layouts] or None,
    }


def left_out_table(errors: LeftOutErrors, fmt: str = "simple") -> str:
    """Return a table of measured values, and of predictions by a fit without the layout."""
    headers = ["left out", "items/10 min", "predicted", "error", "load", "predicted", "error"]
    headers += ["memory", "predicted", "error"] if errors.memory_errors else []
    return render_table(Table(tuple(headers), left_out_rows(errors), frozenset(range(1, len(headers)))), fmt)


def left_out_rows(errors: LeftOutErrors) -> tuple[tuple[str, ...], ...]:
    """Return a row for each layout: throughput measured, predicted and the error, the same of its load and,
    if any is known, of its memory.
    """
    return tuple(
        (
            str(row.layout),
            items(TEN_MINUTES_S * row.measured_per_s),
            items(TEN_MINUTES_S * row.predicted_per_s),
            format_signed(row.error_ratio),
            load(row.measured_load),
            load(row.predicted_load),
            "-" if row.load_error_ratio is None else format_signed(row.load_error_ratio),
            *(_memory_cells(row) if errors.memory_errors else ()),
        )
        for row in errors.rows
    )


def _memory_cells(row: LeftOut) -> tuple[str, str, str]:
    error = row.memory_error_ratio
    return (
        "-" if row.measured_bytes is None else render_size(row.measured_bytes),
        "-" if row.predicted_bytes is None else render_size(row.predicted_bytes),
        "-" if error is None else format_signed(error),
    )


#: difference between the throughputs of the table and those of the ranking
LEFT_OUT_MEANS = (
    "The table compares the mean of each layout's own launches with a prediction for the same conditions;"
    " tuner rank prints another figure, which is corrected for differences between blocks."
)


def left_out_sentence(errors: LeftOutErrors) -> str:
    """Return a sentence with the mean and the worst error."""
    worst = errors.worst
    of_load, of_memory = errors.load_mean_ratio, errors.memory_mean_ratio
    layouts = "the one layout was" if len(errors.rows) == 1 else f"each of {len(errors.rows)} layouts was"
    said = (
        f"Left out of the fit, {layouts} predicted with an error of {percent(errors.mean_ratio)} on average,"
        f" {percent(abs(worst.error_ratio))} at worst ({worst.layout})"
    )
    if of_load is not None:
        said += f"; its load, of {percent(of_load)}"
    if of_memory is not None:
        n_known = len(errors.memory_errors)
        some = (
            "" if n_known == len(errors.rows) else f" ({n_known} of {pluralize(len(errors.rows), 'layout')})"
        )
        said += f"; its memory{some}, of {percent(of_memory)}"
    return f"{said}."


def left_out_facts(errors: LeftOutErrors | None) -> dict[str, Any] | None:
    """Return the same as JSON fields."""
    if errors is None:
        return None
    return {
        "mean_ratio": errors.mean_ratio,
        "load_mean_ratio": errors.load_mean_ratio,
        "memory_mean_ratio": errors.memory_mean_ratio,
        "worst_ratio": abs(errors.worst.error_ratio),
        "worst": str(errors.worst.layout),
        "layouts": [
            {
                "layout": str(row.layout),
                "measured_per_10min": TEN_MINUTES_S * row.measured_per_s,
                "predicted_per_10min": TEN_MINUTES_S * row.predicted_per_s,
                "error_ratio": row.error_ratio,
                "measured_load": row.measured_load,
                "predicted_load": row.predicted_load,
                "load_error_ratio": row.load_error_ratio,
                "measured_memory_bytes": row.measured_bytes,
                "predicted_memory_bytes": row.predicted_bytes,
                "memory_error_ratio": row.memory_error_ratio,
            }
            for row in errors.rows
        ],
    }


def estimate_facts(estimate: Estimate | None, times: float = 1.0) -> dict[str, float | None] | None:
    """Return an estimate as JSON fields, in units that are *times* smaller."""
    if estimate is None:
        return None
    ends = {"mean": estimate.mean, "low": estimate.low, "high": estimate.high}
    return {name: None if value is None else times * value for name, value in ends.items()}


def interval(estimate: Estimate, show: Callable[[float], str]) -> str:
    """Return both ends of the interval, or a dash."""
    if estimate.low is None or estimate.high is None:
        return "-"
    return f"{show(estimate.low)} to {show(estimate.high)}"


def interval_of_amount(estimate: Estimate, show: Callable[[float], str]) -> str:
    """Return both ends of the interval of a throughput or load, or `UNKNOWN` if it gives no information."""
    return UNKNOWN if estimate.is_too_wide else interval(estimate, show)


def items(value: float) -> str:
    """Return a count of items."""
    return f"{value:.0f}" if 100 <= value < _LARGE else f"{value:.3g}"


def seconds(value: float) -> str:
    """Return a time per item, in a suitable unit."""
    if value < _NOTHING_S:
        return "0"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= 0.9995 * size:
            return f"{_digits(value / size)} {unit}"
    return f"{_digits(value * 1e6)} us"


def load(tasks: float | None) -> str:
    """Return a load average; a dash if unknown."""
    if tasks is None:
        return "-"
    return f"{tasks:.1f}" if tasks >= 9.95 else f"{tasks:.2f}"


def format_signed(ratio: float) -> str:
    """Return a deviation: ``+3.1 %``."""
    return f"{100 * ratio:+.1f} %"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 99.95 else f"{value:.3g}"
