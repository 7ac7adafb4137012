"""A heat: launches that stay started on one host and take turns in slices of seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import inf
from random import Random

from tuner.core.domain.layout import Layout
from tuner.core.messages.study import no_memory_for_heat, slices_too_long
from tuner.core.warmup import EarlierTransients
from tuner.core.windows.slices import SkipControl, slice_for, turns
from tuner.ports import Box
from tuner.study.heat.resident_box import ResidentStop, resident_box
from tuner.study.heat.turns import Resident, Turns
from tuner.study.launch.launching import Workbench

#: free memory required before the next start, as a multiple of the largest resident launch's memory
KEPT_FREE = 1.5

#: makes a launch with the workbench, whose clock counts the launch's own time
Make = Callable[[Workbench], None]


@dataclass(slots=True)
class Heats:
    """The heats of a study, and the places of their launches."""

    bench: Workbench  #: for launches that run alone
    #: whether the study must end, checked between starts
    must_end: Callable[[], bool]
    #: whether a safety limit or a lost source ends the study, checked all the time
    is_cut_off: Callable[[], bool]
    stack: ExitStack  #: closes the places at the end
    places: list[Box] = field(default_factory=list)
    skip: SkipControl = field(default_factory=SkipControl)
    earlier: EarlierTransients = field(default_factory=EarlierTransients)
    #: least limit, over all launches so far, of the time that an item waits, which pauses do not stop
    wait_s: float = inf

    def run(self, launches: Sequence[tuple[Layout, Make]], random: Random, most_s: float) -> int:
        """Make *launches* together, as many as fit into memory, and return the number made.

        Args:
            launches: pairs of a layout and the function that launches it.
            random: for the order of turns and the lengths of skipped parts.
            most_s: the host's monotonic second from which all launches are stopped; inf: no limit.

        Raises:
            Exception: a launch raised it; all other launches are cancelled.
            KeyboardInterrupt: like Exception.
        """
        self._open_places(len(launches))
        turns_ = Turns()
        clock = self.bench.box.clock
        residents = []
        bench = replace(self.bench, earlier=self.earlier)
        for (layout, make), place in zip(launches, self.places, strict=False):
            resident = Resident(layout, turns_, clock, _made_at(bench, place, make, most_s, self.is_cut_off))
            residents.append(resident)
        try:
            n_made = self._start(residents)
            self._take_turns(residents[:n_made], random)
        except BaseException:
            for resident in residents:
                resident.cancel()
            raise
        finally:
            self.bench.progress.in_turns((), None)
        for resident in residents[:n_made]:
            resident.join()
            self.skip.learn(resident.halves)
        return n_made

    def _open_places(self, n: int) -> None:
        box = self.bench.box
        if not self.places:
            self.places.append(box)
        while len(self.places) < n:
            assert box.another is not None
            self.places.append(self.stack.enter_context(box.another()))

    def _start(self, residents: Sequence[Resident]) -> int:
        """Start the launches one after the other, those started idle; stop before memory may be short, and
        return the number started."""
        free_bytes = self.bench.box.free_bytes
        before, largest = free_bytes(), 0.0
        for n, resident in enumerate(residents):
            if n > 1 and before is not None and before < KEPT_FREE * largest:
                self.bench.progress.warning(*no_memory_for_heat(n, before, largest))
                return n
            if n and self.must_end():
                return n
            self._report_turn(residents[: n + 1], resident)
            resident.start()
            _raise_error(resident)
            after = free_bytes()
            if before is not None and after is not None:
                largest = max(largest, before - after)
            before = after
        return len(residents)

    def _take_turns(self, residents: Sequence[Resident], random: Random) -> None:
        waiting = [resident for resident in residents if resident.state == "waiting"]
        box = self.bench.box
        self.wait_s = min([self.wait_s, *(one.most_wait_s for one in waiting)])
        slice_ = slice_for(
            max((one.residence_s for one in waiting), default=0.0),
            freezes=box.gate == "freeze",
            wait_s=self.wait_s,
            poll_interval_s=box.poll_interval_s,
            skip_times=self.skip.times,
        )
        if slice_.is_endless and len(waiting) > 1:
            slowest = max(waiting, key=lambda one: one.residence_s)
            self.bench.progress.warning(*slices_too_long(str(slowest.layout), slowest.residence_s))
        for round_, row in enumerate(turns(len(waiting), random) if waiting else ()):
            for resident in (waiting[n] for n in row):
                if resident.state != "over":
                    is_last = sum(one.state != "over" for one in waiting) == 1
                    self._report_turn(waiting, resident)
                    turn = slice_.without_end() if is_last else slice_
                    resident.take_slice(turn.drawn(random), round_)
                    _raise_error(resident)
            if all(resident.state == "over" for resident in waiting):
                return

    def _report_turn(self, residents: Sequence[Resident], works: Resident) -> None:
        started = [one.layout for one in residents if one.state != "over"]
        self.bench.progress.in_turns(started, works.layout)


def _made_at(
    bench: Workbench, place: Box, make: Make, most_s: float, is_cut_off: Callable[[], bool]
) -> Callable[[Resident], None]:
    """Return a function that makes a resident launch at *place*."""

    def work(resident: Resident) -> None:
        stop = ResidentStop(bench.stop, resident, most_s, is_cut_off)
        make(replace(bench, box=resident_box(place, resident), stop=stop))

    return work


def _raise_error(resident: Resident) -> None:
    if resident.error is not None:
        raise resident.error
