"""Comparison of two studies: differences in how they were made, and changes of the results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum, log
from random import Random
from typing import Literal

from tuner.core.domain.fleet import is_fleet
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.requests import LONGEST_S
from tuner.core.errors import ConfigError
from tuner.core.planning.differences import Difference, differences, shorten
from tuner.core.planning.heteroscedastic_change import estimate_changes
from tuner.core.ranking.anova import blocks_of, boxes_of_blocks
from tuner.core.ranking.ranked import Ranking
from tuner.core.ranking.study_difference import Changes, Side, changes, ratio_within
from tuner.core.search.recheck import Launched
from tuner.core.stats.interval import Estimate
from tuner.core.windows.launch_sums import LaunchTally, tally

# Whether the host drifted within blocks: then its noise between blocks looks smaller than over hours.
#
# Layouts run in random order within a block. Without effects of layouts, the difference of consecutive
# launches does not depend on the order, unless the host drifted: then neighbours are more similar.
#
# With a drift whose correlation is 0.9 after ten minutes, the test finds it in 98 % of pairs of studies with
# 24 layouts, in 47 % of those with 6 layouts in 5 blocks; without it, in 2 to 3 % (bench/compare.py).

LEAST_SHARE = 0.01  #: probability of a false detection
_SHUFFLES = 499
_SWEEPS = 10


def drifts_on(launches: Sequence[Launched]) -> bool:
    """Test whether *launches*, in the order of their run, show a drift of the host within blocks.

    A permutation test with random orders within blocks, which are the same for the same input.
    """
    blocks = _without_layouts(launches)
    seen = _alikeness(blocks)
    random = Random(len(launches))
    n_as_alike = 0
    for _ in range(_SHUFFLES):
        for block in blocks:
            random.shuffle(block)
        n_as_alike += _alikeness(blocks) >= seen
        if n_as_alike + 1 > LEAST_SHARE * (_SHUFFLES + 1):
            return False
    return True


def _alikeness(blocks: Sequence[Sequence[float]]) -> float:
    values = [value for block in blocks for value in block]
    return -fsum((one - other) ** 2 for one, other in pairwise(values))


def _without_layouts(launches: Sequence[Launched]) -> list[list[float]]:
    """Return per block, in order, the values without effects of layouts (fitted by alternating sweeps)."""
    left = [launch.value for launch in launches]
    of_layouts, of_blocks = defaultdict(list), defaultdict(list)
    for place, launch in enumerate(launches):
        of_layouts[launch.layout].append(place)
        of_blocks[launch.block].append(place)
    levels = dict.fromkeys(range(len(launches)), 0.0)
    for _ in range(_SWEEPS):
        for is_block, groups in ((False, of_layouts.values()), (True, of_blocks.values())):
            for places in groups:
                mean = fsum(left[place] for place in places) / len(places)
                for place in places:
                    left[place] -= mean
                    levels[place] += mean if is_block else 0.0
    return [[left[place] + levels[place] for place in places] for places in of_blocks.values()]


#: reason why the first study's best layout cannot be compared in the second one
Lost = Literal["not-in-it", "no-window", "idle-launch", "nothing-finished"]
Figure = Literal["throughput", "load", "memory_bytes", "cpu_s_per_item", "p95_s"]
FIGURES: tuple[Figure, ...] = ("throughput", "load", "memory_bytes", "cpu_s_per_item", "p95_s")

#: Strategies whose choice of launches does not depend on results.
_FIXED = ("all", "aa", "in-order")
_LEAST_LOAD = 0.01


@dataclass(frozen=True, slots=True)
class Known:
    """One of the two studies, with its ranking and windows."""

    name: str  #: name of its file
    study: StudyRecord
    ranking: Ranking
    windows: Sequence[WindowRecord]
    launches: Sequence[tuple[int, LaunchRecord]] = ()

    @property
    def best(self) -> Layout | None:
        """The layout that the study ranks first; None: it ranks none."""
        return next((row.layout for row in self.ranking.rows if row.rank is not None), None)


@dataclass(frozen=True, slots=True)
class Best:
    """The best layouts of both studies, and their ratio in each study."""

    before: Layout | None
    after: Layout | None
    #: ratio of the throughput of the second study's best layout to that of the first's, within each study
    ratio_before: Estimate | None = None
    ratio_after: Estimate | None = None

    @property
    def moved(self) -> bool:
        """Whether the second study names another layout."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class StudyComparison:
    """The full comparison of two studies."""

    before: Known
    after: Known
    confidence: float
    differences: tuple[Difference, ...]
    figures: Mapping[Figure, Changes]  #: figures that both studies have for a layout that both measured
    best: Best
    #: layouts measured in both that are not comparable, because a launch finished no item
    left_out: tuple[Layout, ...]
    #: reason why the first study's best layout cannot be compared; None: it is compared
    lost: Lost | None = None
    drifting: tuple[str, ...] = ()  #: names of the studies whose host drifted within blocks

    @property
    def throughput(self) -> Changes:
        """The changes of items per second."""
        return self.figures["throughput"]


def compare_studies(before: Known, after: Known, confidence: float) -> StudyComparison:
    """Compare two studies.

    Raises:
        ConfigError: no layout was measured in both.
    """
    tallies = [_tallies(one) for one in (before, after)]
    idle = {launch.layout for own in tallies for launch in own if not launch.n_done}
    figures: dict[Figure, Changes] = {}
    best = Best(before.best, after.best)
    drifting: tuple[str, ...] = ()
    for figure in FIGURES:
        sides = [_side(known, own, figure, idle) for known, own in zip((before, after), tallies, strict=True)]
        # Throughput drifts with the host, which blocks remove; for other figures, noise differs by layout.
        found = (changes if figure == "throughput" else estimate_changes)(sides[0], sides[1], confidence)
        if found.layouts:
            figures[figure] = found
            if figure == "throughput":
                best = _best(before.best, after.best, sides, confidence)
                drifting = tuple(
                    known.name
                    for known, side in zip((before, after), sides, strict=True)
                    if not side.is_adaptive and drifts_on(side.launches)
                )
    if "throughput" not in figures:
        raise ConfigError(
            f"{before.name} and {after.name} have no layout that both measured: {_layouts(before)};"
            f" {_layouts(after)}",
            hint="Measure a layout of one in the other: tuner grid ... --layouts PxT,PxT",
        )
    in_both = {one.layout for one in tallies[0]} & {one.layout for one in tallies[1]}
    return StudyComparison(
        before,
        after,
        confidence,
        (*differences(before.study, after.study), *_other_hosts((before, after), tallies)),
        figures,
        best,
        tuple(sorted(idle & in_both)),
        _why_lost(before.best, after, tallies[1], figures["throughput"]),
        drifting,
    )


def _other_hosts(known: Sequence[Known], tallies: Sequence[Sequence[LaunchTally]]) -> Iterator[Difference]:
    """Yield the hosts with valid launches, if a study is of a fleet and the hosts of the other differ."""
    if any(is_fleet(one.study) for one in known):
        before, after = (", ".join(sorted({one.block[0] for one in own})) for own in tallies)
        if before != after:
            yield Difference("hosts of the fleet", shorten(before), shorten(after))


def _why_lost(
    best: Layout | None, after: Known, tallies: Sequence[LaunchTally], throughput: Changes
) -> Lost | None:
    if best is None or throughput.of(best) is not None:
        return None
    if best not in after.study.layouts:
        return "not-in-it"
    finished = [launch.n_done for launch in tallies if launch.layout == best]
    if not finished:
        return "no-window"
    return "idle-launch" if any(finished) else "nothing-finished"


def _best(was: Layout | None, becomes: Layout | None, sides: Sequence[Side], confidence: float) -> Best:
    if was is None or becomes is None or was == becomes:
        return Best(was, becomes)
    return Best(was, becomes, *(ratio_within(side, becomes, was, confidence) for side in sides))


def _layouts(known: Known) -> str:
    found = [str(row.layout) for row in known.ranking.rows if row.n_windows]
    return f"{', '.join(found[:8])}{' ...' if len(found) > 8 else ''}" if found else "nothing was measured"


def _tallies(known: Known) -> Sequence[LaunchTally]:
    return tally(known.windows).with_heats(known.launches).with_load_of(known.study).launches


def _side(known: Known, tallies: Sequence[LaunchTally], figure: Figure, idle: set[Layout]) -> Side:
    block_of = blocks_of(tallies, joins_single=known.study.strategy not in _FIXED)
    values = {one.launch: _value(one, figure) for one in tallies if one.layout not in idle}
    # A layout with a launch without this figure is left out, because its other launches are biased.
    unknown = {one.layout for one in tallies if values.get(one.launch) is None}
    launches = [
        Launched(block_of[one.launch], one.layout, log(value))
        for one in tallies
        if one.layout not in unknown and (value := values[one.launch]) is not None
    ]
    box_of = boxes_of_blocks(tallies, block_of) if is_fleet(known.study) else {}
    return Side(launches, is_adaptive=known.study.strategy not in _FIXED, box_of=box_of)


def _value(launch: LaunchTally, figure: Figure) -> float | None:
    """Return the figure of a launch, above 0; None: unknown."""
    value: float | None
    if figure == "throughput":
        value = launch.n_done / launch.length_s
    elif figure == "load":
        value = max(_LEAST_LOAD, launch.usage["load"])
    elif figure == "memory_bytes":
        value = launch.pss_bytes / launch.n_pss if launch.n_pss else None
    elif figure == "cpu_s_per_item":
        value = (launch.cpu_s + launch.backend_cpu_s) / launch.n_done
    else:
        value = launch.usage.get("p95_s")
        if value is not None and value >= LONGEST_S:
            return None
    return value or None


@dataclass(frozen=True, slots=True)
class Slower:
    """The verdict on a release: by all layouts together, and by the layout that was best."""

    by: float  #: tolerated loss of throughput, as a share
    #: layouts that are significantly slower by more, or finished no item any more; None stands for all
    #: together
    surely: tuple[Layout | None, ...]
    #: otherwise the largest loss that one of these may still have, as a share; None: unknown
    at_worst: float | None
    lost: Lost | None = None  #: reason why the layout that was best cannot be judged; None: it is judged


def slower(found: StudyComparison, by: float) -> Slower:
    """Test whether the second study is slower by more than *by*: all layouts together, or the first's best.

    Each has a false-alarm rate of at most half of ``1 - confidence``, so both together of at most all of it.
    """
    ratios: dict[Layout | None, Estimate] = {}
    if found.throughput.shared is not None:
        ratios[None] = found.throughput.shared
    best = None if found.best.before is None else found.throughput.of(found.best.before)
    if best is not None:
        ratios[best.layout] = best.ratio
    surely = tuple(name for name, ratio in ratios.items() if ratio.high is not None and ratio.high < 1 - by)
    if found.lost is not None:
        broken = (found.best.before,) if found.lost == "nothing-finished" else ()
        return Slower(by, (*surely, *broken), None, found.lost)
    lows = [ratio.low for ratio in ratios.values()]
    known = [low for low in lows if low is not None]
    return Slower(by, surely, max(0.0, 1 - min(known)) if known and len(known) == len(lows) else None)
