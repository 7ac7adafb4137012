"""The adaptive strategy: what to measure next, when to stop, what may be claimed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import exp, inf, log, sqrt
from random import Random
from statistics import fmean

from tuner.core.interval import Estimate
from tuner.core.layout import Layout
from tuner.core.quantiles import student_t_quantile
from tuner.core.strategy import Answer, Goal, Observed, Proposal


class Race:
    """First every layout once, in random order; then the leader and whoever is nearest to it."""

    def __init__(self, goal: Goal, seed: int) -> None:
        self._goal = goal
        self._random = Random(seed)
        self._values: dict[Layout, list[float]] = defaultdict(list)
        self._failed: set[Layout] = set()

    def propose(self) -> Sequence[Proposal]:
        """The launches of the next block."""
        open_ = [x for x in self._goal.layouts if x not in self._values and x not in self._failed]
        if open_:
            self._random.shuffle(open_)
            return [Proposal(layout, self._goal.max_window_s) for layout in open_]
        leader, rivals = self._standings()
        if leader is None or not rivals or self.answer().reached:
            return []
        pair = (leader, min(rivals, key=lambda rival: rivals[rival]))
        return [Proposal(min(pair, key=lambda x: len(self._values[x])), self._goal.max_window_s)]

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Take note of a block."""
        self._failed.update(failed)
        for window in windows:
            self._values[window.layout].append(log(window.value))

    def answer(self) -> Answer:
        """What may be claimed now."""
        leader, rivals = self._standings()
        if leader is None:
            return Answer(None, False, self._goal.kind)
        n = sum(map(len, self._values.values()))
        bar = log((1 + log(max(n, 1))) / (1 - self._goal.confidence))
        ties = sorted((r for r in rivals if rivals[r] < bar), key=lambda r: rivals[r])
        reached = not ties and not set(self._goal.layouts) - set(self._values) - self._failed
        return Answer(leader, reached, self._goal.kind, tuple(ties))

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Each measured layout's value with its interval."""
        means = {layout: fmean(values) for layout, values in self._values.items()}
        squares = sum((v - means[x]) ** 2 for x, values in self._values.items() for v in values)
        df = sum(map(len, self._values.values())) - len(means)
        if df < 1:
            return {layout: Estimate(exp(mean), 0.0, inf) for layout, mean in means.items()}
        reach = student_t_quantile((1 + self._goal.confidence) / 2, df) * sqrt(squares / df)
        return {
            layout: Estimate(
                *(exp(mean + side * reach / sqrt(len(self._values[layout]))) for side in (0, -1, 1))
            )
            for layout, mean in means.items()
        }

    def _standings(self) -> tuple[Layout | None, dict[Layout, float]]:
        """The leader, and for every other layout how much the windows speak against its being better."""
        if not self._values:
            return None, {}
        means = {layout: fmean(values) for layout, values in self._values.items()}
        leader = max(means, key=lambda layout: means[layout])
        squares = sum((v - means[x]) ** 2 for x, values in self._values.items() for v in values)
        df = sum(map(len, self._values.values())) - len(means)
        rivals = {}
        for layout, mean in means.items():
            if layout != leader:
                gap = means[leader] - mean - log(1 - self._goal.within)
                share = 1 / len(self._values[leader]) + 1 / len(self._values[layout])
                z2 = gap**2 / (squares / df * share) if df and squares else (inf if df else 0.0)
                rivals[layout] = (df + 1) / 2 * log(1 + z2 / df) if df else 0.0
        return leader, rivals
