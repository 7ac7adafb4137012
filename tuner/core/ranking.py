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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log

from tuner.core.additive import AdditiveFit, Observation
from tuner.core.comparison import compare
from tuner.core.interval import Estimate, LaunchMean, estimate_throughputs
from tuner.core.layout import Layout
from tuner.core.noise import Noise, estimate_noise
from tuner.core.records import LaunchRecord, StudyRecord, WindowRecord
from tuner.core.tally import LaunchTally, tally, why_not_ranked

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
    tallies, void = tally(windows)
    errors = {record.layout: record.error for record in launches if record.error is not None}
    of_layout: dict[Layout, list[LaunchTally]] = {layout: [] for layout in study.layouts}
    for one in tallies:
        of_layout.setdefault(one.layout, []).append(one)
    cores = min(study.cores, study.box_cores)
    reasons = {
        layout: why_not_ranked(own, void[layout], errors.get(layout)) for layout, own in of_layout.items()
    }
    found = _found({x: own for x, own in of_layout.items() if reasons[x] is None}, confidence, current)
    rows = []
    for layout, own in of_layout.items():
        per_s = found.per_s.get(layout, _plain_mean(own))
        rows.append(
            _row(
                layout,
                own,
                cores,
                void[layout].total_windows,
                found.ranks.get(layout),
                _scaled(per_s, TEN_MINUTES_S),
                found.ratios.get(layout),
                reasons[layout],
            )
        )
    rows.sort(key=_order)
    return Ranking(tuple(rows), confidence, current, found.noise, found.notes)


@dataclass(frozen=True, slots=True)
class _Found:
    """What the launches say, per layout that can be ranked."""

    ranks: Mapping[Layout, int]
    per_s: Mapping[Layout, Estimate]
    ratios: Mapping[Layout, Estimate | None]  #: to the current layout
    noise: Noise
    notes: tuple[str, ...]


def _found(
    of_layout: Mapping[Layout, Sequence[LaunchTally]], confidence: float, current: Layout | None
) -> _Found:
    if not of_layout:
        return _Found({}, {}, {}, Noise(None, None, None), ())
    layouts = list(of_layout)
    launches, n_blocks = _launch_means(of_layout)
    comparison = compare(
        [Observation(one.layout, one.block, log(one.throughput_per_s)) for one in launches],
        len(layouts),
        confidence,
    )
    n_better = comparison.n_better(range(len(layouts)))
    per_s = estimate_throughputs(launches, comparison.fit, confidence)
    reference = layouts.index(current) if current is not None and current in of_layout else None
    return _Found(
        ranks={layout: 1 + n for layout, n in zip(layouts, n_better, strict=True)},
        per_s=dict(zip(layouts, per_s, strict=True)),
        ratios={}
        if reference is None
        else {layout: comparison.ratio(number, reference) for number, layout in enumerate(layouts)},
        noise=estimate_noise(launches, comparison.fit, confidence),
        notes=_notes(comparison.fit, n_blocks),
    )


def _launch_means(of_layout: Mapping[Layout, Sequence[LaunchTally]]) -> tuple[list[LaunchMean], int]:
    """What each launch gave, layouts and blocks numbered in their order; and how many blocks there are."""
    block_numbers: dict[tuple[str, int], int] = {}
    launches = [
        LaunchMean(
            layout=number,
            block=block_numbers.setdefault(one.block, len(block_numbers)),
            throughput_per_s=one.n_done / one.length_s,
            n_windows=one.n_windows,
            window_ss=max(0.0, one.squares / (one.rates / one.n_windows) ** 2 - one.n_windows),
        )
        for number, own in enumerate(of_layout.values())
        for one in own
    ]
    return launches, len(block_numbers)


def _plain_mean(own: Sequence[LaunchTally]) -> Estimate:
    plain = [one.n_done / one.length_s for one in own]
    return Estimate(sum(plain) / len(plain) if plain else None)


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
    own: Sequence[LaunchTally],
    cores: float,
    n_void: int,
    rank_: int | None,
    per_10min: Estimate,
    ratio: Estimate | None,
    reason: str | None,
) -> RankedLayout:
    length_s = sum(one.length_s for one in own)
    active_s = sum(one.active_s for one in own)
    from_load1_s = sum(one.from_load1_s for one in own)
    n_pss = sum(one.n_pss for one in own)
    return RankedLayout(
        layout=layout,
        rank=rank_,
        throughput_per_10min=per_10min,
        load1_mean=sum(one.load for one in own) / length_s if own else None,
        load1_max=max((one.load_max for one in own), default=None),
        n_active_mean=sum(one.active for one in own) / active_s if active_s else None,
        n_active_from_load1=sum(one.from_load1 for one in own) / from_load1_s if from_load1_s else None,
        cpu_ratio=sum(one.cpu_s for one in own) / (cores * length_s) if own else None,
        pss_bytes=sum(one.pss_bytes for one in own) / n_pss if n_pss else None,
        n_windows=sum(one.n_windows for one in own),
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
