"""First section of the HTML page: the recommended layout, its certainty, its gain and the next step."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.domain.records import simulation_notes
from tuner.core.domain.rollout import Rollout
from tuner.core.ranking.overview import Overview
from tuner.core.ranking.ranked import RankedLayout, Ranking
from tuner.core.ranking.step_case import NextStep
from tuner.core.text.figures import percent, pluralize
from tuner.reports.model.model import items, load
from tuner.reports.page.blocks import Block, CodeText, Facts, Section, Subheading, Text
from tuner.reports.ranking.answer import answer_sentence
from tuner.reports.ranking.axis_bests import describe_axis_bests
from tuner.reports.ranking.evidence import describe_caveats
from tuner.reports.ranking.first_screen import (
    NAME_CURRENT,
    Starts,
    gains,
    how_sure,
    is_to_act_on,
    not_slower,
    recommendation,
)
from tuner.reports.ranking.groups import condition_of, condition_of_claim
from tuner.reports.ranking.limits import describe_limits
from tuner.reports.ranking.next_step import command, describe_wider, remarks_on, step_of
from tuner.reports.ranking.ranking_cells import in_brackets
from tuner.reports.ranking.ranking_words import level_of, notes, reservations, value_ranked_by, verdict
from tuner.reports.runbook.steps import start_of


def answer_section(overview: Overview, starts: Starts | None = None, *, live: bool = False) -> Section:
    """Return the first section of the page."""
    study, ranking = overview.study, overview.ranking
    step = step_of(overview)
    grave = [*simulation_notes(study), *reservations(study, ranking)]
    doubts = [*describe_wider(ranking, step), *describe_caveats(study, ranking)]
    sure = how_sure(ranking)
    blocks: list[Block] = [
        Text([recommendation(study, ranking, step)], "answer"),
        *([Text([verdict(ranking)])] if ranking.best is None else []),
        *(Text([sentence], "warning") for sentence in grave),
        *_setting(overview, starts, step),
        *([Subheading("How sure is that?")] if sure or doubts else []),
        *([Text([" ".join(sure)])] if sure else []),
        *(Text([sentence], "caution") for sentence in doubts),
        *_gain(overview, live=live),
        Subheading("Next step"),
        CodeText(step.sentence.removesuffix(":"), command(step)),
    ]
    if remarks := remarks_on(study, step):
        blocks.append(Text(remarks))
    if facts := _facts(ranking):
        blocks.append(Facts(facts, is_large=True))
    blocks.append(_details(overview, [*grave, *doubts, *sure]))
    return Section("answer", "What to run", blocks)


def _setting(overview: Overview, starts: Starts | None, step: NextStep) -> list[Block]:
    """Return the command that starts the best layout; none if it should not be applied, or already runs."""
    study, ranking = overview.study, overview.ranking
    best = ranking.best
    if starts is None or starts.proposed is None or best is None or not is_to_act_on(study, ranking, step):
        return []
    if any(row.layout == ranking.current for row in (best, *not_slower(ranking))):
        return []
    if not isinstance(starts.proposed, Rollout):
        return [Text([starts.proposed])]
    how, lines, remarks = start_of(starts.proposed)
    return [CodeText(how.removesuffix(":"), "\n".join(lines)), *([Text(remarks)] if remarks else [])]


def _gain(overview: Overview, *, live: bool) -> list[Block]:
    study, ranking = overview.study, overview.ranking
    reported = gains(ranking)
    if reported and ranking.current is None and not live:
        reported = [*reported, NAME_CURRENT]
    found = (
        [" ".join(reported), *describe_axis_bests(study, ranking)]
        if reported
        else describe_axis_bests(study, ranking)
    )
    return [Subheading("What does it gain?"), Text(found)] if found else []


def _details(overview: Overview, shown: Sequence[str]) -> Text:
    """Return the exact claim, its guarantee and all remarks that are not *shown* above."""
    study, ranking = overview.study, overview.ranking
    claim = [verdict(ranking) if ranking.claim is None else answer_sentence(ranking.claim)]
    elsewhere = {*shown, *ranking.settling, *ranking.settling_facts}
    remarks = [sentence for sentence in notes(study, ranking) if sentence not in elsewhere]
    if ranking.settling:
        remarks.append(_settling(ranking))
    title = "The exact claim" + (f", and {pluralize(len(remarks), 'remark')}" if remarks else "")
    return Text([title, *claim, guarantee(ranking), *remarks], "folded")


def _settling(ranking: Ranking) -> str:
    n = len(ranking.settling)
    stand = "is" if n == 1 else "are"
    return (
        f"{pluralize(n, 'remark')} on how launches settled {stand} in the section Every window in time order."
    )


def guarantee(ranking: Ranking) -> str:
    """Return the guarantee of the answer, in a sentence."""
    level, claim = level_of(ranking), ranking.claim
    if claim is None:
        wrong = percent(1 - ranking.confidence)
        return (
            f"Guarantee: at most {wrong} of such studies report a difference between layouts that are equally"
            f" fast, {condition_of(ranking)}. A layout that is tied or not ruled out may still be better."
        )
    if not claim.answer.reached:
        return f"Guarantee: none yet, because the study has no answer at {level} confidence."
    near = f"name a layout within {percent(claim.within)} of the best"
    condition = condition_of_claim(claim.answer)
    promises = {
        "strict": f"at least {level} of such studies {near}, for every service, {condition}.",
        "calibrated": f"on average, {level} of such studies {near}, {condition}.",
    }
    return f"Guarantee: {promises.get(claim.answer.kind, f'none; such studies mostly {near}.')}"


def _facts(ranking: Ranking) -> list[tuple[str, str]]:
    best = ranking.best
    if best is None:
        return []
    return [
        (_standing(ranking), str(best.layout)),
        *_facts_of(best, ranking),
        *([] if not ranking.limits else [("limits", describe_limits(ranking))]),
    ]


def _standing(ranking: Ranking) -> str:
    """Return the status of the first layout."""
    claim = ranking.claim
    if claim is not None:
        return "the answer" if claim.answer.reached else "leads so far"
    return "measured best" if not_slower(ranking) else "best layout"


def _facts_of(row: RankedLayout, ranking: Ranking) -> list[tuple[str, str]]:
    value = value_ranked_by(row, ranking)
    unit = "items per 10 min" if ranking.objective == "throughput" else "items per CPU second"
    found = [(unit, f"{items(value.mean or 0.0)}{in_brackets(value)}")]
    if row.ratio_to_current is not None and row.layout != ranking.current and row.ratio_to_current.mean:
        found.append((f"against {ranking.current}", f"{row.ratio_to_current.mean:.2f} times"))
    if row.settled_load is not None:
        found.append(("load average", load(row.settled_load)))
    if row.pss_bytes is not None:
        found.append(("memory", f"{row.pss_bytes / 1e6:.0f} MB"))
    if row.cpu_ratio is not None:
        found.append(("CPU", f"{100 * row.cpu_ratio:.0f} %"))
    return found
