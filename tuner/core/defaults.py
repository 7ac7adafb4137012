"""Defaults and units that several parts of tuner share; each value stands here only."""

from __future__ import annotations

WITHIN = 0.02  #: the answer may be worse than the best layout by this share
CONFIDENCE = 0.95  #: confidence level of an answer
WINDOW_S = 600.0  #: the longest window of a study
REPEATS = 3  #: launches of each layout of a full grid
STOP_WAIT_S = 60.0  #: time from the stop signal to KILL
STOP_WAIT = f"{STOP_WAIT_S:g}s"  #: the same as text, as in a config
HORIZON_S = 86_400.0  #: a layout is to keep its memory limit for so long after its start
MEMORY_PRESSURE_RATIO = 0.05  #: share of a window spent waiting for memory; 0 on a host that has enough
NO_GAIN_RATIO = 1.05  #: of the throughput of two layouts: a lower one is no gain
LEAST_LAUNCHES = 2  #: of a layout, before it is told apart, ruled out or named
TEN_MINUTES_S = 600.0  #: throughput is printed per ten minutes
