"""Throughput that falls and memory that grows after the start of the best layout, in sentences."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tuner.core.domain.layout import Layout
from tuner.core.messages.launch import memory_grows, throughput_falls
from tuner.core.ranking.launch_trends import loss_per_h
from tuner.core.ranking.race_result import leader
from tuner.core.ranking.ranked import Ranking
from tuner.core.stats.interval import Estimate
from tuner.core.windows.memory_growth import MemoryGrowth


def describe_trends(ranking: Ranking) -> list[str]:
    """Return a sentence each if the best layout loses throughput, or takes more memory, as a launch lasts."""
    row = leader(ranking)
    if row is None:
        return []
    return [
        *describe_loss(row.layout, row.trend_per_h, ranking.within),
        *describe_growth(row.layout, row.memory_growth),
    ]


def describe_loss(layout: Layout, trend: Estimate | None, within: float) -> list[str]:
    """Return a sentence if the *trend* of *layout*, per hour, is a loss of more than *within*; else none."""
    loss = loss_per_h(trend, within)
    if loss is None or loss.mean is None or loss.low is None or loss.high is None:
        return []
    return [f"{throughput_falls(layout, loss.mean, loss.low, loss.high).text}."]


def describe_growth(layout: Layout, growth: MemoryGrowth | None) -> list[str]:
    """Return a sentence if the memory of *layout* is shown to grow; else none."""
    if growth is None or not growth.is_shown:
        return []
    ends = (growth.per_h.mean, growth.per_h.low, growth.per_h.high)
    per_h, least, most = (0.0 if end is None else end for end in ends)
    later = growth.after(Estimate(growth.now_bytes)).mean or growth.now_bytes
    text = memory_grows(layout, (per_h, least, most), growth.now_bytes, later, growth.horizon_s).text
    return [f"{text[0].upper()}{text[1:]}."]


def growth_facts(growth: MemoryGrowth | None) -> dict[str, Any] | None:
    """Return the same for programs; None: it is not known."""
    if growth is None:
        return None
    return {
        "bytes_per_h": asdict(growth.per_h),
        "is_shown": growth.is_shown,
        "horizon_s": growth.horizon_s,
        "bytes_after_horizon": growth.after(Estimate(growth.now_bytes)).mean,
    }
