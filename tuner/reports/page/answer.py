"""The answer in a sentence, what it promises, and the few figures that everybody looks for."""

from __future__ import annotations

from tuner.core.figures import counted, percent
from tuner.core.overview import Overview
from tuner.core.ranking import RankedLayout, Ranking
from tuner.core.simulated import simulated_told
from tuner.reports.answer import answer_sentence
from tuner.reports.axis_bests import axis_bests_told
from tuner.reports.evidence import doubts_told
from tuner.reports.groups import SCATTER
from tuner.reports.limits import limits_told
from tuner.reports.model import interval, items, load
from tuner.reports.next_step import step_of
from tuner.reports.page.blocks import Block, Facts, Section, Text
from tuner.reports.page.to_do import to_do
from tuner.reports.ranking_words import level_of, notes, reservations, value_ranked_by, verdict
from tuner.reports.ties import not_slower
from tuner.reports.wider import wider_told


def answer_section(overview: Overview) -> Section:
    """Always the first."""
    study, ranking = overview.study, overview.ranking
    answer = verdict(ranking) if ranking.claim is None else answer_sentence(ranking.claim)
    step = step_of(overview)
    blocks: list[Block] = [Text([answer], "answer")]
    blocks += [Text([sentence], "warning") for sentence in wider_told(ranking, step)]
    warnings = [*simulated_told(study), *reservations(study, ranking), *doubts_told(study, ranking)]
    blocks += [Text([sentence], "warning") for sentence in warnings]
    blocks.append(Text([guarantee(ranking)]))
    blocks += [Text([sentence]) for sentence in axis_bests_told(study, ranking)]
    if facts := _facts(ranking):
        blocks.append(Facts(facts, is_large=True))
    blocks += to_do(overview, step)
    elsewhere = {*warnings, *ranking.settling, *ranking.settling_facts}
    said = [sentence for sentence in notes(study, ranking) if sentence not in elsewhere]
    if ranking.settling:
        said.append(_settling(ranking))
    if said:
        blocks.append(Text(said, "note"))
    return Section("answer", "Answer", blocks)


def _settling(ranking: Ranking) -> str:
    n = len(ranking.settling)
    stand = "stands" if n == 1 else "stand"
    return f"{counted(n, 'remark')} on how launches settled {stand} under Every window in time order."


def guarantee(ranking: Ranking) -> str:
    """What the answer promises, in a sentence."""
    level, claim = level_of(ranking), ranking.claim
    if claim is None:
        wrong = percent(1 - ranking.confidence)
        return (
            f"How sure that is: {SCATTER}, at most {wrong} of such studies tell any layouts apart that are"
            " alike. One that is tied or not ruled out may still be better."
        )
    if not claim.answer.reached:
        return (
            f"How sure that is: not at all yet. The study was asked for an answer at {level}, and has none."
        )
    near = f"name a layout within {percent(claim.within)} of the best"
    promises = {
        "strict": f"{level} or more of such studies, of whatever service, {near}, {SCATTER}.",
        "calibrated": f"{level} of such studies, on average, {near}, {SCATTER}.",
    }
    return f"How sure that is: {promises.get(claim.answer.kind, f'nothing; such studies mostly {near}.')}"


def _facts(ranking: Ranking) -> list[tuple[str, str]]:
    best = ranking.best
    if best is None:
        return []
    return [
        (_standing(ranking), str(best.layout)),
        *_told(best, ranking),
        *([] if not ranking.limits else [("of what keeps", limits_told(ranking))]),
    ]


def _standing(ranking: Ranking) -> str:
    """What the first layout is."""
    claim = ranking.claim
    if claim is not None:
        return "the answer" if claim.answer.reached else "leads so far"
    return "measured best" if not_slower(ranking) else "best layout"


def _told(row: RankedLayout, ranking: Ranking) -> list[tuple[str, str]]:
    value = value_ranked_by(row, ranking)
    unit = "items per 10 min" if ranking.objective == "throughput" else "items per CPU second"
    ends = "" if value.low is None else f" ({interval(value, items)})"
    found = [(unit, f"{items(value.mean or 0.0)}{ends}")]
    if row.ratio_to_current is not None and row.layout != ranking.current and row.ratio_to_current.mean:
        found.append((f"against {ranking.current}", f"{row.ratio_to_current.mean:.2f} times"))
    if row.load1_mean is not None:
        found.append(("load average", load(row.load1_mean)))
    if row.pss_bytes is not None:
        found.append(("memory", f"{row.pss_bytes / 1e6:.0f} MB"))
    if row.cpu_ratio is not None:
        found.append(("CPU", f"{100 * row.cpu_ratio:.0f} %"))
    return found
