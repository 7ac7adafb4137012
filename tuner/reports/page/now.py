"""Section of the HTML page on the current launch, while a study runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from tuner.core.domain.live import BoxLive, Live
from tuner.core.text.figures import list_names, render_duration, render_rest
from tuner.reports.model.model import items, load
from tuner.reports.page.blocks import Block, Facts, Section, Text

_MOST_BOXES = 24  #: largest number of hosts with a row each
_PHASES = {
    "starting": "starting",
    "warming-up": "warming up",
    "window": "measuring a window",
    "between": "between windows",
}


def now_section(live: Live | None) -> Section:
    """Return the section before the answer; the time left is an upper bound."""
    if live is None:
        return Section("now", "Measured now", [Text(["Nothing is being measured."])])
    planned = "" if live.n_planned is None else f" of up to {live.n_planned}"
    facts = [
        *(_on_boxes(live.boxes) if live.boxes else _on_one(live)),
        ("windows", f"{live.n_taken}{planned}"),
        ("left", "not known" if live.remaining_s is None else f"up to {render_rest(live.remaining_s)}"),
    ]
    at = datetime.fromtimestamp(live.at_wall_s, UTC).strftime("%H:%M:%S UTC")
    blocks: list[Block] = [Facts(facts, is_large=True), Text([f"As of {at}."])]
    blocks += [Text([f"{slug}: {text}"], "warning") for slug, text in live.warnings[-5:]]
    return Section("now", "Measured now", blocks)


def _on_one(live: Live) -> list[tuple[str, str]]:
    idle = [layout for layout in live.started if layout != live.layout]
    return [
        ("layout", "-" if live.layout is None else str(live.layout)),
        ("phase", _phase(live)),
        *([("started, idle now", list_names(idle))] if idle else []),
        ("items per 10 min, so far", "-" if live.items_per_s is None else items(600 * live.items_per_s)),
        ("load", load(live.load1)),
        ("tasks active", "-" if live.n_active is None else str(live.n_active)),
    ]


def _on_boxes(boxes: Sequence[BoxLive]) -> list[tuple[str, str]]:
    """Return a row for each host."""
    shown = [
        (one.box, "nothing yet" if one.layout is None else f"{one.layout}, {_phase(one)}")
        for one in boxes[:_MOST_BOXES]
    ]
    left = len(boxes) - len(shown)
    return [*shown, *([("more boxes", str(left))] if left > 0 else [])]


def _phase(one: Live | BoxLive) -> str:
    phase = f"{_PHASES[one.phase]} for {render_rest(one.elapsed_s)}"
    return phase if one.window_s is None else f"{phase} of {render_duration(one.window_s)}"
