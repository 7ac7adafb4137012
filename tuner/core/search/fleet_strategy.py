"""The interface of strategies for several hosts that measure at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tuner.core.domain.fleet import Done, Place
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Proposal
from tuner.core.stats.interval import Estimate


class SpreadingStrategy(Protocol):
    """Decides what each box measures next, without waiting for the others.

    The same seed, and the same places and news in the same order, give the same decisions. A study that goes
    on shows all that was done to a new strategy, in the order in which it ended, and asks then.
    """

    def next_for(self, box: str, under_way: Sequence[Place], boxes: Sequence[str]) -> Place | None:
        """The launch that *box*, which is free, is to make now; None: nothing, until something else ends.

        Args:
            box: one of *boxes*.
            under_way: what other boxes are making; it may be counted on, and may yet come to nothing.
            boxes: all that are there.

        There is nothing left to find out when nothing is under way and no box is given anything.
        """

    def learn(self, done: Done) -> None:
        """Take note of a place that is over. One that came to nothing may be asked for again."""

    def answer(self) -> Answer:
        """What may be claimed now, of boxes as these are on average."""

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Each measured layout's value on these boxes, on average, drift taken out."""

    def expected_rest(self, under_way: Sequence[Place]) -> Sequence[Proposal] | None:
        """The launches to be expected beside those *under_way*; None: it cannot tell."""
