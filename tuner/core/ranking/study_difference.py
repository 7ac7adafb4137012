"""Changes of throughput between two studies: of all layouts together, and of each layout.

Launches of two studies are not paired, so each study adds all of its noise. On the logarithmic scale a
layout's change is the sum of one part that all layouts share (the release as a whole, the host, the day) and
one part of this layout. The shared part includes changes of the host between blocks of either study; in the
differences between layouts these drop out, as within a study. So the layout's part is known far better than
its whole change.

Two studies cannot show how the host changes from one *day* to another: that is part of the shared change,
but its interval covers blocks only.

An adaptive study chooses each launch by the results so far, so its means have random numbers of launches.
Its n-th launch of a layout may spend 1 / (n (n + 1)) of that layout's error probability, which adds up to 1
over all n: intervals hold at any stopping time, and are wider.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, expm1, fsum, log1p, sqrt

from tuner.core.domain.layout import Layout
from tuner.core.search.recheck import Launched
from tuner.core.stats.groups import Comparison, compare
from tuner.core.stats.interval import Estimate, ratio_around, spread_with_blocks
from tuner.core.stats.quantiles import student_t_quantile
from tuner.core.stats.two_way_anova import AdditiveFit, Observation, fit

_NO_MORE = 1000.0  #: an interval wider than this many times its middle gives no information


@dataclass(frozen=True, slots=True)
class Side:
    """Values of the launches of one study."""

    launches: Sequence[Launched]
    is_adaptive: bool = False  #: whether earlier results determined the launches and their number
    #: host of each block, whose hosts count equally, however many blocks each has; empty: one host
    box_of: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """One layout that both studies measured; ratios are the second study's to the first's."""

    layout: Layout
    ratio: Estimate  #: the intervals of all layouts hold jointly
    #: ratio divided by *shared*; the intervals of all layouts hold jointly; None: not comparable
    beside: Estimate | None
    n_launches: tuple[int, int]
    levels: tuple[float, float]  #: values in both studies from which the ratio is computed

    @property
    def has_changed(self) -> bool:
        """Return whether all of the interval lies on one side of 1."""
        return is_surely_changed(self.ratio)

    @property
    def stands_out(self) -> bool:
        """Return whether its change differs significantly from that of the other layouts."""
        return self.beside is not None and is_surely_changed(self.beside)


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of one figure, such as the throughput, from one study to the other."""

    layouts: tuple[LayoutChange, ...]  #: in the order of the first study
    shared: Estimate | None  #: geometric mean of the ratios; its interval holds separately; None: no layout
    n_shared: int  #: number of layouts in *shared*
    n_blocks: tuple[int, int]
    confidence: float

    def of(self, layout: Layout) -> LayoutChange | None:
        """Return the change of *layout*; None if it was not measured in both studies."""
        return next((one for one in self.layouts if one.layout == layout), None)


def is_surely_changed(ratio: Estimate) -> bool:
    """Return whether all of the interval lies on one side of 1; rounding alone is no change."""
    return (ratio.low is not None and ratio.low > 1 + 1e-9) or (
        ratio.high is not None and ratio.high < 1 - 1e-9
    )


def changes(before: Side, after: Side, confidence: float) -> Changes:
    """Compare two studies; *confidence* is that of all layouts' intervals together.

    A single block gives no estimate of the noise: then ratios have no interval.
    """
    if not (before.launches and after.launches):
        return Changes((), None, 0, (0, 0), confidence)
    pair = _Fitted.of(before), _Fitted.of(after)
    common = [layout for layout in pair[0].number if layout in pair[1].number]
    n_blocks = (pair[0].n_blocks, pair[1].n_blocks)
    if not common:
        return Changes((), None, 0, n_blocks, confidence)
    doubt = 1 - confidence
    together = _joined_layouts(common, pair)
    gap = {layout: pair[1].effect(layout) - pair[0].effect(layout) for layout in common}
    shared = fsum(gap[layout] for layout in together) / len(together)
    shared_spread = _sum_of(*(side.mean_spread(together) for side in pair))
    look = look_share(pair, [max(side.n_of[layout] for layout in together) for side in pair])
    own_spreads = _own_spreads(pair, together)
    n_own = 1 if len(together) == 2 else len(together)  # of two, one is the negative of the other
    found = []
    for layout in common:
        own_look = look_share(pair, [side.n_of[layout] for side in pair])
        reach = _reach(_sum_of(*(side.spread(layout) for side in pair)), doubt * own_look, len(common))
        beside = None
        if layout in own_spreads:
            own = own_spreads[layout]
            beside = estimate_of_gap(gap[layout] - shared, _reach(own, doubt * own_look, n_own))
            # The shared part is the same for all layouts: it need not be allowed for once for each.
            parts = (
                _reach(shared_spread, doubt / 2 * look, 1),
                _reach(own, doubt / 2 * own_look, n_own),
            )
            if parts[0] is not None and parts[1] is not None and reach is not None:
                reach = min(reach, parts[0] + parts[1])
        counts = (pair[0].n_of[layout], pair[1].n_of[layout])
        levels = (exp(pair[0].effect(layout)), exp(pair[1].effect(layout)))
        found.append(LayoutChange(layout, estimate_of_gap(gap[layout], reach), beside, counts, levels))
    return Changes(
        tuple(found),
        estimate_of_gap(shared, _reach(shared_spread, doubt * look, 1)),
        len(together),
        n_blocks,
        confidence,
    )


def ratio_within(side: Side, one: Layout, other: Layout, confidence: float) -> Estimate | None:
    """Return the ratio of *one* to *other* in one study, with an interval for all pairs; None if not known.

    With a fixed plan the limit is Tukey's, as in the ranking.
    """
    pairs = PairGaps.of(side, confidence)
    if (gap := pairs.gap(one, other)) is None:
        return None
    return estimate_of_gap(*gap) if side.is_adaptive else ratio_around(*gap)


@dataclass(frozen=True, slots=True)
class PairGaps:
    """Differences between any two layouts of one study; all intervals hold together."""

    fitted: _Fitted | None  #: None: there are no launches
    compared: Comparison | None  #: comparison of a study with a fixed plan; None: the study is adaptive
    confidence: float

    @classmethod
    def of(cls, side: Side, confidence: float) -> PairGaps:
        """Compare all layouts of *side*, *confidence* being that of all pairs together."""
        if not side.launches:
            return cls(None, None, confidence)
        own = _Fitted.of(side)
        if side.is_adaptive:
            return cls(own, None, confidence)
        return cls(own, compare(own.observations, len(own.number), confidence), confidence)

    def gap(self, one: Layout, other: Layout) -> tuple[float, float | None] | None:
        """Return the logarithm of *one*'s ratio to *other*, and half of its interval (None: no interval).

        Return None if one of them was not measured, or no chain of shared blocks joins them.
        """
        own = self.fitted
        if own is None or one not in own.number or other not in own.number:
            return None
        numbers = (own.number[one], own.number[other])
        per_unit, residual = own.fit.difference_variance(*numbers), own.fit.residual_variance
        if per_unit is None:
            return None
        gap = own.effect(one) - own.effect(other)
        if one == other:
            return gap, 0.0
        if self.compared is not None:
            return gap, self.compared.half_width(*numbers)
        spread = None if residual is None else _Spread(per_unit * residual, own.fit.residual_df)
        look = look_share([own], [own.n_of[one]]) * look_share([own], [own.n_of[other]])
        n_pairs = len(own.number) * (len(own.number) - 1) // 2
        return gap, _reach(spread, (1 - self.confidence) * look, n_pairs)


@dataclass(frozen=True, slots=True)
class _Spread:
    """A variance and its degrees of freedom."""

    variance: float
    df: float


@dataclass(frozen=True, slots=True)
class _Fitted:
    observations: Sequence[Observation]
    fit: AdditiveFit
    number: Mapping[Layout, int]
    n_of: Mapping[Layout, int]
    n_blocks: int
    is_adaptive: bool
    #: for each component, the level of the mean host, less that of the mean block
    of_hosts: Mapping[int, float]

    @classmethod
    def of(cls, side: Side) -> _Fitted:
        number = {
            layout: index for index, layout in enumerate(dict.fromkeys(x.layout for x in side.launches))
        }
        blocks = {block: index for index, block in enumerate(dict.fromkeys(x.block for x in side.launches))}
        seen = [Observation(number[one.layout], blocks[one.block], one.value) for one in side.launches]
        n_of = Counter(one.layout for one in side.launches)
        fitted = fit(seen, len(number))
        box_of = {index: side.box_of.get(block, 0) for block, index in blocks.items()}
        of_hosts = _levels_of_hosts(seen, fitted, box_of)
        return cls(seen, fitted, number, n_of, len(blocks), side.is_adaptive, of_hosts)

    def effect(self, layout: Layout) -> float:
        return self.fit.effects[self.number[layout]] + self.of_hosts[self.component(layout)]

    def component(self, layout: Layout) -> int:
        return self.fit.components[self.number[layout]]

    def spread(self, layout: Layout) -> _Spread | None:
        """Return the spread of one effect, with blocks as a sample of the host's states."""
        return self._with_blocks(layout, self.fit.effect_variance[self.number[layout]])

    def mean_spread(self, layouts: Sequence[Layout]) -> _Spread | None:
        """Return the spread of the mean of effects that blocks join."""
        of_each = fsum(self.fit.effect_variance[self.number[layout]] for layout in layouts) / len(layouts)
        # the mean of squares = the square of the mean + the mean squared difference from it
        return self._with_blocks(layouts[0], of_each - fsum(self._contrasts(layouts)) / len(layouts))

    def own_spreads(self, layouts: Sequence[Layout]) -> list[_Spread] | None:
        """Return the spread of each effect's difference from the mean; None if the noise is not known."""
        residual = self.fit.residual_variance
        if residual is None:
            return None
        return [_Spread(variance * residual, self.fit.residual_df) for variance in self._contrasts(layouts)]

    def _with_blocks(self, layout: Layout, per_residual: float) -> _Spread | None:
        found = spread_with_blocks(self.fit, self.component(layout), per_residual)
        return None if found is None else _Spread(*found)

    def _contrasts(self, layouts: Sequence[Layout]) -> list[float]:
        """Return for each layout the variance of its effect less the mean, per unit of residual variance.

        For weights that add up to 0 it is -1/2 of the weighted sum of the variances of all differences.
        """
        numbers = [self.number[layout] for layout in layouts]
        rows = [
            fsum(self.fit.difference_variance(one, other) or 0.0 for other in numbers) / len(numbers)
            for one in numbers
        ]
        half = fsum(rows) / len(numbers) / 2
        return [max(0.0, row - half) for row in rows]


def _levels_of_hosts(
    seen: Sequence[Observation], fitted: AdditiveFit, box_of: Mapping[int, int]
) -> dict[int, float]:
    """Return the level of the mean host less that of the mean block, for each component.

    A faster host often has more blocks in one study than in another, which is no change of its speed.
    """
    left: dict[int, list[float]] = defaultdict(list)
    component_of: dict[int, int] = {}
    for one in seen:
        left[one.block].append(one.value - fitted.effects[one.layout])
        component_of[one.block] = fitted.components[one.layout]
    levels: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for block, values in left.items():
        levels[component_of[block]][box_of[block]].append(fsum(values) / len(values))
    found = {}
    for component, by_host in levels.items():
        hosts = [fsum(own) / len(own) for own in by_host.values()]
        blocks = [level for own in by_host.values() for level in own]
        is_one = len(hosts) == 1
        found[component] = 0.0 if is_one else fsum(hosts) / len(hosts) - fsum(blocks) / len(blocks)
    return found


def _joined_layouts(common: Sequence[Layout], pair: Sequence[_Fitted]) -> list[Layout]:
    """Return the largest group of layouts that blocks join in both studies: only these can be compared."""
    groups: dict[tuple[int, ...], list[Layout]] = defaultdict(list)
    for layout in common:
        groups[tuple(side.component(layout) for side in pair)].append(layout)
    return max(groups.values(), key=len)


def _own_spreads(pair: Sequence[_Fitted], together: Sequence[Layout]) -> dict[Layout, _Spread | None]:
    if len(together) < 2:
        return {}
    before, after = (side.own_spreads(together) for side in pair)
    if before is None or after is None:
        return dict.fromkeys(together)
    return {layout: _sum_of(*both) for layout, *both in zip(together, before, after, strict=True)}


def _sum_of(one: _Spread | None, other: _Spread | None) -> _Spread | None:
    """Return the spread of a difference of two independent values; degrees of freedom by Welch-Satterthwaite.

    A variance with few degrees of freedom is often far too small, and then seems not to matter: it weighs
    1 + 8 / df times as much in the degrees of freedom (`stats.interval` does alike). If a study of two
    blocks is compared with one of ten, 95 % then cover 94 to 95 % instead of 90 to 92 %
    (bench/compare.py).
    """
    if one is None or other is None:
        return None
    variance = one.variance + other.variance
    if variance == 0:
        return _Spread(0.0, min(one.df, other.df))
    weighed = [spread.variance * (1 + 8 / spread.df) for spread in (one, other)]
    return _Spread(variance, sum(weighed) ** 2 / (weighed[0] ** 2 / one.df + weighed[1] ** 2 / other.df))


def look_share(sides: Sequence[Side | _Fitted], n_launches: Sequence[int]) -> float:
    """Return the share of a layout's error probability that may be spent at this number of launches."""
    share = 1.0
    for side, n in zip(sides, n_launches, strict=True):
        if side.is_adaptive:
            share /= n * (n + 1)
    return share


def _reach(spread: _Spread | None, doubt: float, n: int) -> float | None:
    """Return half of an interval, one of *n* that together are wrong with probability *doubt*, or None.

    Šidák (1967): even if dependent, *n* such intervals hold at least as often as if they were independent.
    """
    if spread is None:
        return None
    if spread.variance == 0:
        return 0.0
    # after many looks the probability is too small to be subtracted from 1
    each = -expm1(log1p(-doubt) / n)
    return -student_t_quantile(each / 2, spread.df) * sqrt(spread.variance)


def estimate_of_gap(gap: float, reach: float | None) -> Estimate:
    """Return the ratio whose logarithm is *gap* +- *reach*; without an interval if *reach* is None."""
    if reach is None or exp(min(reach, 100.0)) > _NO_MORE:
        reach = None
    return ratio_around(gap, reach)
