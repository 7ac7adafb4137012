"""Blocks of the best layout and a few others for a check, and pairs of one layout for `tuner aa`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log

from tuner.core.domain.layout import Layout, blocks
from tuner.core.domain.strategy import Answer, Observed, Proposal
from tuner.core.search.recheck import LEAST_BLOCKS, Asked, Check, Launched, Past, check_answer
from tuner.core.search.strategies.launches import Launches, by_launch, launch_value
from tuner.core.stats.interval import Estimate
from tuner.core.windows.slices import ThroughputLost


class Recheck:
    """Strategy of a check: each of its layouts once per block, in random order."""

    def __init__(self, asked: Asked, past: Past | None, seed: int, window_s: float) -> None:
        self._asked, self._past, self._seed, self._window_s = asked, past, seed, window_s
        self._layouts = (asked.winner, *asked.others)
        self._launches = Launches()
        self._seen: list[Launched] = []
        self._failed: set[Layout] = set()
        self._block = 0
        self._check: Check | None = None
        self._lost = ThroughputLost()

    @property
    def failed(self) -> frozenset[Layout]:
        """The layouts that cannot run now."""
        return frozenset(self._failed)

    def check(self) -> Check:
        """Return the state of the check after the blocks so far."""
        if self._check is None:
            others = tuple(layout for layout in self._asked.others if layout not in self._failed)
            # the safety limits may exclude a layout that was measured in an earlier block
            seen = [one for one in self._seen if one.layout in (self._asked.winner, *others)]
            self._check = check_answer(replace(self._asked, others=others), self._past, seen)
        return self._check

    def propose(self) -> Sequence[Proposal]:
        """Return the next block; empty if the check is decided, or the winner or all rivals cannot run."""
        left = [layout for layout in self._layouts if layout not in self._failed]
        if self._asked.winner in self._failed or len(left) < 2 or self.check().state != "open":
            return []
        order = blocks(self._layouts, self._block + 1, self._seed)[self._block]
        return [self._proposal(layout) for layout in order if layout in left]

    def _proposal(self, layout: Layout) -> Proposal:
        return Proposal(layout, self._window_s, heat=0 if self._asked.in_turns else None)

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Add the windows of a block."""
        for launch in by_launch(self._lost.learn(windows)):
            self._launches.add(launch, self._block)
            self._seen.append(Launched(self._block, launch[0].layout, log(launch_value(launch))))
        self._failed.update(failed)
        self._block += 1
        self._check = None

    def expected_rest(self) -> Sequence[Proposal] | None:
        """Predict the blocks that the differences so far need, without the proposed block."""
        if not self._seen:
            n_blocks: int | None = LEAST_BLOCKS - 1
        else:
            rest = self.check().rest_blocks
            n_blocks = None if rest is None else max(0, rest - 1)
        if n_blocks is None:
            return None
        left = [layout for layout in self._layouts if layout not in self._failed]
        return [self._proposal(layout) for _ in range(n_blocks) for layout in left]

    def answer(self) -> Answer:
        """Return the winner, or the layout that is better now."""
        check = self.check()
        named = check.better or (self._asked.winner if self._seen else None)
        reached = check.state != "open"
        ties = () if reached else tuple(one.other for one in check.against)
        return Answer(named, reached, self._asked.kind, ties, lost_in_slices=self._lost.found)

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Estimate the present value of each layout."""
        return self._launches.estimates(self._asked.confidence)


# Comparison of a layout with itself: two launches per block.


class Pairs:
    """*n_pairs* pairs of launches of *layout*; a random draw later labels them A and B."""

    def __init__(
        self,
        layout: Layout,
        n_pairs: int,
        window_s: float,
        windows_per_launch: int,
        *,
        in_turns: bool = False,
    ) -> None:
        """Set up the pairs; *in_turns*: the two launches of a pair take turns."""
        heat = 0 if in_turns else None
        self._proposal = Proposal(layout, window_s, windows_per_launch, heat=heat)
        self._n_pairs = n_pairs
        self._n_asked = self._n_reported = 0
        self._failed = False
        self._launches = Launches()
        self._lost = ThroughputLost()

    def propose(self) -> Sequence[Proposal]:
        """Return the two launches of the next pair."""
        if self._failed or self._n_reported >= self._n_pairs:
            return []
        self._n_asked = self._n_reported + 1
        return [self._proposal] * 2

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Add the windows of a pair."""
        for launch in by_launch(self._lost.learn(windows)):
            self._launches.add(launch, self._n_reported)
        self._n_reported += 1
        self._failed = self._failed or bool(failed)

    def expected_rest(self) -> Sequence[Proposal]:
        """Return the launches of the pairs after the current one."""
        n_started = max(self._n_asked, self._n_reported)
        return [] if self._failed else [self._proposal] * (2 * (self._n_pairs - n_started))

    def answer(self) -> Answer:
        """Return the only layout, without a claim."""
        named = self._proposal.layout if len(self._launches) else None
        return Answer(named, False, "none", lost_in_slices=self._lost.found)

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Estimate the value of the layout."""
        return self._launches.estimates(0.95)
