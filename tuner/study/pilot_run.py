"""A pilot: a few launches of a few layouts, to estimate the duration of a study."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from tuner.core.domain.layout import spread_subset
from tuner.core.domain.records import StudyRecord, WindowRecord
from tuner.core.domain.strategy import Proposal
from tuner.core.errors import ConfigError
from tuner.core.planning.aa_test import Pair, SelfTest, self_test
from tuner.core.planning.pilot import Pilot, batch_square, noise_of, pilot_of, slices_square
from tuner.core.search.strategies.recheck import Pairs
from tuner.core.stats.interval import Estimate
from tuner.core.stats.variance import MeanSquare
from tuner.core.text.figures import render_duration
from tuner.core.windows.launch_sums import Sums
from tuner.ports import Store
from tuner.study.counted import left_out, without
from tuner.study.history import History
from tuner.study.strategy_driver import Recalled
from tuner.study.timetable import SETTLING_GUESS_S, START_AND_STOP_GUESS_S, Timetable

N_LAYOUTS = 4
N_BLOCKS = 2  #: launches of each layout; the least that shows how launches differ
#: windows of each launch; the least that separates differences of windows from differences of launches
N_WINDOWS = 3
#: shorter windows have few items and large edge effects; a study with a shorter minimum may use that
SHORTEST_WINDOW_S = 5.0
#: factor on the expected duration, because warm-ups may be longer; no block begins after that time
_OVERRUN = 2.0
_N_BATCHES = 5
_MOST_WINDOWS_READ = 400  #: enough windows for an estimate from their samples


def pilot_study(study: StudyRecord, lasts_s: float) -> StudyRecord:
    """Return the pilot of *study*: a full grid of a few well-spread layouts that takes about *lasts_s*.

    Raises:
        ConfigError: the study has one layout only, or *lasts_s* is too short for two layouts.
    """
    if len(study.layouts) < 2:
        raise ConfigError(
            f"{study.layouts[0]} is the only layout: there is nothing to plan",
            hint="Name two or more with --layouts, or leave --layouts out.",
        )
    for n_layouts in range(min(N_LAYOUTS, len(study.layouts)), 1, -1):
        window_s = _window_s(study, lasts_s, n_layouts)
        if window_s >= min(SHORTEST_WINDOW_S, study.shortest_window_s):
            break
    else:
        least_s = (
            lasts_s + (min(SHORTEST_WINDOW_S, study.shortest_window_s) - window_s) * N_WINDOWS * N_BLOCKS * 2
        )
        raise ConfigError(
            f"a pilot of two layouts needs at least {render_duration(round(least_s + 0.5))},"
            f" but --pilot is {render_duration(lasts_s)}",
            hint="Give it a longer --pilot, or a shorter --warmup.",
        )
    return replace(
        study,
        strategy="all",
        kind="none",
        layouts=tuple(spread_subset(study.layouts, n_layouts)),
        n_blocks=N_BLOCKS,
        windows_per_launch=N_WINDOWS,
        window_s=round(min(window_s, study.window_s), 1),
        min_window_s=None,
        budget_s=_OVERRUN * lasts_s,
        provenance=replace(study.provenance, made_by="tuner plan"),
    )


def read_pilot(store: Store, known: Recalled | None = None) -> Pilot | None:
    """Estimate noise and costs from the study in *store*; None: no layout has two valid launches.

    *known*: the study as `counted.recalled_race` returns it; None: it is recalled if necessary.
    """
    study, launches, others = store.study(), store.launches(), left_out(store, known)
    timetable = Timetable(study, launches, store.windows())
    windows = [window for window in store.windows() if window.launch_id not in others]
    counting = [window for window in windows if not window.void]
    # The mean overhead of a launch (all but its windows), each layout weighted by its launches.
    n_launches = len({window.launch_id for window in counting})
    if not n_launches:
        return None
    of_launches = {window.launch_id: window.layout for window in counting}
    launch_s = timetable.expected_s(Proposal(layout, 0.0, 0) for layout in of_launches.values()) / n_launches
    return pilot_of(
        windows,
        without(store.sums(), others).launches,
        launch_s=launch_s,
        objective=study.objective,
        within_window=partial(_within_windows, store, windows, study.objective),
        in_slices=_in_slices(store, of_launches, study.objective),
        confidence=study.confidence,
    )


def read_noise(store: Store, sums: Sums) -> tuple[Estimate, Estimate | None] | None:
    """Estimate `Pilot.launch` and `Pilot.window` of the study in *store*, from its window *sums*."""
    study = store.study()

    def within_window() -> MeanSquare | None:  # from a limited number of launches, and only if needed
        some = [one.launch for one in sums.launches[:_MOST_WINDOWS_READ]]
        return _within_windows(store, sums.windows_of(some), study.objective)

    return noise_of(
        sums.launches,
        objective=study.objective,
        within_window=within_window,
        in_slices=_in_slices(store, {one.launch for one in sums.launches}, study.objective),
        confidence=study.confidence,
    )


def _in_slices(store: Store, numbers: Collection[int], objective: str) -> MeanSquare | None:
    """Return the variance of one second of those launches *numbers* that took turns; None: unknown."""
    if objective != "throughput":
        return None
    return slices_square(launch for number, launch in store.launches() if number in numbers)


def _within_windows(store: Store, windows: Sequence[WindowRecord], objective: str) -> MeanSquare | None:
    """Estimate the variance of one second from samples within windows; None: too few samples, or *objective*
    is not throughput."""
    if objective != "throughput":
        return None
    counting = [window for window in windows if not window.void and window.n_done and window.block >= 0]
    rates, lengths_s = [], []
    for window in counting[:_MOST_WINDOWS_READ]:
        samples = store.samples(window.launch_id, window.index, window.attempt)
        if len(samples) <= 2 * _N_BATCHES:
            continue
        cuts = [samples[round(n * (len(samples) - 1) / _N_BATCHES)] for n in range(_N_BATCHES + 1)]
        spans = [
            (after.at_s - before.at_s, after.n_done_total - before.n_done_total)
            for before, after in pairwise(cuts)
        ]
        rates.append([n_done / span_s for span_s, n_done in spans if span_s > 0])
        lengths_s += [span_s for span_s, _ in spans]
    return batch_square(rates, sum(lengths_s) / len(lengths_s)) if lengths_s else None


def _window_s(study: StudyRecord, lasts_s: float, n_layouts: int) -> float:
    """Return the window length, in seconds, that fits *lasts_s* with usual starts and warm-ups."""
    n_launches = N_BLOCKS * n_layouts
    warmup_s = SETTLING_GUESS_S if study.warmup_s is None else study.warmup_s
    beside_s = (n_launches + study.warms_cache) * (START_AND_STOP_GUESS_S + warmup_s)
    return (lasts_s - beside_s) / (n_launches * N_WINDOWS)


# A layout compared with itself: the pairs of a study, and their evaluation.


def pairs_strategy(study: StudyRecord) -> Pairs:
    """Return the strategy that measures the pairs of *study*."""
    return Pairs(
        study.layouts[0],
        study.n_blocks,
        study.window_s,
        study.windows_per_launch,
        in_turns=study.n_resident > 1,
    )


def read_self_test(store: Store) -> tuple[SelfTest, Pilot | None] | None:
    """Evaluate the pairs in *store*, and estimate their noise; None: fewer than two pairs are complete."""
    study, launches, windows = store.study(), store.launches(), store.windows()
    history = History(study, launches, windows, store.warmup_samples)
    strategy = pairs_strategy(study)
    pairs: list[Pair] = []
    while history.holds_more:
        block, _ = history.next_block(strategy.propose())
        # A cell that was cut off and repeated has windows of two launches; it counts as one launch.
        kept = [tuple(one for _, one in sorted(cell.kept.items())) for cell in block.cells]
        if len(kept) == 2 and all(kept):
            pairs.append((kept[0], kept[1]))
        strategy.learn([one for own in kept for one in own])
    if len(pairs) < 2:
        return None
    timetable = Timetable(study, launches, windows)
    n_launches = sum(launch.block >= 0 for _, launch in launches)
    spent_s = timetable.total_s / max(1, n_launches)
    found = self_test(
        pairs, launch_s=spent_s, confidence=study.confidence, within=study.within_ratio, seed=study.seed
    )
    return found, read_pilot(store)
