"""What to do now, for somebody who has two minutes."""

from __future__ import annotations

from tuner.core.next_step import NextStep
from tuner.core.overview import Overview
from tuner.reports.next_step import command, remarks_on, told
from tuner.reports.page.blocks import Block, Code, Text
from tuner.reports.ties import among_ties


def to_do(overview: Overview, step: NextStep) -> list[Block]:
    """The next *step*: a sentence or two, and a command."""
    study, ranking = overview.study, overview.ranking
    found: list[Block] = []
    if ranking.best is not None and step.slug in ("export", "check-later"):
        found += [Text([sentence]) for sentence in among_ties(ranking.best, ranking, study.within_ratio)]
    found.append(Code(told(step).removesuffix(":"), command(step)))
    if remarks := remarks_on(study, step):
        found.append(Text(remarks))
    return found
