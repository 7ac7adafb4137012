"""Waits that simulate a remote store."""

from __future__ import annotations

import math
import random
import time

from .errors import OutOfTimeError
from .stop_event import StopEvent

SIGMA = 0.5  #: standard deviation of the logarithm; the 95th percentile is then twice the mean


def drawn_delay_s(mean_ms: float, *, seed: int, crash_id: str, stage: str) -> float:
    """Return a lognormal delay in seconds, the same for an item in every layout to reduce random noise."""
    if mean_ms <= 0:
        return 0.0
    noise = random.Random(f"{seed}:{stage}:{crash_id}")
    return noise.lognormvariate(math.log(mean_ms / 1000) - SIGMA**2 / 2, SIGMA)


def wait(delay_s: float, stop: StopEvent) -> int:
    """Wait *delay_s* seconds, but after a stop only until its deadline; return the nanoseconds waited.

    Raises:
        OutOfTimeError: the deadline of a stop came first.
    """
    if delay_s <= 0:
        return 0
    started_ns = time.perf_counter_ns()
    until_s = time.monotonic() + delay_s
    if stop.wait(delay_s):
        deadline_s = stop.deadline_s()
        end_s = until_s if deadline_s is None else min(until_s, deadline_s)
        time.sleep(max(0.0, end_s - time.monotonic()))
        if end_s < until_s:
            raise OutOfTimeError
    return time.perf_counter_ns() - started_ns
