"""Recommendation for an operator: the layout to run, its certainty, and its gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord, is_simulated
from tuner.core.domain.rollout import Rollout
from tuner.core.domain.strategy import Claim
from tuner.core.ranking.ranked import RankedLayout, Ranking
from tuner.core.ranking.step_case import AS_BUSY, NextStep
from tuner.core.stats.interval import Estimate
from tuner.core.text.figures import list_names, percent, pluralize
from tuner.reports.ranking.answer import open_notes
from tuner.reports.ranking.groups import condition_of, condition_of_claim, group_name
from tuner.reports.ranking.ranking_cells import memory_cell, ratio_cell, times_cell
from tuner.reports.ranking.ranking_words import holds_as_busy, level_of, reasons_against

# Layouts that are not slower than the best, and the choice among them.

_MOST_TIES = 8
_CHEAPER = 0.95  #: a layout is mentioned if it needs less than this share of the memory


def tied_with_best(ranking: Ranking) -> list[RankedLayout]:
    """Return the layouts of the first group other than the best one."""
    return list(ranking.of_group("best-or-tied")[1:])


def not_slower(ranking: Ranking) -> list[RankedLayout]:
    """Return the other layouts that are not shown to be slower than the best one."""
    return [*tied_with_best(ranking), *ranking.of_group("not-ruled-out")]


def describe_ties(best: RankedLayout, ranking: Ranking, within: float) -> list[str]:
    """Return layouts that may be as good, and how to choose; *within*: the margin that counts as equal."""
    tied, open_ = tied_with_best(ranking), ranking.of_group("not-ruled-out")
    lines = [f"Tied with it: {list_names([row.layout for row in tied], _MOST_TIES)}."] if tied else []
    lines += among_ties(best, ranking, within)
    if open_:
        lines.append(f"Not ruled out yet: {list_names([row.layout for row in open_], _MOST_TIES)}.")
    return lines


def among_ties(best: RankedLayout, ranking: Ranking, within: float) -> list[str]:
    """Return a sentence on the choice among *best* and the layouts tied with it; none if there are none."""
    tied = tied_with_best(ranking)
    if any(row.layout == ranking.current for row in not_slower(ranking)):
        return [f"{ranking.current} is in use: nothing shows that a change pays."]
    if not tied or ranking.current == best.layout:
        return []
    return _cheapest(best, tied, within)


def _cheapest(best: RankedLayout, tied: Sequence[RankedLayout], within: float) -> list[str]:
    """Return the tied layout within the margin that needs the least memory, in a sentence."""
    if best.pss_bytes is None:
        return []
    cheaper = [row for row in tied if row.pss_bytes is not None and row.pss_bytes < _CHEAPER * best.pss_bytes]
    if not cheaper and any(row.pss_bytes is None for row in tied):
        return []  # another one may need less
    if not cheaper:
        is_least = all(row.pss_bytes >= best.pss_bytes for row in tied if row.pss_bytes is not None)
        text = f"Of the tied layouts, {best.layout} needs the least memory ({memory_cell(best)})."
        return [text] if is_least else []
    least = min(cheaper, key=lambda row: row.pss_bytes or 0.0)
    return [
        f"If memory matters, choose {least.layout}: it measured within {percent(within)} of {best.layout},"
        f" and needs {memory_cell(least)} instead of {memory_cell(best)}."
    ]


#: next steps that come before any use of the result
_DOUBTFUL = ("disturbed", "invalid-windows", "few-clients", "first-look")
NAME_CURRENT = "To compare it with the layout in use, add --current LAYOUT."


@dataclass(frozen=True, slots=True)
class Starts:
    """Production start of layouts, or the reason why it is unknown; None: there is no such layout."""

    proposed: Rollout | str | None = None
    current: Rollout | str | None = None


def layout_words(layout: Layout) -> str:
    """Return ``4 processes x 6 threads``, with the variant if there is one."""
    words = pluralize(layout.processes, "process")
    if layout.has_threads:
        words += f" x {pluralize(layout.threads, 'thread')}"
    return f"{words}, {layout.variant}" if layout.variant else words


def is_answered(ranking: Ranking) -> bool:
    """Return whether the study names a layout to run: not during a race, nor if the load was too small."""
    claim = ranking.claim
    return ranking.best is not None and not ranking.starved and (claim is None or claim.answer.reached)


def has_answer(study: StudyRecord, ranking: Ranking, step: NextStep | None) -> bool:
    """Return whether the study ended with a layout to run, given the next *step* (None: unknown).

    A race has to reach its answer. A full grid claims nothing: it names the layout that measured best.
    """
    is_open = step is not None and _is_open(ranking, step)
    return is_answered(ranking) and not is_open and _why_not(study) is None


def is_to_act_on(study: StudyRecord, ranking: Ranking, step: NextStep) -> bool:
    """Return whether an operator should apply the answer, given the next *step*."""
    if not has_answer(study, ranking, step):
        return False
    return not is_simulated(study) and step.slug not in _DOUBTFUL and not reasons_against(study, ranking)


def recommendation(study: StudyRecord, ranking: Ranking, step: NextStep) -> str:
    """Return the recommendation, in one or two sentences."""
    best = ranking.best
    if best is None:
        return "Nothing can be recommended. Change nothing."
    named = f"{layout_words(best.layout)} ({best.layout})"
    if (why_not := _why_not(study)) is not None:
        return f"No recommendation: {why_not}."
    if ranking.starved:
        return f"No answer: {best.layout} measured best, but the load was too small. Change nothing yet."
    if not is_answered(ranking) or _is_open(ranking, step):
        return f"No answer yet: {best.layout} leads. Change nothing yet."
    if is_simulated(study):
        return f"In the model, {named} measured best."
    if not is_to_act_on(study, ranking, step):
        return f"Do not act on this yet: {named} measured best."
    current = _row_of(ranking, ranking.current)
    if current is best:
        return f"Keep {named}, the layout in use."
    if current is not None and current in not_slower(ranking):
        return f"Keep {layout_words(current.layout)} ({current.layout}), the layout in use."
    return f"Run {named}{f' {AS_BUSY}' if holds_as_busy(ranking) else ''}."


def how_sure(ranking: Ranking) -> list[str]:
    """Return the certainty of the recommendation, a sentence each; none if there is no recommendation."""
    best, claim = ranking.best, ranking.claim
    if best is None or ranking.starved:
        return []
    if claim is None:
        return [*_of_grid(best, ranking), *describe_ties(best, ranking, ranking.within)]
    if claim.answer.reached:
        return [_of_race(best, claim), *describe_ties(best, ranking, claim.within)]
    level = level_of(ranking)
    return [f"Not sure yet: the study has no answer at {level} confidence so far.", *open_notes(claim)]


def gains(ranking: Ranking) -> list[str]:
    """Return the gain of the best layout over the one in use, or else over the smallest one."""
    best = ranking.best
    if best is None:
        return []
    current = _row_of(ranking, ranking.current)
    if current is best:
        return [f"{best.layout} is already in use."]
    if current is not None:
        return _over_current(best, current, ranking)
    ranked = [row for row in ranking.rows if row.rank is not None]
    smallest = min(ranked, key=lambda row: (row.layout.total_threads, row.layout.processes, row.layout))
    if smallest is best:
        return [f"{best.layout} is the ranked layout with the fewest threads."]
    ratio = _over(smallest)
    if ratio is None:
        return []
    which = "the ranked layout with the fewest threads"
    return [_times(best, smallest, which, ratio, ranking), *_gain_notes(ratio)]


def _why_not(study: StudyRecord) -> str | None:
    """Return why a study of this kind recommends no layout; None: it does."""
    if study.strategy == "aa":
        return "this study compares a layout with itself"
    if study.strategy == "check":
        of = study.provenance.check_of
        return f"this study checks the answer of {'another study' if of is None else of}"
    return None


def _is_open(ranking: Ranking, step: NextStep) -> bool:
    """Return whether a full grid is still being measured, or was interrupted."""
    return ranking.claim is None and step.slug in ("watch", "go-on")


def _row_of(ranking: Ranking, layout: Layout | None) -> RankedLayout | None:
    return next((row for row in ranking.rows if row.layout == layout), None)


def _of_race(best: RankedLayout, claim: Claim) -> str:
    within = f"{best.layout} is within {percent(claim.within)} of the best of {claim.of_whom}"
    level = percent(claim.confidence)
    if claim.answer.kind == "none":
        return f"Nothing is guaranteed: the study names {best.layout} without a confidence level."
    condition = condition_of_claim(claim.answer)
    if claim.answer.kind == "calibrated":
        return f"{within}, with {level} confidence on average over studies, {condition}."
    return f"{within}, with at least {level} confidence for every service, {condition}."


def _of_grid(best: RankedLayout, ranking: Ranking) -> list[str]:
    n_others = sum(row.rank is not None for row in ranking.rows) - 1
    if not n_others:
        return [f"Only {best.layout} could be ranked, so there is nothing to compare it with."]
    claimed = f"({level_of(ranking)}, corrected for all pairs, {condition_of(ranking)})"
    if rivals := not_slower(ranking):
        layouts = "1 layout" if len(rivals) == 1 else f"{len(rivals)} layouts"
        return [
            f"{best.layout} measured best, but {layouts} may be just as good: the difference is not"
            f" significant {claimed}."
        ]
    worse = group_name("slower", ranking.objective)
    if n_others == 1:
        return [f"The other layout was significantly {worse} {claimed}."]
    return [f"All {n_others} other layouts were significantly {worse} {claimed}."]


def _over_current(best: RankedLayout, current: RankedLayout, ranking: Ranking) -> list[str]:
    ratio = best.ratio_to_current
    if ratio is None or ratio.mean is None:
        why = "" if current.reason is None else f", because {current.layout} has no rank: {current.reason}"
        return [f"The gain over {current.layout}, the layout in use, is unknown{why}."]
    shown = [] if current in not_slower(ranking) else _gain_notes(ratio)  # `describe_ties` reports it
    return [_times(best, current, "the layout in use", ratio, ranking), *shown]


def _times(best: RankedLayout, other: RankedLayout, which: str, ratio: Estimate, ranking: Ranking) -> str:
    interval = ratio_cell(ratio)
    text = "" if interval == "-" else f" ({level_of(ranking)} interval: {interval})"
    items = "items" if ranking.objective == "throughput" else "items per CPU second"
    times = f"{best.layout} finishes {times_cell(ratio.mean)} times{text}"
    return f"{times} as many {items} as {other.layout}, {which}."


def _gain_notes(ratio: Estimate) -> list[str]:
    return ["The gain is not significant."] if ratio.low is None or ratio.low <= 1 else []


def _over(row: RankedLayout) -> Estimate | None:
    """Return the gain of the best layout over *row*; None: unknown."""
    if row.of_best is None or not (share := row.of_best.ratio).mean:
        return None
    if share.low is None or share.high is None or share.low <= 0:
        return Estimate(1 / share.mean)
    return Estimate(1 / share.mean, 1 / share.high, 1 / share.low)
