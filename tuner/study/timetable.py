"""The expected duration of the rest of a study, and checks of its budget."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf
from statistics import fmean

from tuner.core.domain.layout import Layout, spread_subset
from tuner.core.domain.load import Pace, stored_rate
from tuner.core.domain.records import LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.strategy import Proposal
from tuner.core.errors import ConfigError
from tuner.core.text.figures import pluralize, render_duration
from tuner.core.warmup import LEAST_S
from tuner.core.windows.slices import MOST_SKIP_SHARE, MOST_SPREAD_SHARE
from tuner.study.launch.plan_cells import NO_END, Deadline

SETTLING_GUESS_S = 30.0  #: expected warm-up until one was measured: constant work settles after 10-25 s
START_AND_STOP_GUESS_S = 2.0
LEAST_START_AND_STOP_S = 0.5  #: time to start and stop a supervised command that does nothing else
CLIENTS_S = 20.0  #: duration of a search for the number of clients: several measurements of some seconds
SHORTEST_PROPOSED_S = 5.0  #: shortest window that a hint proposes
#: longest slices as a multiple of their counted part, as long as the skipped part does not grow
IN_SLICES_RATIO = 1 + MOST_SKIP_SHARE + MOST_SPREAD_SHARE

_Place = tuple[int, int]  # block and position


@dataclass(slots=True)
class _Span:
    """The wall time of a launch, or of launches that took turns."""

    from_s: float
    to_s: float
    launches: list[tuple[LaunchRecord, float]]  #: with their counted seconds

    @property
    def heat(self) -> tuple[int, int, str] | None:
        """Block, number and host of the heat; None: the launch ran alone."""
        launch, _ = self.launches[0]
        return None if launch.heat is None else (launch.block, launch.heat, launch.box)

    @property
    def lasted_s(self) -> float:
        return self.to_s - self.from_s

    def is_within(self, other: _Span) -> bool:
        """Return whether it began during *other*."""
        return other.from_s <= self.from_s < other.to_s


class Timetable:
    """Seconds spent per layout, over all sessions.

    The overhead of a launch (all but its valid windows: start, warm-up, stop, failed launches, invalid
    windows) is expected to stay as it was. Launches that take turns share the time of their heat.
    """

    def __init__(
        self,
        study: StudyRecord,
        launches: Sequence[tuple[int, LaunchRecord]],
        windows: Sequence[WindowRecord],
    ) -> None:
        self._study = study
        self.total_s = 0.0
        self.stop_s = 0.0  #: longest time that a launch of this session took to stop
        self._renewed_s = 0.0  # part of the total that an earlier budget covered
        self._beside_s: dict[Layout, dict[_Place, float]] = defaultdict(lambda: defaultdict(float))
        self._session: tuple[float, float, Callable[[], float]] | None = None
        self._in_turns: list[tuple[LaunchRecord, float]] = []  # of the present heat, with counted seconds
        self._apart_s = 0.0  # duration of launches during the present heat that do not belong to it
        spans = _spans(launches, windows)
        alone = [span for span in spans if span.heat is None]
        for span in alone:
            self._add_span(span)
        for heat in _heats(spans):
            self._add_span(heat)
            self.end_heat(heat.lasted_s - sum(one.lasted_s for one in alone if one.is_within(heat)))

    def add(self, launch: LaunchRecord, duration_s: float, counted_s: float) -> None:
        """Record a launch of *duration_s* from start to full stop, *counted_s* of it in valid windows.

        The duration of a launch that takes turns is recorded by `end_heat`.
        """
        if launch.heat is not None:
            self._in_turns.append((launch, counted_s))
            return
        duration_s = max(counted_s, duration_s)  # the wall clock may have been changed meanwhile
        if self._in_turns:
            self._apart_s += duration_s
        self._add(launch, counted_s, duration_s - counted_s)

    def end_heat(self, duration_s: float) -> None:
        """Share *duration_s*, from the first start of a heat to its last stop, among its launches."""
        together, self._in_turns = self._in_turns, []
        beside_s = duration_s - self._apart_s - sum(counted_s for _, counted_s in together)
        self._apart_s = 0.0
        for launch, counted_s in together:
            self._add(launch, counted_s, max(0.0, beside_s) / len(together))

    def _add_span(self, span: _Span) -> None:
        for launch, counted_s in span.launches:
            self.add(launch, span.lasted_s, counted_s)

    def _add(self, launch: LaunchRecord, counted_s: float, beside_s: float) -> None:
        self.total_s += counted_s + beside_s
        if launch.block >= 0 or launch.position > 0:  # not one that only warms the page cache
            self._beside_s[launch.layout][launch.block, launch.position] += beside_s

    def expected_s(self, launches: Iterable[Proposal]) -> float:
        """Estimate the seconds that *launches* take, from earlier launches of the layout, else of all
        layouts; without any launch, from a guess."""
        known = [beside_s for places in self._beside_s.values() for beside_s in places.values()]
        usual_s = fmean(known) if known else guess_s(self._study)
        beside_s = {layout: fmean(places.values()) for layout, places in self._beside_s.items()}
        windows_s = _counted_s if known else _windows_s  # known launches include what slices skip
        return sum(beside_s.get(one.layout, usual_s) + windows_s(one) for one in launches)

    def session_began(self, at_s: float, before_s: float, now_s: Callable[[], float]) -> None:
        """Charge all time from *at_s* on to the budget; *before_s* seconds were charged before."""
        self._session = at_s, before_s, now_s

    def add_stop(self, lasted_s: float) -> None:
        """Record the time that it took to stop a launch."""
        self.stop_s = max(self.stop_s, lasted_s)

    def renew_budget(self) -> None:
        """Restart the budget from now."""
        self._renewed_s = self.total_s
        if self._session is not None:
            now_s = self._session[2]
            self._session = now_s(), 0.0, now_s

    def ran_side_by_side(self, covered_s: float) -> None:
        """Charge only the elapsed time *covered_s* to the budget, because several hosts measured at once."""
        self._renewed_s = self.total_s - covered_s

    @property
    def left_s(self) -> float | None:
        """Seconds left of the budget; None: no budget."""
        budget_s = self._study.budget_s
        if budget_s is None:
            return None
        if self._session is None:
            return budget_s - (self.total_s - self._renewed_s)
        began_s, before_s, now_s = self._session
        return budget_s - before_s - (now_s() - began_s)

    def fits(self, launches: Iterable[Proposal]) -> bool:
        """Return whether *launches* are expected to end within the budget."""
        return self.left_s is None or self.expected_s(launches) <= self.left_s

    def has_room(self, *launches: Proposal) -> bool:
        """Return whether *launches*, at their shortest, would end within the budget.

        A warm-up whose end is detected may have half of its minimum, so that more layouts are measured.
        """
        if self.left_s is None:
            return True
        spared_s = LEAST_S / 2 if self._study.warmup_s is None else 0.0
        return least_s(self._study, launches) + len(launches) * (self.stop_s - spared_s) <= self.left_s

    def deadline(self, launch: Proposal, after: Sequence[Proposal], now_s: float) -> Deadline:
        """Return the deadline of *launch*, begun at *now_s*, if the launches *after* it must fit in too.

        Its share of the time left is in proportion to the expected durations.
        """
        if (left_s := self.left_s) is None:
            return NO_END
        own_s, after_s = self.expected_s([launch]), self.expected_s(after)
        share_s = left_s * own_s / (own_s + after_s) if own_s + after_s else left_s
        return Deadline(now_s + left_s, now_s + share_s, self.stop_s)

    def deadlines_in_heat(
        self, launches: Sequence[Proposal], after: Sequence[Proposal]
    ) -> list[Callable[[float], Deadline]]:
        """Return the deadlines of *launches* that take turns, each by the launch's own clock at its start.

        Only warm-ups can be cut: the windows of all launches and of those *after* their heat must fit in.
        """
        return [
            partial(self._deadline_in_heat, one, launches[:n], [*launches[n + 1 :], *after])
            for n, one in enumerate(launches)
        ]

    def _deadline_in_heat(
        self, launch: Proposal, started: Sequence[Proposal], after: Sequence[Proposal], now_s: float
    ) -> Deadline:
        if (left_s := self.left_s) is None:
            return NO_END
        together = [*started, launch, *after]
        room_s = left_s - sum(map(_windows_s, together)) - len(together) * self.stop_s
        own_s, after_s = (
            self.expected_s([replace(one, n_windows=0) for one in some]) for some in ([launch], after)
        )
        share_s = room_s * own_s / (own_s + after_s) if own_s + after_s else room_s
        return Deadline(now_s + left_s, now_s + share_s + _counted_s(launch) + self.stop_s, self.stop_s)

    def heat_ends_s(self, n: int, now_s: float) -> float:
        """Return when *n* launches that take turns must begin to stop, on the clock of *now_s*."""
        return inf if self.left_s is None else now_s + self.left_s - n * self.stop_s


def _spans(launches: Sequence[tuple[int, LaunchRecord]], windows: Sequence[WindowRecord]) -> list[_Span]:
    """Return the wall time of each launch; one without a recorded end ended with its last window."""
    seen_until: dict[int, float] = {}
    counted_s: dict[int, float] = defaultdict(float)
    for window in windows:
        seen_until[window.launch_id] = window.started_wall_s + window.length_s
        if not window.void:
            counted_s[window.launch_id] += window.length_s
    return [
        _Span(
            launch.started_wall_s,
            launch.ended_wall_s or seen_until.get(number, launch.started_wall_s),
            [(launch, counted_s[number])],
        )
        for number, launch in launches
    ]


def _heats(spans: Iterable[_Span]) -> Iterable[_Span]:
    """Return the time of each heat, from its first start to its last stop.

    A heat that was cut off, or in which launches failed, ran again with the missing launches: those that
    began after all others of the heat had ended.
    """
    runs: dict[tuple[int, int, str], list[_Span]] = defaultdict(list)
    for span in spans:
        if span.heat is None:
            continue
        of_heat = runs[span.heat]
        if of_heat and span.from_s <= of_heat[-1].to_s:
            run = of_heat[-1]
            run.to_s = max(run.to_s, span.to_s)
            run.launches += span.launches
        else:
            of_heat.append(replace(span, launches=[*span.launches]))
    return [run for of_heat in runs.values() for run in of_heat]


def guess_s(study: StudyRecord) -> float:
    """Return a guess of a launch's overhead (all but its windows), in seconds, before any is measured."""
    warmup_s, pace = _warmup_s(study, SETTLING_GUESS_S), _pace(study)
    plain_s = START_AND_STOP_GUESS_S + warmup_s
    if pace is None:
        return plain_s
    from tuner.study.launch.rate_search import usual_search_s

    return plain_s + usual_search_s(pace) + warmup_s


def least_s(study: StudyRecord, launches: Iterable[Proposal]) -> float:
    """Return the least seconds that *launches* take; a launch without windows is a discarded one."""
    warmup_s, pace = _warmup_s(study, LEAST_S), _pace(study)
    plain_s = LEAST_START_AND_STOP_S + warmup_s
    paced_s = plain_s
    if pace is not None:
        from tuner.study.launch.rate_search import least_search_s

        paced_s += least_search_s(pace) + warmup_s
    return sum(paced_s + _windows_s(one) if one.n_windows else plain_s for one in launches)


def _counted_s(launch: Proposal) -> float:
    return launch.n_windows * launch.window_s


def _windows_s(launch: Proposal) -> float:
    """Return the length of the windows of *launch*, with all that slices skip at most."""
    return _counted_s(launch) * (1.0 if launch.heat is None else IN_SLICES_RATIO)


def before_launches_s(study: StudyRecord) -> float:
    """Return the seconds before the first launch: a search for the number of clients, if it is not set."""
    if isinstance(stored_rate(study.config), int | float):
        return 0.0
    feeder = study.config.service.feeder
    return CLIENTS_S if feeder.get("kind") == "http" and feeder.get("clients") is None else 0.0


def check_budget(study: StudyRecord, block: Sequence[Proposal]) -> None:
    """Check that *block*, the first one, can fit into the budget; call it before a study begins.

    Raises ConfigError if it cannot fit.
    """
    if study.budget_s is None:
        return
    discarded = [Proposal(study.layouts[0], 0.0, 0)] if study.warms_cache else []

    def takes_s(launches: Sequence[Proposal]) -> float:
        return before_launches_s(study) + least_s(study, [*discarded, *launches])

    if (block_s := takes_s(block)) <= study.budget_s:
        return
    layouts = tuple(dict.fromkeys(one.layout for one in block))
    usual_s = before_launches_s(study) + sum(guess_s(study) + _windows_s(one) for one in [*discarded, *block])
    raise ConfigError(
        f"one block of the {pluralize(len(layouts), 'layout')} needs at least "
        f"{render_duration(ceil(block_s))},"
        f" starts and warm-ups included; the budget is {render_duration(study.budget_s)}",
        hint="These settings fit:"
        f" {_fitting_options(study, block, layouts, ceil(usual_s / 30) * 30.0, takes_s)}.",
    )


def _fitting_options(
    study: StudyRecord,
    block: Sequence[Proposal],
    layouts: Sequence[Layout],
    enough_s: float,
    takes_s: Callable[[Sequence[Proposal]], float],
) -> str:
    """Return the options that make a block of *study* fit, each sufficient alone."""
    ways = [f"--budget {render_duration(enough_s)}"]
    if shorter := _shorter_window(study, block, takes_s):
        ways.append(shorter)
    if study.strategy in ("race", "all"):
        fews = [spread_subset(layouts, n) for n in range(len(layouts) - 1, 1, -1)]
        some = [(few, [one for one in block if one.layout in few]) for few in fews]
        of_these = [few for few, part in some if takes_s(part) <= (study.budget_s or 0.0)]
        both = [(few, window) for few, part in some if (window := _shorter_window(study, part, takes_s))]
        if of_these:
            ways.append(f"--layouts {','.join(map(str, of_these[0]))}")
        elif both and not shorter:
            ways.append(f"--layouts {','.join(map(str, both[0][0]))} {both[0][1]}")
    return ", or ".join(ways)


def _shorter_window(
    study: StudyRecord, block: Sequence[Proposal], takes_s: Callable[[Sequence[Proposal]], float]
) -> str:
    """Return the option that makes *block* fit by shorter windows; empty: none does."""
    beside_s, with_s = (
        takes_s([replace(one, window_s=window_s) for one in block]) for window_s in (0.0, 1.0)
    )
    shorter_s = ((study.budget_s or 0.0) - beside_s) // (with_s - beside_s) if with_s > beside_s else 0.0
    if shorter_s < SHORTEST_PROPOSED_S:
        return ""
    window = render_duration(shorter_s)
    return f"--window {window}{f' --min-window {window}' if study.strategy == 'race' else ''}"


def _pace(study: StudyRecord) -> Pace | None:
    rate = stored_rate(study.config)
    return None if isinstance(rate, int | float) else rate


def _warmup_s(study: StudyRecord, found_s: float) -> float:
    return min(found_s, study.warmup_cap_s) if study.warmup_s is None else study.warmup_s
