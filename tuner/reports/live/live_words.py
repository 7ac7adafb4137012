"""Sentences of the live view."""

from __future__ import annotations

from tuner.core.defaults import TEN_MINUTES_S
from tuner.core.domain.limits import Verdict, limits_from
from tuner.core.domain.live import BoxLive, Live, Phase
from tuner.core.domain.records import StudyRecord, WindowRecord
from tuner.core.domain.safety_limits import WORDS, render_amount, render_limit
from tuner.core.domain.settled_load import is_load_of_host, settled_load
from tuner.core.ranking.live_status import Board, LayoutStatus, State
from tuner.core.text.figures import (
    format_block,
    list_names,
    percent,
    pluralize,
    render_duration,
    render_rest,
    until,
)
from tuner.core.text.safe_text import printable
from tuner.reports.ranking.groups import condition_of_claim, describe_groups

_MOST_NAMED = 6  #: largest number of layouts named in a sentence; the rows show more

#: names of the states of layouts, in a full grid and in a race
STATES: tuple[dict[State, str], dict[State, str]] = (
    {"leads": "best so far", "tied": "tied", "open": "not ruled out", "behind": "slower",
     "kept-out": "kept out by a limit", "left-out": "stopped by a safety limit",
     "failed": "cannot run", "unseen": "not measured yet"},
    {"leads": "leads", "tied": "tied", "open": "not ruled out", "behind": "slower",
     "kept-out": "kept out by a limit", "left-out": "stopped by a safety limit",
     "failed": "cannot run", "unseen": "not measured yet"},
)  # fmt: skip
_PHASES: dict[Phase, str] = {
    "starting": "starting",
    "warming-up": "warming up",
    "window": "measuring",
    "between": "between windows",
}


def format_head(board: Board) -> str:
    """Return service, host and progress."""
    study = board.study
    n_boxes = board.n_boxes if board.live is None else max(board.n_boxes, len(board.live.boxes))
    host = pluralize(n_boxes, "host") if n_boxes > 1 else study.provenance.host
    how = {"race": "race", "all": "full grid", "aa": "layout compared with itself", "check": "check"}
    parts = [
        f"{study.service}{f' on {host}' if host else ''}",
        f"{pluralize(len(study.layouts), 'layout')} for {pluralize(study.cores, 'core')}",
        how.get(study.strategy, study.strategy),
    ]
    return printable(", ".join(parts))


def describe_goal(board: Board) -> str:
    """The goal of the study, and the windows so far."""
    study = board.study
    level = percent(study.confidence)
    if study.strategy == "race":
        near = f"a layout within {percent(study.within_ratio)} of the best"
        asked = f"Goal: {near}, {level} confidence, {study.kind}"
    elif study.strategy == "all":
        asked = f"Goal: each layout {pluralize(study.n_blocks, 'time')}, intervals at {level}"
    elif study.strategy == "aa":
        asked = f"Goal: {pluralize(study.n_blocks, 'pair')} of launches of one layout"
    else:
        of = study.provenance.check_of
        asked = f"Goal: check the answer of {'a study' if of is None else of}, {level} confidence"
    limits = "".join(f", {render_limit(limit)}" for limit in limits_from(study.limits))
    objective = "" if study.objective == "throughput" else f", by {study.objective}"
    void = f", {board.n_void} invalid" if board.n_void else ""
    return printable(
        f"{asked}{objective}{limits}. So far: {pluralize(board.n_windows, 'valid window')}{void}."
    )


def describe_place(place: LayoutStatus, board: Board) -> str:
    """Return the status of a layout, and its reason."""
    is_race = board.study.strategy == "race"
    reached = board.answer is not None and board.answer.reached
    if place.state == "leads":
        return _with_open("the answer" if reached else "leads" if is_race else "best so far", place)
    if place.state == "open":
        if board.answer is None or board.answer.layout is None:
            return ""
        return _with_open(STATES[is_race]["open"], place)
    if place.state == "tied":
        return _with_open(STATES[is_race]["tied"], place)
    if place.state == "behind":
        worse = "slower" if board.study.objective == "throughput" else "worse"
        known = "" if place.behind_ratio is None else f"at least {_share(place.behind_ratio)} {worse}"
        return known or worse
    if place.state == "kept-out" and place.verdict is not None:
        return _describe_exclusion(place.verdict)
    reason = "" if place.reason is None else printable(place.reason)
    if place.state == "failed":
        return f"cannot run: {reason}" if reason else "cannot run"
    return reason or STATES[is_race][place.state]


def _with_open(text: str, place: LayoutStatus) -> str:
    """Return *text*, with the limits that the layout is not known to keep."""
    findings = () if place.verdict is None else place.verdict.findings
    names = [WORDS[one.limit.name] for one in findings if one.state == "open"]
    return f"{text}, {names[0] if len(names) == 1 else 'limits'} open" if names else text


def _describe_exclusion(verdict: Verdict) -> str:
    """Return the limit that is or may be exceeded, in few words: ``memory 206 MiB, over 150 MiB``."""
    parts = []
    for finding in verdict.findings:
        if finding.state != verdict.state:
            continue
        name, estimate = finding.limit.name, finding.estimate
        limit = render_amount(name, finding.limit.at_most)
        seen = "" if estimate.mean is None else render_amount(name, estimate.mean)
        if verdict.state == "beyond":
            parts.append(
                f"{WORDS[name]} over {limit}" if seen == limit else f"{WORDS[name]} {seen}, over {limit}"
            )
        else:
            parts.append(f"{WORDS[name]} may be over {limit}")
    return "; ".join(parts)


def _describe_limits(study: StudyRecord) -> str:
    return " and ".join(render_limit(limit) for limit in limits_from(study.limits))


def describe_standing(board: Board) -> str:
    """Return a sentence on the leader; empty if no layout is named."""
    answer, study = board.answer, board.study
    if answer is None:
        if study.strategy == "aa" and board.stage == "over":
            return "All pairs are measured. To print the result, run tuner aa with this file."
        if board.n_void and not board.n_windows:
            return _describe_no_valid_window(board)
        is_open = study.limits and study.strategy == "all"
        return (
            "tuner watch shows which layouts keep the limits, as does the end of the study."
            if is_open
            else ""
        )
    if answer.layout is None:
        if any(place.state == "kept-out" for place in board.places):
            return f"No layout is shown to keep {_describe_limits(study)}."
        if board.n_void and not board.n_windows:
            return _describe_no_valid_window(board)
        return "No comparison before the first block is complete." if board.n_windows else ""
    others = describe_groups(answer.tied, [x for x in answer.ties if x not in answer.tied], _MOST_NAMED)
    if answer.reached:
        keeps = f" that keeps {_describe_limits(study)}" if study.limits else ""
        within = f"within {percent(study.within_ratio)} of the best{keeps}"
        text = f"{answer.layout} is {within}, {condition_of_claim(answer)}"
        return f"{'; '.join([text, *others])}."
    unseen = sum(place.state == "unseen" for place in board.places)
    if study.strategy == "race":
        parts = [f"{answer.layout} leads"]
        leader = next((place for place in board.places if place.layout == answer.layout), None)
        limits = "" if leader is None or leader.verdict is None else _describe_open(leader.verdict)
        parts += [f"not yet shown to keep {limits}"] * bool(limits)
        parts += [*others, *[f"{unseen} not measured yet"] * bool(unseen)]
        doubt = 1.0 if answer.doubt is None or limits else answer.doubt  # it concerns throughput alone
        if 1 - study.confidence < doubt < 1:  # a smaller one is of a test that is not the last
            parts.append(f"error probability if you stop now: at most {percent(doubt)}")
        return f"{'; '.join(parts)}."
    text = f"{answer.layout} measured best" + ("" if board.stage == "over" else " so far")
    return f"{'; '.join([text, *others])}."


def _describe_no_valid_window(board: Board) -> str:
    return f"No valid window so far: {pluralize(board.n_void, 'window')} invalid."


def _describe_open(verdict: Verdict) -> str:
    return " and ".join(render_limit(one.limit) for one in verdict.findings if one.state == "open")


def describe_end(board: Board) -> str:
    """The rule that ends the study, and the state of its budget."""
    study = board.study
    if study.budget_s is None:
        return f"Ends {_rule(study)}."
    budget = f"its budget of {render_duration(study.budget_s)}"
    if board.is_spent and board.stage == "at-rest":
        return f"Ends {_rule(study)}; {budget} is spent, and continuing may take as much again."
    return f"Ends {_rule(study)}, or after {budget}."


def _rule(study: StudyRecord) -> str:
    if study.strategy == "race":
        keeps = " among those that keep the limits" if study.limits else ""
        return (
            f"when one layout is known to be within {percent(study.within_ratio)} of the best{keeps}"
            f" ({percent(study.confidence)})"
        )
    if study.strategy == "aa":
        return f"after {pluralize(study.n_blocks, 'pair')} of launches"
    if study.strategy == "check":
        return "when it is known whether the answer still holds"
    return f"after {pluralize(study.n_blocks, 'block')} of all layouts"


def describe_remaining(board: Board, now_wall_s: float) -> str:
    """The time left; empty where nothing is measured and no estimate exists."""
    live, is_race = board.live, board.study.strategy == "race"
    about = "at most" if is_race else "about"  # nine of ten races take no longer than their estimate
    if live is None:
        return "" if board.rest_s is None else f"{about} {render_rest(board.rest_s)} of measuring"
    most = "at most " if is_race else ""
    taken = f"{live.n_taken} of {most}{live.n_planned} windows" if live.n_planned is not None else ""
    if live.remaining_s is None:
        return f"unknown ({taken} so far)" if taken else "unknown"
    end = until(live.at_wall_s + live.remaining_s, now_wall_s)
    left_s = max(0.0, live.remaining_s - max(0.0, now_wall_s - live.at_wall_s))
    return f"{about} {render_rest(left_s)}{end}{f' ({taken} so far)' if taken else ''}"


def describe_last_window(window: WindowRecord, study: StudyRecord, *, n_boxes: int = 1) -> str:
    """Return a line on the last window of *study*."""
    box = f"{window.box}: " if n_boxes > 1 else ""
    where = f"{box}{window.layout}, {format_block(window.block)}"
    if window.void:
        reasons = "; ".join(f"{reason.slug}: {reason.detail}" for reason in window.void)
        return printable(f"{where}: invalid, {reasons}")
    rate = _describe_group(TEN_MINUTES_S * window.n_done / window.length_s) if window.length_s else "-"
    failed = f", {window.n_failed} failed" if window.n_failed else ""
    load = settled_load(window, is_of_host=is_load_of_host(study))
    return f"{where}: {rate} items/10 min, load {load:.2f}{failed}"


def describe_phase(live: Live | BoxLive) -> str:
    """The phase of the launch."""
    return _PHASES[live.phase]


def describe_idle(live: Live) -> str:
    """Return a list of layouts that are started but idle while another one works; empty if there are none."""
    idle = [layout for layout in live.started if layout != live.layout]
    return f"in turns with {list_names(idle)}, started and idle now" if idle else ""


def format_rate(live: Live | BoxLive, unit: str = " items/10 min") -> str:
    """Return live throughput in the usual unit; empty if unknown."""
    if live.items_per_s is None:
        return ""
    return f"{_describe_group(live.items_per_s * TEN_MINUTES_S)}{unit}"


def format_value(value: float | None, board: Board) -> str:
    """Return the value by which layouts are compared, short; ``-``: there is none."""
    if value is None:
        return "-"
    return _describe_group(value) if board.study.objective == "throughput" else f"{value:.3g}"


def _describe_group(value: float) -> str:
    if abs(value) >= 1e8:
        return f"{value:.3g}"
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= 100 else f"{value:.3g}"


def _share(ratio: float) -> str:
    """Return a share in two digits."""
    return f"{100 * ratio:.2g} %" if ratio < 0.1 else f"{100 * ratio:.0f} %"
