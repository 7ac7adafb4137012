"""Layouts compared over several hosts: each layout has one value per host.

A launch is its layout + the block of its box + what the layout has more on this box than on others + noise.
Nothing is known of the third part but that it is another on each box. So a difference between layouts, of
boxes like these, is known only as far as it is the same on the boxes there are: it is judged by how much it
changes from box to box, with (layouts - 1) x (boxes - 1) degrees of freedom where nothing is missing. For
whole tables that is the exact test of the mixed model, whatever that spread is, 0 included; with one block on
each box it is what a study of as many blocks on one box would have said.

What the layouts give on these very boxes, on average, is known better: there only the noise of launches and
the drift of each box count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum

from tuner.core.stats.interval import Estimate, LaunchMean, estimate_with, spread_over, spread_with_blocks
from tuner.core.stats.two_way_anova import AdditiveFit, Observation, fit


@dataclass(frozen=True, slots=True)
class OnBox:
    """What one layout gives on one box."""

    layout: int
    box: int
    part: int  #: of the box: layouts of different parts share no block there, and are not compared there
    value: float  #: as the part's blocks are on average
    variance: float  #: of *value* from the noise of launches, blocks given, per unit of that noise
    n_launches: int


@dataclass(frozen=True, slots=True)
class BoxTable:
    """Every layout on every box, drift of the boxes taken out; boxes and layouts are numbered from 0."""

    values: tuple[OnBox, ...]
    fits: tuple[AdditiveFit, ...]  #: per box, its layouts numbered as in *layouts_of*
    layouts_of: tuple[tuple[int, ...], ...]  #: per box
    n_layouts: int
    within: AdditiveFit  #: noise and drift, of all boxes together; its components are the boxes

    @property
    def n_boxes(self) -> int:
        """Boxes with a launch that counts."""
        return len(self.fits)

    @property
    def by_box(self) -> list[list[OnBox]]:
        """The values of each box."""
        found: list[list[OnBox]] = [[] for _ in self.fits]
        for one in self.values:
            found[one.box].append(one)
        return found

    @property
    def is_whole(self) -> bool:
        """Whether every layout was on every box."""
        return len(self.values) == self.n_layouts * self.n_boxes

    @property
    def noise_share(self) -> float:
        """How much of the noise of a launch is in one value, on average over values."""
        return fsum(1 / one.n_launches for one in self.values) / len(self.values)

    @property
    def observations(self) -> list[Observation]:
        """The values as if each box were a block: with a layout + box fit, what is left over is how layouts
        differ from box to box, with noise."""
        parts = {key: n for n, key in enumerate(dict.fromkeys((one.box, one.part) for one in self.values))}
        return [Observation(one.layout, parts[one.box, one.part], one.value) for one in self.values]


def box_table(observations: Sequence[Observation], box_of: Mapping[int, int], n_layouts: int) -> BoxTable:
    """Each of *n_layouts* layouts is observed once or more; *box_of* is the box of each block, 0, 1, ..."""
    of_box: dict[int, list[Observation]] = defaultdict(list)
    for seen in observations:
        of_box[box_of[seen.block]].append(seen)
    values: list[OnBox] = []
    fits, layouts_of = [], []
    for box, own in sorted(of_box.items()):
        n_of = Counter(seen.layout for seen in own)
        layouts = sorted(n_of)
        place = {layout: number for number, layout in enumerate(layouts)}
        fitted = fit([Observation(place[one.layout], one.block, one.value) for one in own], len(layouts))
        values += [
            OnBox(
                layout=layout,
                box=box,
                part=fitted.components[number],
                value=fitted.effects[number],
                variance=fitted.effect_variance[number],
                n_launches=n_of[layout],
            )
            for number, layout in enumerate(layouts)
        ]
        fits.append(fitted)
        layouts_of.append(tuple(layouts))
    return BoxTable(tuple(values), tuple(fits), tuple(layouts_of), n_layouts, _together(fits))


def _together(fits: Sequence[AdditiveFit]) -> AdditiveFit:
    """Sums of squares of all boxes; of effects it knows nothing."""
    return replace(
        fits[0],
        n_blocks_of=tuple(sum(one.n_blocks_of) for one in fits),
        residual_ss=fsum(one.residual_ss for one in fits),
        residual_df=sum(one.residual_df for one in fits),
        block_ss=fsum(one.block_ss for one in fits),
        block_df=sum(one.block_df for one in fits),
        block_ss_per_variance=fsum(one.block_ss_per_variance for one in fits),
    )


def comparable(
    observations: Sequence[Observation], box_of: Mapping[int, int], n_layouts: int
) -> Sequence[Observation]:
    """What layouts are to be compared by: *observations*, or, of several boxes, one value for each box.

    Where no two layouts were both on two boxes nothing tells what boxes differ by: then it is *observations*,
    as if layouts did the same on every box.
    """
    if len(set(box_of.values())) < 2:
        return observations
    values = box_table(observations, box_of, n_layouts).observations
    return values if n_layouts == 1 or fit(values, n_layouts).residual_df else observations


def estimate_on_boxes(
    launches: Sequence[LaunchMean], table: BoxTable, fitted: AdditiveFit, confidence: float
) -> list[Estimate]:
    """Throughput per second of each layout on these very boxes, on average, each box counting the same.

    *fitted* has the layouts' effects over boxes. The interval (each layout by itself) knows of launches and
    of the drift of each box, over blocks like those there were; what another box would give is no part of it.
    Where each box has one block nothing tells its drift: then boxes are a sample, and the interval is of
    boxes like these.
    """
    if not table.within.block_df:
        spreads = [
            spread_with_blocks(fitted, fitted.components[layout], variance)
            for layout, variance in enumerate(fitted.effect_variance)
        ]
        return estimate_with(launches, fitted.effects, spreads, confidence)
    # The mean over boxes of what their blocks are on average is as uncertain as that of so many blocks.
    n_blocks = table.n_boxes**2 / fsum(1 / n for n in table.within.n_blocks_of)
    per_value = fsum(one.variance for one in table.values) / len(table.values)
    spreads = [
        spread_over(table.within, n_blocks, of_boxes * per_value) for of_boxes in fitted.effect_variance
    ]
    return estimate_with(launches, fitted.effects, spreads, confidence)
