"""A race whose launches take turns: layouts are compared within heats, so noise of the host cancels.

The first heats have all layouts, with one layout in common. Each later block is one heat: the leader and the
rivals that are hardest to separate from it. The posterior has an effect of each heat, which all its launches
share and no other heat has.

At the end the best layout and its hardest rival run alone for a full window each. If their ratio is not
that of the slices (`search.agreement`), started layouts disturb each other: then the race begins again with
windows alone. It also does so if launches lose throughput in slices (`windows.slices.ThroughputLost`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from statistics import fmean

from tuner.core.defaults import SHORTEST_WINDOW_S
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Agreement, Answer, Goal, Observed, Proposal
from tuner.core.search.agreement import agreement_of
from tuner.core.search.posterior import Noises, Posterior
from tuner.core.search.racing import SOONER, Racing
from tuner.core.windows.slices import ThroughputLost

FEWEST = 2  #: fewest layouts of a heat; a single one cannot be compared
#: assumed standard deviation between launches, until it is measured, and its weight as a number of launches
USUAL_LAUNCH_SD, USUAL_LAUNCHES = 0.02, 4.0
#: first window of a layout: shorter than without slices, but with enough of them for the noise of a second
FIRST_WINDOW_S = 10.0
N_ALONE = 2  #: full windows at the end: one of the best layout, and one of the rival hardest to separate


class HeatRace(Racing):
    """First heats of all layouts; then, one heat a block, the leader and its hardest rivals."""

    def __init__(self, goal: Goal, seed: int, n_resident: int) -> None:
        """Set the largest number of layouts in a heat, *n_resident*, which is two or more."""
        super().__init__(goal, seed)
        self._most = n_resident
        self._first = True
        self._alone: dict[Layout, Observed] = {}  #: last full window of each layout that ran alone
        self._agreement: Agreement | None = None
        self._lost = ThroughputLost()
        self._n_in_slices, self._in_slices_s = 0, 0.0  #: number of windows in slices, and their total length
        self._seconds: list[float] = []  #: variance of one second of slices, of each launch

    @property
    def counts_slices(self) -> bool:
        """Whether windows in slices count; otherwise only windows alone do, as in a race without slices."""
        return self._lost.found is None and (self._agreement is None or self._agreement.holds)

    def propose(self) -> Sequence[Proposal]:
        """Return the launches of the next block."""
        if not self.counts_slices:
            return self._next_alone()
        if self._first:
            return self._first_heats()
        members = self._members()
        if members is None and (one := self._decide()) is not None:
            return [replace(one, heat=0)]  # limits left one layout, whose usage is not clear yet
        if members is None:
            return self._confirming_alone()
        length_s = self._best_window_s()
        return [Proposal(self._layouts[k], length_s, heat=0) for k in members]

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Add the windows of a block."""
        self._first = False
        alone = [window for window in windows if window.turns_s is None]
        if not self.counts_slices:
            self._take_in(alone, failed)
            return
        self._alone.update((window.layout, window) for window in alone)
        in_slices = self._lost.learn([window for window in windows if window.turns_s is not None])
        self._n_in_slices += len(in_slices)
        self._in_slices_s += sum(window.length_s for window in in_slices)
        self._seconds += [one.noise_of_second**2 for one in in_slices if one.noise_of_second is not None]
        self._take_in(in_slices, failed)
        self._judge(alone)
        if self._lost.found is not None:
            self._restart_alone()
        elif alone and self._agreement is None:
            self._compare()

    def answer(self) -> Answer:
        """Return the answer of the race, reached only after its full windows alone, and their agreement."""
        found = super().answer()
        is_confirmed = not found.reached or not self.counts_slices or not self._confirming_alone()
        return replace(
            found,
            reached=found.reached and is_confirmed,
            agreement=self._agreement,
            lost_in_slices=self._lost.found,
        )

    def expected_rest(self) -> Sequence[Proposal] | None:
        """Return None, because the rest is not predictable."""
        return None

    def _first_heats(self) -> list[Proposal]:
        """Propose every layout once; the first is in each heat, which makes heats comparable."""
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
        """Return the layouts of the next heat; None: the answer is known, or cannot be found.

        If some challengers are ruled out only under the pooled noise, the heat compares only them with the
        leader.
        """
        one = self._decide()
        standing = self._standing()
        if one is None or standing is None:
            return None
        checked = standing.unchecked() if standing.doubt <= self._allowed_error else []
        chosen = list(dict.fromkeys([standing.leader, self._index[one.layout], *checked]))
        urgent = sorted(
            (int(k) for k in range(len(self._layouts)) if standing.urgency[k] >= 0 and k not in chosen),
            key=lambda k: (-standing.urgency[k], k),
        )
        ties = set() if checked else set(standing.ties(self._allowed_error))
        for k in urgent:
            if len(chosen) < FEWEST or (len(chosen) < self._most and (k in ties or not self._n_of(k))):
                chosen.append(k)
        return chosen[: self._most] if len(chosen) >= FEWEST else None

    def _n_of(self, k: int) -> int:
        return int(self._bank().n_of[k])

    def _confirming_alone(self) -> list[Proposal]:
        """Propose full windows alone, for load average, memory and latency, and to confirm the slices."""
        return [
            Proposal(layout, self._goal.max_window_s)
            for layout in self._to_confirm()
            if layout not in self._alone
        ]

    def _to_confirm(self) -> list[Layout]:
        """Return the best layout and its hardest rival; empty without an answer."""
        standing = self._standing()
        if standing is None or not self._is_reached(standing):
            return []
        rivals = standing.seen_rivals()
        hardest = max(rivals, key=lambda k: standing.urgency[k], default=None)
        return [self._layouts[k] for k in (standing.leader, hardest) if k is not None]

    def _compare(self) -> None:
        """Compare windows alone with slices; if they differ, restart the race with windows alone."""
        both = self._to_confirm()
        if len(both) < 2 or any(layout not in self._alone for layout in both):
            return
        one, other = both
        seen = self._alone[one], self._alone[other]
        self._agreement = agreement_of(
            self._bank(),
            (self._index[one], self._index[other]),
            (one, other),
            (seen[0].value, seen[1].value),
            self._in_slices_s / self._n_in_slices,
        )
        if not self._agreement.holds:
            self._restart_alone()

    def _restart_alone(self) -> None:
        """Forget all windows in slices, and which layouts failed in them."""
        self._first = True
        self._failed.clear()
        self._posterior = self._guide = None
        self._windows, self._verdicts, self._launch_s, self._launches = [], {}, [], []
        self._take_in(sorted(self._alone.values(), key=lambda window: window.began_s), ())

    def _next_alone(self) -> list[Proposal]:
        """Propose launches as a race without slices: a block of all layouts, then one launch per block."""
        if self._first:
            return [Proposal(layout, self._first_window_s()) for layout in self._first_block()]
        one = self._decide()
        return [] if one is None else [one]

    def _first_window_s(self) -> float:
        return self._within_bounds(FIRST_WINDOW_S) if self.counts_slices else super()._first_window_s()

    def _within_bounds(self, length_s: float) -> float:
        """Return *length_s* within the goal's bounds; windows alone need the usual least length."""
        least_s = 0.0 if self.counts_slices else SHORTEST_WINDOW_S
        return super()._within_bounds(max(length_s, least_s))

    def _best_window_s(self) -> float:
        """Return the window length in seconds that gives the most information per hour.

        The noise of one second is known from the slices of each launch. The rest of the noise is between
        launches, so longer windows do not reduce it.

        Source: as in `Racing`.
        """
        if not self.counts_slices or not self._seconds:
            return super()._best_window_s()
        from tuner.core.search.posterior import LENGTH_REF_S

        posterior, length_s = self._bank(), self._in_slices_s / self._n_in_slices
        second = fmean(self._seconds)
        noise = 1 - posterior.share + posterior.share * (LENGTH_REF_S / length_s)
        scale = float(posterior.n_of @ posterior.noise_scale) / float(posterior.n_of.sum())
        seen = scale * float((posterior.weight * posterior.sigma2 * noise).sum())
        n = float(posterior.df)
        between = USUAL_LAUNCHES * USUAL_LAUNCH_SD**2 + n * max(0.0, seen - second / length_s)
        between /= USUAL_LAUNCHES + n
        return self._within_bounds(SOONER * sqrt(fmean(self._launch_s) * second / between))

    def _new_bank(self) -> Posterior:
        """Create the empty posterior."""
        bank = super()._new_bank()
        bank.in_heats = self.counts_slices
        return bank

    def _flat_bank(self, n_layouts: int) -> Posterior:
        """Create a posterior with a flat prior for all layouts, which expects heats."""
        bank = super()._flat_bank(n_layouts)
        bank.in_heats = self.counts_slices
        return bank

    def _noises(self) -> Noises:
        if not self.counts_slices:
            return super()._noises()
        from tuner.core.search.posterior import HEAT_DRIFTS, HEAT_SHARES

        return {"drifts": HEAT_DRIFTS, "shares": HEAT_SHARES}
