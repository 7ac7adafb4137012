"""Warm-up and steady state of one launch: when a window may begin, where steady state did, or why never.

mser.py is the rule; transient.py follows what it leaves; trend.py and levels.py find what is no warm-up;
online.py decides while a launch runs, head.py once a window is over, verdict.py once the launch is. What is
claimed: docs/method/warmup.md.
"""

from tuner.core.warmup.online import LEAST_S, has_settled, spoils, warming_n
from tuner.core.warmup.transient import BATCH, batch_means, remaining_ratio, transient_end, truncation_point
from tuner.core.warmup.verdict import (
    FEWEST,
    NotSettled,
    Steady,
    Trend,
    detectable_slope,
    estimate_trend,
    judge,
    pool_trends,
)

__all__ = [
    "BATCH",
    "FEWEST",
    "LEAST_S",
    "NotSettled",
    "Steady",
    "Trend",
    "batch_means",
    "detectable_slope",
    "estimate_trend",
    "has_settled",
    "judge",
    "pool_trends",
    "remaining_ratio",
    "spoils",
    "transient_end",
    "truncation_point",
    "warming_n",
]
