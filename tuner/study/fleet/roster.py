"""The boxes of a study: who is there, who came, went or was left out, and whether anybody is waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from tuner.core.domain.fleet import BoxFacts
from tuner.core.domain.records import LaunchRecord, StudyRecord
from tuner.core.domain.simulated import is_simulated
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.messages.fleet import box_left_out
from tuner.ports import Clock, FleetProgress, Store
from tuner.study.fleet.members import Member, Work

PATIENCE_S = 600.0  #: so long a study without any box waits for one


class Roster:
    """Boxes come and go as they like; one that cannot be used stays where it is and is given nothing."""

    def __init__(
        self,
        study: StudyRecord,
        store: Store,
        progress: FleetProgress,
        clock: Clock,
        launches: Sequence[LaunchRecord],
        give_up: Callable[[Member, str], None],
    ) -> None:
        """*launches*: those of earlier sessions; *give_up*: nothing comes of what a box is at, and why."""
        self._study, self._store, self._progress, self._clock = study, store, progress, clock
        self._give_up = give_up
        self.members: dict[str, Member] = {}  #: who is there, by name, whether used or left out
        self._alone_since_s = clock.monotonic_s()  #: since when no box can be used
        self.has_served = False  #: whether the service ran on a box in this session
        self._warm_wall_s: dict[str, float] = {}  #: of boxes that are not there
        for launch in launches:
            seen_s = launch.ended_wall_s or launch.started_wall_s
            self._warm_wall_s[launch.box] = max(self._warm_wall_s.get(launch.box, -inf), seen_s)

    @property
    def in_use(self) -> list[Member]:
        """Who is there, and not left out."""
        return [one for one in self.members.values() if not one.is_left_out]

    @property
    def n_ever(self) -> int:
        """How many boxes there were, over all sessions."""
        return len({*self._warm_wall_s, *self.members})

    def at_work(self) -> list[Work]:
        """What boxes are at."""
        return [one.work for one in self.members.values() if one.work is not None]

    def came(self, facts: BoxFacts) -> None:
        """Have a box join, or be free again."""
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
        ours, theirs = (one.get("tuner") for one in (self._study.provenance, facts.provenance))
        if ours != theirs:
            self.leave_out(member, f"it has tuner {theirs}, and the study is of tuner {ours}")

    def went(self, box: str, why: str) -> None:
        """Have a box be there no more, and what it was at be asked for again."""
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
        """A box cannot use the study's configuration."""
        member.problem = ConfigError(problem, hint=hint or "")
        self._give_up(member, problem)
        self.leave_out(member, problem)

    def leave_out(self, member: Member, why: str) -> None:
        """Give a box nothing more in this session, and say why."""
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
        """Wait for a box, though not for ever, and not where none that came could ever be used.

        Raises:
            ConfigError: no box that came could use the study's configuration.
            MeasurementError: the service started on no box, or none came for too long.
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
