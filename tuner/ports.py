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

Warn = Callable[[str, str], None]  #: receives a slug from docs/messages.md and a text


class Clock(Protocol):
    """A clock: ``monotonic_s`` gives the order and durations, ``wall_s`` the time labels."""

    def monotonic_s(self) -> float:
        """Return the seconds since a fixed moment; the value never decreases."""

    def wall_s(self) -> float:
        """Return the seconds since 1970-01-01 UTC."""

    def sleep_until(self, at_s: float) -> None:
        """Sleep until ``monotonic_s()`` is *at_s* or later; return at once if it already is."""


class Launch(Protocol):
    """A running layout of the service."""

    @property
    def running_after_s(self) -> float:
        """Seconds from the start until every process was RUNNING."""

    @property
    def shape(self) -> Layout:
        """Expected number of worker processes, and of threads per process that work on items."""

    def worker_pids(self) -> frozenset[int]:
        """Return the pids of the living worker processes: those that supervisord started, or their children
        if the service has a master or a wrapper."""

    def overhead_pids(self) -> frozenset[int]:
        """Return the pids of supervisord and the guardian, which are not part of the service."""

    def gil_module(self) -> str | None:
        """Return the module whose import made a free-threaded Python enable its GIL, according to the
        launch's logs; None: no log names one."""

    def clue(self) -> str:
        """Return a hint about a service whose items are not counted: its kind, if tuner supports it, or the
        address at which it answers requests. Empty: no hint. Takes up to some seconds."""

    def problems(self, *, threads: bool = True) -> Sequence[VoidReason]:
        """Return the differences from the layout: a process died or was replaced, or a wrong thread count.

        Cheap (no XML-RPC), because the study calls it every second. A problem once found stays in the result.
        *threads* False skips the thread counts, but keeps earlier problems: for the warm-up, when threads may
        still be starting. A frozen process counts as alive.
        """

    def freeze(self) -> None:
        """Stop all processes of the service (workers, masters and their descendants) until `thaw`.

        Return once none of them runs; do nothing if they are frozen already. They are also continued when the
        launch, tuner or supervisord ends, for any reason.

        Raises:
            MeasurementError: a process does not stop within seconds; all of them have been continued.
        """

    def thaw(self) -> None:
        """Continue the processes that `freeze` stopped; do nothing if none is frozen."""


class Launcher(Protocol):
    """Starts layouts and removes every process and file of a launch afterwards."""

    def running(self, layout: Layout, environment: Mapping[str, str]) -> AbstractContextManager[Launch]:
        """Run *layout* inside the ``with`` block and stop it on any exit; workers also get *environment*.

        Raises:
            MeasurementError: a worker died at start; the text has its exit code and last log lines.
            ConfigError: the command cannot be run at all (missing, not executable).
        """


class ReadyCheck(Protocol):
    """Readiness check of one launch; it may keep state between calls."""

    def lacks(self, logs: Sequence[Path]) -> str:
        """Return the missing condition as text; empty: ready. *logs* are those of the launch's programs."""


class Counting(Protocol):
    """A probe that watches one launch."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables that the workers need so that their items are counted."""

    def pids(self) -> frozenset[int]:
        """Return the probe's additional processes, whose CPU time is attributed to tuner."""

    def read(self) -> Reading:
        """Return the counts up to now; totals never decrease within a launch.

        Old counts carry the time at which they were read, and ``problem`` has the reason why there are no
        newer ones.
        """


class Probe(Protocol):
    """Counts finished items from outside the service."""

    def counting(self, layout: Layout) -> AbstractContextManager[Counting]:
        """Count the items of one launch of *layout*; enter before it starts, leave after it stopped."""


class Feeder(Protocol):
    """Keeps the service supplied with items."""

    @property
    def pace(self) -> Pace | None:
        """Rule for the request rate of windows, applied in each launch; None: the rate does not change."""

    def go_on_at(self, rate_per_s: float, capacity_per_s: float) -> None:
        """Schedule requests at *rate_per_s* from now on, until the next call or the end of the launch; 0
        schedules none. *capacity_per_s* is the rate answered before. Only for a feeder with a pace."""

    def prepare(self) -> None:
        """Check the source for faults that would fail every launch, and supply the first one; call once.

        Raises:
            ConfigError: the source cannot be used.
        """

    def feeding(self, layout: Layout) -> AbstractContextManager[None]:
        """Supply one launch inside the ``with`` block; afterwards its items and files are removed.

        Raises:
            ConfigError: the source cannot be used.
            SourceAway: the source is, or was for a moment of the launch, unreachable; `away` returns "" once
                it is back.
        """

    def away(self) -> str:
        """Return the reason why the source is unreachable now; empty: reachable. Call between launches."""

    def rest(self) -> None:
        """Send no more requests, because the service is about to be stopped: with open requests some servers
        use up their whole stop timeout. A queue feeder does nothing."""

    @property
    def can_pause(self) -> bool:
        """Whether `pause` is possible; False: the items come from outside tuner."""

    def pause(self) -> None:
        """Supply nothing until `resume`. Connections stay open; a queue is left empty or nearly empty.

        Return once every request is answered, or hardly any item waits. The arrival schedule stands still
        during the pause, so `resume` causes no burst. The source does not count as dry.

        Raises:
            MeasurementError: that takes too long, or the feeder has ended; still, nothing is supplied until
                `resume`.
            ValueError: the feeder cannot pause, or feeds no launch now.
        """

    def resume(self) -> None:
        """Supply again as before `pause`; do nothing if not paused. Raises the errors of `pause`."""

    def follow(self, workers: Callable[[], frozenset[int]]) -> None:
        """Record the pids of the current workers, which *workers* returns. Called every second of a launch:
        cheap for a feeder that does not need them."""

    def is_dry(self) -> bool:
        """Return whether the source has no items now."""

    def problem(self) -> str:
        """Return the known reason why nothing is supplied or answered; empty: no problem."""

    def pids(self) -> frozenset[int]:
        """Return the pids of the feeder, whose CPU time is attributed to tuner."""

    def requests(self) -> Requests | None:
        """Return the counts of the launch's requests up to now; None: unknown. Called every few seconds.

        Raises:
            MeasurementError: the feeder's counts cannot be read.
        """


class Watch(Protocol):
    """Samples of the host during one launch."""

    def next_sample_s(self, now_s: float, by_s: float) -> float:
        """Return the moment of the next sample, between *now_s* and *by_s*: at random on a real host, because
        the items of a service may have a rhythm."""

    def sample(self, reading: Reading) -> Sample:
        """Return the load and active count now, together with *reading*. Called every second: cheap."""

    def has_gil(self) -> bool | None:
        """Return whether a worker ran with its GIL enabled; None: unknown."""

    def n_interpreters(self) -> int:
        """Return the largest number of interpreters seen in a worker, each with a separate GIL."""

    def usage(self, *, closing: bool = False, at_edge: bool = False) -> Usage:
        """Return CPU, memory and pressure now. *closing*: a window ends here, so PSS, which costs too much
        within a window, is also read, after everything else. *at_edge*: a slice begins or ends, so nothing
        is read that takes milliseconds."""


class Sampler(Protocol):
    """Samples the host."""

    def idle_fixed_work_cpu_s(self) -> float | None:
        """Return the CPU time of one unit of fixed work on the idle host; None: not measured. Takes 15 ms."""

    def watching(self, launch: Launch, extra_pids: frozenset[int]) -> AbstractContextManager[Watch]:
        """Sample the host and *launch*'s process tree; *extra_pids* (feeder, probe) count as tuner's."""


class Hooks(Protocol):
    """The user's commands for certain moments of a study."""

    def run(self, event: str, facts: Mapping[str, str]) -> None:
        """Run the commands of *event*: before_study, after_study, before_launch, after_launch, before_window,
        after_window, finished. *facts* (names in lower case: ``layout``, ``block``) reach them as
        ``TUNER_...`` environment variables (``TUNER_LAYOUT``).

        Raises:
            MeasurementError: a command failed; for ``finished`` tuner only warns.
        """


class BrakeWatch(Protocol):
    """The safety limits applied to one launch."""

    def passed(self, reading: Reading | None) -> str | None:
        """Return the passed limit and the measured figures; None: no limit is passed, the launch continues.

        Called every second with the latest *reading* of the probe: cheap, and never waits.
        """


class Brake(Protocol):
    """The user's safety limits, at which a launch is stopped to protect the host."""

    @property
    def leaves_out(self) -> bool:
        """Whether a layout that passes a limit is left out and the study continues; False: it stops."""

    def watching(self, facts: Mapping[str, str]) -> AbstractContextManager[BrakeWatch]:
        """Check one launch, from before it starts; *facts* as in `Hooks.run`."""

    def still_over(self, facts: Mapping[str, str], stopped: Callable[[], bool]) -> str | None:
        """Wait, with no launch running, until no limit is passed; return a limit still passed after a minute.

        A command of a limit that takes longer is waited for. Once *stopped* returns True, the wait ends.
        """


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """A second probe, whose counts must agree with those of the first."""

    probe: Probe
    within_ratio: float  #: largest difference of the two counts, as a share (0..1) of a window's items
    names: tuple[str, str]  #: names of the first and the second probe, as printed


@dataclass(slots=True)
class WhileStarting:
    """A callback that a launcher repeats until a launch is ready; an exception from it ends the launch."""

    check: Callable[[], None] = lambda: None  #: set by the code that makes the launch


@dataclass(frozen=True, slots=True)
class Box:
    """One host to measure on: the adapters that are needed to measure a window."""

    name: str  #: host name, which is stored with blocks and windows
    clock: Clock
    launcher: Launcher
    probe: Probe
    feeder: Feeder
    sampler: Sampler
    hooks: Hooks
    cross_check: CrossCheck | None = None  #: None: no second probe
    brake: Brake | None = None  #: None: no safety limits
    #: returns why a layout does not fit (files, processes, feeder), as part of a sentence; None: it fits
    refuses: Callable[[Layout], str | None] = lambda _layout: None
    #: returns the memory that a layout may still use; None: not known
    free_bytes: Callable[[], float | None] = lambda: None
    while_starting: WhileStarting = field(default_factory=WhileStarting)
    #: opens one more place for a launch on this host, with a separate source, files and guardian; None: the
    #: host has only one place
    another: Callable[[], AbstractContextManager[Box]] | None = None
    gate: Gate = "freeze"  #: how a launch is made idle while another one works
    #: feeder of a launch that is paused often; it keeps the queue short; None: `feeder` itself
    feeder_in_turns: Feeder | None = None
    poll_interval_s: float = 0.0  #: time between an idle worker's checks for items; 0: no delay
    #: returns facts about the slices of the running launch: see `LaunchRecord`; None: it does not take turns
    noise_of_second: Callable[[], float | None] = lambda: None
    counted_ratio: Callable[[], float | None] = lambda: None


class LaunchLog(Protocol):
    """Stores launches while they run."""

    def add_launch(self, launch: LaunchRecord) -> int:
        """Store *launch* and return its id."""

    def finish_launch(self, launch_id: int, launch: LaunchRecord) -> None:
        """Store the outcome of the launch (warm-up, error)."""

    def add_warmup(self, launch_id: int, samples: Sequence[Sample]) -> None:
        """Store the samples of a warm-up in one commit; called again if the launch warms up again."""

    def add_window(self, launch_id: int, window: Window) -> None:
        """Store *window* with its samples, in one commit."""


class Store(LaunchLog, Protocol):
    """The file of a study: append-only, one commit per window."""

    def study(self) -> StudyRecord:
        """Return the settings and provenance of the study."""

    def add_to_study(self, layouts: Sequence[Layout], facts: Provenance) -> None:
        """Append *layouts* to the study's grid, and merge *facts* into its provenance; a fact replaces one
        with the same name."""

    def add_box(self, facts: BoxFacts, joined_wall_s: float) -> None:
        """Record that a host of a fleet joined; again when it returns. Not used by a study on one host."""

    def end_box(self, name: str, left_wall_s: float, why: str) -> None:
        """Record that a host left, and why; do nothing if that is recorded already."""

    def boxes(self) -> Sequence[BoxRecord]:
        """Return one record per join of a host, in order of joining; empty: the study has no fleet."""

    def launches(self) -> Sequence[tuple[int, LaunchRecord]]:
        """Return every launch with its id, in the order they were started."""

    def windows(self) -> Sequence[WindowRecord]:
        """Return every window, invalid ones included, in the order they were measured."""

    def sums(self) -> Sums:
        """Return the sums over the windows of each launch, equal to `launch_sums.tally` of all windows."""

    def samples(self, launch_id: int, index: int, attempt: int) -> Sequence[Sample]:
        """Return the one-second samples of one window, in time order."""

    def warmup_samples(self, launch_id: int) -> Sequence[Sample]:
        """Return the one-second samples of a launch's warm-up, in time order; empty: they were not stored."""

    def window(self, launch_id: int, index: int, attempt: int) -> Window:
        """Return one window with its samples and usage; times are rounded to the microsecond."""


class Progress(Protocol):
    """Display of the progress of a study on the terminal. Never raises."""

    def launch_started(self, layout: Layout, block: int, position: int, remaining_s: float | None) -> None:
        """Report that a layout is being started; *remaining_s* is the expected rest of the study, or None."""

    def in_turns(self, started: Sequence[Layout], works: Layout | None) -> None:
        """Report that *works*, one of the *started* layouts, works from now on; none started: all ended."""

    def warming_up(self, layout: Layout, elapsed_s: float, items_per_s: float | None) -> None:
        """Report one second of warm-up."""

    def sampled(
        self, layout: Layout, elapsed_s: float, window_s: float, sample: Sample, items_per_s: float
    ) -> None:
        """Report one second of a window."""

    def window_taken(
        self, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        """Report that a window, valid or invalid, is stored; *n_planned* None: their number is unknown."""

    def warning(self, slug: str, text: str) -> None:
        """Report a warning for the user; docs/messages.md explains *slug*."""


class BoxwiseProgress(Progress, Protocol):
    """A Progress for several hosts: each report belongs to the current host."""

    def turn_to(self, box: str) -> None:
        """Make *box* the host of the following reports."""

    def box_left(self, box: str) -> None:
        """Report that host *box* has left the fleet; its running launch is lost."""


class FleetProgress(Protocol):
    """Display of the progress of a study on several hosts. Never raises."""

    def box_came(self, facts: BoxFacts) -> None:
        """Report that a host joined."""

    def box_went(self, box: str, why: str) -> None:
        """Report that a host left, or gets no more launches."""

    def launch_started(self, box: str, layout: Layout, block: int, remaining_s: float | None) -> None:
        """Report that a host starts a layout; *remaining_s* as in `Progress`."""

    def sampled(
        self,
        box: str,
        layout: Layout,
        elapsed_s: float,
        window_s: float | None,
        items_per_s: float | None,
        sample: Sample | None,
    ) -> None:
        """Report a few seconds of a window of *window_s*; *window_s* and *sample* None: it warms up."""

    def window_taken(
        self, box: str, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        """Report that a window, valid or invalid, is stored; the other arguments as in `Progress`."""

    def launch_ended(self, box: str) -> None:
        """Report that a host is free."""

    def warning(self, slug: str, text: str) -> None:
        """Report a warning for the user; docs/messages.md explains *slug*."""


class Stop(Protocol):
    """The user's request to end the study."""

    def requested(self) -> bool:
        """Return True after the first Ctrl-C: finish this window. The second one raises KeyboardInterrupt."""


class Fleet(Protocol):
    """Hosts that run ordered launches, each host one at a time."""

    @property
    def clock(self) -> Clock:
        """The clock of the coordinator."""

    def news(self, until_s: float) -> News | None:
        """Wait for the next event and return it, in processing order; None: no event came before the clock's
        ``monotonic_s()`` reached *until_s*. A host that is present when the study begins gives an event, too.

        Raises:
            MeasurementError: no host can be reached any more, now or later.
        """

    def send(self, order: Order) -> None:
        """Order a launch from the order's host. `news` returns its events: it begins, ends, or is lost or
        refused. No event of an order follows after it ended, was lost or was refused."""

    def finish(self) -> None:
        """Make all hosts end after their current windows, as `Stop` does for a study on one host."""

    def give_up(self, order: str) -> None:
        """Make a host end a launch at once, with no further events of it. A `BoxCame` event reports that the
        host is free."""
