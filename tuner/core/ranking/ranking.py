"""From windows to the ranking: who is better than whom, and what cannot be told apart.

What is claimed, and on what grounds: `docs/method/ranking.md` has the reasons and the simulations.

- A launch is one value, however many windows it has. Logarithms of throughput are fitted as layout + block:
  what the box did during a block drops out of every comparison.
- One layout is called better than another when their difference passes Tukey's limit for all pairs at once
  (Tukey-Kramer with each pair's own standard error; one variance for all layouts). Where nothing differs, a
  study calls any difference at all in at most ``1 - confidence`` of cases.
- A layout's rank is 1 + the number of layouts that are better; none is known to beat those of rank 1.
- Its group says what that is worth: `tuner.core.stats.groups`. Rows are in the order of groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import exp, log
from operator import attrgetter
from typing import TYPE_CHECKING

from tuner.core.defaults import CONFIDENCE, TEN_MINUTES_S, WITHIN
from tuner.core.domain.fleet import is_fleet
from tuner.core.domain.layout import Layout
from tuner.core.domain.limits import Limit, Verdict, check_seen, limits_from, verdicts
from tuner.core.domain.records import LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.requests import LONGEST_S, ConnectionSpread, Requests
from tuner.core.ranking.anova import blocks_of, boxes_of_blocks, launch_value, standings
from tuner.core.ranking.axis_effects import AxisBest, AxisEffect, axis_bests, axis_effects
from tuner.core.ranking.host_effects import Boxes
from tuner.core.ranking.pareto import Cost, Front, Traded, compare_throughput, pareto_front
from tuner.core.ranking.study_difference import PairGaps, Side
from tuner.core.search.recheck import Launched
from tuner.core.settings.limit_text import why_kept_out
from tuner.core.settings.safety_limits import over_limit
from tuner.core.stats.groups import GROUPS, Group, OfBest, of_value
from tuner.core.stats.interval import Estimate
from tuner.core.stats.mixed_model import comparable
from tuner.core.stats.two_way_anova import Observation
from tuner.core.stats.variance import Noise
from tuner.core.warmup.report import NONE_JUDGED, NeverSettled, summarize_settling
from tuner.core.windows.launch_sums import (
    LaunchTally,
    Sums,
    VoidTally,
    describe_failures,
    tally,
    why_not_ranked,
)
from tuner.core.windows.summary import mean_or_none
from tuner.core.windows.validity import Others, others_of

if TYPE_CHECKING:
    from tuner.core.domain.strategy import Claim
    from tuner.core.model.diagnosis.diagnose import What
    from tuner.core.ranking.step_case import NextStep
    from tuner.core.ranking.wider import Wider

_SUMS = (
    *("length_s", "load", "active", "active_s", "from_load1", "from_load1_s", "cpu_s", "pss_bytes", "n_pss"),
    "n_windows",
)
_sums_of = attrgetter(*_SUMS)  #: one look at a launch: a study may have 20 000


@dataclass(frozen=True, slots=True)
class LatencySeen:
    """How long the requests of a layout took: of each launch's requests, and of these the geometric mean."""

    p50_s: float | None  #: None: too few requests to say
    p95_s: float | None
    p99_s: float | None
    n_requests: int  #: failed ones included
    failed_ratio: float | None  #: 0..1
    rate_per_s: float | None  #: so many became due a second, mean over launches; None: closed loop
    capacity_per_s: float | None  #: of which throughput in a closed loop that is a share; None: of none
    #: mean connections of each worker process, the most first; None: not to be seen
    connections_per_worker: tuple[float, ...] | None = None
    starved_ratio: float | None = None  #: of the threads' time, left without a request by uneven connections


@dataclass(frozen=True, slots=True)
class RankedLayout:
    """One row of the ranking. What was never seen is None."""

    layout: Layout
    rank: int | None  #: 1 + the number of layouts that are significantly better; None: not ranked
    throughput_per_10min: Estimate
    load1_mean: float | None
    load1_max: float | None
    n_active_mean: float | None
    n_active_from_load1: float | None  #: the same, as the kernel's load1 remembers it
    cpu_ratio: float | None  #: service CPU / (cores x time), with the cores that were really there
    pss_bytes: float | None  #: mean over windows
    n_windows: int  #: windows that count
    n_void: int
    group: Group | None = None  #: beside the best one; None: not ranked
    of_best: OfBest | None = None  #: what the group rests on; None: it is the best, or is not ranked
    ratio_to_current: Estimate | None = (
        None  #: throughput / the current layout's; the interval is Tukey's, as the rank
    )
    reason: str | None = None  #: why there is no rank
    items_per_cpu_s: Estimate | None = None  #: of the service and its backends; None: not asked for
    verdict: Verdict | None = None  #: whether it keeps the limits; None: there are none
    behind_ratio: float | None = None  #: so much slower than a claim's answer, at least; None: not known
    bound_by: tuple[What, ...] = ()  #: what binds it, the most first; empty: not known
    latency: LatencySeen | None = None  #: None: not known

    @property
    def is_kept_out(self) -> bool:
        """Whether it was measured, and has no rank for the limits alone."""
        return (
            self.rank is None
            and self.n_windows > 0
            and self.verdict is not None
            and (self.verdict.state != "within")
        )


@dataclass(frozen=True, slots=True)
class Ranking:
    """All layouts of a study, best first, those without a rank last."""

    rows: tuple[RankedLayout, ...]
    confidence: float
    current: Layout | None
    noise: Noise
    notes: tuple[str, ...] = ()  #: what limits the comparison, a sentence each
    objective: str = "throughput"
    limits: tuple[Limit, ...] = ()
    fronts: tuple[Front, ...] = ()  #: one per cost that was asked for
    settling: tuple[str, ...] = ()  #: of launches that never settled beyond chance, a sentence each
    claim: Claim | None = (
        None  #: of an adaptive study; then ranks follow from it, see `tuner.core.ranking.race_result`
    )
    axes: tuple[AxisEffect, ...] = ()  #: what each axis of the service alone changes
    unbound: str | None = None  #: why it is not known what binds the layouts, a sentence; None: it is
    boxes: Boxes | None = None  #: what the boxes do, by what the ranking is by; None: there is one
    wider: Wider | None = None  #: that larger layouts give more than the answer; None: nothing shows it
    next_step: NextStep | None = None  #: what to do next; None: not decided
    never_settled: NeverSettled = NONE_JUDGED  #: how many launches did not settle, beside chance
    settling_facts: tuple[str, ...] = ()  #: the same in a sentence, where chance explains it
    within: float = WITHIN  #: the margin of what is tied
    others: Others | None = None  #: what others took of the host; None: no window counts
    gaps: PairGaps | None = None  #: between all layouts, where the service has axes; None: it has none
    axis_names: tuple[str, ...] = ()  #: of the service's axes, in their order

    @property
    def verdicts(self) -> dict[Layout, Verdict | None]:
        """Whether each layout keeps the limits; None: there are none."""
        return {row.layout: row.verdict for row in self.rows}

    @property
    def best(self) -> RankedLayout | None:
        """The row that all others are grouped beside: the answer, or what measured best; None: none."""
        first = next(iter(self.rows), None)
        return first if first is not None and first.group is not None else None

    def of_group(self, group: Group) -> tuple[RankedLayout, ...]:
        """The rows of *group*, the fastest first."""
        return tuple(row for row in self.rows if row.group == group)

    @property
    def is_bound_known(self) -> bool:
        """Whether any row says what binds its layout."""
        return any(row.bound_by for row in self.rows)

    @property
    def is_latency_known(self) -> bool:
        """Whether any row has a latency."""
        return any(row.latency is not None for row in self.rows)

    @property
    def axis_bests(self) -> tuple[AxisBest, ...]:
        """The values of each axis beside each other, each at its best layout."""
        if self.gaps is None:
            return ()
        ranked = [row for row in self.rows if row.rank is not None]
        ranked.sort(key=lambda row: (row is not self.best, -(value_of(row, self.objective).mean or 0.0)))
        return axis_bests(
            self.axis_names,
            self.axes,
            {row.layout: row.n_windows > 0 for row in self.rows},
            [row.layout for row in ranked],
            self.gaps.gap,
            self.starved,
        )

    @property
    def starved(self) -> tuple[Layout, ...]:
        """The layouts whose figure says how many requests were sent, not what they can do."""
        return tuple(row.layout for row in self.rows if "connections" in row.bound_by)

    def with_bound_by(self, bound_by: Mapping[Layout, tuple[What, ...]], unbound: str | None) -> Ranking:
        """The same, saying what binds each layout, or why that is not known."""
        rows = tuple(replace(row, bound_by=bound_by.get(row.layout, ())) for row in self.rows)
        return replace(self, rows=rows, unbound=unbound)


def value_of(row: RankedLayout, objective: str) -> Estimate:
    """What a ranking by *objective* is by, with the interval of the layout by itself."""
    if objective == "throughput":
        return row.throughput_per_10min
    return row.items_per_cpu_s or Estimate(None)


def value_beside(row: RankedLayout, ranking: Ranking) -> Estimate:
    """What a row gives, with the interval that its group rests on: of the difference to the best one.

    The best one has none, nor has a layout that is not ranked; a layout that is compared with nothing has the
    interval that it has by itself.
    """
    own, best = value_of(row, ranking.objective), ranking.best
    if best is None or sum(one.group is not None for one in ranking.rows) < 2:
        return own
    first = value_of(best, ranking.objective).mean
    if row.of_best is None or first is None:
        return Estimate(own.mean)
    return replace(of_value(row.of_best, first), mean=own.mean)


def rank(
    study: StudyRecord,
    windows: Iterable[WindowRecord] | Sums,
    *,
    current: Layout | None = None,
    confidence: float = CONFIDENCE,
    launches: Iterable[LaunchRecord] = (),
    objective: str = "throughput",
    limits: Sequence[Limit] = (),
    costs: Sequence[Cost] = (),
    within: float = WITHIN,
) -> Ranking:
    """Rank the layouts of *study* by the windows that count.

    Args:
        study: which layouts there are, and how many cores.
        windows: in any order, or what they add up to; void ones are counted, never used.
        current: the layout that ratios refer to.
        confidence: of all comparisons together, and of each interval by itself.
        launches: told as the reason when none of a layout's launches gave a window; whether they settled.
        objective: what is to be large; ranks and ratios follow it.
        limits: what may win: only layouts that are shown to keep them have a rank.
        costs: what throughput is to be set against, a Pareto front each, of the layouts that have a rank.
        within: the margin within which two layouts are tied, match on a front, and on two boxes.

    Raises:
        ConfigError: no window tells what a limit limits.
    """
    if not 0.5 <= confidence < 1:
        raise ValueError(f"a confidence from 0.5 to 1, got {confidence}")
    sums = windows if isinstance(windows, Sums) else tally(windows)
    tallies, void = sums.launches, sums.void_of_layouts()
    launches = list(launches)
    settling = summarize_settling(launches, study.window_s)
    errors = {record.layout: record.error for record in launches if record.error is not None}
    of_layout: dict[Layout, list[LaunchTally]] = {layout: [] for layout in study.layouts}
    for one in tallies:
        of_layout.setdefault(one.layout, []).append(one)
    over = over_limit(launches)
    reasons = {
        x: over.get(x) or _why_not(own, void[x], errors.get(x), objective) for x, own in of_layout.items()
    }
    measured = {x: own for x, own in of_layout.items() if reasons[x] is None}
    judged = _judge(study, limits, list(of_layout), tallies, confidence)
    may_win = [x for x in measured if x not in judged or judged[x].state == "within"]
    block_of = blocks_of(tallies, joins_single=study.strategy != "all")
    box_of = boxes_of_blocks(tallies, block_of) if is_fleet(study) else {}
    judge = partial(
        standings,
        measured,
        confidence=confidence,
        current=current,
        may_win=may_win,
        block_of=block_of,
        within=within,
        of_fleet=is_fleet(study),
        by_own_noise=study.strategy == "all",
    )
    of_throughput = judge()
    found = of_throughput if objective == "throughput" else judge(objective=objective)
    rows = [
        _row(
            layout,
            own,
            cores=min(study.cores, study.box_cores),
            n_void=void[layout].total_windows,
            rank_=found.ranks.get(layout),
            group=found.groups.get(layout),
            of_best=found.of_best.get(layout),
            per_10min=_scale(of_throughput.values.get(layout, _plain_mean(own)), TEN_MINUTES_S),
            per_cpu_s=found.values.get(layout) if objective != "throughput" else None,
            ratio=found.ratios.get(layout),
            reason=reasons[layout],
            verdict=judged.get(layout),
        )
        for layout, own in of_layout.items()
    ]
    rows.sort(key=lambda row: _order(row, objective))
    axes = study.config.service.axes
    side = _side(study, measured, block_of, box_of, objective) if axes else None
    return Ranking(
        tuple(rows),
        confidence,
        current,
        of_throughput.noise,
        (*found.notes, *describe_failures(tallies)),
        objective,
        tuple(limits),
        _fronts([one for x in may_win for one in measured[x]], block_of, costs, confidence, within, box_of),
        settling.alarms,
        axes=() if side is None else axis_effects(axes, side, confidence),
        boxes=found.boxes,
        never_settled=settling.count,
        settling_facts=settling.facts,
        within=within,
        others=others_of(tallies, study.box_cores, within),
        gaps=None if side is None else PairGaps.of(side, confidence),
        axis_names=tuple(axes),
    )


def _side(
    study: StudyRecord,
    measured: Mapping[Layout, Sequence[LaunchTally]],
    block_of: Mapping[int, int],
    box_of: Mapping[int, int],
    objective: str,
) -> Side:
    """What the launches gave, for what is said of the study's axes."""
    layouts, is_adaptive = list(measured), study.strategy != "all"
    seen: Sequence[Observation] = [
        Observation(number, block_of[one.launch], log(launch_value(one, objective)))
        for number, layout in enumerate(layouts)
        for one in measured[layout]
    ]
    if not is_adaptive:
        seen = comparable(seen, box_of, len(layouts))
    launches = [Launched(one.block, layouts[one.layout], one.value) for one in seen]
    return Side(launches, is_adaptive=is_adaptive)


def _judge(
    study: StudyRecord,
    limits: Sequence[Limit],
    layouts: Sequence[Layout],
    tallies: Sequence[LaunchTally],
    confidence: float,
) -> Mapping[Layout, Verdict]:
    """Per layout whether it may win; nothing without limits.

    The plan of a full grid is fixed beforehand; any other strategy looked, and chose, after every launch.
    Limits that an adaptive study was not asked to keep are judged by the noise of all layouts: it made no
    launches to learn more.
    """
    if not limits:
        return {}
    check_seen(limits, tallies)
    looks = study.strategy != "all"
    kind = study.kind if looks and limits_from(study.limits) == tuple(limits) else "calibrated"
    return verdicts(limits, layouts, tallies, confidence, kind=kind, at_any_look=looks)


def _plain_mean(own: Sequence[LaunchTally]) -> Estimate:
    plain = [one.n_done / one.length_s for one in own]
    return Estimate(sum(plain) / len(plain) if plain else None)


def _why_not(own: Sequence[LaunchTally], void: VoidTally, error: str | None, objective: str) -> str | None:
    """Why a layout cannot be compared, or None when it can."""
    if reason := why_not_ranked(own, void, error):
        return reason
    n_without = sum(not launch_value(one, objective) for one in own)
    return f"no CPU use was measured in {n_without} of its launches" if n_without else None


def _fronts(
    launches: Sequence[LaunchTally],
    block_of: Mapping[int, int],
    costs: Sequence[Cost],
    confidence: float,
    within: float,
    box_of: Mapping[int, int],
) -> tuple[Front, ...]:
    fronts, throughput = [], None
    for cost in costs:
        traded = [
            Traded(one.layout, block_of[one.launch], one.n_done / one.length_s, _spent(one, cost))
            for one in launches
        ]
        if throughput is None and traded:
            throughput = compare_throughput(traded, confidence=confidence, box_of=box_of)
        fronts.append(
            pareto_front(
                traded, cost, confidence=confidence, within=within, box_of=box_of, throughput=throughput
            )
        )
    return tuple(fronts)


def _spent(launch: LaunchTally, cost: Cost) -> float | None:
    """Load in tasks, memory in bytes, CPU in busy cores (of the service and its backends)."""
    if cost == "cpu":
        return (launch.cpu_s + launch.backend_cpu_s) / launch.length_s
    return launch.mean_load if cost == "load" else launch.most_memory_bytes


def _row(
    layout: Layout,
    own: Sequence[LaunchTally],
    *,
    cores: float,
    n_void: int,
    rank_: int | None,
    group: Group | None,
    of_best: OfBest | None,
    per_10min: Estimate,
    per_cpu_s: Estimate | None,
    ratio: Estimate | None,
    reason: str | None,
    verdict: Verdict | None,
) -> RankedLayout:
    columns = zip(*map(_sums_of, own), strict=True) if own else [()] * len(_SUMS)
    length_s, load, active, active_s, from_load1, from_load1_s, cpu_s, pss_bytes, n_pss, n_windows = map(
        sum, columns
    )
    return RankedLayout(
        layout=layout,
        rank=rank_,
        group=group,
        of_best=of_best,
        throughput_per_10min=per_10min,
        load1_mean=load / length_s if own else None,
        load1_max=max((one.load_max for one in own), default=None),
        n_active_mean=active / active_s if active_s else None,
        n_active_from_load1=from_load1 / from_load1_s if from_load1_s else None,
        cpu_ratio=cpu_s / (cores * length_s) if own else None,
        pss_bytes=pss_bytes / n_pss if n_pss else None,
        n_windows=n_windows,
        n_void=n_void,
        ratio_to_current=ratio,
        reason=reason if reason is not None or verdict is None else why_kept_out(verdict),
        items_per_cpu_s=per_cpu_s,
        verdict=verdict,
        latency=_latency(layout, [one.requests for one in own if one.requests is not None]),
    )


def _latency(layout: Layout, launches: Sequence[Requests]) -> LatencySeen | None:
    if not launches:
        return None
    spreads = [one.spread for one in launches if one.spread is not None]
    spread = reduce(ConnectionSpread.merged, spreads) if spreads else None
    n_total = sum(one.n_total for one in launches)
    p50_s, p95_s, p99_s = (
        _mean_latency([one.latency_s(share) for one in launches]) for share in (0.5, 0.95, 0.99)
    )
    return LatencySeen(
        p50_s=p50_s,
        p95_s=p95_s,
        p99_s=p99_s,
        n_requests=n_total,
        failed_ratio=sum(one.n_failed for one in launches) / n_total if n_total else None,
        rate_per_s=_geometric_mean([one.rate_per_s for one in launches]),
        capacity_per_s=_geometric_mean([one.capacity_per_s for one in launches]),
        connections_per_worker=None if spread is None else spread.per_worker,
        starved_ratio=None if spread is None else spread.starved_ratio(layout.total_threads),
    )


def _mean_latency(values: Sequence[float | None]) -> float | None:
    """The geometric mean; a latency that nobody waited for to the end makes the mean such a one, too."""
    if any(value is not None and value >= LONGEST_S for value in values):
        return LONGEST_S
    return _geometric_mean(values)


def _geometric_mean(values: Sequence[float | None]) -> float | None:
    """As throughput is averaged: rates and what came of them can be compared."""
    mean = mean_or_none([None if value is None else log(max(value, 1e-9)) for value in values])
    return None if mean is None else exp(mean)


def _order(row: RankedLayout, objective: str) -> tuple[int, bool, bool, float, Layout]:
    """By group, the best first, and by value within each; those without a rank last."""
    mean = value_of(row, objective).mean or 0.0
    place = len(GROUPS) if row.group is None else GROUPS.index(row.group)
    is_best = row.group is not None and row.of_best is None
    return (place, not is_best, not row.is_kept_out, -mean, row.layout)


def _scale(estimate: Estimate, factor: float) -> Estimate:
    scaled = (
        None if value is None else value * factor for value in (estimate.mean, estimate.low, estimate.high)
    )
    return Estimate(*scaled)
