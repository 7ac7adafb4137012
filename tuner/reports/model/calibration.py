"""Report of the demands of an item, as text and as JSON fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tuner.core.model.calibration.calibrated import Calibrated
from tuner.core.model.demand import NO_TERMS, Demands
from tuner.core.model.prediction.trust import CONFIDENCE
from tuner.core.stats.interval import Estimate
from tuner.core.text.figures import percent, render_size
from tuner.reports.model.model import (
    DEMANDS,
    LEFT_OUT_MEANS,
    estimate_facts,
    headline,
    interval,
    left_out_facts,
    left_out_sentence,
    left_out_table,
    seconds,
    source_facts,
)
from tuner.reports.text.formats import Table, render_table

_SHOWS = 0.02  #: share of an item's active time; less load from other tasks is not reported
_LEAST_DRAWS = 20  #: least number of draws for an interval
_UNSURE = 0.05  #: relative uncertainty of an item's time above which a longer measurement is proposed
_LONGER = "by tuner calibrate CONFIG with more --launches or a longer --window"
_TERMS = {
    "process_cores": ("each process uses", "cores in addition to its items"),
    "cpu_per_process_ratio": ("CPU of an item grows by", "per process beyond one"),
    "blocked_per_process_ratio": ("uninterruptible waiting grows by", "per process beyond one"),
    "threaded_asleep_s": ("an item sleeps", "longer where a process has several threads"),
    "convoy_ratio": ("Python with the GIL grows by up to", "in a process of many threads"),
}


def render_calibration(calibrated: Calibrated) -> str:
    """Return the table of demands, its accuracy, and its limits."""
    parts = [
        *(f"{sentence}\n" for sentence in calibrated.simulated),
        f"{' '.join(headline(calibrated))}\n",
        render_table(_table(calibrated), "simple"),
        "".join(f"{sentence}\n" for sentence in calibration_sentences(calibrated)),
    ]
    if calibrated.left_out is not None:
        sentences = (left_out_sentence(calibrated.left_out), LEFT_OUT_MEANS)
        parts += [left_out_table(calibrated.left_out), "".join(f"{sentence}\n" for sentence in sentences)]
    return "\n".join(parts)


def calibration_sentences(calibrated: Calibrated) -> list[str]:
    """Return accuracy and limits, a sentence each."""
    of = calibrated
    return [
        _sureness(of),
        *_spawn(of),
        *_describe_other_tasks(of),
        *_terms(of),
        *_smt(of),
        *_memory(of),
        *_further_notes(of),
    ]


def calibration_facts(calibrated: Calibrated) -> dict[str, Any]:
    """Return the same as JSON fields, listed in docs/json.md."""
    calibration, demands = calibrated.calibration, calibrated.calibration.profile.demands
    machine, terms = calibrated.seen.machine, calibration.profile.terms
    memory = calibrated.memory
    return {
        "schema_version": 1,
        "service": calibrated.service,
        **source_facts(calibrated),
        "confidence": CONFIDENCE,
        "demands": {
            name: {**(estimate_facts(_estimate(calibrated, name)) or {}), "share": _share(demands, name)}
            for name in DEMANDS
        },
        "total_s": estimate_facts(_total(calibrated)),
        "others_s": demands.others_s,
        "cv_ratio": demands.cv_ratio,
        "n_gil_visits": demands.n_gil_visits,
        "terms": {name: getattr(terms, name) for name in _TERMS},
        "misfit_sd": calibration.misfit_sd,
        "machine": {
            "cores": machine.cores,
            "physical_cores": machine.physical_cores,
            "smt_gain_ratio": _smt_gain(calibrated),
            "has_gil": machine.has_gil,
        },
        "memory": None
        if memory is None
        else {
            "process_bytes": memory.memory.process_bytes,
            "thread_bytes": memory.memory.thread_bytes,
            "child_bytes": memory.memory.child_bytes,
            "shared_bytes": memory.memory.shared_bytes,
            "error_ratio": memory.error_ratio,
        },
        "sentences": [
            *calibrated.simulated,
            *headline(calibrated),
            *calibration_sentences(calibrated),
            *([] if (errors := calibrated.left_out) is None else [left_out_sentence(errors), LEFT_OUT_MEANS]),
        ],
        "held_out": left_out_facts(calibrated.left_out),
    }


def _table(calibrated: Calibrated) -> Table:
    rows = [
        (called, seconds(one.mean or 0.0), interval(one, seconds), _format_estimate(one, calibrated))
        for called, one in _rows(calibrated).items()
    ]
    total = _total(calibrated)
    rows.append(("in all", seconds(total.mean or 0.0), interval(total, seconds), "100 %"))
    headers = ("demand of an item", "per item", f"{percent(CONFIDENCE)} interval", "share")
    return Table(headers, tuple(rows), frozenset({1, 2, 3}))


def _rows(calibrated: Calibrated) -> dict[str, Estimate]:
    """Return the demands of an item by name; without a GIL, Python is a single row.

    The start of children is included if it is known; otherwise it is part of other waiting.
    """
    found = {called: _estimate(calibrated, name) for name, called in DEMANDS.items()}
    if not _has_spawn(calibrated):
        del found[DEMANDS["spawn_s"]]
    if calibrated.seen.machine.has_gil:
        return found
    python = _of_draws(calibrated, lambda one: one.gil_s + one.python_s)
    del found[DEMANDS["gil_s"]], found[DEMANDS["python_s"]]
    return {"Python": python, **found}


def _has_spawn(calibrated: Calibrated) -> bool:
    profile = calibrated.calibration.profile
    return bool(profile.demands.spawn_s) or "spawn_s" in profile.intervals


def _estimate(calibrated: Calibrated, name: str) -> Estimate:
    """Return a demand with its interval; without one if the fit gave none (a demand that is certainly
    zero).
    """
    profile = calibrated.calibration.profile
    found = profile.intervals.get(name)
    value = getattr(profile.demands, name)
    return Estimate(value) if found is None else Estimate(value, found.low, found.high)


def _total(calibrated: Calibrated) -> Estimate:
    return _of_draws(calibrated, lambda one: one.total_s)


def _of_draws(calibrated: Calibrated, of: Callable[[Demands], float]) -> Estimate:
    """Return a function of the demands, with the interval from their draws."""
    mean = of(calibrated.calibration.profile.demands)
    draws = sorted(map(of, calibrated.calibration.draws))
    if len(draws) < _LEAST_DRAWS:
        return Estimate(mean)
    tail = round((1 - CONFIDENCE) / 2 * (len(draws) - 1))
    return Estimate(mean, min(mean, draws[tail]), max(mean, draws[-1 - tail]))


def _share(demands: Demands, name: str) -> float:
    value: float = getattr(demands, name)
    return value / demands.total_s


def _format_estimate(estimate: Estimate, calibrated: Calibrated) -> str:
    share = (estimate.mean or 0.0) / calibrated.calibration.profile.demands.total_s
    return percent(share) if share >= 0.0005 else "-"


def _sureness(calibrated: Calibrated) -> str:
    total = _total(calibrated)
    if total.mean is None or total.low is None or total.high is None:
        return "The precision of these figures is unknown: they have no intervals."
    known = (total.high - total.low) / 2 / total.mean
    widths = {
        called: one.high - one.low
        for called, one in _rows(calibrated).items()
        if one.low is not None and one.high is not None
    }
    said = f"Precision: the time of an item is known within {percent(known)}"
    if widths:
        least = max(widths, key=lambda called: widths[called])
        said += f"; the least precise part is {least}, within {seconds(widths[least] / 2)}"
    if known <= _UNSURE:
        return f"{said}."
    if calibrated.calibration.method == "joint":
        return f"{said}. For more precision, measure more layouts, or more windows of them."
    return f"{said}. For more precision, measure 1x1 for longer, {_LONGER}."


def _spawn(calibrated: Calibrated) -> list[str]:
    """Return a sentence on where the time to start children is counted."""
    if not calibrated.calibration.profile.demands.child_s or _has_spawn(calibrated):
        return []
    return [f"The time to start a child is part of {DEMANDS['blocked_s']}."]


def _describe_other_tasks(calibrated: Calibrated) -> list[str]:
    """Return a sentence on the work of other tasks per item, if it is visible in the load."""
    demands = calibrated.calibration.profile.demands
    if demands.others_s < _SHOWS * (demands.total_s - demands.asleep_s):
        return []
    return [
        f"Each item adds {seconds(demands.others_s)} more to the load: other tasks, such as the kernel's, are"
        " active for it."
    ]


def _terms(calibrated: Calibrated) -> list[str]:
    terms = calibrated.calibration.profile.terms
    if terms == NO_TERMS:
        return []
    said = []
    for name, (before, after) in _TERMS.items():
        value = getattr(terms, name)
        if value:
            shown = (
                seconds(value)
                if name.endswith("_s")
                else f"{value:.2g}"
                if name.endswith("cores")
                else percent(value)
            )
            said.append(f"{before} {shown} {after}")
    return [f"As the layout grows: {'; '.join(said)}."]


def _smt_gain(calibrated: Calibrated) -> float | None:
    """Return the gain from a second thread on a physical core; None: no two were measured together."""
    seen = calibrated.seen
    return seen.machine.smt_gain_ratio if seen.has_filled_smt else None


def _smt(calibrated: Calibrated) -> list[str]:
    gain = _smt_gain(calibrated)
    if gain is None:
        return []
    low, high = min(calibrated.seen.smt_gains), max(calibrated.seen.smt_gains)
    about = "" if low == high else f" (about {percent(low)} to {percent(high)})"
    return [f"A second thread on a physical core adds {percent(gain)}{about} of one."]


def _memory(calibrated: Calibrated) -> list[str]:
    fit = calibrated.memory
    if fit is None:
        return ["Memory was not measured."]
    takes = {
        "a process uses": fit.memory.process_bytes,
        "a further thread": fit.memory.thread_bytes,
        "a running child": fit.memory.child_bytes,
        "every layout in addition": fit.memory.shared_bytes,
    }
    parts = [f"{what} {render_size(size)}" for what, size in takes.items() if size is not None]
    error = "" if fit.error_ratio is None else f", layouts differ from that by {percent(fit.error_ratio)}"
    return [f"Memory: {', '.join(parts)}{error}.", *([fit.unidentified] if fit.unidentified else [])]


def _further_notes(calibrated: Calibrated) -> list[str]:
    calibration = calibrated.calibration
    found = list(calibration.notes)
    if calibrated.measured and calibration.method == "joint":
        found.append(
            f"Layouts left out differ from the model by {percent(calibration.misfit_sd)}, one standard"
            " deviation; windows' own noise is not in it."
        )
    elif calibrated.measured:
        found.append(
            "1x1 does not show how processes and threads slow each other (caches, memory, a slower backend),"
            " nor the effect of SMT. A study of a few layouts does: tuner calibrate STUDY.tuner.db."
        )
    return found
