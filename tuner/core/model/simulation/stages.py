"""What an item goes through, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tuner.core.model.demand import Demands

#: "gil" and "core" compute, on shared cores; the others wait: "blocked" uninterruptibly, in the load average.
StageKind = Literal["gil", "core", "asleep", "blocked"]
STAGE_KINDS: tuple[StageKind, ...] = ("gil", "core", "asleep", "blocked")


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of an item's path, gone through by every item."""

    kind: StageKind
    mean_s: float  #: above 0


def path_of(demands: Demands, *, has_gil: bool) -> tuple[Stage, ...]:
    """The stages of an item, in order; stages of zero mean are left out.

    One GIL visit, the wait asleep, the child's start, the child, Python without the GIL, one GIL visit, the
    uninterruptible wait. The GIL is visited ``n_gil_visits`` times for an equal share of ``gil_s``. Visits
    beyond two come before the child, with an equal part of the wait asleep before each; with one visit alone
    it is the first. Without a GIL its visits are plain work.
    """
    n_before = max(1, int(demands.n_gil_visits) - 1)
    n_waits = max(1, n_before - 1)
    of_gil: StageKind = "gil" if has_gil else "core"
    visit = Stage(of_gil, demands.gil_s / demands.n_gil_visits)
    wait = Stage("asleep", demands.asleep_s / n_waits)
    path = [visit, wait]
    path += [visit, wait] * (n_before - 2)
    path += [visit] * (n_before > 1)
    path += [
        Stage("blocked", demands.spawn_s),
        Stage("core", demands.child_s),
        Stage("core", demands.python_s),
    ]
    path += [visit] * (demands.n_gil_visits > 1)
    path.append(Stage("blocked", demands.blocked_s))
    return tuple(stage for stage in path if stage.mean_s > 0)
