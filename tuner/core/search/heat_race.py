"""A race whose launches take turns: layouts are compared within heats, so noise of the host cancels.

The first heats have all layouts, with one layout in common. Each later block is one heat: the leader and the
rivals that are hardest to separate from it. The posterior has an effect of each heat, which all its launches
share and no other heat has. At the end the best layout runs alone for a full window.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Goal, Observed, Proposal
from tuner.core.search.posterior import Posterior
from tuner.core.search.racing import Racing

FEWEST = 2  #: layouts of a heat: one alone is compared with nothing


class HeatRace(Racing):
    """First heats of all layouts; then, one heat a block, the leader and its hardest rivals."""

    def __init__(self, goal: Goal, seed: int, n_resident: int) -> None:
        """*n_resident*: the most layouts of a heat, two or more."""
        super().__init__(goal, seed)
        self._most = n_resident
        self._first = True
        self._confirmed: set[Layout] = set()  #: ran alone for a full window

    def propose(self) -> Sequence[Proposal]:
        """The launches of the next block."""
        if self._first:
            return self._first_heats()
        members = self._members()
        if members is None:
            return self._alone()
        length_s = self._best_window_s()
        return [Proposal(self._layouts[k], length_s, heat=0) for k in members]

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Take note of a block."""
        self._first = False
        in_turns = [window for window in windows if window.turns_s is not None]
        self._confirmed.update(window.layout for window in windows if window.turns_s is None)
        self._take_in(in_turns, failed)

    def expected_rest(self) -> Sequence[Proposal] | None:
        """Not known."""
        return None

    def _first_heats(self) -> list[Proposal]:
        """Every layout once; the first of them is in each heat, which makes heats comparable."""
        first, *others = self._first_block()
        n_heats = max(1, -(-len(others) // (self._most - 1)))
        heats = [others[n::n_heats] for n in range(n_heats)]
        length_s = self._first_window_s()
        return [
            Proposal(layout, length_s, heat=heat)
            for heat, members in enumerate(heats)
            for layout in (first, *members)
        ]

    def _members(self) -> list[int] | None:
        """The layouts of the next heat; None: the answer is known, or cannot be."""
        one = self._decided()
        standing = self._standing()
        if one is None or standing is None:
            return None
        chosen = [standing.leader]
        if (k := self._index[one.layout]) not in chosen:
            chosen.append(k)
        urgent = sorted(
            (int(k) for k in range(len(self._layouts)) if standing.urgency[k] >= 0 and k not in chosen),
            key=lambda k: (-standing.urgency[k], k),
        )
        ties = set(standing.ties(self._allowed))
        for k in urgent:
            if len(chosen) < FEWEST or (len(chosen) < self._most and (k in ties or not self._n_of(k))):
                chosen.append(k)
        return chosen if len(chosen) >= FEWEST else None

    def _n_of(self, k: int) -> int:
        return int(self._bank().n_of[k])

    def _alone(self) -> list[Proposal]:
        """A full window of the best layout alone, for its load average, memory and latency."""
        standing = self._standing()
        if standing is None or not self._reached(standing):
            return []
        leader = self._layouts[standing.leader]
        return [] if leader in self._confirmed else [Proposal(leader, self._goal.max_window_s)]

    def _new_bank(self) -> Posterior:
        """The bank, which has seen nothing."""
        bank = super()._new_bank()
        bank.has_own_noise = False  # the effect of a heat takes up the noise of its layouts
        return bank

    def _drifts(self) -> Sequence[tuple[float, float]]:
        from tuner.core.search.posterior import HEAT_DRIFTS

        return HEAT_DRIFTS
