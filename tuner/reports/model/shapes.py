"""Table that compares processes with threads over all variants of a service, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuner.core.defaults import TEN_MINUTES_S
from tuner.core.model.calibration.calibrated import Measured
from tuner.core.model.diagnosis.sizing import ENOUGH, Kind, Rule, large_enough, sizing_rules
from tuner.core.model.prediction.shapes import Shape, ShapeBest, Standing, shape_bests
from tuner.core.stats.interval import Estimate
from tuner.core.text.figures import list_names, percent, pluralize
from tuner.reports.model.model import estimate_facts, interval_of_amount, items
from tuner.reports.model.prediction import Predicted, applicable_measurements, memory_cell, memory_of
from tuner.reports.ranking.ranking_cells import UNKNOWN_MEANS
from tuner.reports.text.formats import Table, render_table

TITLE = "Processes or threads?"
_NAMES: dict[Shape, str] = {"processes": "processes", "threads": "threads", "both": "both"}
_STANDINGS: dict[Standing, str] = {
    "best": "best",
    "as-good": "may be as good",
    "slower": "slower",
    "unknown": "unknown",
}
_CHEAPER = 0.8  #: a layout is mentioned if it needs less than this share of the memory


def render_shapes(
    predictions: Sequence[Predicted], missing: Mapping[str, str], shown: Predicted | None = None
) -> str:
    """Return the table and the answer as text; empty if only one shape of one variant was predicted.

    Args:
        predictions: one for each variant, of the same host.
        missing: variants without a prediction -> reason.
        shown: the variant whose layouts are listed below; None: none.
    """
    found = _bests(predictions)
    if len(found) < 2:
        return ""
    machine = predictions[0].machine
    lines = [f"{TITLE} (predicted on {pluralize(machine.cores, 'core')})\n"]
    lines += [render_table(_table(predictions, found), "simple")]
    lines += [f"{UNKNOWN_MEANS}\n"] if any(one.row.throughput_per_s.is_too_wide for one in found) else []
    lines += [f"{sentence}\n" for sentence in describe_shapes(predictions, missing)]
    if shown is not None and len(predictions) > 1:
        own, *others = (one.trusted.best.variant for one in sorted(predictions, key=lambda x: x is not shown))
        how = " or ".join(f"--variant {variant}" for variant in others if variant)
        lines.append(
            f"Below are the layouts of {own or 'the service without a variant'}; {how} shows others.\n"
        )
    return "\n".join([*lines[:2], "".join(lines[2:])])


def describe_shapes(predictions: Sequence[Predicted], missing: Mapping[str, str]) -> list[str]:
    """Return the answer, and the variants left out of the table, a sentence each."""
    found = _bests(predictions)
    if len(found) < 2:
        return []
    lines = [_answer(predictions, found)]
    lines.append(
        f"Large enough: the smallest layout with {percent(ENOUGH)} of the highest throughput of its shape."
        " For both, each process has enough threads to fill it. tuner explain estimates the demand of an item"
        " from fewer layouts, so it may name others."
    )
    lines += [
        f"{variant or 'The service without a variant'} is not in it: {why}."
        for variant, why in missing.items()
    ]
    return lines


def _bests(predictions: Sequence[Predicted]) -> list[ShapeBest]:
    """Return the best layout of each shape; nothing is compared if one of the variants is too inexact."""
    are_too_inexact = any(one.calibrated.is_too_inexact for one in predictions)
    return shape_bests([one.trusted for one in predictions], are_too_inexact=are_too_inexact)


def shapes_facts(predictions: Sequence[Predicted]) -> list[dict[str, Any]]:
    """Return the same as JSON fields, listed in docs/json.md."""
    rules = [_rules(one) for one in predictions]
    return [
        {
            "variant": one.variant,
            "shape": one.shape,
            "layout": str(one.row.layout),
            "throughput_per_10min": estimate_facts(one.row.throughput_per_s, TEN_MINUTES_S),
            "of_best": one.of_best,
            "standing": one.standing,
            "memory_bytes": estimate_facts(_memory(predictions, one)),
            "large_enough": large_enough(rules[one.place], one.shape),
        }
        for one in _bests(predictions)
    ]


def _table(predictions: Sequence[Predicted], found: Sequence[ShapeBest]) -> Table:
    with_variant = len({one.variant for one in found}) > 1
    rules = [_rules(one) for one in predictions]
    level = percent(predictions[0].trusted.confidence)
    seen = {layout: one for each in predictions for layout, one in applicable_measurements(each).items()}
    headers = (
        *(("variant",) if with_variant else ()),
        *("shape", "layout", "items/10 min", f"{level} interval", *(("measured",) if seen else ())),
        *("of the highest", "against the best"),
        *("memory", "large enough"),
    )
    rows = [
        (
            *((one.variant or "none",) if with_variant else ()),
            _NAMES[one.shape],
            str(one.row.layout).partition("@")[0],
            items(TEN_MINUTES_S * (one.row.throughput_per_s.mean or 0.0)),
            interval_of_amount(one.row.throughput_per_s, lambda per_s: items(TEN_MINUTES_S * (per_s or 0.0))),
            *((_measured_cell(seen.get(one.row.layout)),) if seen else ()),
            percent(one.of_best),
            _STANDINGS[one.standing],
            memory_cell(_memory(predictions, one)),
            large_enough(rules[one.place], one.shape) or "-",
        )
        for one in found
    ]
    text = ("variant", "shape", "layout", "against the best", "large enough")
    return Table(headers, tuple(rows), frozenset(n for n, name in enumerate(headers) if name not in text))


def _measured_cell(one: Measured | None) -> str:
    return "-" if one is None else items(TEN_MINUTES_S * one.throughput_per_s)


def _rules(predicted: Predicted) -> dict[Kind, Rule]:
    calibrated, what_if = predicted.calibrated, predicted.what_if
    demands = what_if.of_demands(calibrated.calibration.profile.demands)
    return {rule.kind: rule for rule in sizing_rules(demands, predicted.machine, calibrated.seen)}


def _answer(predictions: Sequence[Predicted], found: Sequence[ShapeBest]) -> str:
    """Return a sentence on the best shape."""
    best = found[0]
    if best.standing == "unknown":
        return (
            f"The highest predicted throughput is that of {best.row.layout}, but the error of the predictions"
            " is too large to call a shape best or slower."
        )
    alike = [one for one in found if one.standing == "as-good"]
    slower = [one for one in found if one.standing == "slower"]
    if not alike:
        worse = slower[0]
        return (
            f"{_shape_name(best, found)}: {best.row.layout} is predicted to give {_times(worse)} the"
            f" throughput of {worse.row.layout}, the next best shape."
        )
    text = f"{list_names([one.row.layout for one in (best, *alike)])} may be equally good"
    known = [
        (one, memory) for one in (best, *alike) if (memory := _memory_mean(predictions, one)) is not None
    ]
    if len(known) == len(alike) + 1:
        least, least_bytes = min(known, key=lambda each: each[1])
        if least is not best and least_bytes < _CHEAPER * known[0][1]:
            return f"{text}; {least.row.layout} needs the least memory of them."
    return f"{text}."


def _shape_name(one: ShapeBest, found: Sequence[ShapeBest]) -> str:
    name = {"processes": "Processes", "threads": "Threads", "both": "Processes of threads"}[one.shape]
    with_variant = len({each.variant for each in found}) > 1
    return f"{name} ({one.variant or 'no variant'})" if with_variant else name


def _times(other: ShapeBest) -> str:
    return f"{1 / other.of_best:.3g} times" if other.of_best else "many times"


def _memory(predictions: Sequence[Predicted], one: ShapeBest) -> Estimate | None:
    predicted = predictions[one.place]
    return memory_of(predicted.calibrated, one.row, predicted.trusted.confidence)


def _memory_mean(predictions: Sequence[Predicted], one: ShapeBest) -> float | None:
    found = _memory(predictions, one)
    return None if found is None else found.mean
