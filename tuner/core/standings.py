"""What launches say of the layouts: their values, who is better than whom, and how noisy it was."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log

from tuner.core.additive import AdditiveFit, Observation
from tuner.core.comparison import compare
from tuner.core.interval import Estimate, LaunchMean, estimate_throughputs
from tuner.core.layout import Layout
from tuner.core.noise import Noise, estimate_noise
from tuner.core.objective import value_from
from tuner.core.tally import LaunchTally


@dataclass(frozen=True, slots=True)
class Standings:
    """Per layout that can be compared."""

    ranks: Mapping[Layout, int]  #: of those that may win
    values: Mapping[Layout, Estimate]  #: of the objective: items per second, or per CPU second
    ratios: Mapping[Layout, Estimate | None]  #: to the current layout's value
    noise: Noise
    notes: tuple[str, ...] = ()  #: what limits the comparison, a sentence each


def standings(
    of_layout: Mapping[Layout, Sequence[LaunchTally]],
    *,
    objective: str = "throughput",
    confidence: float,
    current: Layout | None = None,
    may_win: Collection[Layout],
) -> Standings:
    """Compare layouts by what their launches gave, each of them above 0.

    All layouts tell of the noise, and the limit is for all pairs; ranks are among those that *may_win*.
    """
    if not of_layout:
        return Standings({}, {}, {}, Noise(None, None, None))
    layouts = list(of_layout)
    launches, n_blocks = _launch_means(of_layout, objective)
    comparison = compare(
        [Observation(one.layout, one.block, log(one.throughput_per_s)) for one in launches],
        len(layouts),
        confidence,
    )
    candidates = [number for number, layout in enumerate(layouts) if layout in may_win]
    n_better = comparison.n_better(candidates)
    reference = layouts.index(current) if current is not None and current in of_layout else None
    return Standings(
        ranks={layouts[number]: 1 + n for number, n in zip(candidates, n_better, strict=True)},
        values=dict(
            zip(layouts, estimate_throughputs(launches, comparison.fit, confidence), strict=True),
        ),
        ratios={}
        if reference is None
        else {layout: comparison.ratio(number, reference) for number, layout in enumerate(layouts)},
        noise=estimate_noise(launches, comparison.fit, confidence),
        notes=_notes(comparison.fit, n_blocks),
    )


def launch_value(launch: LaunchTally, objective: str) -> float:
    """What one launch gave over all its windows."""
    cpu_s = launch.cpu_s + launch.backend_cpu_s
    return value_from(launch.n_done, launch.length_s, cpu_s, objective=objective)


def block_numbers(launches: Sequence[LaunchTally]) -> dict[tuple[str, int], int]:
    """The blocks of *launches*, numbered as they come."""
    return {block: number for number, block in enumerate(dict.fromkeys(one.block for one in launches))}


def _launch_means(
    of_layout: Mapping[Layout, Sequence[LaunchTally]], objective: str
) -> tuple[list[LaunchMean], int]:
    """What each launch gave, layouts and blocks numbered in their order; and how many blocks there are."""
    numbers = block_numbers([one for own in of_layout.values() for one in own])
    launches = [
        LaunchMean(
            layout=number,
            block=numbers[one.block],
            throughput_per_s=launch_value(one, objective),
            n_windows=one.n_windows,
            window_ss=max(0.0, one.squares / (one.rates / one.n_windows) ** 2 - one.n_windows),
        )
        for number, own in enumerate(of_layout.values())
        for one in own
    ]
    return launches, len(numbers)


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
