"""One layout after the other: how it was done in 2014, and how hyperfine does it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import fsum, log

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Goal, Observed, Proposal
from tuner.core.search.strategies.launches import Launches, by_launch, launch_value
from tuner.core.stats.interval import Estimate


class InOrder:
    """All launches of one layout, then all of the next; the best mean is named, and nothing promised.

    Whatever the box does meanwhile goes into the difference between layouts: under drift more launches do
    not help.
    """

    def __init__(self, goal: Goal, n_each: int = 1) -> None:
        self._goal, self._n_each = goal, n_each
        self._values: dict[Layout, list[float]] = defaultdict(list)
        self._done: set[Layout] = set()  # what came of their launches is all that will
        self._asked: Layout | None = None
        self._launches = Launches()

    def propose(self) -> Sequence[Proposal]:
        """The launches of the next layout."""
        for layout in self._goal.layouts:
            lacking = self._n_each - len(self._values.get(layout, ()))
            if lacking > 0 and layout not in self._done:
                self._asked = layout
                return [Proposal(layout, self._goal.max_window_s)] * lacking
        return []

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Take note of what its launches gave."""
        self._done.update(failed)
        if self._asked is not None:
            self._done.add(self._asked)
        for launch in by_launch(windows):
            self._values[launch[0].layout].append(log(launch_value(launch)))
            self._launches.add(launch, 0)

    def answer(self) -> Answer:
        """The best mean."""
        means = {layout: fsum(values) / len(values) for layout, values in self._values.items()}
        return Answer(max(means, key=lambda x: means[x]) if means else None, False, "none")

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Each layout's mean. No interval: what the box did meanwhile is not known."""
        return self._launches.estimates(self._goal.confidence)
