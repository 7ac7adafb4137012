"""The interfaces between the study and the outside world; adapters implement them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tuner.core.domain.fleet import BoxFacts, News, Order
from tuner.core.domain.layout import Layout
from tuner.core.domain.load import Pace
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import BoxRecord, LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.requests import Requests
from tuner.core.domain.service import Gate
from tuner.core.domain.window import Reading, Sample, Usage, VoidReason, Window
from tuner.core.windows.launch_sums import Sums

Warn = Callable[[str, str], None]  #: gets a slug of docs/messages.md and a text


class Clock(Protocol):
    """Time. ``monotonic_s`` orders and measures; ``wall_s`` labels."""

    def monotonic_s(self) -> float:
        """Seconds since some fixed moment; never goes back."""

    def wall_s(self) -> float:
        """Seconds since 1970."""

    def sleep_until(self, at_s: float) -> None:
        """Return when ``monotonic_s()`` is *at_s* or later; at once if it already is."""


class Launch(Protocol):
    """A layout that runs."""

    @property
    def running_after_s(self) -> float:
        """Seconds from the start until every process was RUNNING."""

    @property
    def shape(self) -> Layout:
        """How many worker processes there are to be, and threads in each that work on items."""

    def worker_pids(self) -> frozenset[int]:
        """The processes that work on items, as far as they are alive: those that supervisord started, or
        their children, where the service has a master or a wrapper."""

    def overhead_pids(self) -> frozenset[int]:
        """supervisord and guardian: alive, and not part of the service."""

    def gil_module(self) -> str | None:
        """The module for whose import a free-threaded Python switched its GIL on, as a log of the launch
        has it; None: no log names one."""

    def clue(self) -> str:
        """What its processes show of a service that nobody counts: that tuner knows it, or where it answers
        requests. Empty: nothing. Takes up to some seconds."""

    def problems(self, *, threads: bool = True) -> Sequence[VoidReason]:
        """What is not as the layout asks: a process that died or was replaced, a wrong number of threads.

        Cheap (no XML-RPC): the study asks every second. What was once seen stays in the answer. *threads*
        False leaves the thread counts out and forgets nothing: the study asks so during warm-up, when
        threads may still be starting. A process that is frozen is alive.
        """

    def freeze(self) -> None:
        """Stop the processes of the service until `thaw`: workers, masters, and all that they started.

        Returns once none of them runs. It does nothing if they are frozen already. The end of the launch
        thaws, and so does the end of tuner or supervisord, however they end.

        Raises:
            MeasurementError: a process does not stop within seconds; all of them have been continued.
        """

    def thaw(self) -> None:
        """Continue the processes that `freeze` stopped; nothing if none is frozen."""


class Launcher(Protocol):
    """Starts layouts, and leaves nothing behind."""

    def running(self, layout: Layout, environment: Mapping[str, str]) -> AbstractContextManager[Launch]:
        """Run *layout* inside the ``with`` block, *environment* added to the workers'; stop it on any exit.

        Raises:
            MeasurementError: a worker died at start; says its exit code and last log lines.
            ConfigError: the command cannot be run at all (missing, not executable).
        """


class ReadyCheck(Protocol):
    """One look whether a launch is ready; it may remember what it has seen of this launch."""

    def lacks(self, logs: Sequence[Path]) -> str:
        """What is still missing, in words; empty: it is ready. *logs* are of the launch's programs."""


class Counting(Protocol):
    """A probe that watches one launch."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What the workers must find in their environment to be counted."""

    def pids(self) -> frozenset[int]:
        """Processes that count, beside tuner's own: their CPU is tuner's."""

    def read(self) -> Reading:
        """The counts up to now; totals never go down within a launch.

        Counts that are old have their own time, and say in ``problem`` why there are no newer ones.
        """


class Probe(Protocol):
    """Counts finished items from outside the service."""

    def counting(self, layout: Layout) -> AbstractContextManager[Counting]:
        """Watch one launch of *layout*, from before it starts until after it stopped."""


class Feeder(Protocol):
    """Keeps the service supplied with items."""

    @property
    def pace(self) -> Pace | None:
        """What the rate of the windows follows from, in each launch anew; None: it goes on as it begins."""

    def go_on_at(self, rate_per_s: float, capacity_per_s: float) -> None:
        """Let requests become due at that rate from now on, until told another one or the launch ends; at 0
        none does. *capacity_per_s* is what was answered before. Only for a feeder with a pace."""

    def prepare(self) -> None:
        """Find what would make every launch fail, and supply what the first one needs; once, before a study.

        Raises:
            ConfigError: the source cannot be used.
        """

    def feeding(self, layout: Layout) -> AbstractContextManager[None]:
        """Supply one launch; what belongs to it is gone afterwards.

        Raises:
            ConfigError: the source cannot be used.
            SourceAway: the source is gone, or was for a moment of the launch; ask `away` when it is back.
        """

    def away(self) -> str:
        """Ask the source, and return why it cannot be reached just now; empty: it can. Between launches."""

    def rest(self) -> None:
        """Send no more to the service of this launch, which is about to be stopped: with requests under way
        some servers take as long as they are allowed to. Nothing, for a feeder of a queue."""

    @property
    def can_pause(self) -> bool:
        """Whether `pause` is possible; False: items come from elsewhere."""

    def pause(self) -> None:
        """Supply nothing until `resume`. Connections stay open, and a queue is left empty or nearly so.

        Returns once nothing that was supplied is unanswered, or hardly anything waits. While it pauses, no
        schedule of arrivals continues, so `resume` is followed by no burst. The source does not count as dry.

        Raises:
            MeasurementError: that takes too long, or nobody feeds any more; nothing is supplied until
                `resume` all the same.
            ValueError: it cannot pause, or nothing is fed just now.
        """

    def resume(self) -> None:
        """Supply again, as before `pause`; nothing if it does not pause. Raises as `pause`."""

    def follow(self, workers: Callable[[], frozenset[int]]) -> None:
        """Take note of who works on items now, which *workers* gives. Called every second of a launch: cheap
        for a feeder that does not care."""

    def is_dry(self) -> bool:
        """Whether the source has run out of items just now."""

    def problem(self) -> str:
        """Return why nothing is supplied, or answered, as far as is known; empty: nothing is wrong."""

    def pids(self) -> frozenset[int]:
        """Processes of the feeder, to account their CPU to tuner."""

    def requests(self) -> Requests | None:
        """What became of the launch's requests up to now; None: it does not know. Called every few seconds.

        Raises:
            MeasurementError: its counts cannot be read.
        """


class Watch(Protocol):
    """The box, seen while one launch runs."""

    def sample(self, reading: Reading) -> Sample:
        """Load and active count now, beside what the probe just read. Called every second: cheap."""

    def has_gil(self) -> bool | None:
        """Whether a worker was seen to run with a GIL that is on; None: nobody can tell."""

    def n_interpreters(self) -> int:
        """The most interpreters that a worker was seen to have, each with a GIL of its own."""

    def usage(self, *, closing: bool = False) -> Usage:
        """CPU, memory, pressure now. *closing*: a window ends here, so what is too dear to take within one
        (PSS) is taken, after everything else."""


class Sampler(Protocol):
    """Looks at the box."""

    def idle_fixed_work_cpu_s(self) -> float | None:
        """The CPU time of one unit of fixed work while no layout works; None: not measured. Takes 15 ms."""

    def watching(self, launch: Launch, extra_pids: frozenset[int]) -> AbstractContextManager[Watch]:
        """Watch the box and *launch*'s process tree; *extra_pids* (feeder, probe) count as tuner's own."""


class Hooks(Protocol):
    """Commands that the user wants run at certain moments."""

    def run(self, event: str, facts: Mapping[str, str]) -> None:
        """Run the commands of *event*: before_study, after_study, before_launch, after_launch, before_window,
        after_window, finished. *facts* (names in lower case: ``layout``, ``block``) reach them as
        ``TUNER_...`` environment variables (``TUNER_LAYOUT``).

        Raises:
            MeasurementError: one failed; for ``finished`` it only warns.
        """


class BrakeWatch(Protocol):
    """The brake, looking at one launch."""

    def passed(self, reading: Reading | None) -> str | None:
        """What has passed a limit of the user's, with the figures; None: nothing has, the launch goes on.

        Called every second with what the probe just *read*: cheap, and never waits.
        """


class Brake(Protocol):
    """Limits of the user's at which a launch is stopped, for the sake of the box."""

    @property
    def leaves_out(self) -> bool:
        """A layout that passes one is left out and the study goes on; False: the study stops."""

    def watching(self, facts: Mapping[str, str]) -> AbstractContextManager[BrakeWatch]:
        """Look at one launch, from before it starts; *facts* as hooks have them."""

    def still_over(self, facts: Mapping[str, str], stopped: Callable[[], bool]) -> str | None:
        """Wait until nothing is over a limit while nothing runs; what still is after a minute, or None.

        A command that takes longer is waited for, to its end; nothing is once *stopped* says so.
        """


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """A second probe, which has to agree with the first one."""

    probe: Probe
    within_ratio: float  #: share (0..1) of a window's items by which the two may be apart
    names: tuple[str, str]  #: of the first and the second, for people


@dataclass(slots=True)
class WhileStarting:
    """What a launcher calls again and again until a launch is ready; what that raises ends the launch."""

    check: Callable[[], None] = lambda: None  #: set by whoever makes the launch


@dataclass(frozen=True, slots=True)
class Box:
    """One box to measure on, as its adapters see it: all that taking a window needs."""

    name: str  #: the host; blocks and windows carry it
    clock: Clock
    launcher: Launcher
    probe: Probe
    feeder: Feeder
    sampler: Sampler
    hooks: Hooks
    cross_check: CrossCheck | None = None  #: None: nobody looks after the probe
    brake: Brake | None = None  #: None: the user sets no limits
    #: why a layout does not fit (files, processes, what feeds it), as part of a sentence; None: it does
    refuses: Callable[[Layout], str | None] = lambda _layout: None
    #: memory that a layout may still use; None: nobody can say
    free_bytes: Callable[[], float | None] = lambda: None
    while_starting: WhileStarting = field(default_factory=WhileStarting)
    #: opens one more place for a launch on this host, with a separate source, files and guardian; None: there
    #: is only one
    another: Callable[[], AbstractContextManager[Box]] | None = None
    gate: Gate = "freeze"  #: how a launch is made idle while others work
    #: the feeder of a launch that is paused often, which lets little wait; None: `feeder` itself
    feeder_in_turns: Feeder | None = None
    looks_every_s: float = 0.0  #: after which an idle worker looks for items again; 0: it finds them at once


class LaunchLog(Protocol):
    """Keeps launches as they are made."""

    def add_launch(self, launch: LaunchRecord) -> int:
        """Keep *launch* and return its id."""

    def finish_launch(self, launch_id: int, launch: LaunchRecord) -> None:
        """Keep what became of the launch (warm-up, error)."""

    def add_warmup(self, launch_id: int, samples: Sequence[Sample]) -> None:
        """Keep what was seen while the launch warmed up, in one commit; again when it warmed up again."""

    def add_window(self, launch_id: int, window: Window) -> None:
        """Keep *window* with its samples, in one commit."""


class Store(LaunchLog, Protocol):
    """The study's one file: append-only, one commit per window."""

    def study(self) -> StudyRecord:
        """What was asked for."""

    def add_to_study(self, layouts: Sequence[Layout], facts: Provenance) -> None:
        """Add *layouts*, by which the study's grid grows, behind its own, and *facts* to its provenance,
        where each takes the place of one of its name."""

    def add_box(self, facts: BoxFacts, joined_wall_s: float) -> None:
        """Keep that a box of a fleet joined; again when it comes back. A study on one box keeps none."""

    def end_box(self, name: str, left_wall_s: float, why: str) -> None:
        """Keep that a box left, and why; nothing where that is kept already."""

    def boxes(self) -> Sequence[BoxRecord]:
        """The boxes of a fleet, one for each time that one joined, in that order; none: there is no fleet."""

    def launches(self) -> Sequence[tuple[int, LaunchRecord]]:
        """Every launch with its id, in the order they were started."""

    def windows(self) -> Sequence[WindowRecord]:
        """Every window, void ones included, in the order they were taken."""

    def sums(self) -> Sums:
        """What the windows of each launch add up to: what `launch_sums.tally` makes of all windows."""

    def samples(self, launch_id: int, index: int, attempt: int) -> Sequence[Sample]:
        """The one-second samples of one window, in time order."""

    def warmup_samples(self, launch_id: int) -> Sequence[Sample]:
        """The one-second samples of a launch's warm-up, in time order; none where they were not kept."""

    def window(self, launch_id: int, index: int, attempt: int) -> Window:
        """One window with everything that was seen in it; its times to the microsecond."""


class Progress(Protocol):
    """Tells the person at the terminal how the study goes. Never raises."""

    def launch_started(self, layout: Layout, block: int, position: int, remaining_s: float | None) -> None:
        """A layout is being started; *remaining_s* is the study's expected rest, None when unknown."""

    def in_turns(self, started: Sequence[Layout], works: Layout | None) -> None:
        """Of the layouts that are *started*, *works* works from now on; none started: they are gone."""

    def warming_up(self, layout: Layout, elapsed_s: float, items_per_s: float | None) -> None:
        """Every second of warm-up."""

    def sampled(
        self, layout: Layout, elapsed_s: float, window_s: float, sample: Sample, items_per_s: float
    ) -> None:
        """Every second of a window."""

    def window_taken(
        self, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        """A window is in the file, void or not; *n_planned* is None when nobody knows how many it takes."""

    def warning(self, slug: str, text: str) -> None:
        """Something the reader should know; docs/messages.md explains *slug*."""


class BoxwiseProgress(Progress, Protocol):
    """A Progress that takes what is told of several boxes, of one at a time."""

    def turn_to(self, box: str) -> None:
        """What is told from now on is of *box*, until another one is named."""

    def box_left(self, box: str) -> None:
        """*box*, of a fleet, is there no more; what ran on it is lost."""


class FleetProgress(Protocol):
    """Tells how a study on several boxes goes. Never raises."""

    def box_came(self, facts: BoxFacts) -> None:
        """A box is there."""

    def box_went(self, box: str, why: str) -> None:
        """A box is there no more, or is not asked any more."""

    def launch_started(self, box: str, layout: Layout, block: int, remaining_s: float | None) -> None:
        """A box starts a layout; *remaining_s* as `Progress` has it."""

    def sampled(
        self,
        box: str,
        layout: Layout,
        elapsed_s: float,
        window_s: float | None,
        items_per_s: float | None,
        sample: Sample | None,
    ) -> None:
        """Every few seconds of a window of *window_s*; None, as *sample* is: it warms up."""

    def window_taken(
        self, box: str, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        """A window is in the file, void or not; the rest as `Progress` has it."""

    def launch_ended(self, box: str) -> None:
        """A box is free."""

    def warning(self, slug: str, text: str) -> None:
        """Something the reader should know; docs/messages.md explains *slug*."""


class Stop(Protocol):
    """Whether somebody wants the study to end."""

    def requested(self) -> bool:
        """True after the first Ctrl-C: finish this window. The second one raises KeyboardInterrupt."""


class Fleet(Protocol):
    """Boxes that make launches as they are ordered, one at a time each."""

    @property
    def clock(self) -> Clock:
        """The coordinator's."""

    def news(self, until_s: float) -> News | None:
        """The next thing that happened, in the order in which it is to be taken note of; None: nothing did
        until the clock's ``monotonic_s()`` is *until_s*. A box that is there already when the study begins
        comes as news, too.

        Raises:
            MeasurementError: no box can be reached any more, and none will be.
        """

    def send(self, order: Order) -> None:
        """Have the order's box make a launch. What comes of it is told as news of the order: it begins, ends,
        or is lost or refused. Nothing of an order comes after it ended, was lost or was refused."""

    def finish(self) -> None:
        """Have all boxes end after the windows in hand: what `Stop` is to a study on one box."""

    def give_up(self, order: str) -> None:
        """Have a box end a launch at once; nothing more is told of it. The box is free when it says so, by
        `BoxCame`."""
