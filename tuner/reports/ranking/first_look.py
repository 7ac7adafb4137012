"""Provisional ranking after a first look."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from tuner.core.defaults import TEN_MINUTES_S
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord, WindowRecord, value_of
from tuner.core.text.figures import percent, pluralize, render_duration

ALIKE_RATIO = 0.1  #: launches and short windows differ so much by chance, whatever they count
SIGMAS = 2.0


def render_first_look(study: StudyRecord, windows: Sequence[WindowRecord]) -> str:
    """Return the ranking, marked as provisional, with its unknowns; empty: no window was taken."""
    if not windows:
        return ""
    best_of = {window.layout: window for window in windows if not window.void and window.n_done}
    without = [x for x in dict.fromkeys(window.layout for window in windows) if x not in best_of]
    lengths = render_duration(round(windows[0].length_s))
    head = (
        f"PROVISIONAL: one window of {lengths} of {len(best_of)} of {pluralize(len(study.layouts), 'layout')}"
    )
    values = {layout: value_of(window, study.objective) or 0.0 for layout, window in best_of.items()}
    ranked = sorted(values, key=lambda layout: -values[layout])
    if not ranked:
        return f"{head}; none of them is valid. The study continues.\n"
    near = [x for x in ranked if _is_near(best_of[ranked[0]], best_of[x], values[ranked[0]], values[x])]
    unit = "items/10 min" if study.objective == "throughput" else "items per CPU second"
    scale = TEN_MINUTES_S if study.objective == "throughput" else 1.0
    cells = max(len(str(layout)) for layout in ranked)
    lines = [f"{head}.", f"May be the best: {', '.join(map(str, near))}.", ""]
    for layout in ranked:
        behind = "" if layout == ranked[0] else f"  -{percent(1 - values[layout] / values[ranked[0]])}"
        value = f"{values[layout] * scale:,.0f}".replace(",", " ")
        lines.append(f"  {layout!s:<{cells}}  {value:>12} {unit}{behind}")
    lines += ["", *_unknown(study, without, len(best_of))]
    return "\n".join(lines) + "\n"


def _is_near(best: WindowRecord, other: WindowRecord, best_value: float, value: float) -> bool:
    by_count = SIGMAS * sqrt(1 / best.n_done + 1 / other.n_done)
    return value >= best_value * (1 - max(ALIKE_RATIO, by_count))


def _unknown(study: StudyRecord, without: Sequence[Layout], n_seen: int) -> Sequence[str]:
    parts = ["which of the candidates is the best"]
    unseen = len(study.layouts) - n_seen - len(without)
    if unseen > 0:
        parts.append(f"the results of the other {pluralize(unseen, 'layout')}")
    if without:
        parts.append(f"the results of {', '.join(map(str, without))}")
    return [f"Not known yet: {'; '.join(parts)}."]
