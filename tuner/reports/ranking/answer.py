"""Answer of an adaptive study, as a sentence and as JSON fields."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import (
    Agreement,
    Answer,
    Axis,
    ChangedRatio,
    Claim,
    Guidance,
    LostInSlices,
    UnequalReaction,
)
from tuner.core.text.figures import list_names, percent, pluralize, render_rest
from tuner.reports.ranking.groups import condition_of_claim, describe_groups

_AXIS_NAMES: dict[Axis, str] = {
    "processes": "processes",
    "threads": "threads",
    "total_threads": "threads in all processes",
}
_OTHER_HOURS = "The answer may be another at other hours; run tuner check then."


def answer_sentence(claim: Claim) -> str:
    """Return the claim with its guarantee and its cost, as a sentence."""
    answer = claim.answer
    cost = f"{pluralize(claim.n_windows, 'window')}, {render_rest(claim.spent_s)}"
    parts = []
    if answer.layout is None:
        what = "nothing could be measured" if answer.counts_slices else "nothing was measured alone so far"
        parts.append(f"No answer yet: {what}; {cost}")
    elif answer.reached:
        parts.append(
            f"{answer.layout} is within {percent(claim.within)} of the best of"
            f" {claim.of_whom}, {percent(claim.confidence)}, {answer.kind},"
            f" {condition_of_claim(answer)}, {cost}"
        )
        parts += describe_groups(answer.tied, claim.open_ties)
    elif answer.fell_below is not None:
        parts.append(
            f"No answer: {answer.layout} leads in the windows of the race, but is slower than"
            f" {answer.fell_below} in a longer launch"
        )
        parts.append(cost)
    else:
        parts.append(f"No answer yet: {answer.layout} leads")
        parts += describe_groups(answer.tied, [*claim.open_ties, *claim.unseen])
        parts.append(cost)
    if not answer.counts_slices:
        parts.append(f"only windows alone count, because {_why_alone(answer)}")
    if claim.failed:
        parts.append(f"{list_names(claim.failed)} could not be measured")
    return f"{'; '.join(parts)}."


def _why_alone(answer: Answer) -> str:
    if (lost := answer.lost_in_slices) is None:
        return "layouts that stay started disturb each other here"
    whose = f" of {list_names(lost.layouts)}" if lost.layouts else ""
    return f"throughput{whose} in slices is {percent(lost.ratio)} lower than in the warm-ups"


def answer_notes(claim: Claim) -> list[str]:
    """Return further remarks on the answer, a sentence each."""
    found = [*open_notes(claim), *_agreement_note(claim)]
    if claim.answer.layout is not None and claim.answer.changed:
        found.append(_changed_note(claim.answer.layout, claim.answer.changed[0]))
    if claim.answer.reaction is not None:
        found.append(_reaction_note(claim.answer.reaction))
    if claim.answer.guidance is not None:
        found.append(_guidance_note(claim.answer.guidance))
    if claim.n_otherwise:
        found.append(
            f"{pluralize(claim.n_otherwise, 'block')} of the file were chosen by another version of tuner;"
            " this claim is by the rules of this version."
        )
    return found


def open_notes(claim: Claim) -> list[str]:
    """Return the leader's error probability and the remaining measurements, a sentence each.

    Empty once there is an answer.
    """
    answer = claim.answer
    if answer.reached or answer.layout is None or answer.fell_below is not None:
        return []
    found = []
    if answer.doubt is not None and 1 - claim.confidence < answer.doubt < 1:
        found.append(
            f"If you choose {answer.layout} now, the error probability is at most {percent(answer.doubt)}."
        )
    if claim.rest is None:
        found.append("The time to an answer cannot be estimated yet.")
    else:
        windows = pluralize(claim.rest.n_windows, "more window")
        found.append(f"At most {windows}, {render_rest(claim.rest.lasts_s)}, are likely to decide it.")
    return found


def answer_facts(claim: Claim) -> dict[str, Any]:
    """Return the same as JSON fields, listed in docs/json.md."""
    answer, rest, guide = claim.answer, claim.rest, claim.answer.guidance
    return {
        "claim": answer_sentence(claim),
        "layout": None if answer.layout is None else str(answer.layout),
        "reached": answer.reached,
        "kind": answer.kind,
        "within": claim.within,
        "confidence": claim.confidence,
        "ties": [str(layout) for layout in answer.ties],
        "tied": [str(layout) for layout in answer.tied],
        "not_ruled_out": [str(layout) for layout in claim.not_ruled_out],
        "not_measured": [str(layout) for layout in claim.failed],
        "n_layouts": claim.n_layouts,
        "windows": claim.n_windows,
        "hours": claim.spent_s / 3600,
        "doubt": answer.doubt,
        "rest": None if rest is None else {"windows": rest.n_windows, "hours": rest.lasts_s / 3600},
        "guide": None if guide is None else asdict(guide),
        "changed": [{**asdict(one), "layout": str(one.layout)} for one in answer.changed],
        "reaction": None if answer.reaction is None else _reaction_facts(answer.reaction),
        **({} if answer.agreement is None else {"slices": agreement_facts(answer.agreement)}),
        **({} if answer.lost_in_slices is None else {"lost_in_slices": _loss_facts(answer.lost_in_slices)}),
    }


def _reaction_facts(reaction: UnequalReaction) -> dict[str, Any]:
    layouts = {"weakest": str(reaction.weakest), "strongest": str(reaction.strongest)}
    return {**asdict(reaction), **layouts}


def _loss_facts(lost: LostInSlices) -> dict[str, Any]:
    return {"ratio": lost.ratio, "layouts": [str(layout) for layout in lost.layouts]}


def agreement_facts(seen: Agreement) -> dict[str, Any]:
    """Return the ratios of two layouts in slices and alone, as JSON fields."""
    return {
        "layout": str(seen.layout),
        "other": str(seen.other),
        "ratio_in_slices": seen.in_slices,
        "ratio_alone": seen.alone,
        "expected_alone": asdict(seen.expected),
        "agree": seen.holds,
    }


def _agreement_note(claim: Claim) -> list[str]:
    """Return a sentence that compares slices with windows alone; none before both are known."""
    seen = claim.answer.agreement
    if seen is None:
        return []
    low, high = seen.expected.low, seen.expected.high
    ratios = (
        f"{seen.layout} / {seen.other} was {seen.in_slices:.2f} in slices and {seen.alone:.2f} alone"
        f" (noise explains {low:.2f} to {high:.2f})"
    )
    differ = "do not differ significantly" if seen.holds else "differ significantly"
    return [f"Slices and windows alone {differ}: {ratios}."]


def _changed_note(named: Layout, changed: ChangedRatio) -> str:
    """Return a sentence on how the ratio of two layouts changed during the study, and the consequence."""
    return (
        f"{changed.layout} did {changed.early:.2f} times the throughput of {named} in the first half of the"
        f" study and {changed.late:.2f} times in the second half: the two may react differently to the host."
        f" {_OTHER_HOURS}"
    )


def _reaction_note(reaction: UnequalReaction) -> str:
    """Return a sentence on which layouts react more strongly to the host's speed, and the consequence."""
    strongest, weakest = reaction.strongest, reaction.weakest
    more = getattr(strongest, reaction.axis) > getattr(weakest, reaction.axis)
    which = f"{'more' if more else 'fewer'} {_AXIS_NAMES[reaction.axis]}"
    return (
        f"Layouts with {which} react more strongly to the host's speed: at its slowest moment"
        f" {strongest} did about {reaction.strongest_ratio:.2g} times its throughput at the fastest,"
        f" {weakest} {reaction.weakest_ratio:.2g} times. {_OTHER_HOURS}"
    )


def _guidance_note(guidance: Guidance) -> str:
    """Return whether a model guided the choice of layouts, and its error on layouts it had no data of."""
    if guidance.error_ratio is None or guidance.error_without_ratio is None:
        return "The queueing model has not predicted a layout yet."
    predicted = (
        f"its predictions of the first window of {pluralize(guidance.n_held_out, 'layout')}"
        f" had a median error of {percent(guidance.error_ratio)}"
    )
    without = f"{percent(guidance.error_without_ratio)} without the model"
    if not guidance.used:
        return f"The queueing model was switched off: {predicted}, {without}."
    return f"The queueing model helped to choose what to measure: {predicted} ({without})."
