"""From windows to the ranking: who is better than whom, and what cannot be told apart.

What is claimed, and on what grounds: `docs/ranking.md` has the reasons and the simulations.

- A launch is one value, however many windows it has. Logarithms of throughput are fitted as layout + block:
  what the box did during a block drops out of every comparison.
- One layout is called better than another when their difference passes Tukey's limit for all pairs at once
  (Tukey-Kramer with each pair's own standard error; one variance for all layouts). Where nothing differs, a
  study calls any difference at all in at most ``1 - confidence`` of cases.
- A layout's rank is 1 + the number of layouts that are better, so what cannot be told apart shares a rank.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import exp, log, sqrt

from tuner.core.additive import AdditiveFit, Observation, fit
from tuner.core.interval import Estimate, LaunchMean, Noise, estimate_noise, estimate_throughputs
from tuner.core.layout import Layout
from tuner.core.quantiles import studentized_range_quantile
from tuner.core.records import WARMING_BLOCK, LaunchRecord, StudyRecord, WindowRecord

TEN_MINUTES_S = 600.0


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
    ratio_to_current: Estimate | None = (
        None  #: throughput / the current layout's; the interval is Tukey's, as the rank
    )
    reason: str | None = None  #: why there is no rank


@dataclass(frozen=True, slots=True)
class Ranking:
    """All layouts of a study, best first, those without a rank last."""

    rows: tuple[RankedLayout, ...]
    confidence: float
    current: Layout | None
    noise: Noise
    notes: tuple[str, ...] = ()  #: what limits the comparison, a sentence each


def rank(
    study: StudyRecord,
    windows: Iterable[WindowRecord],
    *,
    current: Layout | None = None,
    confidence: float = 0.95,
    launches: Iterable[LaunchRecord] = (),
) -> Ranking:
    """Rank the layouts of *study* by the windows that count.

    Args:
        study: which layouts there are, and how many cores.
        windows: in any order; void ones are counted, never used.
        current: the layout that ratios refer to.
        confidence: of all comparisons together, and of each interval by itself.
        launches: told as the reason when none of a layout's launches gave a window.
    """
    if not 0.5 <= confidence < 1:
        raise ValueError(f"a confidence from 0.5 to 1, got {confidence}")
    tallies, void = _tally(windows)
    errors = {record.layout: record.error for record in launches if record.error is not None}
    of_layout: dict[Layout, list[_Tally]] = {layout: [] for layout in study.layouts}
    for tally in tallies:
        of_layout.setdefault(tally.layout, []).append(tally)
    cores = min(study.cores, study.box_cores)
    reasons = {layout: _why_not(own, void[layout], errors.get(layout)) for layout, own in of_layout.items()}
    fitted = [layout for layout, reason in reasons.items() if reason is None]
    comparison = _compare(fitted, of_layout, confidence)
    rows = []
    for layout, own in of_layout.items():
        reason = reasons[layout]
        if reason is None:
            number = fitted.index(layout)
            rank_, per_10min = comparison.ranks[number], comparison.per_10min[number]
            ratio = comparison.ratio(number, fitted.index(current)) if current in fitted else None
        else:
            plain = [tally.n_done / tally.length_s for tally in own]
            rank_, ratio = None, None
            per_10min = Estimate(TEN_MINUTES_S * sum(plain) / len(plain) if plain else None)
        rows.append(_row(layout, own, cores, void[layout].total_windows, rank_, per_10min, ratio, reason))
    rows.sort(key=_order)
    return Ranking(tuple(rows), confidence, current, comparison.noise, comparison.notes)


@dataclass(slots=True)
class _Tally:
    """The windows of one launch that count, added up."""

    layout: Layout
    block: tuple[str, int]  # two boxes have no block in common
    n_windows: int = 0
    length_s: float = 0.0
    n_done: int = 0
    rates: float = 0.0  # sum over windows of items per second
    squares: float = 0.0  # and of its square
    load: float = 0.0  # x seconds
    load_max: float = 0.0
    active: float = 0.0  # x seconds
    active_s: float = 0.0
    from_load1: float = 0.0  # x seconds
    from_load1_s: float = 0.0
    cpu_s: float = 0.0
    pss_bytes: float = 0.0
    n_pss: int = 0


@dataclass(slots=True)
class _Void:
    total_windows: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def _tally(windows: Iterable[WindowRecord]) -> tuple[list[_Tally], dict[Layout, _Void]]:
    tallies: dict[int, _Tally] = {}
    void: dict[Layout, _Void] = defaultdict(_Void)
    for window in windows:  # 100 000 of them: each attribute is looked up once
        if window.block == WARMING_BLOCK:
            continue
        if window.void:
            own = void[window.layout]
            own.total_windows += 1
            own.reasons.update({reason.slug for reason in window.void})
            continue
        tally = tallies.get(window.launch_id)
        if tally is None:
            tally = tallies[window.launch_id] = _Tally(window.layout, (window.box, window.block))
        length_s = window.length_s
        n_done = window.n_done
        rate = n_done / length_s
        tally.n_windows += 1
        tally.length_s += length_s
        tally.n_done += n_done
        tally.rates += rate
        tally.squares += rate * rate
        tally.load += window.load1_mean * length_s
        load_max = window.load1_max
        if load_max > tally.load_max:
            tally.load_max = load_max
        n_active = window.n_active_mean
        if n_active is not None:
            tally.active += n_active * length_s
            tally.active_s += length_s
        from_load1 = window.n_active_from_load1
        if from_load1 is not None:
            tally.from_load1 += from_load1 * length_s
            tally.from_load1_s += length_s
        tally.cpu_s += window.service_cpu_s
        pss_bytes = window.pss_bytes
        if pss_bytes is not None:
            tally.pss_bytes += pss_bytes
            tally.n_pss += 1
    return list(tallies.values()), void


def _why_not(own: Sequence[_Tally], void: _Void, error: str | None) -> str | None:
    """Why a layout cannot be ranked, or None when it can."""
    if own:
        n_idle = sum(not tally.n_done for tally in own)
        if not n_idle:
            return None
        return f"finished no item in {n_idle} of {_counted(len(own), 'launch', 'launches')}"
    if void.total_windows:
        slugs = ", ".join(
            f"{slug} {n}" for slug, n in sorted(void.reasons.items(), key=lambda one: (-one[1], one[0]))
        )
        return f"no window counts, {void.total_windows} void: {slugs}"
    return f"no launch gave a window: {error}" if error else "no window was taken"


@dataclass(slots=True)
class _Comparison:
    """What the fit says, per layout in the order of the fit."""

    fit: AdditiveFit | None
    limit: float | None  # in standard errors of a difference; None: there is no noise to measure it against
    ranks: list[int]
    per_10min: list[Estimate]
    noise: Noise
    notes: tuple[str, ...]

    def half_width(self, one: int, other: int) -> float | None:
        """How far the difference of two layouts must be from 0 to be significant; None: never."""
        if self.fit is None or self.limit is None or self.fit.residual_variance is None:
            return None
        variance = self.fit.difference_variance(one, other)
        return None if variance is None else self.limit * sqrt(variance * self.fit.residual_variance)

    def ratio(self, one: int, other: int) -> Estimate | None:
        """Throughput of *one* as a ratio of *other*'s; None when no chain of shared blocks joins them."""
        if self.fit is None or self.fit.difference_variance(one, other) is None:
            return None
        difference = self.fit.effects[one] - self.fit.effects[other]
        half = 0.0 if one == other else self.half_width(one, other)
        if half is None:
            return Estimate(exp(difference))
        return Estimate(exp(difference), exp(difference - half), exp(difference + half))


def _compare(
    layouts: Sequence[Layout], of_layout: dict[Layout, list[_Tally]], confidence: float
) -> _Comparison:
    if not layouts:
        return _Comparison(None, None, [], [], Noise(None, None, None), ())
    block_numbers: dict[tuple[str, int], int] = {}
    launches = [
        LaunchMean(
            layout=number,
            block=block_numbers.setdefault(tally.block, len(block_numbers)),
            throughput_per_s=tally.n_done / tally.length_s,
            n_windows=tally.n_windows,
            window_ss=max(0.0, tally.squares / (tally.rates / tally.n_windows) ** 2 - tally.n_windows),
        )
        for number, layout in enumerate(layouts)
        for tally in of_layout[layout]
    ]
    fitted = fit(
        [Observation(one.layout, one.block, log(one.throughput_per_s)) for one in launches], len(layouts)
    )
    limit = None
    if len(layouts) > 1 and fitted.residual_df:
        limit = studentized_range_quantile(confidence, len(layouts), fitted.residual_df) / sqrt(2)
    per_s = estimate_throughputs(launches, fitted, confidence)
    comparison = _Comparison(
        fit=fitted,
        limit=limit,
        ranks=[1] * len(layouts),
        per_10min=[_scaled(estimate, TEN_MINUTES_S) for estimate in per_s],
        noise=estimate_noise(launches, fitted),
        notes=_notes(fitted, len(block_numbers)),
    )
    for one, effect in enumerate(fitted.effects):
        for other in range(one):
            half = comparison.half_width(one, other)
            difference = effect - fitted.effects[other]
            # Rounding alone must not tell identical figures apart.
            if half is not None and abs(difference) > max(half, 1e-9):
                comparison.ranks[other if difference > 0 else one] += 1
    return comparison


def _notes(fitted: AdditiveFit, n_blocks: int) -> tuple[str, ...]:
    notes = []
    if len(fitted.effects) > 1 and not fitted.residual_df:
        blocks = "One block" if n_blocks == 1 else "What was measured"
        notes.append(
            f"{blocks} says nothing about the noise between launches: no layout can be told from another."
        )
    if len(fitted.n_blocks_of) > 1:
        notes.append(
            f"The layouts fall into {len(fitted.n_blocks_of)} groups that share no block:"
            " layouts of different groups cannot be compared, whatever their figures."
        )
    return tuple(notes)


def _row(
    layout: Layout,
    own: Sequence[_Tally],
    cores: float,
    n_void: int,
    rank_: int | None,
    per_10min: Estimate,
    ratio: Estimate | None,
    reason: str | None,
) -> RankedLayout:
    length_s = sum(tally.length_s for tally in own)
    active_s = sum(tally.active_s for tally in own)
    from_load1_s = sum(tally.from_load1_s for tally in own)
    n_pss = sum(tally.n_pss for tally in own)
    return RankedLayout(
        layout=layout,
        rank=rank_,
        throughput_per_10min=per_10min,
        load1_mean=sum(tally.load for tally in own) / length_s if own else None,
        load1_max=max((tally.load_max for tally in own), default=None),
        n_active_mean=sum(tally.active for tally in own) / active_s if active_s else None,
        n_active_from_load1=sum(tally.from_load1 for tally in own) / from_load1_s if from_load1_s else None,
        cpu_ratio=sum(tally.cpu_s for tally in own) / (cores * length_s) if own else None,
        pss_bytes=sum(tally.pss_bytes for tally in own) / n_pss if n_pss else None,
        n_windows=sum(tally.n_windows for tally in own),
        n_void=n_void,
        ratio_to_current=ratio,
        reason=reason,
    )


def _order(row: RankedLayout) -> tuple[bool, int, float, Layout]:
    mean = row.throughput_per_10min.mean
    return (row.rank is None, row.rank or 0, -mean if mean is not None else 0.0, row.layout)


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    scaled = (
        None if value is None else value * factor for value in (estimate.mean, estimate.low, estimate.high)
    )
    return Estimate(*scaled)


def _counted(n: int, singular: str, plural: str) -> str:
    return f"{n} {singular if n == 1 else plural}"
