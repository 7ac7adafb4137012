"""Axis title and tooltip of the rows of a ranking, for all charts."""

from __future__ import annotations

from tuner.core.ranking.ranked import RankedLayout, Ranking, value_beside
from tuner.reports.model.model import items
from tuner.reports.ranking.groups import row_group
from tuner.reports.ranking.ranking_cells import UNKNOWN, beside_cell

#: largest end of the axis, as a multiple of the largest mean; an interval that reaches further ends in an
#: arrow
MOST_OF_MEAN = 1.6


def unit_of(ranking: Ranking) -> str:
    """Return the ranked quantity as the title of an axis."""
    return "items per 10 min" if ranking.objective == "throughput" else "items per CPU second"


def tooltip_of(row: RankedLayout, ranking: Ranking) -> str:
    """Return the tooltip of a mark: layout, value, interval, group."""
    from tuner.reports.ranking.ranking_words import level_of

    value = value_beside(row, ranking)
    if value.mean is None:
        return f"{row.layout}: {row.reason or 'not measured'}"
    interval, group = beside_cell(row, ranking), row_group(row, ranking.objective)
    shown = "unknown interval" if interval == UNKNOWN else f"{interval}, {level_of(ranking)}"
    ends = "" if interval == "-" else f" ({shown})"
    return f"{row.layout}: {items(value.mean)} {unit_of(ranking)}{ends}, {group}"
