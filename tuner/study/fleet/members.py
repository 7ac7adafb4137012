"""The boxes of a study on several, and what each is at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf

from tuner.core.domain.fleet import BoxFacts, Order, Place
from tuner.core.domain.records import LaunchRecord
from tuner.core.errors import ConfigError
from tuner.study.history import Launched
from tuner.study.launch.plan_cells import Cell


@dataclass(slots=True)
class Work:
    """What a box is at: a place of the study, and the launch that it makes for it."""

    place: Place
    cell: Cell
    order: Order | None = None  #: None: the next launch is to be ordered
    launched: Launched | None = None  #: None: it has not begun
    launch_id: int = 0
    began_s: float = 0.0  #: by the coordinator's clock
    spoilt: list[tuple[int, LaunchRecord]] = field(default_factory=list)  #: launches that failed
    n_lost: int = 0  #: launches that were lost though the box is there


@dataclass(slots=True)
class Member:
    """A box of the fleet."""

    facts: BoxFacts
    warm_wall_s: float = -inf  #: when it surely had the service's files in its page cache
    work: Work | None = None
    starts: bool = False  #: the service was started there
    is_on_trial: bool = False  #: its first start failed: the smallest layout is to be tried
    does_not_start: bool = False  #: not even that one starts
    n_disturbed: int = 0  #: places in a row without a window, for no fault of their layouts
    n_vain: int = 0  #: places in a row all of whose launches failed here, though their layouts run elsewhere
    is_left_out: bool = False
    problem: ConfigError | None = None  #: why it cannot make any launch


def normalize_launch(launch: LaunchRecord, box: BoxFacts) -> LaunchRecord:
    """*launch* with the coordinator's wall clock and its name of the box."""
    ended_s = None if launch.ended_wall_s is None else launch.ended_wall_s - box.ahead_s
    began_s = launch.started_wall_s - box.ahead_s
    return replace(launch, box=box.name, started_wall_s=began_s, ended_wall_s=ended_s)


def covered_s(launches: Sequence[LaunchRecord]) -> float:
    """For how long any of *launches* ran."""
    found_s, until_s = 0.0, -inf
    for launch in sorted(launches, key=lambda one: one.started_wall_s):
        ended_s = launch.ended_wall_s or launch.started_wall_s
        found_s += max(0.0, ended_s - max(until_s, launch.started_wall_s))
        until_s = max(until_s, ended_s)
    return found_s
