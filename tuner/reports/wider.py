"""That larger layouts give more than the answer, and what to type to measure them: said in one place."""

from __future__ import annotations

from typing import Any

from tuner.core.figures import percent
from tuner.core.fleet import is_fleet
from tuner.core.growth import growth_of
from tuner.core.ranking import Ranking
from tuner.core.records import StudyRecord
from tuner.core.resuming import TYPED
from tuner.core.simulated import is_simulated
from tuner.core.wider import Wider
from tuner.reports.documents.plain import shell_line


def wider_told(study: StudyRecord, ranking: Ranking) -> list[str]:
    """The sentences that stand beside the answer; none where it is not at the edge."""
    found = ranking.wider
    if found is None:
        return []
    what = _what(found)
    will = "will" if found.is_sure else "may"
    used = None if found.cpu_ratio is None else percent(round(found.cpu_ratio, 2))
    waits = (
        f"{found.leader} has the most {what} of these layouts, and they wait most of the time"
        f"{'' if used is None else f' (the service uses {used} of the cores)'}"
    )
    if not found.larger:
        return [f"More {what} {will} give more: {waits}. Larger layouts are kept out: {found.refused}."]
    return [f"More {what} {will} give more: {waits}. Measure more with: {wider_command(study, found)}"]


def wider_command(study: StudyRecord, found: Wider) -> str:
    """What to type to measure larger layouts beside the answer."""
    layouts = ",".join(map(str, (found.leader, *found.larger)))
    simulated, typed = is_simulated(study), TYPED in study.provenance
    words = [
        "tuner",
        "grid",
        *["CONFIG"] * (not simulated and not typed),
        *("--cores", str(study.cores), "--layouts", layouts),
        *("--study", f"{study.service}-more.tuner.db"),
        *["--fleet", "ADDRESS"] * is_fleet(study),
        *["--simulate", "PROFILE"] * simulated,
        *["--", "COMMAND"] * typed,
    ]
    return shell_line(words)


def wider_facts(study: StudyRecord, ranking: Ranking) -> dict[str, Any] | None:
    """The same for programs; docs/json.md has the fields."""
    found = ranking.wider
    if found is None:
        return None
    return {
        "sentence": " ".join(wider_told(study, ranking)),
        "layout": str(found.leader),
        "is_sure": found.is_sure,
        "larger": [str(layout) for layout in found.larger],
        "command": wider_command(study, found) if found.larger else None,
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


def _what(found: Wider) -> str:
    return "threads" if found.leader.has_threads else "processes"
