"""Waits that stand for a remote store."""

from __future__ import annotations

import math
import random
import time

from .errors import OutOfTimeError
from .stop_event import StopEvent

SIGMA = 0.5  #: of the logarithm: the 95th percentile is twice the mean


def drawn_delay_s(mean_ms: float, *, seed: int, crash_id: str, stage: str) -> float:
    """A lognormal delay; an item's is the same in every layout, so that layouts differ less by chance."""
    if mean_ms <= 0:
        return 0.0
    noise = random.Random(f"{seed}:{stage}:{crash_id}")
    return noise.lognormvariate(math.log(mean_ms / 1000) - SIGMA**2 / 2, SIGMA)


def wait(delay_s: float, stop: StopEvent) -> int:
    """Wait *delay_s*, while stopping only as long as there is time; the nanoseconds it took.

    Raises:
        OutOfTimeError: the processor had to stop earlier.
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
