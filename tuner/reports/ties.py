"""Layouts that cannot be told from the best: which they are, and which of them to take."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.figures import named, percent
from tuner.core.ranking import RankedLayout, Ranking
from tuner.reports.ranking_cells import memory_cell
from tuner.reports.ranking_words import value_ranked_by

_MOST_TIES = 8
_CHEAPER = 0.95  #: of the memory: from here on it is worth a word


def tied_with_best(ranking: Ranking) -> list[RankedLayout]:
    """The layouts of rank 1 beside the first."""
    return [row for row in ranking.rows if row.rank == 1][1:]


def ties_told(best: RankedLayout, ranking: Ranking, within: float) -> list[str]:
    """What may be as good, and how to choose, a sentence each; *within*: the margin that counts as alike."""
    tied = tied_with_best(ranking)
    if not tied:
        return []
    names = named([_with_memory(row) for row in tied], _MOST_TIES)
    return [f"As good, as far as this study can tell: {names}.", *among_ties(best, ranking, within)]


def among_ties(best: RankedLayout, ranking: Ranking, within: float) -> list[str]:
    """What to take of *best* and the layouts tied with it, a sentence; none where there is none."""
    tied = tied_with_best(ranking)
    if any(row.layout == ranking.current for row in tied):
        return [f"{ranking.current} is in use: nothing shows that a change pays."]
    if not tied or ranking.current == best.layout:
        return []
    return _cheapest(best, tied, ranking, within)


def _cheapest(best: RankedLayout, tied: Sequence[RankedLayout], ranking: Ranking, within: float) -> list[str]:
    """Which of the layouts that measured about the same needs the least memory."""
    if best.pss_bytes is None:
        return []
    mean = value_ranked_by(best, ranking).mean or 0.0
    alike = [
        row
        for row in tied
        if row.pss_bytes is not None
        and row.pss_bytes < _CHEAPER * best.pss_bytes
        and (value_ranked_by(row, ranking).mean or 0.0) >= (1 - within) * mean
    ]
    if not alike and any(row.pss_bytes is None for row in tied):
        return []  # one of them may need less
    if not alike and all(row.pss_bytes >= best.pss_bytes for row in tied if row.pss_bytes is not None):
        return [f"{best.layout} needs the least memory of them ({memory_cell(best)})."]
    if not alike:
        return [f"None that needs less memory measured within {percent(within)} of it."]
    least = min(alike, key=lambda row: row.pss_bytes or 0.0)
    return [
        f"Where memory counts, take {least.layout}: it measured within {percent(within)} of {best.layout},"
        f" and needs {memory_cell(least)} instead of {memory_cell(best)}."
    ]


def _with_memory(row: RankedLayout) -> str:
    return str(row.layout) if row.pss_bytes is None else f"{row.layout} ({memory_cell(row)})"
