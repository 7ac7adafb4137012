"""A strategy that is not asked how much is still to come: foreseeing takes longer than simulating it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Observed, Proposal, Strategy
from tuner.core.stats.interval import Estimate


class Unforeseen:
    """Another strategy without its `Foreseeing`: it asks for the same launches and claims the same."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy

    def propose(self) -> Sequence[Proposal]:
        """As the other."""
        return self._strategy.propose()

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """As the other."""
        self._strategy.learn(windows, failed)

    def answer(self) -> Answer:
        """As the other."""
        return self._strategy.answer()

    def estimates(self) -> Mapping[Layout, Estimate]:
        """As the other."""
        return self._strategy.estimates()
