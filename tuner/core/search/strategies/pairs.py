"""One layout against itself: two launches of it in every block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Observed, Proposal
from tuner.core.search.strategies.launches import Launches, by_launch
from tuner.core.stats.interval import Estimate


class Pairs:
    """So many pairs of launches of *layout*; which of a pair is A and which B is drawn afterwards."""

    def __init__(
        self,
        layout: Layout,
        n_pairs: int,
        window_s: float,
        windows_per_launch: int,
        *,
        in_turns: bool = False,
    ) -> None:
        """*in_turns*: the launches of a pair take turns."""
        heat = 0 if in_turns else None
        self._proposal = Proposal(layout, window_s, windows_per_launch, heat=heat)
        self._n_pairs = n_pairs
        self._n_asked = self._n_reported = 0
        self._failed = False
        self._launches = Launches()

    def propose(self) -> Sequence[Proposal]:
        """The next pair."""
        if self._failed or self._n_reported >= self._n_pairs:
            return []
        self._n_asked = self._n_reported + 1
        return [self._proposal] * 2

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Take note of a pair."""
        for launch in by_launch(windows):
            self._launches.add(launch, self._n_reported)
        self._n_reported += 1
        self._failed = self._failed or bool(failed)

    def expected_rest(self) -> Sequence[Proposal]:
        """The pairs after the one in hand."""
        n_started = max(self._n_asked, self._n_reported)
        return [] if self._failed else [self._proposal] * (2 * (self._n_pairs - n_started))

    def answer(self) -> Answer:
        """There is one layout, and nothing to claim of it."""
        return Answer(self._proposal.layout if len(self._launches) else None, False, "none")

    def estimates(self) -> Mapping[Layout, Estimate]:
        """What it gives."""
        return self._launches.estimates(0.95)
