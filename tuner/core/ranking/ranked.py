"""The ranking: its rows, values and options (objective, limits, costs)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, cast

from tuner.core.defaults import HORIZON_S, TEN_MINUTES_S, WITHIN
from tuner.core.domain.layout import Layout
from tuner.core.domain.limits import Limit, Verdict, limits_from
from tuner.core.domain.records import Objective, StudyRecord, parse_objective
from tuner.core.domain.safety_limits import parse_limits
from tuner.core.errors import ConfigError
from tuner.core.ranking.axis_effects import AxisBest, AxisEffect, axis_bests
from tuner.core.ranking.host_effects import Boxes
from tuner.core.ranking.host_speed import SpeedChange
from tuner.core.ranking.pareto import COSTS, Cost, Front
from tuner.core.ranking.study_difference import PairGaps
from tuner.core.stats.groups import Group, OfBest, of_value
from tuner.core.stats.interval import Estimate
from tuner.core.stats.variance import Noise
from tuner.core.text.figures import parse_duration
from tuner.core.warmup.report import NONE_JUDGED, NeverSettled
from tuner.core.windows.memory_growth import MemoryGrowth
from tuner.core.windows.other_processes import Others

if TYPE_CHECKING:
    from tuner.core.domain.strategy import Claim
    from tuner.core.model.diagnosis.diagnose import What
    from tuner.core.ranking.aging import LongerLaunch
    from tuner.core.ranking.step_case import NextStep, Wider


@dataclass(frozen=True, slots=True)
class LatencySeen:
    """Latency of a layout's requests: geometric means over launches."""

    p50_s: float | None  #: None: too few requests
    p95_s: float | None
    p99_s: float | None
    n_requests: int  #: number of requests, including failed ones
    failed_ratio: float | None  #: share of failed requests, 0..1
    #: rate at which requests became due, per second, mean over launches; None: closed loop
    rate_per_s: float | None
    #: throughput in a closed loop, of which the rate is a share; None: the rate is no share
    capacity_per_s: float | None
    #: mean connections of each worker process, largest first; None: not observable
    connections_per_worker: tuple[float, ...] | None = None
    #: share of the threads' time without a request because of uneven connections
    starved_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class RankedLayout:
    """One row of the ranking. Values that were not measured are None."""

    layout: Layout
    rank: int | None  #: 1 + number of significantly better layouts; None: not ranked
    throughput_per_10min: Estimate
    load1_mean: float | None
    load1_max: float | None
    n_active_mean: float | None
    n_active_from_load1: float | None  #: mean number of active tasks, computed from load1
    cpu_ratio: float | None  #: service CPU / (cores x time), for the cores that the host offers
    pss_bytes: float | None  #: mean over windows
    n_windows: int  #: number of valid windows
    n_void: int
    group: Group | None = None  #: group compared with the best layout; None: not ranked
    of_best: OfBest | None = None  #: comparison behind the group; None: it is the best, or not ranked
    ratio_to_current: Estimate | None = (
        None  #: ratio to the current layout's throughput, with Tukey's interval as for the rank
    )
    reason: str | None = None  #: reason why it has no rank
    #: items per CPU second of the service and its backends; None: not requested
    items_per_cpu_s: Estimate | None = None
    verdict: Verdict | None = None  #: whether it keeps the limits; None: there are no limits
    behind_ratio: float | None = None  #: least distance behind a claim's answer, as a share; None: unknown
    bound_by: tuple[What, ...] = ()  #: bottlenecks, most important first; empty: unknown
    latency: LatencySeen | None = None  #: None: unknown
    #: items per request that was due at the rate, the geometric mean over launches; None: no rate
    answered_ratio: float | None = None
    #: change of throughput during a launch, in means per hour; None: its launches give no estimate
    trend_per_h: Estimate | None = None
    memory_growth: MemoryGrowth | None = None  #: None: its launches are too short, or memory was not measured
    #: mean over launches, the geometric one, of the load in the long run: the figure that limits apply to
    settled_load: float | None = None

    @property
    def is_kept_out(self) -> bool:
        """Return whether the layout was measured, and has no rank for the limits alone."""
        return (
            self.rank is None
            and self.n_windows > 0
            and self.verdict is not None
            and (self.verdict.state != "within")
        )


@dataclass(frozen=True, slots=True)
class Ranking:
    """All layouts of a study, the best first, those without a rank last."""

    rows: tuple[RankedLayout, ...]
    confidence: float
    current: Layout | None
    noise: Noise
    notes: tuple[str, ...] = ()  #: limitations of the comparison, one sentence each
    objective: str = "throughput"
    limits: tuple[Limit, ...] = ()
    fronts: tuple[Front, ...] = ()  #: one per requested cost
    settling: tuple[str, ...] = ()  #: sentences on more launches without a steady state than by chance
    claim: Claim | None = (
        None  #: claim of an adaptive study, which determines the ranks: see `tuner.core.ranking.race_result`
    )
    axes: tuple[AxisEffect, ...] = ()  #: effect of each axis of the service alone
    unbound: str | None = None  #: reason why the bottlenecks are unknown, a sentence; None: they are known
    boxes: Boxes | None = None  #: differences between hosts in the ranked value; None: there is one host
    #: evidence that larger layouts are faster than the answer; None: there is none
    wider: Wider | None = None
    next_step: NextStep | None = None  #: recommended next step; None: not determined
    #: number of launches that did not become steady, and the number expected by chance
    never_settled: NeverSettled = NONE_JUDGED
    settling_facts: tuple[str, ...] = ()  #: sentences on such launches if chance explains them
    within: float = WITHIN  #: margin of tied layouts
    others: Others | None = None  #: CPU that other processes used; None: no window is valid
    #: differences between all layouts, if the service has axes; None: it has none
    gaps: PairGaps | None = None
    axis_names: tuple[str, ...] = ()  #: names of the service's axes, in their order
    horizon_s: float = HORIZON_S  #: time after a start for which the memory limit must hold, seconds
    speed_changes: tuple[SpeedChange, ...] = ()  #: hosts that became slower or faster
    #: longer launches of a race whose answer slows down or grows; None: there were none
    longer: LongerLaunch | None = None

    @property
    def verdicts(self) -> dict[Layout, Verdict | None]:
        """Return whether each layout keeps the limits; None if there are none."""
        return {row.layout: row.verdict for row in self.rows}

    @property
    def throughput_per_s(self) -> dict[Layout, float]:
        """Return the throughput of each measured layout in items per second, as all commands print it."""
        means = {row.layout: row.throughput_per_10min.mean for row in self.rows}
        return {layout: mean / TEN_MINUTES_S for layout, mean in means.items() if mean is not None}

    @property
    def best(self) -> RankedLayout | None:
        """Return the row that all other rows are compared with: the answer, else the best measured."""
        first = next(iter(self.rows), None)
        return first if first is not None and first.group is not None else None

    @property
    def is_overtaken(self) -> bool:
        """Return whether the answer of a race fell below its rival in a longer launch."""
        return self.longer is not None and self.longer.is_overtaken

    @property
    def is_answer_kept_out(self) -> bool:
        """Return whether the answer of a race exceeds a limit after all, because its memory grows."""
        named = None if self.claim is None else self.claim.answer.layout
        return any(row.layout == named and row.is_kept_out for row in self.rows)

    def of_group(self, group: Group) -> tuple[RankedLayout, ...]:
        """Return the rows of *group*, the fastest first."""
        return tuple(row for row in self.rows if row.group == group)

    @property
    def is_bound_known(self) -> bool:
        """Return whether any row has a bottleneck."""
        return any(row.bound_by for row in self.rows)

    @property
    def is_latency_known(self) -> bool:
        """Return whether any row has a latency."""
        return any(row.latency is not None for row in self.rows)

    @property
    def axis_bests(self) -> tuple[AxisBest, ...]:
        """Compare the values of each axis, each at its best layout."""
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
        """Return the layouts whose figure is limited by the requests sent, so it is not their capacity."""
        return tuple(row.layout for row in self.rows if "connections" in row.bound_by)

    def with_bound_by(self, bound_by: Mapping[Layout, tuple[What, ...]], unbound: str | None) -> Ranking:
        """Return the ranking with the bottlenecks of each layout, or the reason why they are not known."""
        rows = tuple(replace(row, bound_by=bound_by.get(row.layout, ())) for row in self.rows)
        return replace(self, rows=rows, unbound=unbound)


def value_of(row: RankedLayout, objective: str) -> Estimate:
    """Return the value that a ranking by *objective* uses, with the interval of the layout by itself."""
    if objective == "throughput":
        return row.throughput_per_10min
    return row.items_per_cpu_s or Estimate(None)


def value_beside(row: RankedLayout, ranking: Ranking) -> Estimate:
    """Return the value of a row, with the interval that its group rests on: of the difference to the best.

    The best one has none, nor has a layout that is not ranked; if fewer than two layouts are compared, the
    interval is that of the layout by itself.
    """
    own, best = value_of(row, ranking.objective), ranking.best
    if best is None or sum(one.group is not None for one in ranking.rows) < 2:
        return own
    first = value_of(best, ranking.objective).mean
    if row.of_best is None or first is None:
        return Estimate(own.mean)
    return replace(of_value(row.of_best, first), mean=own.mean)


# The options of a ranking besides its confidence: objective, limits, costs; as text and as values.


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """Options of a ranking; options that are not given are those of the study."""

    objective: Objective | None = None
    limits: tuple[Limit, ...] = ()
    costs: tuple[Cost, ...] = ()  #: costs to compare with throughput
    within: float | None = None  #: margin within which layouts match, as a share
    boxes: tuple[str, ...] = ()  #: names of the only hosts that are used; empty: all
    without_boxes: tuple[str, ...] = ()  #: names of the hosts that are left out
    horizon_s: float | None = None  #: time after a start for which the memory limit must hold, seconds

    def objective_of(self, study: StudyRecord) -> str:
        """Return the objective, which is to be maximized."""
        return self.objective or study.objective

    def limits_of(self, study: StudyRecord) -> tuple[Limit, ...]:
        """Return the limits of *study*, replaced by the limits given here."""
        return limits_from({**study.limits, **{limit.name: limit.at_most for limit in self.limits}})

    def horizon_of(self, study: StudyRecord) -> float:
        """Return the seconds after a start for which the memory limit is to be kept."""
        return study.horizon_s if self.horizon_s is None else self.horizon_s

    def within_of(self, study: StudyRecord) -> float:
        """Return the margin within which layouts match."""
        return study.within_ratio if self.within is None else self.within

    def is_of(self, study: StudyRecord) -> bool:
        """Return whether *study* has this objective and these limits, so that its own answer is valid."""
        own = limits_from(study.limits)
        return self.objective_of(study) == study.objective and self.limits_of(study) == own


def selected_boxes(question: RankingOptions, known: Sequence[str]) -> frozenset[str]:
    """Return the names of the selected hosts, of the hosts *known* of a study.

    Raises:
        ConfigError: a named host is not known, or no host is left.
    """
    for option, names in (("--box", question.boxes), ("--without-box", question.without_boxes)):
        for name in names:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                said = f"Did you mean {near[0]}? " if near and len(known) > 1 else ""
                those = f"The hosts are {', '.join(known)}." if known else "It has used no host yet."
                raise ConfigError(f"{option}: this study has no host {name!r}", hint=said + those)
    left = frozenset(question.boxes or known) - frozenset(question.without_boxes)
    if known and not left:
        raise ConfigError("--without-box leaves no host", hint=f"The hosts are {', '.join(known)}.")
    return left


def parse_question(
    *,
    objective: str | None = None,
    max_load: str | None = None,
    max_memory: str | None = None,
    max_p95: str | None = None,
    costs: str | None = None,
    within: str | None = None,
    boxes: Sequence[str] = (),
    without_boxes: Sequence[str] = (),
    horizon: str | None = None,
) -> RankingOptions:
    """Parse the options as typed; None for options not given.

    Raises:
        ConfigError: an option is invalid; the error begins with its name.
    """
    try:
        named = None if objective is None else parse_objective(objective)
    except ConfigError as error:
        raise ConfigError(f"--objective: {error.problem}", hint=error.hint) from error
    return RankingOptions(
        named,
        parse_limits({"load": max_load, "memory_bytes": max_memory, "p95_s": max_p95}),
        () if costs is None else _parse_costs(costs),
        None if within is None else _parse_within(within),
        tuple(dict.fromkeys(boxes)),
        tuple(dict.fromkeys(without_boxes)),
        None if horizon is None else _parse_horizon(horizon),
    )


def _parse_costs(text: str) -> tuple[Cost, ...]:
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in COSTS:
            near = get_close_matches(name, COSTS, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(COSTS)}."
            raise ConfigError(f"--costs: no such cost: {name!r}", hint=hint)
    if not names:
        raise ConfigError("--costs: no cost is named", hint=f"There are {', '.join(COSTS)}.")
    return tuple(cast(Cost, name) for name in dict.fromkeys(names))


def parse_share(text: str) -> float | None:
    """Read ``2%`` or ``0.02``; None: it is neither."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", text, re.ASCII)
    return float(match[1]) / (100 if match[2] else 1) if match else None


def _parse_horizon(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ConfigError as error:
        raise ConfigError(f"--horizon: {error.problem}", hint=error.hint) from error
    if not seconds:
        raise ConfigError(
            f"--horizon: {text!r} leaves no time at all", hint="Write a duration, as 12h or 7d."
        )
    return seconds


def _parse_within(text: str) -> float:
    share = parse_share(text)
    if share is None or not 0 < share < 0.5:
        raise ConfigError(
            f"--within: {text!r} is not a margin above 0 and below 50 %", hint="Write a share, as 2% or 0.02."
        )
    return share
