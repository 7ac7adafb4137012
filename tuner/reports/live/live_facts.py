"""JSON fields of a running study; docs/watch.md lists them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tuner.core.domain.records import is_simulated
from tuner.core.ranking.live_status import Board, LayoutStatus
from tuner.core.ranking.overview import Live
from tuner.reports.live.live_words import describe_end, describe_standing


def live_facts(name: str, board: Board, go_on: str | None) -> dict[str, Any]:
    """Return the contents of the view of *board*; *name* is the study's file, *go_on* the command to
    resume it.
    """
    answer, study = board.answer, board.study
    return {
        "schema_version": 1,
        "simulated": is_simulated(study),
        "file": name,
        "service": study.service,
        "host": study.provenance.host,
        "strategy": study.strategy,
        "objective": study.objective,
        "cores": study.cores,
        "within": study.within_ratio,
        "confidence": study.confidence,
        "kind": study.kind,
        "stage": board.stage,
        "standing": describe_standing(board) or None,
        "leader": None if answer is None or answer.layout is None else str(answer.layout),
        "reached": answer is not None and answer.reached,
        "windows": board.n_windows,
        "void": board.n_void,
        "layouts": [_place(place) for place in board.places],
        "live": None if board.live is None else moment_facts(board.live),
        "rest_s": board.rest_s if board.live is None else board.live.remaining_s,
        "ends": describe_end(board),
        "go_on": go_on,
    }


def _place(place: LayoutStatus) -> dict[str, Any]:
    return {
        "layout": str(place.layout),
        "state": place.state,
        "value": asdict(place.value),
        "behind_ratio": place.behind_ratio,
        "n_windows": place.n_windows,
        "n_void": place.n_void,
        "reason": place.reason,
    }


def moment_facts(live: Live) -> dict[str, Any]:
    """Return what runs at this moment."""
    warnings = [{"slug": slug, "text": text} for slug, text in live.warnings]
    layout = None if live.layout is None else str(live.layout)
    facts = {**asdict(live), "layout": layout, "warnings": warnings}
    boxes = [{**asdict(box), "layout": None if box.layout is None else str(box.layout)} for box in live.boxes]
    del facts["boxes"], facts["started"]
    started = [str(one) for one in live.started]
    return {**facts, **({"started": started} if started else {}), **({"boxes": boxes} if boxes else {})}
