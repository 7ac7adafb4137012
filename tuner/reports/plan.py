"""Report of `tuner plan`: the expected duration of a study and its limits, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Kind
from tuner.core.model.diagnosis.text import short
from tuner.core.planning.forecast import (
    CAP_WINDOWS,
    FEWEST_FOR_P90,
    LEAST_SAVED,
    Cause,
    Cost,
    ForecastOptions,
    Saving,
    limiting,
)
from tuner.core.planning.pilot import DRIFT_TAU_S, Pilot
from tuner.core.search.growth import MAY_HELP, corner_of
from tuner.core.stats.interval import Estimate
from tuner.core.text.figures import percent, pluralize, render_rest
from tuner.reports.text.formats import Table, render_table

if TYPE_CHECKING:
    from tuner.core.model.diagnosis.diagnose import What

#: cause -> its name, and the advice against it
_CAUSES: dict[Cause, tuple[str, str]] = {
    "launch": ("launch noise", "More launches of shorter windows help, longer windows do not"),
    "window": ("window noise", "Longer windows help, more launches do not"),
    "drift": ("drift of the host", "A quieter host or hour helps, longer windows do not"),
    "restart": ("the cost of a launch", "A faster start or a shorter warm-up helps"),
    "ties": ("ties: layouts nearly alike", "A wider --within or fewer layouts help"),
}
_HALVED = {"restart": "halved", "ties": "with twice the differences"}


@dataclass(frozen=True, slots=True)
class Order:
    """The requested study."""

    service: str
    layouts: tuple[Layout, ...]
    kind: Kind
    within: float  #: 0..1
    confidence: float  #: 0..1


@dataclass(frozen=True, slots=True)
class SlicesForecast:
    """Forecast for the requested study if its layouts take turns."""

    n_layouts: int  #: largest number of layouts that take turns; 1: layouts run one after the other
    cost: Cost | None  #: None: no time to simulate it, or layouts do not take turns
    #: sentence why layouts do not take turns; empty: the study file does not contain the reason
    why_not: str = ""
    was_in_turns: bool = False  #: whether layouts took turns in the study from which the noise comes


@dataclass(frozen=True, slots=True)
class Plan:
    """Results of a pilot for the planned study."""

    order: Order
    pilot: Pilot
    costs: Mapping[ForecastOptions, Cost]
    savings: tuple[Saving, ...]  #: savings for the requested study, largest first
    min_window_s: float
    max_window_s: float
    computed_s: float
    drift_sd: float  #: drift of the host over hours in the simulated studies, root mean square
    grows: str | None = None  #: sentence that the grid of the study may grow; None: it will not grow
    slices: SlicesForecast | None = None  #: None: not requested


def render_plan(plan: Plan) -> str:
    """Return the noise, the table of costs, and the limits as text."""
    pilot, order = plan.pilot, plan.order
    asked = plan.costs[ForecastOptions(order.kind, order.within)]
    head = (
        f"{order.service}, {pluralize(len(order.layouts), 'layout')}, {percent(order.confidence)};"
        f" windows of {_seconds(plan.min_window_s)} to {_seconds(plan.max_window_s)}."
        f" Pilot: {pluralize(pilot.n_launches, 'launch')} of {pluralize(len(pilot.levels), 'layout')},"
        f" {pluralize(pilot.n_windows, 'window')} of"
        f" {_seconds(pilot.window_s)}; a launch needs {_seconds(pilot.launch_s)} in addition to its"
        " windows.\n\n"
    )
    window = f"window of {_seconds(pilot.window_s)}"
    noise = (
        ("launch" if pilot.window is not None else "launch and window", *_sd(pilot.launch)),
        (window, *_sd(pilot.window)),
        ("drift, block to block", *_sd(pilot.drift)),
    )
    costs = tuple(
        (
            percent(question.within),
            str(question.kind),
            _count(cost.mean_windows, known=cost.is_mean_known),
            _count(cost.p90_windows, known=cost.is_p90_known) if cost.shows_p90 else "-",
            _time(cost.mean_hours, known=cost.is_mean_known),
            _time(cost.p90_hours, known=cost.is_p90_known) if cost.shows_p90 else "-",
            str(cost.n),
        )
        for question, cost in sorted(
            plan.costs.items(), key=lambda one: (one[0].within, one[0].kind == "calibrated")
        )
    )
    return (
        head
        + render_table(
            Table(("noise", "sd", f"{percent(pilot.confidence)} interval"), noise, frozenset({1, 2})),
            "simple",
        )
        + "\n"
        + render_table(
            Table(
                ("within", "kind", "windows", "9 in 10 within", "time", "9 in 10 in", "simulated"),
                costs,
                frozenset({2, 3, 4, 5, 6}),
            ),
            "simple",
        )
        + "\n"
        + "".join(
            f"{sentence}\n"
            for sentence in [limit_sentence(plan), *slices_sentences(plan), *_cautions(plan, asked)]
        )
    )


def limit_sentence(plan: Plan) -> str:
    """Return a sentence on the limits of the requested study."""
    asked = f"within {percent(plan.order.within)}, {plan.order.kind}"
    limits = limiting(plan.savings)
    cost = plan.costs[ForecastOptions(plan.order.kind, plan.order.within)]
    hours = cost.mean_hours
    if not plan.savings:
        return (
            f"The limiting factor ({asked}) is unknown: there was too little time to simulate so"
            " many layouts."
        )
    if not limits:
        n_studies = pluralize(min(one.n for one in plan.savings), "simulation")
        return (
            f"Limiting factor ({asked}): none found in {n_studies}. With one cause halved at a time, no"
            f" study was certainly {percent(LEAST_SAVED)} shorter than"
            f" {_time(hours, known=cost.is_mean_known)} ({_shorter(plan.savings, hours)})."
        )
    first, *others = limits
    name, advice = _CAUSES[first.cause]
    beside = [saving for saving in plan.savings if saving not in limits]
    shown = _shorter([*others, *beside], hours)
    nearly = f" and nearly as much {', '.join(_CAUSES[one.cause][0] for one in others)}" if others else ""
    halved = _HALVED.get(first.cause, "halved").capitalize()
    return (
        f"Limiting factor ({asked}): {name}{nearly}. {halved}, the study would take"
        f" {_time(hours * (1 - first.saved_ratio))} instead of {_time(hours)} ({shown}). {advice}."
    )


def _shorter(found: Sequence[Saving], hours: float) -> str:
    """Return the time with each cause halved, for a study that takes *hours*."""
    return "; ".join(f"{_CAUSES[one.cause][0]} {_time(hours * (1 - one.saved_ratio))}" for one in found)


def slices_sentences(plan: Plan) -> list[str]:
    """Return sentences on whether layouts take turns, and on the time; none without slices."""
    found = plan.slices
    if found is None:
        return []
    if found.n_layouts == 1:
        why = found.why_not or "`tuner grid` prints the reason."
        return [f"With --slices auto, layouts run one after the other, as in the table. {why}"]
    text = f"With --slices auto, up to {found.n_layouts} started layouts take turns in a group"
    if (cost := found.cost) is None:
        return [f"{text}. There was too little time to simulate how long that takes."]
    asked = f"within {percent(plan.order.within)}, {plan.order.kind}"
    time = _time(cost.mean_hours, known=cost.is_mean_known)
    most = f"9 in 10 in {_time(cost.p90_hours, known=cost.is_p90_known)}, " if cost.shows_p90 else ""
    lines = [
        f"{text} ({asked}): {time} and {_count(cost.mean_windows, known=cost.is_mean_known)} windows,"
        f" {most}with two full windows of layouts alone at the end"
        f" ({pluralize(cost.n, 'simulation')})."
    ]
    if not found.was_in_turns:
        lines.append(
            "That is an upper limit: in the pilot layouts ran one after the other, so it cannot show which"
            " part of the noise they share when they take turns."
        )
    return lines


def plan_facts(plan: Plan) -> dict[str, Any]:
    """Return the same as JSON fields, listed in docs/json.md."""
    pilot = plan.pilot
    return {
        **_order_facts(plan.order),
        "unknown": None,
        "pilot": {
            "layouts": [str(layout) for layout in pilot.levels],
            "windows": pilot.n_windows,
            "launches": pilot.n_launches,
            "blocks": pilot.n_blocks,
            "window_s": pilot.window_s,
            "launch_s": pilot.launch_s,
        },
        "noise": {
            "launch": _estimate(pilot.launch),
            "window": _estimate(pilot.window),
            "drift": _estimate(pilot.drift),
            "drift_simulated": plan.drift_sd,
        },
        "costs": [
            {
                "within": question.within,
                "kind": question.kind,
                "windows": {"mean": cost.mean_windows, "p90": cost.p90_windows},
                "hours": {"mean": cost.mean_hours, "p90": cost.p90_hours, "mean_se": cost.mean_hours_se},
                "launches": cost.mean_launches,
                "window_s": cost.mean_window_s,
                "simulated": cost.n,
                "cut_off": cost.n_cut_off,
                "right_ratio": cost.right_ratio,
            }
            for question, cost in plan.costs.items()
        ],
        "limits": {
            "sentence": limit_sentence(plan),
            "causes": [one.cause for one in limiting(plan.savings)],
            "halved": [
                {"cause": one.cause, "hours": one.hours, "saved_ratio": one.saved_ratio, "se": one.se}
                for one in plan.savings
            ],
        },
        "grid_grows": plan.grows,
        **({} if plan.slices is None else {"slices": _slices_facts(plan, plan.slices)}),
        "computed_s": round(plan.computed_s, 3),
    }


def _slices_facts(plan: Plan, found: SlicesForecast) -> dict[str, Any]:
    cost = found.cost
    return {
        "sentences": slices_sentences(plan),
        "layouts_in_turns": found.n_layouts,
        "windows": None if cost is None else {"mean": cost.mean_windows, "p90": cost.p90_windows},
        "hours": None if cost is None else {"mean": cost.mean_hours, "p90": cost.p90_hours},
    }


def unknown_facts(order: Order, why: str) -> dict[str, Any]:
    """Return the same fields if no estimate is possible, with the reason *why*, a sentence."""
    known: dict[str, Any] = {"pilot": None, "noise": None, "costs": [], "limits": None}
    known |= {"grid_grows": None, "computed_s": 0.0}
    return {**_order_facts(order), "unknown": why, **known}


def _order_facts(order: Order) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "service": order.service,
        "layouts": [str(layout) for layout in order.layouts],
        "confidence": order.confidence,
        "kind": order.kind,
        "within": order.within,
    }


def growth_sentence(layouts: Sequence[Layout], most: Layout | None, bottleneck: Sequence[What]) -> str:
    """Return a sentence on whether the grid may grow before its first block, by the pilot's result.

    *most* is the layout with the most threads in the pilot, with its *bottleneck*; None: unknown.
    """
    edge = corner_of(layouts)
    what = "threads" if edge.has_threads else "processes"
    how = (
        f"The grid may grow: before its first block the study measures {edge}, and doubles the {what} as"
        " long as that gives more"
    )
    costs = f"this estimate is for these {pluralize(len(layouts), 'layout')}"
    if most is None or not bottleneck:
        return f"{how}; {costs}."
    if bottleneck[0] not in MAY_HELP:
        return (
            f"{how}. That is not likely: in the pilot {most} was limited by {short(bottleneck[:1])}; {costs}."
        )
    return f"{how}. That is likely: in the pilot the {what} of {most} waited; {costs}."


def _cautions(plan: Plan, asked: Cost) -> list[str]:
    """Return reasons for other results than planned, a sentence each."""
    pilot, found = plan.pilot, [] if plan.grows is None else [plan.grows]
    unseen = [layout for layout in plan.order.layouts if layout not in pilot.levels]
    if unseen:
        found.append(
            f"{len(unseen)} of the layouts were not launched: tuner simulates them with different throughputs"
            " that agree with those of the launched ones."
        )
    high = pilot.launch.high
    if high is not None and pilot.launch.mean is not None and high > 2 * max(pilot.launch.mean, 1e-9):
        found.append(
            f"Launch noise is estimated from {pluralize(pilot.n_launches, 'launch')} only, and may be"
            f" {percent(high)}: hours grow about as its square. The simulated studies have different launch"
            " noise that agrees with the pilot. A longer pilot is more precise."
        )
    found.append(
        f"A pilot cannot show drift slower than itself; simulated: {percent(plan.drift_sd)} over"
        f" {DRIFT_TAU_S / 3600:g} h."
        if pilot.drift is not None
        else "One block cannot show drift; none is simulated."
    )
    if not asked.is_mean_known:
        found.append(f"> : some simulated studies had no answer after {CAP_WINDOWS} windows.")
    if not all(cost.shows_p90 for cost in plan.costs.values()):
        found.append(f"- : fewer than {FEWEST_FOR_P90} simulated studies give no value for 9 in 10.")
    return found


def _sd(estimate: Estimate | None) -> tuple[str, str]:
    if estimate is None or estimate.mean is None:
        return "-", "-"
    if estimate.low is None or estimate.high is None:
        return percent(estimate.mean), "-"
    return percent(estimate.mean), f"{percent(estimate.low)} to {percent(estimate.high)}"


def _estimate(estimate: Estimate | None) -> dict[str, float | None] | None:
    return None if estimate is None else {"mean": estimate.mean, "low": estimate.low, "high": estimate.high}


def _count(windows: float, *, known: bool = True) -> str:
    return f"{'' if known else '> '}{windows:.0f}"


def _time(hours: float, *, known: bool = True) -> str:
    return f"{'' if known else '> '}{render_rest(3600 * hours)}"


def _seconds(seconds: float) -> str:
    return f"{seconds:{'.0f' if seconds >= 10 else '.3g'}} s" if seconds < 120 else f"{seconds / 60:.3g} min"
