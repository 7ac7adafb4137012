"""Warnings on falling throughput or growing memory during the launches of the best layout."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tuner.core.domain.layout import Layout
from tuner.core.messages import Message
from tuner.core.messages.launch import memory_grows, throughput_falls
from tuner.core.ranking.aging import LongerLaunch, loss_per_h
from tuner.core.ranking.race_result import leader
from tuner.core.ranking.ranked import RankedLayout, Ranking
from tuner.core.stats.interval import Estimate
from tuner.core.text.figures import percent, render_rest, render_size
from tuner.core.windows.memory_growth import MemoryGrowth


def describe_trends(ranking: Ranking) -> list[str]:
    """Return sentences if the best layout loses throughput, or takes more memory, as a launch lasts."""
    return [
        *(_sentence(message) for message in trend_messages(ranking)),
        *describe_longer(ranking.longer, leader(ranking)),
    ]


def trend_messages(ranking: Ranking) -> list[Message]:
    """Return the warnings on the best layout: throughput that falls, memory that grows."""
    row = leader(ranking)
    if row is None:
        return []
    found = [
        loss_message(row.layout, row.trend_per_h, ranking.within, is_long=ranking.longer is not None),
        growth_message(row.layout, row.memory_growth),
    ]
    return [message for message in found if message is not None]


def loss_message(
    layout: Layout, trend: Estimate | None, within: float, *, is_long: bool = False
) -> Message | None:
    """Return the warning if the *trend* of *layout*, per hour, is a loss of more than *within*."""
    loss = loss_per_h(trend, within)
    if loss is None or loss.mean is None or loss.low is None or loss.high is None:
        return None
    return throughput_falls(layout, loss.mean, loss.low, loss.high, is_long=is_long)


def growth_message(layout: Layout, growth: MemoryGrowth | None) -> Message | None:
    """Return the warning if the memory of *layout* is shown to grow."""
    if growth is None or not growth.is_shown:
        return None
    ends = (growth.per_h.mean, growth.per_h.low, growth.per_h.high)
    per_h, least, most = (0.0 if end is None else end for end in ends)
    later = growth.after(Estimate(growth.now_bytes)).mean or growth.now_bytes
    is_long = growth.early_per_h is not None
    return memory_grows(
        layout, (per_h, least, most), growth.now_bytes, later, growth.horizon_s, is_long=is_long
    )


def describe_messages(*messages: Message | None) -> list[str]:
    """Return a sentence for each message, with its slug."""
    return [_sentence(message) for message in messages if message is not None]


def _sentence(message: Message) -> str:
    return f"{message.text[0].upper()}{message.text[1:]} [{message.slug}]."


def describe_longer(seen: LongerLaunch | None, row: RankedLayout | None) -> list[str]:
    """Describe the longer launches of the answer and its rival in sentences; none without them."""
    if seen is None or row is None:
        return []
    own, rival = seen.leader, seen.rival
    change = own.late / own.early - 1
    word = "less" if change < 0 else "more"
    found = [
        f"In a launch of {render_rest(own.lasts_s)}, {own.layout} did {percent(abs(change))} {word} in the"
        " second half than in the first."
    ]
    if rival is not None and seen.late_ratio is not None:
        times = f"In the second half it did {seen.late_ratio:.3g} times the throughput of {rival.layout}"
        end = f": {own.layout} seems not to be the best in launches this long" if seen.is_overtaken else ""
        found.append(f"{times}{end}.")
    growth = row.memory_growth
    if growth is not None and growth.is_ending and growth.early_per_h is not None:
        early, late = (max(0.0, one.mean or 0.0) for one in (growth.early_per_h, growth.per_h))
        found.append(
            f"Its memory grew by {render_size(early)} per hour in the first half and by {render_size(late)}"
            " per hour in the second: the growth is ending."
        )
    return [" ".join(found)]


def longer_facts(seen: LongerLaunch | None) -> dict[str, Any] | None:
    """Return the same for programs; None: there was no longer launch."""
    if seen is None:
        return None
    return {
        "layout": str(seen.leader.layout),
        "rival": None if seen.rival is None else str(seen.rival.layout),
        "lasts_s": seen.leader.lasts_s,
        "late_to_early_ratio": seen.leader.late / seen.leader.early,
        "late_to_rival_ratio": seen.late_ratio,
        "is_overtaken": seen.is_overtaken,
    }


def growth_facts(growth: MemoryGrowth | None) -> dict[str, Any] | None:
    """Return the same for programs; None: it is not known."""
    if growth is None:
        return None
    return {
        "bytes_per_h": asdict(growth.per_h),
        "is_shown": growth.is_shown,
        "early_bytes_per_h": None if growth.early_per_h is None else asdict(growth.early_per_h),
        "is_ending": growth.is_ending,
        "horizon_s": growth.horizon_s,
        "bytes_after_horizon": growth.after(Estimate(growth.now_bytes)).mean,
    }
