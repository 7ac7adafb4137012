"""The layout that a ranking would have one take, and whether it may be called the answer."""

from __future__ import annotations

from tuner.core.ranking.ranking import RankedLayout, Ranking


def leader(ranking: Ranking) -> RankedLayout | None:
    """The answer, or what leads where there is none; None: nothing was measured."""
    measured = [row for row in ranking.rows if row.n_windows > 0]
    if ranking.claim is not None:
        named = ranking.claim.answer.layout
        return next((row for row in measured if row.layout == named), next(iter(measured), None))
    return next(iter(measured), None)


def is_answer(ranking: Ranking) -> bool:
    """Whether the leader is what the study claims: a race has reached its answer, or it has rank 1."""
    if ranking.claim is not None:
        return ranking.claim.answer.reached
    return any(row.rank == 1 for row in ranking.rows)
