"""The launches that a study still needs, their expected duration, and the rest of the budget."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf
from statistics import fmean

from tuner.core.domain.layout import Layout, spread_subset
from tuner.core.domain.load import Pace, rate_kept
from tuner.core.domain.records import LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.strategy import Observed, Proposal
from tuner.core.domain.window import Window
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.text.figures import pluralize, render_duration
from tuner.core.warmup import LEAST_S
from tuner.study.launch.rate_search import least_search_s, usual_search_s

SETTLING_GUESS_S = 30.0  #: warm-up that is found, until one was: constant work settles after 10-25 s
START_AND_STOP_GUESS_S = 2.0
LEAST_START_AND_STOP_S = 0.5  #: of a supervised command that does nothing else
CLIENTS_S = 20.0  #: of a search for the number of clients: a few looks of some seconds each
SHORTEST_PROPOSED_S = 5.0  #: of a window that a hint names

_Place = tuple[int, int]  # block and position


class Timetable:
    """Seconds spent per layout, over all sessions.

    What comes beside the windows that count (start, warm-up, stop, launches that failed, void windows) is
    expected to be as much per launch as it was.
    """

    def __init__(
        self,
        study: StudyRecord,
        launches: Sequence[tuple[int, LaunchRecord]],
        windows: Sequence[WindowRecord],
    ) -> None:
        self._study = study
        self.total_s = 0.0
        self.stop_s = 0.0  #: the longest that a launch of this session took until it was gone
        self._renewed_s = 0.0  # of the total: what an earlier budget paid for
        self._beside_s: dict[Layout, dict[_Place, float]] = defaultdict(lambda: defaultdict(float))
        self._session: tuple[float, float, Callable[[], float]] | None = None
        seen_until: dict[int, float] = {}
        counted_s: dict[int, float] = defaultdict(float)
        for window in windows:
            seen_until[window.launch_id] = window.started_wall_s + window.length_s
            if not window.void:
                counted_s[window.launch_id] += window.length_s
        n_in_turns: Counter[tuple[int, int | None]] = Counter(
            (launch.block, launch.heat) for _, launch in launches if launch.heat is not None
        )
        for launch_id, launch in launches:
            ended_wall_s = launch.ended_wall_s or seen_until.get(launch_id, launch.started_wall_s)
            n_alike = n_in_turns[launch.block, launch.heat] or 1  # they ran in the same time
            self.add(launch, (ended_wall_s - launch.started_wall_s) / n_alike, counted_s[launch_id])

    def add(self, launch: LaunchRecord, duration_s: float, counted_s: float) -> None:
        """Take note of a launch from before it started until it was gone; *counted_s* of it in windows."""
        duration_s = max(counted_s, duration_s)  # the wall clock may have been set meanwhile
        self.total_s += duration_s
        if launch.block >= 0 or launch.position > 0:  # a launch that only warms the page cache is no guide
            self._beside_s[launch.layout][launch.block, launch.position] += duration_s - counted_s

    def expected_s(self, launches: Iterable[Proposal]) -> float:
        """What *launches* will take: as their layouts took before, else as others took, else a guess."""
        known = [beside_s for places in self._beside_s.values() for beside_s in places.values()]
        usual_s = fmean(known) if known else guess_s(self._study)
        beside_s = {layout: fmean(places.values()) for layout, places in self._beside_s.items()}
        return sum(beside_s.get(one.layout, usual_s) + one.n_windows * one.window_s for one in launches)

    def session_began(self, at_s: float, before_s: float, now_s: Callable[[], float]) -> None:
        """From *at_s* on the budget pays for all the time that goes by; *before_s* of it were paid before."""
        self._session = at_s, before_s, now_s

    def add_stop(self, lasted_s: float) -> None:
        """Take note of how long it took until a launch was gone, once nothing more was wanted of it."""
        self.stop_s = max(self.stop_s, lasted_s)

    def renew_budget(self) -> None:
        """Begin to spend the budget anew."""
        self._renewed_s = self.total_s
        if self._session is not None:
            now_s = self._session[2]
            self._session = now_s(), 0.0, now_s

    def ran_side_by_side(self, covered_s: float) -> None:
        """Have the budget pay for the time that went by alone, *covered_s*, as several boxes measured."""
        self._renewed_s = self.total_s - covered_s

    @property
    def left_s(self) -> float | None:
        """What is left of the budget; None: it has no end."""
        budget_s = self._study.budget_s
        if budget_s is None:
            return None
        if self._session is None:
            return budget_s - (self.total_s - self._renewed_s)
        began_s, before_s, now_s = self._session
        return budget_s - before_s - (now_s() - began_s)

    def fits(self, launches: Iterable[Proposal]) -> bool:
        """Whether *launches* can be expected to end within the budget."""
        return self.left_s is None or self.expected_s(launches) <= self.left_s

    def has_room(self, launch: Proposal) -> bool:
        """Whether *launch*, at its quickest, would end within the budget.

        One whose warm-up is to be found may have half of the least: better a layout seen so than not at all.
        """
        if self.left_s is None:
            return True
        spared_s = LEAST_S / 2 if self._study.warmup_s is None else 0.0
        return least_s(self._study, [launch]) - spared_s + self.stop_s <= self.left_s

    def deadline(self, launch: Proposal, after: Sequence[Proposal], now_s: float) -> Deadline:
        """Until when *launch*, begun at *now_s*, may run, where the launches *after* it have to fit in too.

        It has a share of what is left, by what each is expected to take.
        """
        if (left_s := self.left_s) is None:
            return NO_END
        own_s, after_s = self.expected_s([launch]), self.expected_s(after)
        share_s = left_s * own_s / (own_s + after_s) if own_s + after_s else left_s
        return Deadline(now_s + left_s, now_s + share_s, self.stop_s)


def guess_s(study: StudyRecord) -> float:
    """What a launch takes beside its windows, as long as nobody knows."""
    warmup_s, pace = _warmup_s(study, SETTLING_GUESS_S), _pace(study)
    return START_AND_STOP_GUESS_S + warmup_s + (0.0 if pace is None else usual_search_s(pace) + warmup_s)


def least_s(study: StudyRecord, launches: Iterable[Proposal]) -> float:
    """What *launches* take, each at its quickest; one without windows is discarded."""
    warmup_s, pace = _warmup_s(study, LEAST_S), _pace(study)
    plain_s = LEAST_START_AND_STOP_S + warmup_s
    paced_s = plain_s + (0.0 if pace is None else least_search_s(pace) + warmup_s)
    return sum(paced_s + one.n_windows * one.window_s if one.n_windows else plain_s for one in launches)


def before_launches_s(study: StudyRecord) -> float:
    """About what comes before the first launch: the search for a number of clients, where none is known."""
    if isinstance(rate_kept(study.config), int | float):
        return 0.0
    feeder = study.config.service.feeder
    return CLIENTS_S if feeder.get("kind") == "http" and feeder.get("clients") is None else 0.0


def check_budget(study: StudyRecord, block: Sequence[Proposal]) -> None:
    """ConfigError when not even *block*, the first one, can fit into the budget.

    To be asked before a study is begun.
    """
    if study.budget_s is None:
        return
    discarded = [Proposal(study.layouts[0], 0.0, 0)] if study.warms_cache else []

    def takes_s(launches: Sequence[Proposal]) -> float:
        return before_launches_s(study) + least_s(study, [*discarded, *launches])

    if (block_s := takes_s(block)) <= study.budget_s:
        return
    layouts = tuple(dict.fromkeys(one.layout for one in block))
    usual_s = before_launches_s(study) + sum(
        guess_s(study) + one.n_windows * one.window_s for one in [*discarded, *block]
    )
    raise ConfigError(
        f"one block of the {pluralize(len(layouts), 'layout')} needs at least "
        f"{render_duration(ceil(block_s))},"
        f" starts and warm-ups included; the budget is {render_duration(study.budget_s)}",
        hint=f"These settings fit: {_what_fits(study, block, layouts, ceil(usual_s / 30) * 30.0, takes_s)}.",
    )


def _what_fits(
    study: StudyRecord,
    block: Sequence[Proposal],
    layouts: Sequence[Layout],
    enough_s: float,
    takes_s: Callable[[Sequence[Proposal]], float],
) -> str:
    """The options that make a block of *study* fit, each by itself."""
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
    """The option that makes *block* fit by shorter windows; empty: none does."""
    n_windows = sum(one.n_windows for one in block)
    beside_s = takes_s([replace(one, window_s=0.0) for one in block])
    shorter_s = ((study.budget_s or 0.0) - beside_s) // n_windows if n_windows else 0.0
    if shorter_s < SHORTEST_PROPOSED_S:
        return ""
    window = render_duration(shorter_s)
    return f"--window {window}{f' --min-window {window}' if study.strategy == 'race' else ''}"


def _pace(study: StudyRecord) -> Pace | None:
    rate = rate_kept(study.config)
    return None if isinstance(rate, int | float) else rate


def _warmup_s(study: StudyRecord, found_s: float) -> float:
    return min(found_s, study.warmup_cap_s) if study.warmup_s is None else study.warmup_s


# The launches that a strategy asked for: what was tried of each one, and what it still needs.


PASSING = frozenset(
    {"source-dry", "disturbed", "stolen", "memory-pressure", "clock-jumped", "stalled", "counts-fell"}
)  #: void reasons of the host, which may pass; all others are the launch's own


def spoils_launch(window: Window | WindowRecord) -> bool:
    """Whether what made *window* void will not go away while this launch runs."""
    return any(reason.slug not in PASSING for reason in window.void)


@dataclass(slots=True)
class Cell:
    """One place in a block: a layout, so many windows wanted of it, and what was tried."""

    block: int
    position: int
    layout: Layout
    window_s: float  #: length of each window
    n_wanted: int
    max_attempts: int
    n_spoilt: int = 0  #: launches that failed or were spoilt
    is_over_limit: bool = False  #: a launch passed a limit of the user's, and the layout is left out for it
    tries: Counter[int] = field(default_factory=Counter)  #: window index -> windows taken, void ones included
    kept: dict[int, Observed] = field(default_factory=dict)  #: the windows that count, by index
    heat: int | None = None  #: cells of the block with the same number take turns; None: it is run alone

    @property
    def next_index(self) -> int | None:
        """The window to take next; None: there is nothing left to try."""
        if self.n_spoilt >= self.max_attempts or self.is_over_limit:
            return None
        for index in range(self.n_wanted):
            if index not in self.kept and self.tries[index] < self.max_attempts:
                return index
        return None

    @property
    def is_done(self) -> bool:
        """Tried to its end, for better or worse."""
        return self.next_index is None

    @property
    def is_started(self) -> bool:
        """Whether something came of it, good or bad."""
        return bool(self.tries) or self.n_spoilt > 0 or self.is_over_limit

    @property
    def is_void(self) -> bool:
        """Tried to its end with a window missing."""
        return self.is_done and len(self.kept) < self.n_wanted

    @property
    def is_vain(self) -> bool:
        """Tried to its end without a single window."""
        return self.is_done and not self.kept

    @property
    def is_hopeless(self) -> bool:
        """Every launch of it failed or was spoilt, and none gave a window; or it is left out by the brake."""
        return self.is_over_limit or (self.n_spoilt >= self.max_attempts and not self.kept)

    @property
    def asked(self) -> Proposal:
        """What it was asked for as."""
        return Proposal(self.layout, self.window_s, self.n_wanted, self.heat)

    @property
    def rest(self) -> Proposal:
        """What it still needs, if all goes well."""
        n_missing = 0 if self.is_done else self.n_wanted - len(self.kept)
        return Proposal(self.layout, self.window_s, n_missing, self.heat)


@dataclass(slots=True)
class Block:
    """The launches that a strategy asked for at once, in run order."""

    number: int
    cells: list[Cell]
    is_closed: bool = False  #: nothing more is measured of it, whatever is missing

    @property
    def is_started(self) -> bool:
        """Whether something of it is in the store."""
        return any(cell.is_started for cell in self.cells)


# Until when a launch may run, so that the budget of its study holds.


HEAD_S = 5.0  #: that a window may begin anew after the cap of the warm-up, for the next look at usage


@dataclass(frozen=True, slots=True)
class Deadline:
    """The monotonic seconds at which a launch is to be gone; inf: there is no budget."""

    ends_s: float = inf  #: the budget ends
    share_ends_s: float = inf  #: this launch's share of it ends; the launches after it need the rest
    stop_s: float = 0.0  #: it takes so long until a launch is gone

    def warmup_s(self, now_s: float, windows_s: float) -> float:
        """The longest warm-up, from *now_s* on, that leaves room for windows of *windows_s* in all."""
        share_s = self.share_ends_s - now_s - windows_s - self.stop_s
        whole_s = self.ends_s - now_s - windows_s - self.stop_s - HEAD_S
        return max(0.0, min(share_s, whole_s))

    def has_room(self, now_s: float, lasts_s: float) -> bool:
        """Whether something that takes *lasts_s* ends in time, with the launch gone."""
        return now_s + lasts_s + self.stop_s <= self.ends_s


NO_END = Deadline()


class NotWanted(MeasurementError):
    """A launch that is being started is not wanted any more: that says nothing of its layout."""
