"""Services of known demands, each of another kind."""

from __future__ import annotations

from tuner.core.model.demand import Demands

MIXES = {
    "gil": Demands(gil_s=0.06, child_s=0.01, asleep_s=0.01),
    "child": Demands(gil_s=0.01, child_s=0.1, asleep_s=0.02),
    "wait": Demands(gil_s=0.01, child_s=0.01, asleep_s=0.2),
    "mixed": Demands(gil_s=0.03, child_s=0.06, asleep_s=0.05, blocked_s=0.02),
}
