"""A strategy that others look at while it leads a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.core.interval import Estimate
from tuner.core.layout import Layout
from tuner.core.limits import Verdict
from tuner.core.strategy import Answer, Foreseeing, Judging, Observed, Proposal, Strategy


class Followed:
    """Another strategy; what it says is asked for once per block, however often somebody looks."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._failed: list[Layout] = []
        self._known: tuple[Answer, Mapping[Layout, Estimate]] | None = None  #: since the last block

    @property
    def failed(self) -> tuple[Layout, ...]:
        """Layouts that it was told cannot be run."""
        return tuple(self._failed)

    def propose(self) -> Sequence[Proposal]:
        """As the other."""
        return self._strategy.propose()

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """As the other."""
        self._known = None
        self._failed += failed
        self._strategy.learn(windows, failed)

    def expected_rest(self) -> Sequence[Proposal] | None:
        """As the other; None where that cannot foresee at all."""
        return self._strategy.expected_rest() if isinstance(self._strategy, Foreseeing) else None

    def answer(self) -> Answer:
        """As the other."""
        return self._asked()[0]

    def estimates(self) -> Mapping[Layout, Estimate]:
        """As the other."""
        return self._asked()[1]

    def verdicts(self) -> Mapping[Layout, Verdict]:
        """As the other; none where that heeds no limits."""
        return self._strategy.verdicts() if isinstance(self._strategy, Judging) else {}

    def _asked(self) -> tuple[Answer, Mapping[Layout, Estimate]]:
        if self._known is None:
            self._known = self._strategy.answer(), self._strategy.estimates()
        return self._known
