"""From windows to a ranking: which layouts are better, and which cannot be distinguished.

`docs/method/ranking.md` has the claims, the reasons and the simulations.

- A launch is one value, for any number of windows. Logarithms of throughput are fitted as layout + block:
  the state of the host during a block drops out of every comparison.
- One layout is called better than another if their difference passes Tukey's limit for all pairs at once
  (Tukey-Kramer with each pair's own standard error; one variance for all layouts). If no layouts differ, a
  study reports any difference at all in at most ``1 - confidence`` of cases.
- A layout's rank is 1 + the number of layouts that are better; none is known to beat those of rank 1.
- `tuner.core.stats.groups` defines the groups. Rows are in the order of groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce
from math import exp, log
from operator import attrgetter
from typing import TYPE_CHECKING

from tuner.core.defaults import CONFIDENCE, TEN_MINUTES_S, WITHIN
from tuner.core.domain.fleet import is_fleet
from tuner.core.domain.layout import Layout
from tuner.core.domain.limits import (
    Later,
    Limit,
    Verdict,
    check_measured,
    limits_from,
    mean_load_of_launches,
    verdict_later,
    verdicts,
)
from tuner.core.domain.records import LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.requests import LONGEST_S, ConnectionSpread, Requests
from tuner.core.domain.safety_limits import over_limit, why_kept_out
from tuner.core.ranking.aging import throughput_trends
from tuner.core.ranking.anova import blocks_of, boxes_of_blocks, launch_value, standings
from tuner.core.ranking.axis_effects import axis_effects
from tuner.core.ranking.host_speed import speed_changes
from tuner.core.ranking.pareto import Cost, Front, Traded, compare_throughput, pareto_front
from tuner.core.ranking.ranked import LatencySeen, RankedLayout, Ranking, value_of
from tuner.core.ranking.study_difference import PairGaps, Side
from tuner.core.search.recheck import Launched
from tuner.core.stats.groups import GROUPS, Group, OfBest
from tuner.core.stats.interval import Estimate
from tuner.core.stats.mixed_model import comparable
from tuner.core.stats.two_way_anova import Observation
from tuner.core.warmup.report import summarize_settling
from tuner.core.windows.launch_sums import (
    LaunchTally,
    Sums,
    VoidTally,
    describe_failures,
    tally,
    why_not_ranked,
)
from tuner.core.windows.memory_growth import MemoryGrowth
from tuner.core.windows.other_processes import other_processes_of
from tuner.core.windows.summary import mean_or_none

if TYPE_CHECKING:
    pass

_SUMS = (
    *("length_s", "load", "active", "active_s", "from_load1", "from_load1_s", "cpu_s", "pss_bytes", "n_pss"),
    "n_windows",
)
#: gets all values of a launch in one call, because a study may have 20 000 launches
_sums_of = attrgetter(*_SUMS)


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
    growth: Mapping[Layout, MemoryGrowth] | None = None,
) -> Ranking:
    """Rank the layouts of *study* by the valid windows.

    Args:
        study: the layouts, and the number of cores.
        windows: in any order, or their sums; invalid ones are counted, but never used.
        current: the layout that ratios refer to.
        confidence: of all comparisons together, and of each interval by itself.
        launches: reasons why a layout has no window, and whether launches settled.
        objective: the quantity to maximize; ranks and ratios follow it.
        limits: limits on usage: only layouts that are shown to keep them have a rank.
        costs: costs for a Pareto front each, of the layouts that have a rank.
        within: the margin within which two layouts are tied, match on a front, and on two hosts.
        growth: growth of the memory of layouts; None: not known.

    Raises:
        ConfigError: no window has the quantity of a limit.
    """
    if not 0.5 <= confidence < 1:
        raise ValueError(f"a confidence from 0.5 to 1, got {confidence}")
    sums = (windows if isinstance(windows, Sums) else tally(windows)).with_load_of(study)
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
    trends = throughput_trends(study, launches, confidence)
    judged = _until_horizon(_judge(study, limits, list(of_layout), tallies, confidence), growth or {})
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
            cores=study.usable_cores,
            n_void=void[layout].total_windows,
            rank_=found.ranks.get(layout),
            group=found.groups.get(layout),
            of_best=found.of_best.get(layout),
            per_10min=_scale(of_throughput.values.get(layout, _plain_mean(own)), TEN_MINUTES_S),
            per_cpu_s=found.values.get(layout) if objective != "throughput" else None,
            ratio=found.ratios.get(layout),
            reason=reasons[layout],
            verdict=judged.get(layout),
            trend_per_h=trends.get(layout),
            memory_growth=(growth or {}).get(layout),
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
        others=other_processes_of(
            tallies, study, within, in_turns=any(one.heat is not None for one in tallies)
        ),
        gaps=None if side is None else PairGaps.of(side, confidence),
        axis_names=tuple(axes),
        speed_changes=speed_changes(launches, confidence),
    )


def _side(
    study: StudyRecord,
    measured: Mapping[Layout, Sequence[LaunchTally]],
    block_of: Mapping[int, int],
    box_of: Mapping[int, int],
    objective: str,
) -> Side:
    """Return the launches' values in the form in which the study's axes are compared."""
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
    """Return for each layout whether it may win; nothing without limits.

    The plan of a full grid is fixed in advance; any other strategy decides after every launch. Limits that an
    adaptive study did not have are judged by the noise of all layouts, because it made no launches for them.
    """
    if not limits:
        return {}
    check_measured(limits, tallies)
    looks = study.strategy != "all"
    kind = study.kind if looks and limits_from(study.limits) == tuple(limits) else "calibrated"
    return verdicts(limits, layouts, tallies, confidence, kind=kind, at_any_look=looks)


def _until_horizon(
    judged: Mapping[Layout, Verdict], growth: Mapping[Layout, MemoryGrowth]
) -> Mapping[Layout, Verdict]:
    """Return the verdicts; memory that is shown to grow is judged as it is after the horizon, too."""
    found = dict(judged)
    for layout, verdict in judged.items():
        grows = growth.get(layout)
        memory = next((one for one in verdict.findings if one.limit.name == "memory_bytes"), None)
        if grows is not None and grows.is_shown and memory is not None:
            later = Later(grows.after(memory.estimate), grows.horizon_s)
            found[layout] = verdict_later(verdict, "memory_bytes", later)
    return found


def _plain_mean(own: Sequence[LaunchTally]) -> Estimate:
    plain = [one.n_done / one.length_s for one in own]
    return Estimate(sum(plain) / len(plain) if plain else None)


def _why_not(own: Sequence[LaunchTally], void: VoidTally, error: str | None, objective: str) -> str | None:
    """Return why a layout cannot be compared, or None if it can."""
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
            Traded(one.layout, block_of[one.launch], one.n_done / one.length_s, _cost_of(one, cost))
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


def _cost_of(launch: LaunchTally, cost: Cost) -> float | None:
    """Return the cost of a launch: load in tasks, memory in bytes, CPU in busy cores (with backends)."""
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
    trend_per_h: Estimate | None,
    memory_growth: MemoryGrowth | None,
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
        answered_ratio=_geometric_mean([_answered_ratio(one) for one in own]),
        trend_per_h=trend_per_h,
        memory_growth=memory_growth,
        settled_load=mean_load_of_launches(one.mean_load for one in own),
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


def _answered_ratio(launch: LaunchTally) -> float | None:
    """Return the throughput of a launch as a share of the rate of its requests; None: there is no rate."""
    rate_per_s = None if launch.requests is None else launch.requests.rate_per_s
    return launch.n_done / launch.length_s / rate_per_s if rate_per_s else None


def _mean_latency(values: Sequence[float | None]) -> float | None:
    """Return the geometric mean; it is the longest latency if one of the values is at that limit."""
    if any(value is not None and value >= LONGEST_S for value in values):
        return LONGEST_S
    return _geometric_mean(values)


def _geometric_mean(values: Sequence[float | None]) -> float | None:
    """Return the geometric mean, as for throughput, so that rates and results can be compared."""
    mean = mean_or_none([None if value is None else log(max(value, 1e-9)) for value in values])
    return None if mean is None else exp(mean)


def _order(row: RankedLayout, objective: str) -> tuple[int, bool, bool, float, Layout]:
    """Return the sort key: by group, the best first, and by value within each; rows without a rank last."""
    mean = value_of(row, objective).mean or 0.0
    place = len(GROUPS) if row.group is None else GROUPS.index(row.group)
    is_best = row.group is not None and row.of_best is None
    return (place, not is_best, not row.is_kept_out, -mean, row.layout)


def _scale(estimate: Estimate, factor: float) -> Estimate:
    scaled = (
        None if value is None else value * factor for value in (estimate.mean, estimate.low, estimate.high)
    )
    return Estimate(*scaled)
