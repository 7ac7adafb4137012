"""Layouts compared over several hosts: each layout has one value per host.

The value of a launch is layout + block of its host + host-by-layout interaction + noise. The interaction is
random, and different on each host. So a difference between layouts, for hosts like these, is only known as
far as it is equal on the measured hosts: its noise is the variation from host to host, with (layouts - 1) x
(hosts - 1) degrees of freedom if nothing is missing. For whole tables that is the exact test of the mixed
model, for any variance of the interaction, 0 included; with one block on each host the result is that of a
study of as many blocks on one host.

The mean throughput on exactly these hosts is known better: its only errors are the noise of launches and the
drift of each host.
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
    """Value of one layout on one host."""

    layout: int
    box: int
    #: part of the host; layouts of different parts share no block there, and are not compared there
    part: int
    value: float  #: value in an average block of the part
    #: variance of *value* from the noise of launches, for given blocks, per unit of that noise
    variance: float
    n_launches: int


@dataclass(frozen=True, slots=True)
class BoxTable:
    """Every layout on every host, without the drift of hosts; hosts and layouts are numbered from 0."""

    values: tuple[OnBox, ...]
    fits: tuple[AdditiveFit, ...]  #: fit of each host; its layouts have the numbers of *layouts_of*
    layouts_of: tuple[tuple[int, ...], ...]  #: layouts of each host
    n_layouts: int
    within: AdditiveFit  #: noise and drift of all hosts together; its components are the hosts

    @property
    def n_boxes(self) -> int:
        """Return the number of hosts with a valid launch."""
        return len(self.fits)

    @property
    def by_box(self) -> list[list[OnBox]]:
        """Return the values of each host."""
        found: list[list[OnBox]] = [[] for _ in self.fits]
        for one in self.values:
            found[one.box].append(one)
        return found

    @property
    def is_whole(self) -> bool:
        """Return whether every layout was on every host."""
        return len(self.values) == self.n_layouts * self.n_boxes

    @property
    def noise_share(self) -> float:
        """Return the share of a launch's noise variance in one value, on average over values."""
        return fsum(1 / one.n_launches for one in self.values) / len(self.values)

    @property
    def observations(self) -> list[Observation]:
        """Return the values with each host as a block.

        In a layout + host fit, the residuals are the host-by-layout interaction, with noise.
        """
        parts = {key: n for n, key in enumerate(dict.fromkeys((one.box, one.part) for one in self.values))}
        return [Observation(one.layout, parts[one.box, one.part], one.value) for one in self.values]


def box_table(observations: Sequence[Observation], box_of: Mapping[int, int], n_layouts: int) -> BoxTable:
    """Return the table of *n_layouts* observed layouts on all hosts; *box_of* is the host of each block."""
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
    """Return a fit with the sums of squares of all hosts; its effects are not valid."""
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
    """Return the observations to compare layouts by: *observations*, or one value for each of several hosts.

    If no two layouts were both on two hosts, the host-by-layout interaction is not known: then it is
    *observations*, as if the ratios of layouts were equal on all hosts.
    """
    if len(set(box_of.values())) < 2:
        return observations
    values = box_table(observations, box_of, n_layouts).observations
    return values if n_layouts == 1 or fit(values, n_layouts).residual_df else observations


def estimate_on_boxes(
    launches: Sequence[LaunchMean], table: BoxTable, fitted: AdditiveFit, confidence: float
) -> list[Estimate]:
    """Estimate throughput per second of each layout on these hosts, as an average with equal weights.

    *fitted* has the layouts' effects over hosts. The interval (each layout by itself) covers launches and the
    drift of each host, over blocks like the measured ones, but no further hosts. If each host has one block,
    its drift is not known: then hosts are a sample, and the interval is for hosts like these.
    """
    if not table.within.block_df:
        spreads = [
            spread_with_blocks(fitted, fitted.components[layout], variance)
            for layout, variance in enumerate(fitted.effect_variance)
        ]
        return estimate_with(launches, fitted, spreads, confidence)
    # The mean over hosts of their mean blocks is as uncertain as the mean of n_blocks blocks.
    n_blocks = table.n_boxes**2 / fsum(1 / n for n in table.within.n_blocks_of)
    per_value = fsum(one.variance for one in table.values) / len(table.values)
    spreads = [
        spread_over(table.within, n_blocks, of_boxes * per_value) for of_boxes in fitted.effect_variance
    ]
    return estimate_with(launches, fitted, spreads, confidence)
