"""Defaults and units that several parts of tuner share; each value stands here only."""

from __future__ import annotations

WITHIN = 0.02  #: margin: the answer may be worse than the best layout by this share
CONFIDENCE = 0.95  #: confidence level of an answer
WINDOW_S = 600.0  #: longest window of a study
SHORTEST_WINDOW_S = 60.0  #: shortest window of a race
#: the same for layouts that take turns, which share the noise of the host; most of the remaining noise is
#: between launches, so longer windows would add little
SHORTEST_IN_TURNS_S = 10.0
REPEATS = 3  #: launches of each layout of a full grid
STOP_WAIT_S = 60.0  #: time from the stop signal to KILL
STOP_WAIT = f"{STOP_WAIT_S:g}s"  #: the same as text, as in a config
HORIZON_S = 86_400.0  #: time after its start for which a layout must keep its memory limit
#: largest share of a window spent waiting for memory; it is 0 on a host with enough memory
MEMORY_PRESSURE_RATIO = 0.05
NO_GAIN_RATIO = 1.05  #: ratio of the throughput of two layouts, below which there is no gain
LEAST_LAUNCHES = 2  #: fewest launches of a layout before it can be distinguished, ruled out or named
TEN_MINUTES_S = 600.0  #: throughput is printed per ten minutes
