"""Report of `tuner check`: whether an answer still holds, as text and as JSON fields."""

from __future__ import annotations

from math import exp, expm1, log
from typing import Any

from tuner.core.domain.layout import Layout
from tuner.core.search.recheck import LEAST_BLOCKS, MOST_FORESEEN, Against, Checked
from tuner.core.text.figures import percent, pluralize, render_rest
from tuner.reports.text.formats import Table, render_table

_A_SHIFT = 0.02  #: least change common to all layouts (relative) that is reported


def check_sentence(checked: Checked) -> str:
    """Return the claim with its kind, confidence and cost, as a sentence."""
    check, asked = checked.check, checked.asked
    names = ", ".join(str(one.other) for one in check.against)
    cost = f"{pluralize(check.n_blocks, 'block')}, {render_rest(checked.spent_s)}"
    claim = f"{percent(asked.confidence)}, {asked.kind}, {cost}"
    if check.state == "right":
        return f"{asked.winner} is still right: within {percent(asked.within)} of {names}, {claim}."
    if check.state == "stale":
        (better,) = (one for one in check.against if one.other == check.better)
        return (
            f"{asked.winner} is stale: {better.other} is better by more than {percent(asked.within)}"
            f" ({_share(better.gap)}, {_share(better.low)} at least), {claim}."
        )
    if asked.winner in checked.failed:
        return f"{asked.winner} cannot be run now, so it cannot be compared; {cost}."
    return f"Not decided yet whether {asked.winner} is still right: {claim}."


def check_notes(checked: Checked) -> list[str]:
    """Return further remarks, a sentence each."""
    check, asked, found = checked.check, checked.asked, []
    if check.state == "open" and asked.winner not in checked.failed:
        if checked.rest_s is not None and check.rest_blocks is not None:
            more = pluralize(check.rest_blocks, "more block")
            found.append(f"About {more}, {render_rest(checked.rest_s)}, can be expected to decide it.")
        elif check.n_blocks < LEAST_BLOCKS:
            found.append(f"A check needs at least {LEAST_BLOCKS} blocks.")
        elif check.is_beyond_foreseeing:
            found.append(
                f"{MOST_FORESEEN} more blocks cannot be expected to decide it: launches differ too much,"
                " or the difference lies on the margin."
            )
    if asked.kind != "strict" and any(one.past is not None and not one.has_changed for one in check.against):
        found.append(
            f"This uses the data of the study, {_age(checked.age_s)} before, as far as the new data agree"
            " with it; --kind strict does not use it."
        )
    for one in check.against:
        if one.has_changed and one.past is not None:
            beside = "" if asked.kind == "strict" else ", so the data of the study have little weight"
            found.append(
                f"{one.other} gave {_share(one.past)} than {asked.winner} in the study and gives"
                f" {_share(one.now)} now: the difference has changed{beside}."
            )
    if check.level_shift is not None and abs(check.level_shift) > _A_SHIFT:
        found.append(
            f"All of them together give {_share(check.level_shift)} than in the study: the host or its load"
            " has changed. Only differences between layouts are compared."
        )
        if check.state == "open" and any(one.gap > -log(1 - asked.within) for one in check.against):
            found.append(
                f"Such a change may affect layouts unequally, by up to {percent(expm1(check.explained))}, for"
                " as long as it lasts. Check again at another hour of the day; if the change stays, measure a"
                " new study."
            )
    if check.is_noisier:
        found.append("Launches vary more now than in the study; tuner uses the present noise.")
    compared = {asked.winner, *checked.failed, *(one.other for one in check.against)}
    missing = [layout for layout in asked.others if layout not in compared]
    if check.n_blocks and missing:
        found.append(f"{', '.join(map(str, missing))} could not be compared yet: too few valid windows.")
    others = [layout for layout in checked.failed if layout != asked.winner]
    if others:
        found.append(f"{', '.join(map(str, others))} cannot be run now.")
    return found


def render_check(checked: Checked) -> str:
    """Return the claim, its limits, and all differences as text."""
    rows = tuple(
        (
            str(one.other),
            _role(one.other, checked.current),
            _share(one.now),
            "-" if one.past is None else _share(one.past),
            _share(one.gap),
            f"{_share(one.low)} to {_share(one.high)}",
        )
        for one in checked.check.against
    )
    text = check_sentence(checked) + "\n" + "".join(f"{note}\n" for note in check_notes(checked))
    if not rows:
        return text
    header = (f"against {checked.asked.winner}", "is", "now", "in the study", "as claimed", "bounds")
    return text + "\n" + render_table(Table(header, rows, frozenset({2, 3, 4, 5})), "simple")


def check_facts(checked: Checked) -> dict[str, Any]:
    """Return the same as JSON fields, listed in docs/json.md."""
    check, asked = checked.check, checked.asked
    return {
        "schema_version": 1,
        "claim": check_sentence(checked),
        "notes": check_notes(checked),
        "state": check.state,
        "winner": str(asked.winner),
        "current": None if checked.current is None else str(checked.current),
        "better": None if check.better is None else str(check.better),
        "kind": asked.kind,
        "within": asked.within,
        "confidence": asked.confidence,
        "blocks": check.n_blocks,
        "windows": checked.n_windows,
        "hours": checked.spent_s / 3600,
        "rest": None
        if checked.rest_s is None
        else {"blocks": check.rest_blocks, "hours": checked.rest_s / 3600},
        "age_s": checked.age_s,
        "level_ratio": None if check.level_shift is None else exp(check.level_shift),
        "not_measured": [str(layout) for layout in checked.failed],
        "against": [_against_facts(one) for one in check.against],
    }


def _against_facts(one: Against) -> dict[str, Any]:
    return {
        "layout": str(one.other),
        "ratio": {"mean": exp(one.gap), "low": exp(one.low), "high": exp(one.high)},
        "now_ratio": exp(one.now),
        "study_ratio": None if one.past is None else exp(one.past),
        "has_changed": one.has_changed,
    }


def _role(layout: Layout, current: Layout | None) -> str:
    return "in use" if layout == current else "runner-up"


def _share(gap: float) -> str:
    """Return a difference of logarithms as ``4 % more``."""
    ratio = exp(gap) - 1
    if abs(ratio) < 0.0005:
        return "as much"
    shown = f"{100 * abs(ratio):.2g}" if abs(ratio) < 0.1 else f"{100 * abs(ratio):.0f}"
    return f"{shown} % {'more' if ratio > 0 else 'less'}"


def _age(seconds: float) -> str:
    days = seconds / 86400
    return render_rest(seconds) if days < 2 else f"{days:.0f} days"
