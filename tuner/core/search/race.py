"""The adaptive strategy: what to measure next, when to stop, what may be claimed.

Both kinds watch one number: the doubt that some layout is better than the leader by more than the margin.
They end when it is small enough. How it is worked out is the difference, and with it what the claim is worth:

- ``strict`` knows nothing of any layout beforehand and measures each at least once. A rival's share of the
  doubt is the likelihood ratio of "the rival is better by the margin" to the best fit, the noises integrated
  out; shares add up.
- ``calibrated`` expects layouts alike in P and T to be alike in throughput, and the noise to be of the usual
  size. The doubt is the probability of being wrong, given that. It need not measure every layout.

`docs/method/race.md` says what is proven, what is measured, and what breaks either. `search.racing` has
what a race of one box and one of several have in common.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Goal, Observed, Proposal
from tuner.core.search.racing import Racing


class Race(Racing):
    """First a block of layouts in random order; then, one launch a block, whatever decides most."""

    def __init__(self, goal: Goal, seed: int) -> None:
        super().__init__(goal, seed)
        self._first = True
        self._n_proposed = 0  #: since the last block was learnt

    def propose(self) -> Sequence[Proposal]:
        """The launches of the next block."""
        if self._first:
            proposals = [Proposal(layout, self._first_window_s()) for layout in self._first_block()]
        else:
            one = self._decided()
            proposals = [] if one is None else [one]
        self._n_proposed = len(proposals)
        return proposals

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Take note of a block."""
        self._first, self._n_proposed = False, 0
        self._take_in(windows, failed)

    def expected_rest(self) -> Sequence[Proposal] | None:
        """At most these launches beyond those proposed, in nine races of ten; None: nobody can tell."""
        if self._first:
            return None
        rest = self._longest_rest()
        return None if rest is None else rest[self._n_proposed :]
