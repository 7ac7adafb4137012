"""Differences between the hosts of a fleet: slower hosts, and layouts that differ from host to host.

- The *level* of a host is the throughput of all layouts there, as a ratio of the mean over hosts. Its error
  is the drift of the host from block to block.
- The deviation *apart* is the host-by-layout interaction, beyond the noise of launches.
- A layout *collapses* if it measured best on one host and is worse than the best of another by more than the
  margin, beyond the noise of launches on both.

docs/method/boxes.md has the reasons, and the simulations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum, log, sqrt

from tuner.core.domain.layout import Layout
from tuner.core.ranking.study_difference import is_surely_changed
from tuner.core.stats.interval import Estimate, ratio_around, spread_with_blocks
from tuner.core.stats.mixed_model import BoxTable, OnBox
from tuner.core.stats.quantiles import f_quantile, student_t_quantile, studentized_range_quantile
from tuner.core.stats.two_way_anova import AdditiveFit
from tuner.core.stats.variance import MeanSquare, estimate_sd, estimate_sd_beyond

_ROUNDING = 1e-9  #: a difference of this size is rounding


@dataclass(frozen=True, slots=True)
class BoxLevel:
    """Speed of one host over all layouts."""

    box: str
    level: Estimate  #: ratio to the mean of all hosts; the intervals of all hosts hold jointly
    n_launches: int  #: number of valid launches
    n_blocks: int

    @property
    def differs(self) -> bool:
        """Return whether the host is significantly faster or slower than the average host."""
        return is_surely_changed(self.level)


@dataclass(frozen=True, slots=True)
class Collapse:
    """A layout that wins on one host and loses on another."""

    layout: Layout
    best_on: str
    worse_on: str
    than: Layout  #: layout that measured best on *worse_on*
    ratio: Estimate  #: ratio to the throughput of *than* there; intervals of all hosts hold jointly


@dataclass(frozen=True, slots=True)
class Boxes:
    """Differences between two hosts or more. Standard deviations are ratios; None: cannot be estimated."""

    levels: tuple[BoxLevel, ...]
    between: Estimate | None  #: standard deviation between hosts, without drift if the drift is known
    drifts: bool  #: whether the drift of hosts is known, so that levels have intervals
    apart: Estimate | None  #: standard deviation of the host-by-layout interaction
    is_apart: bool | None  #: whether the host-by-layout interaction is significant
    collapses: tuple[Collapse, ...]  #: worst case of each layout, largest loss first
    confidence: float

    @property
    def differing(self) -> tuple[BoxLevel, ...]:
        """Return the hosts that are significantly faster or slower, the largest difference first."""
        found = [one for one in self.levels if one.differs]
        return tuple(sorted(found, key=lambda one: -abs(log(one.level.mean or 1.0))))


def estimate_host_effects(
    table: BoxTable,
    across: AdditiveFit,
    *,
    boxes: Sequence[str],
    layouts: Sequence[Layout],
    confidence: float,
    within: float,
) -> Boxes:
    """Estimate the differences between two hosts or more from *table*.

    Args:
        table: of logarithms.
        across: its layouts' effects over hosts, with the residuals.
        boxes: their names, as numbered.
        layouts: as numbered.
        confidence: of all levels together, of all collapses together, and of each deviation by itself.
        within: the margin: a share of the best.
    """
    noise = _square(table.within.residual_ss, table.within.residual_df)
    left = _square(across.residual_ss, across.residual_df) if table.n_layouts > 1 else None
    share = table.noise_share
    apart, is_apart = None, None
    if left is not None and noise is not None and noise.value:
        apart = estimate_sd_beyond(left, noise, confidence, of_part=share)
        limit = f_quantile(confidence, left.df, noise.df) * share * noise.value
        is_apart = left.value > max(limit, _ROUNDING**2)
    spread = 0.0 if apart is None or table.is_whole else (apart.mean or 0.0) ** 2
    by_box = table.by_box
    levels = _levels(by_box, across)
    spreads = [_level_spread(table, own, spread) for own in by_box]
    reported = [Estimate(None)] * table.n_boxes
    if levels is not None:
        reported = [
            ratio_around(one, _reach(spreads, number, confidence)) for number, one in enumerate(levels)
        ]
    return Boxes(
        levels=tuple(
            BoxLevel(
                box,
                reported[number],
                sum(one.n_launches for one in by_box[number]),
                table.within.n_blocks_of[number],
            )
            for number, box in enumerate(boxes)
        ),
        between=None if levels is None else _sd_between(levels, spreads, confidence),
        drifts=all(one is not None for one in spreads),
        apart=apart,
        is_apart=is_apart,
        collapses=_worst(_collapses(table, noise, boxes, layouts, confidence, within)),
        confidence=confidence,
    )


def _square(ss: float, df: int) -> MeanSquare | None:
    return MeanSquare(ss / df, df) if df else None


# ---------------------------------------------------------------------- levels


def _levels(by_box: Sequence[Sequence[OnBox]], across: AdditiveFit) -> list[float] | None:
    """Return the level of each host, with mean 0; None if no chain of shared layouts joins all hosts."""
    if len(across.n_blocks_of) > 1:
        return None
    levels = []
    for own in by_box:
        left = [one.value - across.effects[one.layout] for one in own]
        levels.append(fsum(left) / len(left))
    mean = fsum(levels) / len(levels)
    return [one - mean for one in levels]


def _level_spread(table: BoxTable, own: Sequence[OnBox], apart: float) -> tuple[float, float] | None:
    """Return the variance of a level and its degrees of freedom; None if no host has two blocks.

    *apart* is the variance of each value in a table with holes, where hosts ran different layouts.
    """
    if not table.within.block_df:
        return None
    found = spread_with_blocks(table.within, own[0].box, 1 / sum(one.n_launches for one in own))
    return None if found is None else (found[0] + apart / len(own), found[1])


def _reach(spreads: Sequence[tuple[float, float] | None], box: int, confidence: float) -> float | None:
    """Return half of a level's interval: each host has Sidak's share of the error probability."""
    known = [one for one in spreads if one is not None]
    if len(known) < len(spreads):
        return None
    n_boxes = len(known)
    own, df = known[box]
    variance = own * (1 - 2 / n_boxes) + fsum(one for one, _ in known) / n_boxes**2
    n_reported = n_boxes if n_boxes > 2 else 1  # with two hosts, one level is the negative of the other
    each = confidence ** (1 / n_reported)
    return student_t_quantile((1 + each) / 2, df) * sqrt(variance)


def _sd_between(
    levels: Sequence[float], spreads: Sequence[tuple[float, float] | None], confidence: float
) -> Estimate | None:
    whole = MeanSquare(fsum(one**2 for one in levels) / (len(levels) - 1), len(levels) - 1)
    known = [one for one in spreads if one is not None]
    if len(known) < len(spreads):
        return estimate_sd(whole, confidence)
    variance = fsum(one for one, _ in known) / len(known)
    if not variance or not whole.value:
        return estimate_sd(whole, confidence)
    return estimate_sd_beyond(whole, MeanSquare(variance, min(df for _, df in known)), confidence)


# ----------------------------------------------------------- layouts that win on one host and lose on another


def _collapses(
    table: BoxTable,
    noise: MeanSquare | None,
    boxes: Sequence[str],
    layouts: Sequence[Layout],
    confidence: float,
    within: float,
) -> Iterator[Collapse]:
    """Yield the layouts that win on one host and lose on another, by Tukey's limit within each host.

    The limit allows for the choice of the layout as the best of a host. Both its lead there and its loss here
    exceed their limits, so neither is chance, and the loss exceeds the margin.
    """
    if noise is None or table.n_layouts < 2:
        return
    each = confidence ** (1 / table.n_boxes)
    limit = studentized_range_quantile(each, table.n_layouts, noise.df) / sqrt(2)
    on_box = [{one.layout: one.value for one in own} for own in table.by_box]
    margin = -log(1 - within)

    def half(box: int, one: int, other: int) -> float | None:
        own = table.layouts_of[box]
        variance = table.fits[box].difference_variance(own.index(one), own.index(other))
        return None if variance is None else limit * sqrt(variance * noise.value)

    best = [max(values, key=lambda layout: values[layout]) for values in on_box]
    for here in range(table.n_boxes):
        than = best[here]
        winners = {layout: box for box, layout in reversed(list(enumerate(best))) if layout != than}
        for layout, there in winners.items():
            if layout not in on_box[here] or than not in on_box[there]:
                continue
            halves = (half(here, layout, than), half(there, layout, than))
            if halves[0] is None or halves[1] is None:
                continue
            less = on_box[here][than] - on_box[here][layout]
            more = on_box[there][layout] - on_box[there][than]
            if less - halves[0] > margin and less + more > halves[0] + halves[1]:
                yield Collapse(
                    layouts[layout],
                    boxes[there],
                    boxes[here],
                    layouts[than],
                    ratio_around(-less, halves[0]),
                )


def _worst(collapses: Iterable[Collapse]) -> tuple[Collapse, ...]:
    """Return the largest loss of each layout."""
    found: dict[Layout, Collapse] = {}
    for one in sorted(collapses, key=lambda one: one.ratio.mean or 0.0):
        found.setdefault(one.layout, one)
    return tuple(found.values())
