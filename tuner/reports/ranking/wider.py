"""That larger layouts give more than the answer; `ranking.next_step` has what to type to measure them."""

from __future__ import annotations

from typing import Any

from tuner.core.domain.records import StudyRecord
from tuner.core.ranking.next_step import NextStep
from tuner.core.ranking.ranking import Ranking
from tuner.core.search.growth import growth_of


def describe_wider(ranking: Ranking, step: NextStep | None = None) -> list[str]:
    """The sentences that stand beside the answer; none where it is not at the edge, or *step* says so."""
    found = ranking.wider
    if found is None or (step is not None and step.slug == "edge"):
        return []
    kept_out = f"Larger layouts are kept out: {found.refused}."
    return [found.sentence if found.larger else f"{found.sentence} {kept_out}"]


def wider_facts(ranking: Ranking) -> dict[str, Any] | None:
    """The same for programs; docs/json.md has the fields."""
    found = ranking.wider
    if found is None:
        return None
    return {
        "sentence": " ".join(describe_wider(ranking)),
        "layout": str(found.leader),
        "is_sure": found.is_sure,
        "larger": [str(layout) for layout in found.larger],
        "refused": found.refused or None,
    }


def grown_sentences(study: StudyRecord) -> list[str]:
    """How the grid grew, a sentence; none where it did not."""
    growth = growth_of(study)
    ways = [] if growth is None else [way for way in growth.ways if way.reached != way.began]
    if growth is None or not ways:
        return []
    came = ", ".join(f"{way.began} to {way.reached}" for way in ways)
    return [
        f"The grid grew from {growth.n_asked} to {len(study.layouts)} layouts, because twice the threads or"
        f" processes gave more from {came} (windows before block 1, not counted)."
    ]
