"""Layouts that are not slower than the best: which they are, and which of them to take."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.ranking.ranking import RankedLayout, Ranking
from tuner.core.text.figures import list_names, percent
from tuner.reports.ranking.ranking_cells import memory_cell

_MOST_TIES = 8
_CHEAPER = 0.95  #: of the memory: from here on it is worth a word


def tied_with_best(ranking: Ranking) -> list[RankedLayout]:
    """The layouts of the first group beside the best one."""
    return list(ranking.of_group("best-or-tied")[1:])


def not_slower(ranking: Ranking) -> list[RankedLayout]:
    """The layouts beside the best one that are not shown to be slower."""
    return [*tied_with_best(ranking), *ranking.of_group("not-ruled-out")]


def describe_ties(best: RankedLayout, ranking: Ranking, within: float) -> list[str]:
    """What may be as good, and how to choose, a sentence each; *within*: the margin that counts as alike."""
    tied, open_ = tied_with_best(ranking), ranking.of_group("not-ruled-out")
    lines = [f"Tied with it: {list_names([row.layout for row in tied], _MOST_TIES)}."] if tied else []
    if open_:
        lines.append(f"Not ruled out yet: {list_names([row.layout for row in open_], _MOST_TIES)}.")
    return [*lines, *among_ties(best, ranking, within)]


def among_ties(best: RankedLayout, ranking: Ranking, within: float) -> list[str]:
    """What to take of *best* and the layouts tied with it, a sentence; none where there is none."""
    tied = tied_with_best(ranking)
    if any(row.layout == ranking.current for row in not_slower(ranking)):
        return [f"{ranking.current} is in use: nothing shows that a change pays."]
    if not tied or ranking.current == best.layout:
        return []
    return _cheapest(best, tied, within)


def _cheapest(best: RankedLayout, tied: Sequence[RankedLayout], within: float) -> list[str]:
    """Which of the tied layouts, which measured within the margin, needs the least memory."""
    if best.pss_bytes is None:
        return []
    cheaper = [row for row in tied if row.pss_bytes is not None and row.pss_bytes < _CHEAPER * best.pss_bytes]
    if not cheaper and any(row.pss_bytes is None for row in tied):
        return []  # one of them may need less
    if not cheaper:
        is_least = all(row.pss_bytes >= best.pss_bytes for row in tied if row.pss_bytes is not None)
        return [f"{best.layout} needs the least memory of them ({memory_cell(best)})."] if is_least else []
    least = min(cheaper, key=lambda row: row.pss_bytes or 0.0)
    return [
        f"If memory matters, choose {least.layout}: it measured within {percent(within)} of {best.layout},"
        f" and needs {memory_cell(least)} instead of {memory_cell(best)}."
    ]
