"""The interface of strategies for several hosts that measure at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tuner.core.domain.fleet import Done, Place
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Proposal
from tuner.core.stats.interval import Estimate


class SpreadingStrategy(Protocol):
    """Strategy that chooses the next launch of each host without waiting for the other hosts.

    The same seed, and the same places and results in the same order, give the same decisions. A resumed study
    passes all earlier results to a new strategy, in the order in which they ended, before the first request.
    """

    def next_for(self, box: str, under_way: Sequence[Place], boxes: Sequence[str]) -> Place | None:
        """Return the next launch for the free host *box*; None: wait until another launch ends.

        Args:
            box: one of *boxes*.
            under_way: launches running on other hosts; they may still fail.
            boxes: all available hosts.

        The study is complete when nothing is under way and no host gets a launch.
        """

    def learn(self, done: Done) -> None:
        """Add the result of a finished place. A place without a result may be requested again."""

    def answer(self) -> Answer:
        """Return the present answer for hosts that are on average like these."""

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Estimate each measured layout's mean value on these hosts, with drift removed."""

    def expected_rest(self, under_way: Sequence[Place]) -> Sequence[Proposal] | None:
        """Predict the launches after those *under_way*; None: not predictable."""
