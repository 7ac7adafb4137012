"""Successive halving: a budget in equal parts, the better half of the layouts goes on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import ceil, fsum, log, log2
from random import Random

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Goal, Observed, Proposal
from tuner.core.search.strategies.launches import Launches, by_launch, launch_value
from tuner.core.stats.groups import LEAST_LAUNCHES
from tuner.core.stats.interval import Estimate

WINDOWS_PER_LAYOUT = 10  #: the budget when none is given


class SuccessiveHalving:
    """Rounds of equal cost, after each of which the worse half is dropped; it promises nothing.

    A layout is dropped only once it was launched `stats.groups.LEAST_LAUNCHES` times: a first round has
    that many blocks, though the budget then ends with more layouts left.

    Within a round the layouts run in randomised blocks, and means are over all windows so far, which all
    survivors have equally many of: drift between blocks cancels.

    Source: Karnin, Koren & Somekh (2013), sequential halving; there a round forgets the ones before.
    """

    def __init__(self, goal: Goal, seed: int, n_windows: int | None = None) -> None:
        self._goal, self._random = goal, Random(seed)
        self._left = n_windows if n_windows is not None else WINDOWS_PER_LAYOUT * len(goal.layouts)
        self._survivors = list(goal.layouts)
        self._n_blocks = 0
        self._blocks_left = self._blocks_of_round()
        self._values: dict[Layout, list[float]] = defaultdict(list)
        self._launches = Launches()

    def propose(self) -> Sequence[Proposal]:
        """The next block of the layouts that are left."""
        if len(self._survivors) < 2 or self._left < len(self._survivors):
            return []
        order = list(self._survivors)
        self._random.shuffle(order)
        return [Proposal(layout, self._goal.max_window_s) for layout in order]

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Take note of a block; at the end of a round, drop the worse half."""
        for launch in by_launch(windows):
            self._values[launch[0].layout].append(log(launch_value(launch)))
            self._launches.add(launch, self._n_blocks)
        self._n_blocks += 1
        self._left -= len(self._survivors)  # a window that was void was paid for as well
        self._survivors = [layout for layout in self._survivors if layout not in failed]
        self._blocks_left -= 1
        if not self._blocks_left and self._survivors:
            better = self._ranked()[: ceil(len(self._survivors) / 2)]
            self._survivors = [
                layout
                for layout in self._survivors
                if layout in better or len(self._values.get(layout, ())) < LEAST_LAUNCHES
            ]
            self._blocks_left = self._blocks_of_round()

    def answer(self) -> Answer:
        """The best mean of the layouts that are left."""
        ranked = [layout for layout in self._ranked() if self._values.get(layout)]
        return Answer(ranked[0] if ranked else None, False, "none", tuple(ranked[1:]))

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Each layout's value, as far as it was measured."""
        return self._launches.estimates(self._goal.confidence)

    def _blocks_of_round(self) -> int:
        n = len(self._survivors)
        n_rounds = max(1, ceil(log2(n)))
        return max(1, LEAST_LAUNCHES - self._n_blocks, self._left // (n_rounds * n))

    def _ranked(self) -> list[Layout]:
        means = {x: fsum(values) / len(values) for x, values in self._values.items() if values}
        return sorted(self._survivors, key=lambda x: -means.get(x, float("-inf")))
