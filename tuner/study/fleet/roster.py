"""The hosts of a study: which are present, which joined, left or were excluded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from tuner.core.domain.fleet import LOST, BoxFacts, Order, Place
from tuner.core.domain.records import LaunchRecord, StudyRecord, is_simulated
from tuner.core.domain.safety_limits import was_stopped_by_brake
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.messages.fleet import box_left_out
from tuner.ports import Clock, FleetProgress, Store
from tuner.study.history import Launched
from tuner.study.launch.plan_cells import Cell
from tuner.study.run import MOST_DISTURBED

# The hosts of a study on several hosts, and the work of each.


@dataclass(slots=True)
class Work:
    """The work of a host: a place of the study, and its present launch."""

    place: Place
    cell: Cell
    order: Order | None = None  #: None: the next launch has not been ordered yet
    launched: Launched | None = None  #: None: the launch has not begun
    launch_id: int = 0
    began_s: float = 0.0  #: start of the launch, by the coordinator's clock
    spoilt: list[tuple[int, LaunchRecord]] = field(default_factory=list)  #: launches that failed
    n_lost: int = 0  #: launches that were lost although the host is connected


@dataclass(slots=True)
class Member:
    """A host of the fleet."""

    facts: BoxFacts
    warm_wall_s: float = -inf  #: last time at which the host had the service's files in its page cache
    work: Work | None = None
    starts: bool = False  #: whether the service has started on this host
    is_on_trial: bool = False  #: whether its first start failed, so that it tries the smallest layout next
    does_not_start: bool = False  #: whether even the smallest layout did not start
    n_disturbed: int = 0  #: successive places without a valid window, through no fault of their layouts
    n_vain: int = 0  #: successive places whose launches all failed here, although their layouts run elsewhere
    is_left_out: bool = False
    problem: ConfigError | None = None  #: reason why the host cannot make any launch


def normalize_launch(launch: LaunchRecord, box: BoxFacts) -> LaunchRecord:
    """Return *launch* with times of the coordinator's clock and the coordinator's name of the host."""
    ended_s = None if launch.ended_wall_s is None else launch.ended_wall_s - box.ahead_s
    began_s = launch.started_wall_s - box.ahead_s
    return replace(launch, box=box.name, started_wall_s=began_s, ended_wall_s=ended_s)


def covered_s(launches: Sequence[LaunchRecord]) -> float:
    """Return the seconds in which at least one of *launches* ran."""
    found_s, until_s = 0.0, -inf
    for launch in sorted(launches, key=lambda one: one.started_wall_s):
        ended_s = launch.ended_wall_s or launch.started_wall_s
        found_s += max(0.0, ended_s - max(until_s, launch.started_wall_s))
        until_s = max(until_s, ended_s)
    return found_s


# Attribution of a failed launch to its host or to its layout.

#: successive places whose layout fails on a host but runs on others, until the host is left out
MOST_VAIN = 2


def note_start(member: Member, launch: LaunchRecord, *, may_try: bool) -> bool:
    """Record the end of a launch; return whether it proves that no layout starts on the host.

    If a first start, or all launches of a layout, failed, and *may_try* is set, the host is put on trial: it
    starts the smallest layout next, which shows whether host or layout is at fault. A start that a safety
    limit stops proves neither.
    """
    has_started = launch.running_after_s is not None
    if not has_started and (
        was_stopped_by_brake(launch) or launch.error is None
    ):  # or by the end of the budget
        member.is_on_trial = False
        return False
    if member.is_on_trial and not has_started:
        member.does_not_start = True
        return True
    was_tried, member.is_on_trial = member.is_on_trial, False
    member.starts = member.starts or has_started
    cell = None if member.work is None else member.work.cell
    is_in_vain = cell is not None and cell.is_hopeless and not cell.is_over_limit
    member.is_on_trial = not was_tried and may_try and (not member.starts or is_in_vain)
    return False


def clear_layout(work: Work, box: str, store: Store) -> None:
    """Mark failed launches of host *box*, on which nothing starts, as lost, so no layout is blamed."""
    for launch_id, launch in work.spoilt:
        text = f"{LOST}: nothing starts on {box}; {launch.error}"
        store.finish_launch(launch_id, replace(launch, error=text))
        work.cell.n_spoilt -= 1


def note_place(member: Member, cell: Cell, elsewhere: Iterable[Cell]) -> bool:
    """Record the end of a place; return whether its host caused that it gave no window.

    That is the case if all its launches failed, but its layout gave windows *elsewhere*.
    """
    if cell.kept:
        member.n_disturbed = member.n_vain = 0
    elif cell.is_vain and not cell.is_hopeless:
        member.n_disturbed += 1
    is_vain = (
        cell.is_hopeless
        and not cell.is_over_limit
        and any(one.layout == cell.layout and one.kept for one in elsewhere)
    )
    member.n_vain += is_vain
    return is_vain


def enough_of(member: Member, cell: Cell) -> str | None:
    """Return why to exclude a host after its latest places, *cell* the last; None: do not exclude it."""
    if member.n_disturbed >= MOST_DISTURBED:
        return f"{MOST_DISTURBED} launches in a row gave no valid window"
    if member.n_vain >= MOST_VAIN:
        return (
            f"{MOST_VAIN} times in a row all launches of a layout failed here but not on other hosts,"
            f" last of {cell.layout}"
        )
    return None


PATIENCE_S = 600.0  #: longest wait of a study that has no host


class Roster:
    """The hosts that are present; they may join and leave at any time. An unusable host gets no launches."""

    def __init__(
        self,
        study: StudyRecord,
        store: Store,
        progress: FleetProgress,
        clock: Clock,
        launches: Sequence[LaunchRecord],
        give_up: Callable[[Member, str], None],
    ) -> None:
        """*launches*: those of earlier sessions; *give_up*: cancels a host's work, with the reason."""
        self._study, self._store, self._progress, self._clock = study, store, progress, clock
        self._give_up = give_up
        self.members: dict[str, Member] = {}  #: connected hosts by name, used or left out
        self._alone_since_s = clock.monotonic_s()  #: start of the time in which no host can be used
        self.has_served = False  #: whether the service has run on a host in this session
        #: the same as `Member.warm_wall_s`, for hosts that are not connected
        self._warm_wall_s: dict[str, float] = {}
        for launch in launches:
            seen_s = launch.ended_wall_s or launch.started_wall_s
            self._warm_wall_s[launch.box] = max(self._warm_wall_s.get(launch.box, -inf), seen_s)

    @property
    def in_use(self) -> list[Member]:
        """The hosts that are present and not excluded."""
        return [one for one in self.members.values() if not one.is_left_out]

    @property
    def n_ever(self) -> int:
        """The number of hosts so far, over all sessions."""
        return len({*self._warm_wall_s, *self.members})

    def at_work(self) -> list[Work]:
        """Return the present work of all hosts."""
        return [one.work for one in self.members.values() if one.work is not None]

    def came(self, facts: BoxFacts) -> None:
        """Record that a host joined, or is free again."""
        known = self.members.get(facts.name)
        if known is not None:
            self._give_up(known, "it is free, and did not end it")
            return
        self._store.add_box(facts, self._clock.wall_s())
        self.members[facts.name] = member = Member(facts, self._warm_wall_s.get(facts.name, -inf))
        self._progress.box_came(facts)
        offered, asked = facts.cores, self._study.box_cores
        if not is_simulated(self._study) and abs(offered - asked) > 0.01:
            self.leave_out(member, f"it offers {offered:g} cores, and the study is for {asked:g}")
        ours, theirs = self._study.provenance.tuner, facts.provenance.tuner
        if ours != theirs:
            self.leave_out(member, f"it has tuner {theirs}, and the study is of tuner {ours}")

    def went(self, box: str, why: str) -> None:
        """Record that a host left, and give up its work, which is requested again."""
        member = self.members.pop(box, None)
        if member is None:
            return
        self._warm_wall_s[box] = member.warm_wall_s
        self._store.end_box(box, self._clock.wall_s(), why)
        self._progress.box_went(box, why)
        self._give_up(member, why)
        if not self.in_use:
            self._alone_since_s = self._clock.monotonic_s()

    def refused(self, member: Member, problem: str, hint: str | None) -> None:
        """Exclude a host that cannot use the study's configuration."""
        member.problem = ConfigError(problem, hint=hint or "")
        self._give_up(member, problem)
        self.leave_out(member, problem)

    def leave_out(self, member: Member, why: str) -> None:
        """Exclude a host for the rest of this session, and warn of the reason."""
        if member.is_left_out:
            return
        member.is_left_out = True
        if member.work is not None:
            self._give_up(member, why)
        self._store.end_box(member.facts.name, self._clock.wall_s(), why)
        self._progress.warning(*box_left_out(member.facts.name, why))
        if not self.in_use:
            self._alone_since_s = self._clock.monotonic_s()

    def check_patience(self) -> None:
        """Raise an error if no further host is to be waited for.

        Raises:
            ConfigError: no host that joined can use the study's configuration.
            MeasurementError: the service starts on no host, or no usable host was present for too long.
        """
        problems = [one.problem for one in self.members.values() if one.problem is not None]
        if problems and len(problems) == len(self.members) and not self.has_served:
            raise problems[0]
        if any(one.does_not_start for one in self.members.values()) and not self.has_served:
            raise MeasurementError(
                f"{self._study.service} does not start on any host; the reasons are printed above"
            )
        if self._clock.monotonic_s() - self._alone_since_s > PATIENCE_S:
            raise MeasurementError(
                f"no host for {PATIENCE_S / 60:.0f} minutes",
                hint="Connect one with tuner box, then continue with --resume.",
            )
