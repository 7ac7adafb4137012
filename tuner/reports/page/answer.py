"""The answer in a sentence, what it promises, and the few figures that everybody looks for."""

from __future__ import annotations

from tuner.core.figures import percent
from tuner.core.overview import Overview
from tuner.core.ranking import RankedLayout, Ranking
from tuner.core.simulated import simulated_told
from tuner.reports.answer import answer_sentence
from tuner.reports.limits import limits_told
from tuner.reports.model import interval, items, load
from tuner.reports.page.blocks import Block, Facts, Section, Text
from tuner.reports.ranking_words import level_of, notes, value_ranked_by, verdict


def answer_section(overview: Overview) -> Section:
    """Always the first."""
    study, ranking = overview.study, overview.ranking
    answer = verdict(ranking) if ranking.claim is None else answer_sentence(ranking.claim)
    blocks: list[Block] = [Text([answer], "answer")]
    blocks += [Text([sentence], "warning") for sentence in simulated_told(study)]
    blocks.append(Text([guarantee(ranking)]))
    if facts := _facts(ranking):
        blocks.append(Facts(facts, is_large=True))
    if said := notes(study, ranking):
        blocks.append(Text(said, "note"))
    return Section("answer", "Answer", blocks)


def guarantee(ranking: Ranking) -> str:
    """What the answer promises, in a sentence."""
    level, claim = level_of(ranking), ranking.claim
    if claim is None:
        wrong = percent(1 - ranking.confidence)
        return (
            f"What that promises ({level}): where no layout differs from any other, at most {wrong} of such"
            " studies call any of them better; layouts that cannot be told apart share a rank."
        )
    if not claim.answer.reached:
        return (
            f"Nothing is promised yet: the study was asked for an answer at {level}, and has not come to it."
        )
    near = f"name a layout within {percent(claim.within)} of the best"
    promises = {
        "strict": f"{level} or more of such studies, of whatever service, {near}.",
        "calibrated": f"{level} of such studies, on average, {near}.",
    }
    return f"What that promises: {promises.get(claim.answer.kind, f'nothing; such studies mostly {near}.')}"


def _facts(ranking: Ranking) -> list[tuple[str, str]]:
    best = next((row for row in ranking.rows if row.rank == 1), None)
    if best is None:
        return []
    return [
        ("best layout", str(best.layout)),
        *_told(best, ranking),
        *([] if not ranking.limits else [("of what keeps", limits_told(ranking))]),
    ]


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
