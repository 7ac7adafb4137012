"""Analysis of variance of launches: throughput of each layout, differences, and noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log

from tuner.core.defaults import WITHIN
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import value_from
from tuner.core.ranking.host_effects import Boxes, estimate_host_effects
from tuner.core.stats.groups import Comparison, Group, OfBest, compare, group_of
from tuner.core.stats.interval import (
    INDEPENDENT,
    Estimate,
    LaunchMean,
    drift_between_blocks,
    estimate_throughputs,
)
from tuner.core.stats.mixed_model import box_table, estimate_on_boxes
from tuner.core.stats.two_way_anova import AdditiveFit, Observation
from tuner.core.stats.variance import Noise, estimate_noise
from tuner.core.windows.launch_sums import LaunchTally

_JOINED = 4  # launches: two layouts that take turns, each twice


@dataclass(frozen=True, slots=True)
class Standings:
    """Comparison of the layouts that can be compared."""

    ranks: Mapping[Layout, int]  #: ranks of the layouts that may win
    groups: Mapping[Layout, Group]  #: groups of the layouts that may win
    #: throughput of these layouts as a share of the best one's, without the best one itself
    of_best: Mapping[Layout, OfBest]
    values: Mapping[Layout, Estimate]  #: value of the objective: items per second, or per CPU second
    ratios: Mapping[Layout, Estimate | None]  #: ratio to the current layout's value
    noise: Noise
    notes: tuple[str, ...] = ()  #: limitations of the comparison, one sentence each
    boxes: Boxes | None = None  #: differences between hosts; None: there is one host


def standings(
    of_layout: Mapping[Layout, Sequence[LaunchTally]],
    *,
    objective: str = "throughput",
    confidence: float,
    current: Layout | None = None,
    may_win: Collection[Layout],
    block_of: Mapping[int, int],
    within: float = WITHIN,
    of_fleet: bool = False,
    by_own_noise: bool = False,
) -> Standings:
    """Compare layouts by the values of their launches, each above 0.

    The noise is estimated from all layouts, and the limit is for all pairs; ranks are among those that
    *may_win*. *block_of* is the block of each launch, by its id; *within* is the margin. *of_fleet*: the
    result is for hosts like these; else a host that replaced another one only has separate blocks.
    *by_own_noise*: each layout is judged by its own noise, and blocks may drift slowly; not on a fleet.
    """
    if not of_layout:
        return Standings({}, {}, {}, {}, {}, Noise(None, None, None))
    layouts = list(of_layout)
    launches = _launch_means(of_layout, objective, block_of)
    found = _judge(
        launches, of_layout, block_of, confidence, within, of_fleet=of_fleet, by_own_noise=by_own_noise
    )
    candidates = [number for number, layout in enumerate(layouts) if layout in may_win]
    n_better = found.comparison.n_better(candidates)
    groups, of_best = _group(found, candidates, within, confidence)
    reference = layouts.index(current) if current is not None and current in of_layout else None
    return Standings(
        ranks={layouts[number]: 1 + n for number, n in zip(candidates, n_better, strict=True)},
        groups={layouts[number]: group for number, group in groups.items()},
        of_best={layouts[number]: one for number, one in of_best.items()},
        values=dict(zip(layouts, found.values, strict=True)),
        ratios={}
        if reference is None
        else {layout: found.comparison.ratio(number, reference) for number, layout in enumerate(layouts)},
        noise=found.noise,
        notes=found.notes,
        boxes=found.boxes,
    )


def _group(
    found: _Judged, candidates: Sequence[int], within: float, confidence: float
) -> tuple[dict[int, Group], dict[int, OfBest]]:
    """Return the group of each candidate, and the interval it rests on; the best measured most."""
    groups: dict[int, Group] = {}
    of_best: dict[int, OfBest] = {}
    best = max(candidates, key=lambda number: found.values[number].mean or 0.0, default=None)
    for number in candidates:
        if best is None or number == best:
            groups[number] = "best-or-tied"
            continue
        beside, of_best[number] = found.comparison.beside(number, best, candidates, within)
        groups[number] = group_of(beside, within=within, confidence=confidence)
    return groups, of_best


@dataclass(frozen=True, slots=True)
class _Judged:
    comparison: Comparison
    values: Sequence[Estimate]
    noise: Noise
    notes: tuple[str, ...]
    boxes: Boxes | None = None


def _judge(
    launches: Sequence[LaunchMean],
    of_layout: Mapping[Layout, Sequence[LaunchTally]],
    block_of: Mapping[int, int],
    confidence: float,
    within: float,
    *,
    of_fleet: bool,
    by_own_noise: bool,
) -> _Judged:
    """Compare layouts by *launches*: for the host of the launches, or for hosts like theirs if *of_fleet*."""
    seen = [Observation(one.layout, one.block, log(one.throughput_per_s)) for one in launches]
    tallies = [one for own in of_layout.values() for one in own]
    names = _boxes(tallies) if of_fleet else [""]
    if len(names) == 1:
        comparison = compare(seen, len(of_layout), confidence, by_own_noise=by_own_noise)
        drift = drift_between_blocks(seen, comparison.fit) if by_own_noise else INDEPENDENT
        return _Judged(
            comparison,
            estimate_throughputs(launches, comparison.fit, confidence, comparison.own_noise, drift),
            estimate_noise(launches, comparison.fit, confidence),
            _notes(comparison.fit, len({one.block for one in launches})),
        )
    table = box_table(seen, boxes_of_blocks(tallies, block_of), len(of_layout))
    n_launches = [len(own) for own in of_layout.values()]
    over = compare(table.observations, len(of_layout), confidence, n_launches)
    knows_boxes = len(of_layout) == 1 or over.fit.residual_df > 0
    comparison = over if knows_boxes else compare(seen, len(of_layout), confidence)
    notes = _notes(comparison.fit, len({one.block for one in launches}))
    return _Judged(
        comparison,
        estimate_on_boxes(launches, table, over.fit, confidence),
        estimate_noise(launches, table.within, confidence),
        notes if knows_boxes else (*notes, _BOXES_ARE_TAKEN_ALIKE),
        estimate_host_effects(
            table, over.fit, boxes=names, layouts=list(of_layout), confidence=confidence, within=within
        ),
    )


_BOXES_ARE_TAKEN_ALIKE = (
    "No two layouts were both measured on two hosts: a host-by-layout interaction cannot be estimated, so"
    " the comparison assumes there is none."
)


def launch_value(launch: LaunchTally, objective: str) -> float:
    """Return the value of one launch over all its windows."""
    cpu_s = launch.cpu_s + launch.backend_cpu_s
    return value_from(launch.n_done, launch.length_s, cpu_s, objective=objective)


def blocks_of(launches: Sequence[LaunchTally], *, joins_single: bool) -> dict[int, int]:
    """Return the block of each launch, by its id, numbered in order of appearance.

    Launches that take turns have a block for each group, because only they shared a state of the host.
    Adaptive strategies often launch one layout at a time: a block of one launch cannot separate the host from
    the layout. *joins_single* makes a block of every four such launches that follow one another on a host:
    changes of the host within such a block are noise, changes from one to the next drop out.
    """
    size = Counter(one.group for one in launches)
    numbers: dict[object, int] = {}
    single: Counter[str] = Counter()
    found = {}
    for one in sorted(launches, key=lambda one: one.launch):
        box, _ = one.block
        key: object = one.group
        if joins_single and size[one.group] == 1:
            key = (box, "joined", single[box] // _JOINED)
            single[box] += 1
        found[one.launch] = numbers.setdefault(key, len(numbers))
    return found


def boxes_of_blocks(launches: Sequence[LaunchTally], block_of: Mapping[int, int]) -> dict[int, int]:
    """Return the host of each block by number: 0, 1, ... in the order of the hosts' names."""
    numbers = {box: number for number, box in enumerate(_boxes(launches))}
    return {block_of[one.launch]: numbers[one.block[0]] for one in launches}


def _boxes(launches: Sequence[LaunchTally]) -> list[str]:
    return sorted({one.block[0] for one in launches})


def _launch_means(
    of_layout: Mapping[Layout, Sequence[LaunchTally]], objective: str, block_of: Mapping[int, int]
) -> list[LaunchMean]:
    """Return the value of each launch, with layouts numbered in their order."""
    return [
        LaunchMean(
            layout=number,
            block=block_of[one.launch],
            throughput_per_s=launch_value(one, objective),
            n_windows=one.n_windows,
            window_ss=max(0.0, one.squares / (one.rates / one.n_windows) ** 2 - one.n_windows),
        )
        for number, own in enumerate(of_layout.values())
        for one in own
    ]


def _notes(fitted: AdditiveFit, n_blocks: int) -> tuple[str, ...]:
    notes = []
    if len(fitted.effects) > 1 and not fitted.residual_df:
        blocks = "One block shows" if n_blocks == 1 else "These data show"
        notes.append(f"{blocks} no noise between launches, so no difference between layouts can be tested.")
    if len(fitted.n_blocks_of) > 1:
        notes.append(
            f"The layouts fall into {len(fitted.n_blocks_of)} groups that share no block:"
            " layouts of different groups cannot be compared, whatever their figures."
        )
    return tuple(notes)
