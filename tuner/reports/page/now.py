"""What runs at this moment, for a page that is served while a study runs."""

from __future__ import annotations

from datetime import UTC, datetime

from tuner.core.durations import render_duration, render_rest
from tuner.core.overview import Live
from tuner.reports.model import items, load
from tuner.reports.page.blocks import Block, Facts, Section, Text

_PHASES = {
    "starting": "starting",
    "warming-up": "warming up",
    "window": "measuring a window",
    "between": "between two launches",
}


def now_section(live: Live | None) -> Section:
    """Stands before the answer. What is left is the most that is to be expected."""
    if live is None:
        return Section("now", "Now", [Text(["Nothing is measured at the moment."])])
    phase = f"{_PHASES[live.phase]} for {render_rest(live.elapsed_s)}"
    if live.window_s is not None:
        phase += f" of {render_duration(live.window_s)}"
    planned = "" if live.n_planned is None else f" of up to {live.n_planned}"
    facts = [
        ("layout", "-" if live.layout is None else str(live.layout)),
        ("phase", phase),
        ("items per 10 min, so far", "-" if live.items_per_s is None else items(600 * live.items_per_s)),
        ("load", load(live.load1)),
        ("tasks active", "-" if live.n_active is None else str(live.n_active)),
        ("windows", f"{live.n_taken}{planned}"),
        ("left", "not known" if live.remaining_s is None else f"up to {render_rest(live.remaining_s)}"),
    ]
    at = datetime.fromtimestamp(live.at_wall_s, UTC).strftime("%H:%M:%S UTC")
    blocks: list[Block] = [Facts(facts, is_large=True), Text([f"As of {at}."])]
    blocks += [Text([f"{slug}: {text}"], "warning") for slug, text in live.warnings[-5:]]
    return Section("now", "Now", blocks)
