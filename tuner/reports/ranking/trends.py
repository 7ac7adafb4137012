"""What the best layout does as a launch lasts, in sentences."""

from __future__ import annotations

from tuner.core.domain.layout import Layout
from tuner.core.messages.launch import throughput_falls
from tuner.core.ranking.launch_trends import loss_per_h
from tuner.core.ranking.race_result import leader
from tuner.core.ranking.ranked import Ranking
from tuner.core.stats.interval import Estimate


def describe_trends(ranking: Ranking) -> list[str]:
    """Return a sentence if the best layout loses throughput as a launch lasts; else none."""
    row = leader(ranking)
    return [] if row is None else describe_loss(row.layout, row.trend_per_h, ranking.within)


def describe_loss(layout: Layout, trend: Estimate | None, within: float) -> list[str]:
    """Return a sentence if the *trend* of *layout*, per hour, is a loss of more than *within*; else none."""
    loss = loss_per_h(trend, within)
    if loss is None or loss.mean is None or loss.low is None or loss.high is None:
        return []
    return [f"{throughput_falls(layout, loss.mean, loss.low, loss.high).text}."]
