"""Boxes that measure as a strategy for several asks, on a clock of their own; one may go and come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp

from tuner.core.domain.fleet import Done, Place
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Observed
from tuner.core.search.fleet_strategy import SpreadingStrategy
from tuner.core.search.suite import SimulatedBox, Suite


@dataclass
class Boxes:
    """All boxes of *suite*'s only surface. What they do is kept in `done`, in the order in which it ended."""

    suite: Suite
    names: Sequence[str]
    stream: str = "luck"
    #: of boxes that are not as the suite has it
    log_levels: Mapping[str, float] = field(default_factory=dict)
    apart: Mapping[tuple[str, Layout], float] = field(default_factory=dict)  #: in logarithms
    done: list[Done] = field(default_factory=list)
    under_way: dict[str, tuple[float, Place]] = field(default_factory=dict)  #: until when, what
    now_s: float = 0.0
    n_launches: int = 0
    _boxes: dict[str, SimulatedBox] = field(default_factory=dict)

    def lead(self, strategy: SpreadingStrategy, *, n: int = 1000) -> None:
        """Until so many places more are done, or nothing more is asked for."""
        for _ in range(n):
            if not self.step(strategy):
                return

    def step(self, strategy: SpreadingStrategy) -> bool:
        """Give work to all that are free, and wait for the next to end; False: nobody has anything to do."""
        self.hand_out(strategy)
        if not self.under_way:
            return False
        self.end(strategy, min(self.under_way, key=lambda name: self.under_way[name][0]))
        return True

    def hand_out(self, strategy: SpreadingStrategy) -> None:
        for name in self.names:
            if name in self.under_way:
                continue
            place = strategy.next_for(name, self.places(), self.names)
            if place is not None:
                lasts_s = self.suite.launch_s + place.asked.window_s * place.asked.n_windows
                self.under_way[name] = (self.now_s + lasts_s, place)

    def places(self) -> list[Place]:
        return [place for _, place in self.under_way.values()]

    def end(self, strategy: SpreadingStrategy, name: str) -> None:
        """The box has made its launch."""
        until_s, place = self.under_way.pop(name)
        self.now_s = max(self.now_s, until_s)
        self._tell(strategy, Done(place, self._windows(place, until_s)))

    def vain(self, strategy: SpreadingStrategy, name: str, failed: Sequence[Layout] = ()) -> None:
        """The box has made its launch, and no window counts."""
        until_s, place = self.under_way.pop(name)
        self.now_s = max(self.now_s, until_s)
        self._tell(strategy, Done(place, (), failed=failed))

    def lose(self, strategy: SpreadingStrategy, name: str) -> None:
        """The box is there no more."""
        self.names = [one for one in self.names if one != name]
        if name in self.under_way:
            self._tell(strategy, Done(self.under_way.pop(name)[1], (), is_whole=False))

    def _tell(self, strategy: SpreadingStrategy, done: Done) -> None:
        self.done.append(done)
        strategy.learn(done)

    def _windows(self, place: Place, until_s: float) -> list[Observed]:
        box = self._boxes.get(place.box)
        if box is None:
            box = self._boxes[place.box] = self.suite.box(0, f"{self.stream}/{place.box}")
        box.now_s = until_s - self.suite.launch_s - place.asked.window_s * place.asked.n_windows
        self.n_launches += 1
        own = self.log_levels.get(place.box, 0.0) + self.apart.get((place.box, place.asked.layout), 0.0)
        return [
            replace(window, launch=self.n_launches, box=place.box, value=window.value * exp(own))
            for window in box.take(place.asked)
        ]
