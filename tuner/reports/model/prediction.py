"""Report of `tuner predict`: predicted layouts and the accuracy of predictions, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.core.defaults import TEN_MINUTES_S
from tuner.core.domain.layout import Layout
from tuner.core.model.calibration.calibrated import Calibrated, Measured
from tuner.core.model.machine import Machine
from tuner.core.model.prediction.trust import ALIKE, Trusted, TrustedLayout, order_of
from tuner.core.model.prediction.whatif import WhatIf
from tuner.core.stats.interval import Estimate
from tuner.core.text.figures import list_names, percent, pluralize, render_size
from tuner.reports.model.model import (
    LEFT_OUT_MEANS,
    estimate_facts,
    headline,
    interval_of_amount,
    items,
    left_out_facts,
    left_out_sentence,
    left_out_table,
    load,
    seconds,
    source_facts,
)
from tuner.reports.ranking.ranking_cells import UNKNOWN_MEANS
from tuner.reports.text.formats import Table, render_table

MOST_ROWS = 20  #: rows of the table, unless all rows are requested
_TRIED = 4  #: largest number of layouts that the last sentence proposes to measure


@dataclass(frozen=True, slots=True)
class Predicted:
    """Contents of the report of `tuner predict`."""

    calibrated: Calibrated
    machine: Machine  #: host of the prediction
    trusted: Trusted
    what_if: WhatIf = field(default_factory=WhatIf)
    today: Trusted | None = None  #: the same layouts without the changes; None: no changes
    #: 95th percentile of the time of an item, in seconds; None: not known (the network does not give it)
    residence_p95_s: Mapping[Layout, float] | None = None
    by: str = "network"  #: method: network or simulation

    @property
    def as_good(self) -> tuple[Layout, ...]:
        """Return the layouts that may be as good as the best: all, if the error is too large to choose by."""
        if not self.calibrated.is_too_inexact:
            return self.trusted.as_good
        return tuple(row.layout for row in _ordered_rows(self) if row.layout != self.trusted.best)


def render_prediction(predicted: Predicted, *, most_rows: int | None = MOST_ROWS, above: str = "") -> str:
    """Return the layouts by throughput, and the accuracy of the predictions; *above* stands before them."""
    calibrated = predicted.calibrated
    rows = _ordered_rows(predicted)
    shown = rows if most_rows is None else rows[:most_rows]
    table, legend = _table(predicted, shown)
    parts = [
        *(f"{sentence}\n" for sentence in calibrated.simulated),
        f"{' '.join(headline(calibrated))}\n{_heading(predicted, len(rows))}\n",
        *([above] if above else []),
        render_table(table, "simple")
        + (f"... and {len(rows) - len(shown)} more: --all\n" if len(shown) < len(rows) else ""),
        "".join(
            f"{line}\n" for line in [*legend, *prediction_sentences(predicted), *memory_sentences(predicted)]
        ),
    ]
    if calibrated.left_out is not None:
        parts.append(left_out_table(calibrated.left_out))
    parts.append("".join(f"{line}\n" for line in trust_sentences(predicted)))
    return "\n".join(parts)


def prediction_sentences(predicted: Predicted) -> list[str]:
    """Return the predicted best, layouts that may be as good, and extrapolations, a sentence each."""
    trusted, today = predicted.trusted, "it is"
    level = percent(trusted.confidence)
    best = f"{trusted.best} is predicted best{_but_larger(trusted)}"
    if len(trusted.rows) == 1:
        found = [f"{trusted.best} is the only layout to predict."]
    elif predicted.calibrated.is_too_inexact:
        today = "the highest is that of"
        found = [
            f"The highest predicted throughput is that of {trusted.best}{_but_larger(trusted)}, but the error"
            " of the predictions is too large to call a layout best or slower."
        ]
    elif trusted.as_good:
        others = pluralize(len(trusted.as_good), "other layout")
        found = [f"{best}; {others} may be as good ({level}): {list_names(trusted.as_good)}."]
    else:
        found = [f"{best}, and all others slower ({level})."]
    if predicted.today is not None and predicted.today.best != trusted.best:
        found.append(f"Today {today} {predicted.today.best}.")
    return found


def _but_larger(trusted: Trusted) -> str:
    """Return words on larger layouts whose figure is above that of the best but counts as equal."""
    per_s = {row.layout: row.throughput_per_s.mean or 0.0 for row in trusted.rows}
    above = [layout for layout, own in per_s.items() if own > per_s[trusted.best]]
    if not above:
        return ""
    give = "gives" if len(above) == 1 else "give"
    return f" ({list_names(above)} {give} at most {percent(ALIKE)} more, with more threads or processes)"


def memory_sentences(predicted: Predicted) -> list[str]:
    """Return the memory that is not in the table, a sentence each."""
    fit = predicted.calibrated.memory
    told_by = "the windows" if predicted.calibrated.measured else "the profile"
    if fit is None:
        return [f"The memory of a process is unknown from {told_by}."]
    if "thread" in fit.identified or all(row.layout.threads == 1 for row in predicted.trusted.rows):
        return []
    return [f"The memory of a further thread is unknown from {told_by}: figures marked > do not include it."]


def trust_sentences(predicted: Predicted) -> list[str]:
    """Return the accuracy of the predictions, a sentence each."""
    calibrated, trusted = predicted.calibrated, predicted.trusted
    errors = calibrated.left_out
    found = []
    if errors is not None:
        found += [left_out_sentence(errors), LEFT_OUT_MEANS]
    elif not calibrated.measured:
        found.append(
            "A profile does not contain the error of the model on this service, so the error is unknown."
        )
        if not calibrated.calibration.profile.measured:
            found.append("The profile does not name the layouts it was measured on; 1x1 is assumed.")
    else:
        found.append(
            "Too few layouts were measured to leave one out, so the error of the model on this service is"
            " unknown."
        )
    n_beyond = sum(bool(row.beyond) for row in trusted.rows)
    if n_beyond:
        part = (
            "All of it is"
            if n_beyond == len(trusted.rows)
            else f"{n_beyond} of {len(trusted.rows)} layouts are"
        )
        found.append(
            f"{part} extrapolation"
            + (", where the error on measured layouts is a weaker guide." if errors is not None else ".")
        )
    if predicted.what_if:
        found.append("A what-if is not measured: its intervals hold only if the assumed change is right.")
    if predicted.what_if.no_gil:
        found.append(
            "Interpreters without GIL run each thread slower (5 % to 40 %, by version): this is not included."
        )
    if errors is not None and calibrated.is_too_inexact:
        found.append(
            f"An error of {percent(errors.mean_ratio)} is too much to choose by: something is missing in the"
            " model of this service."
        )
    if not predicted.what_if and len(trusted.rows) > 1:
        n_tried = min(_TRIED, 1 + max(1, len(predicted.as_good)))
        names = ",".join(str(row.layout) for row in _ordered_rows(predicted)[:n_tried])
        found.append(f"These are estimates. Measure these layouts before you use one: --layouts {names}")
    return found


def prediction_facts(predicted: Predicted) -> dict[str, Any]:
    """Return the same as JSON fields, listed in docs/json.md."""
    calibrated, machine, trusted = predicted.calibrated, predicted.machine, predicted.trusted
    today = {} if predicted.today is None else {row.layout: row for row in predicted.today.rows}
    measured, source = applicable_measurements(predicted), source_facts(calibrated)
    p95 = predicted.residence_p95_s or {}
    return {
        "schema_version": 1,
        "service": calibrated.service,
        **{("measured_layouts" if name == "layouts" else name): fact for name, fact in source.items()},
        "by": predicted.by,
        "confidence": trusted.confidence,
        "machine": {
            "cores": machine.cores,
            "physical_cores": machine.physical_cores,
            "has_gil": machine.has_gil,
        },
        "measured_on_cores": calibrated.seen.machine.cores,
        "what_if": str(predicted.what_if) or None,
        "best": str(trusted.best),
        "as_good": [str(one) for one in predicted.as_good],
        "layouts": [
            {
                "layout": str(row.layout),
                "processes": row.layout.processes,
                "threads": row.layout.threads if row.layout.has_threads else None,
                "throughput_per_10min": estimate_facts(row.throughput_per_s, TEN_MINUTES_S),
                "today_per_10min": None
                if row.layout not in today
                else estimate_facts(today[row.layout].throughput_per_s, TEN_MINUTES_S),
                "load": estimate_facts(row.load),
                "cpu_cores": estimate_facts(row.cpu_cores),
                "memory_bytes": estimate_facts(memory_of(calibrated, row, trusted.confidence)),
                "residence_p95_s": p95.get(row.layout),
                "beyond": list(row.beyond),
                "measured": _measured_facts(measured.get(row.layout)),
            }
            for row in _ordered_rows(predicted)
        ],
        "sentences": [
            *calibrated.simulated,
            *headline(calibrated),
            *prediction_sentences(predicted),
            *memory_sentences(predicted),
            *trust_sentences(predicted),
        ],
        "held_out": left_out_facts(calibrated.left_out),
    }


def _heading(predicted: Predicted, n_layouts: int) -> str:
    machine = predicted.machine
    physical = "" if machine.physical_cores is None else f" ({machine.physical_cores:g} physical)"
    cores = f"{pluralize(machine.cores, 'core')}{physical}"
    by = "" if predicted.by == "network" else ", simulated event by event"
    layouts = pluralize(n_layouts, "layout")
    if predicted.what_if:
        return f"What if: {predicted.what_if}. {layouts} on {cores}{by}."
    return f"Predicted: {layouts} on {cores}{by}."


def _ordered_rows(predicted: Predicted) -> list[TrustedLayout]:
    trusted = predicted.trusted
    layouts = [row.layout for row in trusted.rows]
    return [trusted.rows[at] for at in order_of(layouts, trusted.middle)]


def _table(predicted: Predicted, rows: list[TrustedLayout]) -> tuple[Table, list[str]]:
    """Return the table, and the meanings of the letters in its last column."""
    measured = applicable_measurements(predicted)
    today = {} if predicted.today is None else {row.layout: row for row in predicted.today.rows}
    letters: dict[str, str] = {}
    with_measured = any(row.layout in measured for row in rows)
    headers = ["layout", "items/10 min", f"{percent(predicted.trusted.confidence)} interval"]
    headers += ["today"] if today else []
    headers += ["measured"] if with_measured else []
    headers += ["load", "its interval", "CPU", "memory"]
    headers += ["p95"] if predicted.residence_p95_s is not None else []
    headers += ["beyond"]
    cells = []
    for row in rows:
        memory = memory_of(predicted.calibrated, row, predicted.trusted.confidence)
        line = [
            str(row.layout),
            _items(row.throughput_per_s.mean),
            interval_of_amount(row.throughput_per_s, _items),
        ]
        if today:
            line.append(_items(today[row.layout].throughput_per_s.mean))
        if with_measured:
            line.append(_items(measured[row.layout].throughput_per_s) if row.layout in measured else "-")
        line += [
            load(row.load.mean),
            interval_of_amount(row.load, load),
            percent((row.cpu_cores.mean or 0.0) / predicted.machine.cores),
            memory_cell(memory),
        ]
        if predicted.residence_p95_s is not None:
            line.append(seconds(predicted.residence_p95_s[row.layout]))
        marks = [letters.setdefault(reason, chr(ord("a") + len(letters))) for reason in row.beyond]
        line.append("".join(sorted(marks)))
        cells.append(tuple(line))
    identified = "; ".join(f"{letter} {reason}" for reason, letter in letters.items())
    legend = [f"Beyond the measurements: {identified}."] if identified else []
    if any(row.throughput_per_s.is_too_wide or row.load.is_too_wide for row in rows):
        legend.append(UNKNOWN_MEANS)
    numeric = frozenset(range(len(headers) - 1)) - {0}
    return Table(tuple(headers), tuple(cells), numeric), legend


def applicable_measurements(predicted: Predicted) -> dict[Layout, Measured]:
    """Return the measurements that the predictions apply to: none for another or a disturbed host."""
    calibrated = predicted.calibrated
    if predicted.machine != calibrated.seen.machine or predicted.what_if or calibrated.is_disturbed:
        return {}
    return {one.layout: one for one in calibrated.measured}


def _items(per_s: float | None) -> str:
    return "-" if per_s is None else items(TEN_MINUTES_S * per_s)


def memory_of(calibrated: Calibrated, row: TrustedLayout, confidence: float) -> Estimate | None:
    """Return the predicted memory of a layout; None: no memory was measured."""
    fit = calibrated.memory
    return None if fit is None else fit.of(row.layout, row.n_children, confidence)


def memory_cell(estimate: Estimate | None) -> str:
    """Return memory for a table; ``>`` marks a lower bound."""
    if estimate is None:
        return "-"
    if estimate.mean is None:
        return "-" if estimate.low is None else f"> {render_size(estimate.low)}"
    return render_size(estimate.mean)


def _measured_facts(measured: Measured | None) -> dict[str, Any] | None:
    if measured is None:
        return None
    return {
        "throughput_per_10min": TEN_MINUTES_S * measured.throughput_per_s,
        "load": measured.load,
        "cpu_cores": measured.cpu_cores,
        "pss_bytes": measured.pss_bytes,
        "windows": measured.n_windows,
    }
