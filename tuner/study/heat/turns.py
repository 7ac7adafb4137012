"""Threads that take turns, one per launch: one runs while time stands still for all other launches.

The same code makes a resident launch and a launch alone, here in a separate thread. That code waits only
by its clock, so its clock is where it can be held: `ResidentClock.sleep_until` returns once so much of the
launch's *own* time has passed, and hands the turn back to the leader when a slice is over. Only the thread
that has the turn runs, so nothing else needs a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import inf, nextafter
from typing import Literal, Protocol

from tuner.core.domain.layout import Layout
from tuner.core.windows.slices import Slice, noise_of_second
from tuner.ports import Clock

ROUNDING_S = 1e-6
LONGEST_STEP_S = 1.0  #: longest single sleep, so that Ctrl-C works within a long skip

State = Literal["new", "starting", "waiting", "in-slices", "over"]


class Meter(Protocol):
    """A source of totals that must grow only in the counted parts of slices."""

    def stop(self) -> float:
        """Stop counting now, and return this moment on the host's clock."""

    def go_on(self) -> float:
        """Continue counting now, and return this moment on the host's clock."""

    def begin_window(self) -> None:
        """Record that a window begins."""

    def at_half(self) -> None:
        """Record that half of the counted part of a slice is over."""


class Cancelled(KeyboardInterrupt):
    """The heat is cancelled; raised in the threads of its launches."""


class Turns:
    """The turn, which one thread holds at a time: the leader or a resident."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holder: Resident | None = None  #: the launch whose turn it is; None: the leader has control
        self.members: list[Resident] = []  #: all launches that take turns
        self.is_cancelled = False

    def give(self, resident: Resident) -> None:
        """Let *resident* run until it hands the turn back.

        Raises:
            KeyboardInterrupt: in the leader's thread; the resident may still run.
        """
        with self._changed:
            self._holder = resident
            self._changed.notify_all()
            while self._holder is not None:
                self._changed.wait()

    def hand_back(self) -> None:
        """Return the turn from its holder to the leader."""
        with self._changed:
            self._holder = None
            self._changed.notify_all()

    def await_turn(self, resident: Resident) -> None:
        """Wait until *resident* has the turn."""
        with self._changed:
            while self._holder is not resident:
                self._changed.wait()

    def await_leader(self) -> None:
        """Wait until the leader has the turn again."""
        with self._changed:
            while self._holder is not None:
                self._changed.wait()


class Resident:
    """One launch that takes turns, with its thread and its own time."""

    def __init__(self, layout: Layout, turns: Turns, clock: Clock, work: Callable[[Resident], None]) -> None:
        """*work* makes the launch of *layout*; it is called with this object."""
        self.layout = layout
        self.residence_s = 0.0  #: mean time of an item in the warm-up: threads divided by items/s
        self.busy_cores = 0.0  #: cores that it used in the warm-up
        self.waiting_s: float | None = None  #: mean time that an item waited; None: not reported by the probe
        self.state: State = "new"
        self.error: BaseException | None = None
        self.clock = ResidentClock(self)
        self.host_clock = clock
        self.meters: list[Meter] = []  #: the first one counts items; its times are in the launch's own time
        self.make_idle: Callable[[], object] = lambda: None
        self.make_busy: Callable[[], object] = lambda: None
        self.until_s = inf  #: end of its slice, by the host's clock
        self.half_s = inf  #: middle of the slice's counted part, by the host's clock
        self.halves: list[tuple[float, float]] = []  #: rates in the first and second half of each slice
        self.rates: dict[int, float] = {}  #: items/s in the slice of each round
        self._counted_s = 0.0  #: length of the counted part of these slices
        self._skipped_s = 0.0  #: sum of the skipped parts so far
        self._slices_began_s: float | None = None  #: own time at the first slice
        self._own_s = clock.monotonic_s()  #: own time when it last stopped
        #: host time since which own time has passed; None: own time stands still
        self._since_s: float | None = None
        self._slice = Slice(0.0, inf)  #: slice of the turn that begins
        self._round = self._window_round = 0  #: present round, and the one in which the window began
        self._turns, self._work = turns, work
        turns.members.append(self)
        self._thread = threading.Thread(target=self._run, name=f"tuner-heat-{layout}", daemon=True)

    @property
    def most_wait_s(self) -> float:
        """Return a limit of the time that an item waited in the warm-up: the time without a core."""
        off_core_s = self.residence_s * max(0.0, 1 - self.busy_cores / self.layout.total_threads)
        return off_core_s if self.waiting_s is None else min(off_core_s, self.waiting_s)

    # ------------------------------------------------------------------ the leader's side

    def start(self) -> None:
        """Run alone until the first window is due or the launch has ended."""
        self._thread.start()  # raises RuntimeError if the host allows no more threads
        self.state = "starting"
        self._turns.give(self)

    def take_slice(self, slice_: Slice, round_: int) -> None:
        """Run for the slice of one round."""
        self.state = "in-slices"
        self._slice, self._round = slice_, round_
        self._turns.give(self)

    def cancel(self) -> None:
        """Cancel the launch, and wait until it has ended."""
        if self.state == "new":
            return
        self._turns.is_cancelled = True
        self._turns.await_leader()
        while self.state != "over":
            self._turns.give(self)
        self._thread.join()

    def join(self) -> None:
        """Wait for its thread, which has finished its work."""
        if self.state != "new":
            self._thread.join()

    # ------------------------------------------------------------------ its own side

    def _run(self) -> None:
        self._turns.await_turn(self)
        try:
            self._since_s = self.host_clock.monotonic_s()
            self._work(self)
        except BaseException as error:
            self.error = error
        finally:
            self.state = "over"
            self._turns.hand_back()

    def own_s(self) -> float:
        """Return its own time in seconds: the time in which it was counted or ran alone."""
        if self._since_s is None:
            return self._own_s
        return self._own_s + self.host_clock.monotonic_s() - self._since_s

    def own_from(self, at_s: float) -> float:
        """Return its own time at the host's *at_s*, in the present turn or at the end of an earlier one."""
        return self._own_s if self._since_s is None else self._own_s + at_s - self._since_s

    def round_up(self, at_s: float) -> None:
        """Set its own time to *at_s* if it is earlier by a rounding error only."""
        if at_s - ROUNDING_S < self.own_s() < at_s:
            self._own_s += at_s - self.own_s()
            while self.own_s() < at_s:
                self._own_s = nextafter(self._own_s, inf)

    def await_others(self) -> None:
        """Before the first window, wait idle for the other launches; announce each window to the meters."""
        if self.state == "starting":
            self.state = "waiting"
            self.stand()
        self._window_round = self._round
        for meter in self.meters:
            meter.begin_window()

    def stand(self) -> None:
        """Hand the turn back, and continue with the next turn."""
        self.check()
        stopped_s, *_ = [meter.stop() for meter in self.meters] or [self.host_clock.monotonic_s()]
        self._own_s, self._since_s = self.own_from(stopped_s), None
        self.make_idle()
        self._turns.hand_back()
        self._turns.await_turn(self)
        self.make_busy()
        self.check()
        now_s = self.host_clock.monotonic_s()
        self._skip_until(now_s + self._slice.skip_s)
        self.until_s = now_s + self._slice.length_s
        self.half_s = now_s + self._slice.skip_s + self._slice.counted_s / 2
        since_s, *_ = [meter.go_on() for meter in self.meters] or [self.host_clock.monotonic_s()]
        self._since_s = since_s
        self._skipped_s += max(0.0, since_s - now_s)
        if self._slices_began_s is None:
            self._slices_began_s = self._own_s

    def _skip_until(self, at_s: float) -> None:
        """Sleep until the host's *at_s*, in short steps so that Ctrl-C does not wait for a long skip."""
        while (now_s := self.host_clock.monotonic_s()) < at_s:
            self.host_clock.sleep_until(min(at_s, now_s + LONGEST_STEP_S))
            self.check()

    def count_slice(self, rate_per_s: float) -> None:
        """Record the items per second of the slice that ends."""
        if not self._slice.is_endless:
            self.rates[self._round], self._counted_s = rate_per_s, self._slice.counted_s

    def noise_of_second(self) -> float | None:
        """Return the noise of one second of slices in the present window: see `slices.noise_of_second`."""
        rounds = range(self._window_round, self._round + 1)
        own, *others = (
            {n: one.rates[n] for n in rounds if n in one.rates}
            for one in (self, *(one for one in self._turns.members if one is not self))
        )
        return noise_of_second(own, others, self._counted_s)

    def counted_ratio(self) -> float | None:
        """Return the counted share of the time in which it ran in slices so far; None: no slice."""
        if self._slices_began_s is None:
            return None
        counted_s = self.own_s() - self._slices_began_s
        return counted_s / (counted_s + self._skipped_s) if counted_s > 0 else None

    def reach_half(self) -> None:
        """Read the meters in the middle of a slice."""
        self.half_s = inf
        for meter in self.meters:
            meter.at_half()

    def check(self) -> None:
        """Raise Cancelled if the heat is cancelled."""
        if self._turns.is_cancelled:
            raise Cancelled


class ResidentClock:
    """The clock of a resident launch: monotonic time is the launch's own time, wall time is the host's."""

    def __init__(self, resident: Resident) -> None:
        self._resident = resident

    def monotonic_s(self) -> float:
        """Return the launch's own time."""
        return self._resident.own_s()

    def wall_s(self) -> float:
        """Return the host's wall time."""
        return self._resident.host_clock.wall_s()

    def sleep_until(self, at_s: float) -> None:
        """Sleep until the launch's own time is *at_s*; other launches take turns meanwhile."""
        resident = self._resident
        host = resident.host_clock
        while (rest_s := at_s - resident.own_s()) > 0:
            resident.check()
            now_s = host.monotonic_s()
            if now_s < resident.half_s < min(now_s + rest_s, resident.until_s):
                host.sleep_until(resident.half_s)
                resident.reach_half()
                continue
            if now_s + rest_s <= resident.until_s:
                host.sleep_until(now_s + rest_s)
                resident.round_up(at_s)
                return
            host.sleep_until(resident.until_s)
            resident.stand()
