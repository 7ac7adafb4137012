"""The race on one host, and the common parts of races on one host and on several hosts.

The parts are the posterior, the leader and its error probability, and the rule to stop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from math import exp, log, sqrt
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.core.domain.limits import Verdict, limits_from, verdicts
from tuner.core.domain.strategy import Answer, ChangedRatio, Goal, Observed, Proposal, UnequalReaction
from tuner.core.stats.interval import Estimate
from tuner.core.stats.quantiles import student_t_quantile

if TYPE_CHECKING:
    from tuner.core.search.by_time import Launch
    from tuner.core.search.challengers import Challenge, DrawnWorld
    from tuner.core.search.guide import Guide
    from tuner.core.search.posterior import Noises, Posterior
    from tuner.core.stats.groups import OfBest

LAUNCH_GUESS_S = 60.0  #: assumed time of start, warm-up and stop, until launches are measured
FIRST_WINDOW_S = 15.0  #: first window of an unknown layout, if the strategy chooses lengths
#: Factor from the most efficient length of windows: shorter ones allow an earlier choice of the next
#: launches.
SOONER = 0.65
MOST_FORESEEN = 600  #: most launches that are predicted; more count as unknown
SEEN_AGAIN = 2  #: mean number of repeated windows of layouts that may be best, before the rest is predicted
N_WORLDS = 9  #: number of simulated worlds in which the rest is predicted
N_FILTERS_AHEAD = 6  #: number of filters in these worlds: faster, and as accurate (bench/forecast.py)
N_SPREAD = 6  #: number of layouts in the first block of a calibrated race
#: repeated windows of layouts that are needed before the noise is known and anything is claimed
N_REPLICATES = 8
#: Error probability with which an answer may be given, as a share of 1 - confidence, so that the real error
#: is the requested one. strict: on the surfaces where it is largest; calibrated: on average over suites
#: (bench/race.py).
THRESHOLDS = {"strict": 0.55, "calibrated": 0.75}


class Racing:
    """A race: first a block of all or of spread-out layouts, then the most informative launch each time."""

    def __init__(self, goal: Goal, seed: int) -> None:
        if goal.kind not in THRESHOLDS:
            raise ValueError(f"no such kind of race: {goal.kind}")
        self._goal = goal
        self._threshold = THRESHOLDS[goal.kind]
        self._seed = seed
        self._random = Random(seed)
        self._margin = -log(1 - goal.within)
        self._layouts = list(goal.layouts)
        self._index = {layout: n for n, layout in enumerate(self._layouts)}
        self._failed: set[Layout] = set()
        self._limits = limits_from(goal.limits)
        self._windows: list[Observed] = []
        self._verdicts: dict[Layout, Verdict] = {}
        self._launch_s: list[float] = []
        self._launches: list[Launch] = []  #: launches of one host; empty on several hosts
        self._posterior: Posterior | None = None
        self._guide: Guide | None = None
        self._stands: Challenge | None = None  #: state since the last block; None: not computed yet

    # ------------------------------------------------------------------ proposals and observations

    def _decide(self) -> Proposal | None:
        """Choose the next launch on one host after the first block; None: the answer is known."""
        standing = self._standing()
        if standing is None or self._is_reached(standing):
            return None
        posterior = self._bank()
        if posterior.n_replicates < N_REPLICATES and self._goal.kind == "strict":
            k = standing.to_repeat(1.5 * self._margin)
            return Proposal(self._layouts[k], self._best_window_s())
        leader = self._layouts[standing.leader]
        if standing.doubt <= self._allowed_error and (left := standing.to_confirm()):
            return self._confirming(left[0])
        if standing.doubt <= self._allowed_error and (check := standing.to_check()) is not None:
            return Proposal(self._layouts[check], self._best_window_s())
        if standing.doubt <= self._allowed_error and self._state(leader) == "open":  # it may pass a limit
            return Proposal(leader, self._best_window_s())
        k = standing.to_measure(self._best_window_s())
        return Proposal(self._layouts[k], self._window_s(k))

    def _confirming(self, k: int) -> Proposal:
        """Propose one more launch of a layout that would otherwise be ruled out or named by a single one."""
        return Proposal(self._layouts[k], min(self._best_window_s(), self._first_window_s()))

    def _take_in(self, windows: Sequence[Observed], failed: Sequence[Layout], box: str = "") -> None:
        """Add the launches of one host to the posterior and to the verdicts on limits."""
        self._stands = None
        self._failed.update(failed)
        by_launch: dict[int, list[Observed]] = {}
        for window in windows:
            by_launch.setdefault(window.launch, []).append(window)
        for of_launch in by_launch.values():
            length_s = sum(window.length_s for window in of_launch)
            value = sum(log(window.value) * window.length_s for window in of_launch) / length_s
            first, last = of_launch[0], of_launch[-1]
            middle_s = (first.began_s + last.began_s + last.length_s) / 2
            if first.turns_s is not None:
                middle_s = first.turns_s
            self._observe(self._index[first.layout], value, middle_s, length_s, box)
            self._launch_s.append(max(0.0, first.began_s - first.launch_began_s))
        if windows and self._posterior is not None:
            from tuner.core.search.unequal_noise import rescale

            before = self._posterior
            self._posterior = rescale(before, self._new_bank, self._launches)
            if self._guide is not None and self._posterior is not before:
                self._guide.rescale(self._posterior)
        self._judge(windows)

    def _judge(self, windows: Sequence[Observed]) -> None:
        """Add *windows* to the verdicts on limits."""
        if self._limits and windows:
            self._stands = None
            self._windows.extend(windows)
            self._verdicts = verdicts(
                self._limits, self._layouts, self._windows, self._goal.confidence, kind=self._goal.kind
            )

    @property
    def _allowed_error(self) -> float:
        """The largest error probability that an answer may have."""
        return self._threshold * (1 - self._goal.confidence)

    def _observe(self, layout: int, log_value: float, at_s: float, length_s: float, box: str) -> None:
        """Add one launch to the posterior; *at_s* and *length_s* are in seconds."""
        from tuner.core.search.by_time import Launch

        if not box:
            self._launches.append(Launch(layout, log_value, at_s, length_s))
        bank = self._bank()
        if self._guide is None:
            bank.observe(layout, log_value, at_s, length_s, box)
        else:
            self._guide.observe(bank, layout, log_value, at_s, length_s, box)

    def answer(self) -> Answer:
        """Return the leader, its ties, and whether the answer is reached."""
        standing = self._standing()
        if standing is None:
            return Answer(None, False, self._goal.kind)
        leader = self._layouts[standing.leader]
        guidance = None if self._guide is None else self._guide.guidance
        if self._bank().n_replicates < N_REPLICATES:  # the noise is not known yet
            ties = tuple(self._layouts[k] for k in standing.seen_rivals())
            return Answer(
                leader,
                self._is_reached(standing),
                self._goal.kind,
                ties,
                guidance=guidance,
                pools_noise=standing.pools_noise,
            )
        goal, open_, reached = self._goal, standing.ties(self._allowed_error), self._is_reached(standing)
        tied = standing.tied(open_, goal.within, goal.confidence)
        return Answer(
            leader,
            reached,
            goal.kind,
            tuple(self._layouts[k] for k in open_),
            min(1.0, standing.doubt / self._threshold),
            guidance,
            tuple(self._layouts[k] for k in tied),
            standing.pools_noise,
            *(self._other_hours(standing.leader) if reached else ((), None)),
        )

    def _other_hours(self, named: int) -> tuple[tuple[ChangedRatio, ...], UnequalReaction | None]:
        """Return evidence that the answer *named* may be another at other hours."""
        from tuner.core.search.by_speed import unequal_reaction
        from tuner.core.search.by_time import changed_gaps

        gaps = changed_gaps(self._launches, named, self._flat_bank, len(self._layouts))
        changed = tuple(ChangedRatio(self._layouts[gap.layout], gap.early, gap.late) for gap in gaps)
        return changed, unequal_reaction(self._launches, self._layouts, self._bank())

    def beside(self, layout: Layout | None = None) -> Mapping[Layout, OfBest]:
        """Compare each other measured layout with *layout* or the leader; empty until the noise is known."""
        from tuner.core.search.challengers import standing_beside

        standing = self._standing()
        if standing is None or self._bank().n_replicates < N_REPLICATES:
            return {}
        if layout is not None:
            if not self._bank().n_of[self._index[layout]]:
                return {}
            standing = standing_beside(standing, self._margin, self._index[layout])
        found = standing.of_best(self._allowed_error, self._goal.within, self._goal.confidence)
        return {self._layouts[k]: one for k, one in found.items()}

    def _longest_rest(self) -> Sequence[Proposal] | None:
        """Predict an upper limit of the remaining launches on one host, right in nine races of ten.

        The race is simulated to its end in worlds drawn from the posterior, and the longest rest is returned:
        of ten similar races, the true one is the longest in one. None: not predictable.
        """
        if self._posterior is None or self._limits:
            return None
        if self._posterior.n_replicates < N_REPLICATES:
            return None
        import numpy as np

        from tuner.core.search.challengers import DrawnWorld

        standing = self._standing()
        rivals = [] if standing is None else [standing.leader, *standing.ties(self._allowed_error)]
        if standing is None or self._posterior.n_replicates < SEEN_AGAIN * (len(rivals) - 1):
            return None
        rests: list[list[Proposal]] = []
        for n in range(N_WORLDS):
            random = np.random.Generator(np.random.PCG64([self._seed, int(self._posterior.n_of.sum()), n]))
            rest = self._rest_in(DrawnWorld(self._posterior, rivals, random))
            if rest is None:
                return None
            rests.append(rest)
        return max(rests, key=lambda rest: sum(self._lasts_s(one) for one in rest))

    def _rest_in(self, world: DrawnWorld) -> list[Proposal] | None:
        """Simulate this race in *world* and return its launches; None: more than `MOST_FORESEEN`."""
        assert self._posterior is not None
        ahead = copy(self)
        ahead._posterior = posterior = self._posterior.thinned(N_FILTERS_AHEAD)
        rest: list[Proposal] = []
        while len(rest) < MOST_FORESEEN:
            ahead._stands = None
            proposal = ahead._decide()
            if proposal is None:
                return rest
            at_s = posterior.at_s + self._lasts_s(proposal)
            layout = self._index[proposal.layout]
            value = world.window(layout, at_s, proposal.window_s)
            posterior.observe(layout, value, at_s, proposal.window_s)
            rest.append(proposal)
        return None

    def _lasts_s(self, proposal: Proposal) -> float:
        return proposal.window_s + (fmean(self._launch_s) if self._launch_s else LAUNCH_GUESS_S)

    def verdicts(self) -> Mapping[Layout, Verdict]:
        """Return whether each layout keeps the limits; empty without limits or before the first block."""
        return self._verdicts

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Estimate each measured layout's value with its interval, with drift removed."""
        if self._posterior is None:
            return {}
        reach = student_t_quantile((1 + self._goal.confidence) / 2, max(self._posterior.df, 1.0))
        found = {}
        for layout, k in self._index.items():
            if self._posterior.n_of[k]:
                mean, sd = self._posterior.level(k)
                if self._posterior.df < 1:
                    found[layout] = Estimate(exp(mean))
                else:
                    found[layout] = Estimate(exp(mean), exp(mean - reach * sd), exp(mean + reach * sd))
        return found

    # ------------------------------------------------------------------ decisions

    def _bank(self) -> Posterior:
        if self._posterior is None:
            self._posterior = self._new_bank()
            if self._goal.kind != "strict":
                self._add_guide()
        return self._posterior

    def _new_bank(self) -> Posterior:
        """Create the empty posterior of one host."""
        from tuner.core.search.posterior import smooth_posterior

        if self._goal.kind == "strict":
            return self._flat_bank(len(self._layouts))
        return smooth_posterior(self._layouts, lengths_vary=self._lengths_vary, **self._noises())

    def _flat_bank(self, n_layouts: int) -> Posterior:
        """Create a posterior with a flat prior for all layouts."""
        from tuner.core.search.posterior import flat_posterior

        return flat_posterior(n_layouts, lengths_vary=self._lengths_vary, **self._noises())

    def _noises(self) -> Noises:
        """Return the drifts and shares that a posterior considers; empty: the usual ones."""
        return {}

    @property
    def _lengths_vary(self) -> bool:
        return self._goal.min_window_s < self._goal.max_window_s

    def _add_guide(self, level_sds: Sequence[float] = (0.0,), filter_kept: float | None = None) -> None:
        from tuner.core.search.guide import FILTER_KEPT, Guide, may_guide

        if may_guide(self._goal) and self._goal.cores is not None:
            self._guide = Guide(
                self._layouts,
                self._goal.cores,
                lengths_vary=self._lengths_vary,
                level_sds=level_sds,
                filter_kept=filter_kept or FILTER_KEPT,
            )

    def _first_block(self) -> list[Layout]:
        """Return the layouts of the first block in random order."""
        if self._goal.kind == "strict":
            layouts = list(self._layouts)
        else:
            from tuner.core.search.challengers import choose_spread

            layouts = [self._layouts[k] for k in choose_spread(self._new_bank(), N_SPREAD, self._random)]
        self._random.shuffle(layouts)
        return layouts

    def _standing(self) -> Challenge | None:
        """Return the leader and its comparison with each rival; None: nothing is measured yet."""
        from tuner.core.search.challengers import standing

        if self._posterior is None or not self._posterior.n_of.any():
            return None
        if self._stands is not None:
            return self._stands
        out = [layout in self._failed or self._state(layout) == "beyond" for layout in self._layouts]
        self._stands = standing(self._posterior, self._margin, out, self._goal.kind)
        return self._stands

    def _is_reached(self, standing: Challenge) -> bool:
        if standing.n_left == 1 and not self._limits:
            return True
        return (
            self._bank().n_replicates >= N_REPLICATES
            and standing.doubt <= self._allowed_error
            and not standing.to_confirm()
            and standing.to_check() is None
            and self._state(self._layouts[standing.leader]) == "within"
        )

    def _state(self, layout: Layout) -> str:
        return self._verdicts[layout].state if layout in self._verdicts else "within"

    # ------------------------------------------------------------------ window lengths

    def _first_window_s(self) -> float:
        return self._within_bounds(FIRST_WINDOW_S)

    def _best_window_s(self) -> float:
        """Return the window length in seconds that gives the most information per hour.

        Launches are expensive, but longer windows do not reduce the variance between launches.

        Source: Kalibera & Jones, Rigorous benchmarking in reasonable time (2013), 9.1.
        """
        from tuner.core.search.posterior import LENGTH_REF_S

        launch_s = fmean(self._launch_s) if self._launch_s else LAUNCH_GUESS_S
        posterior = self._bank()
        share = float((posterior.weight * posterior.share).sum())  # of the variance that averages out
        if not share:
            return self._goal.max_window_s
        return self._within_bounds(SOONER * sqrt(launch_s * LENGTH_REF_S * share / (1 - share)))

    def _window_s(self, k: int) -> float:
        """Return a window's length: shorter for an unmeasured layout, because most are ruled out after it."""
        best_s = self._best_window_s()
        return best_s if self._bank().n_of[k] else min(best_s, self._first_window_s())

    def _within_bounds(self, length_s: float) -> float:
        return min(self._goal.max_window_s, max(self._goal.min_window_s, round(length_s, 1)))


class Race(Racing):
    """Race on one host: first a block of layouts in random order; then one launch per block."""

    def __init__(self, goal: Goal, seed: int) -> None:
        super().__init__(goal, seed)
        self._first = True
        self._n_proposed = 0  #: launches proposed since the last block was learnt

    def propose(self) -> Sequence[Proposal]:
        """Return the launches of the next block."""
        if self._first:
            proposals = [Proposal(layout, self._first_window_s()) for layout in self._first_block()]
        else:
            one = self._decide()
            proposals = [] if one is None else [one]
        self._n_proposed = len(proposals)
        return proposals

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Add the windows of a block."""
        self._first, self._n_proposed = False, 0
        self._take_in(windows, failed)

    def expected_rest(self) -> Sequence[Proposal] | None:
        """Predict a limit of the launches after the proposed ones, right in nine races of ten, or None."""
        if self._first:
            return None
        rest = self._longest_rest()
        return None if rest is None else rest[self._n_proposed :]
