"""Names of the three groups of a ranking, and the assumptions of its claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer
from tuner.core.ranking.ranked import RankedLayout, Ranking, value_of
from tuner.core.stats.groups import FAR, Group, OfBest
from tuner.core.text.figures import list_names, percent, pluralize
from tuner.reports.ranking.ranking_cells import UNKNOWN, UNKNOWN_MEANS, beside_cell, interval_cell

NAMES: dict[Group, str] = {
    "best-or-tied": "best or tied",
    "not-ruled-out": "not ruled out yet",
    "slower": "slower",
}
NOT_RANKED = "not ranked"
#: assumption when noise is pooled over all layouts
SCATTER = "all layouts have similar noise"
#: assumption of a calibrated race: a layout that is better than all similar ones is found only by chance
SMOOTH = "similar layouts have similar throughput"
THESE_HOURS = "in hours like those measured"  #: a study of a few hours does not cover a whole day
_MOST_TOLD = 1000  #: largest printed number of launches; nobody would make more for this result


def group_name(group: Group, objective: str = "throughput") -> str:
    """Return the name of a group in a ranking by *objective*."""
    return "worse" if group == "slower" and objective != "throughput" else NAMES[group]


def row_group(row: RankedLayout, objective: str) -> str:
    """Return the group of a row in words."""
    return NOT_RANKED if row.group is None else group_name(row.group, objective)


def describe_groups(tied: Sequence[Layout], open_: Sequence[Layout], most: int = 10) -> list[str]:
    """Return the layouts next to the named one, a part of a sentence for each group that has any."""
    return [
        *([f"tied with it: {list_names(tied, most)}"] if tied else []),
        *([f"not ruled out yet: {list_names(open_, most)}"] if open_ else []),
    ]


def to_decide_cell(row: RankedLayout) -> str:
    """Return how many launches would decide on a layout; ``-`` if it is decided."""
    if row.of_best is None or (n := row.of_best.n_to_decide) is None:
        return "-"
    return f"{n}" if n <= _MOST_TOLD else f"> {_MOST_TOLD}"


def condition_of(ranking: Ranking) -> str:
    """Return the condition of the comparison in a study without a claim."""
    return f"if {SCATTER}" if ranking.boxes is not None else THESE_HOURS


def condition_of_claim(answer: Answer) -> str:
    """Return the condition of a race's answer."""
    assumed = [SMOOTH] * (answer.kind == "calibrated") + [SCATTER] * answer.pools_noise
    return f"if {' and '.join(assumed)}, {THESE_HOURS}" if assumed else THESE_HOURS


def describe_intervals(ranking: Ranking, level: str, unit: str, show: Any) -> list[str]:
    """Return explanations of the interval column and of the columns next to it; none without intervals."""
    best = ranking.best
    unknown = [UNKNOWN_MEANS] if any(beside_cell(row, ranking) == UNKNOWN for row in ranking.rows) else []
    if best is None or all(row.of_best is None or row.of_best.ratio.low is None for row in ranking.rows):
        return unknown
    own = value_of(best, ranking.objective)
    lines = [
        f"The intervals ({level}, corrected for all pairs) are for the difference to {best.layout}: a layout"
        f" whose interval ends below {show(own.mean)} {unit} is {group_name('slower', ranking.objective)}."
    ]
    own_interval = interval_cell(own, show)
    if own_interval == UNKNOWN:
        lines.append(f"{best.layout} itself: unknown ({level}).")
        unknown = [UNKNOWN_MEANS]
    elif own_interval != "-":
        lines.append(f"{best.layout} itself: {own_interval} {unit} ({level}).")
    lines += unknown
    if ranking.of_group("best-or-tied")[1:]:
        within = percent(ranking.within)
        lines.append(
            f"Tied: measured within {within} of {best.layout}, and, considered alone, not more than"
            f" {percent(FAR * ranking.within)} behind it ({level})."
        )
    if any(row.of_best is not None and row.of_best.n_to_decide for row in ranking.rows):
        lines.append(
            f"To decide: estimated number of further launches of the layout, and as many of {best.layout},"
            " until the layout changes its group."
        )
    if once := [row.layout for row in ranking.of_group("not-ruled-out") if _has_one_launch(row)]:
        lines.append(
            f"{list_names(once)} had too few launches for an interval: {pluralize(1, 'launch')} rules "
            "nothing out."
        )
    return lines


def of_best_facts(of_best: OfBest | None) -> dict[str, Any] | None:
    """Return the interval of a group as JSON fields: shares of the best layout's value."""
    if of_best is None:
        return None
    return {**asdict(of_best.ratio), "least": of_best.least, "launches_to_decide": of_best.n_to_decide}


def _has_one_launch(row: RankedLayout) -> bool:
    return row.of_best is not None and row.of_best.ratio.low is None and row.of_best.n_to_decide is not None
