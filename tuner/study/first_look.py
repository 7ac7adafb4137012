"""The first look: one short window of a few distant layouts, for a provisional ranking.

Like those of scouts, its windows are passed to no strategy and counted in no ranking, so they do not change
later measurements or results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, sqrt
from random import Random
from typing import NamedTuple

from tuner.core.domain.layout import Layout, spread_subset
from tuner.core.domain.records import FIRST_LOOK, WARMING_BLOCK, LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.strategy import Proposal
from tuner.study.launch.plan_cells import Deadline
from tuner.study.timetable import before_launches_s, guess_s

LASTS_S = 540.0  #: approximate time limit of the first look
WINDOW_S = 15.0
WARMUP_S = 30.0  #: time limit of a launch's start and warm-up


def is_due(study: StudyRecord, launches: Sequence[tuple[int, LaunchRecord]]) -> bool:
    """Return whether *study* begins or continues with a first look."""
    facts = study.provenance
    if not facts.has_first_look or facts.made_by is not None:
        return False
    return all(launch.block == WARMING_BLOCK and launch.position != 1 for _, launch in launches)


def layouts_of(study: StudyRecord) -> Sequence[Layout]:
    """Return the layouts of the first look, in run order."""
    each_s = min(guess_s(study), WARMUP_S + 2.0) + WINDOW_S
    chosen = spread_subset(study.layouts, max(2, int(LASTS_S / each_s)))
    Random(study.seed).shuffle(chosen)
    return chosen


def lasts_s(study: StudyRecord) -> float:
    """Estimate its duration in seconds, including the discarded launch before it."""
    beside_s = min(guess_s(study), WARMUP_S + 2.0)
    return len(layouts_of(study)) * (beside_s + WINDOW_S) + beside_s * study.warms_cache


def look_at(layout: Layout) -> Proposal:
    """Return the launch and window that the first look measures of *layout*."""
    return Proposal(layout, WINDOW_S)


def deadline(now_s: float, *, discards: bool = False) -> Deadline:
    """Return the deadline of a launch that begins now: it can cut the warm-up short, but never a window."""
    return Deadline(share_ends_s=now_s + WARMUP_S + (0.0 if discards else WINDOW_S))


def windows_of(
    launches: Sequence[tuple[int, LaunchRecord]], windows: Sequence[WindowRecord]
) -> Sequence[WindowRecord]:
    """Return the *windows* of the first look, invalid ones included."""
    looks = {
        id_ for id_, launch in launches if launch.block == WARMING_BLOCK and launch.position >= FIRST_LOOK
    }
    return [window for window in windows if window.launch_id in looks]


# Guesses of a study's duration before anything is measured; the first block replaces them.

#: reference length, as in the posterior of a race: such a window averages out half of its noise
LENGTH_REF_S = 600.0
SCOUTS = 2  #: usual number of scouts at the edge of a grid
#: launches of a race after the first block: at most MOST_PER_LAYOUT for each of at most MOST_RIVALS layouts
#: that may be best, plus MOST_BESIDE (docs/race.md has the numbers of launches of real races)
MOST_PER_LAYOUT, MOST_RIVALS, MOST_BESIDE = 5, 24, 35
#: usual standard deviation of one second of slices, as a share of the throughput (docs/slices.md has others)
USUAL_SECOND_SD = 0.06


@dataclass(frozen=True, slots=True)
class Before:
    """Expected times of a study, in seconds from its first launch."""

    n_first: int  #: number of layouts in the first block
    look_s: float | None  #: until the ranking of the first look; None: the study has no first look
    #: until each of these layouts has been measured once, with all that runs before the first block
    first_s: float
    quickest_s: float  #: until the result of a study that ends early
    longest_s: float  #: until the result of most studies; inf: no estimate


def before(study: StudyRecord, n_hosts: int = 1) -> Before:
    """Estimate the times of *study* on *n_hosts* hosts, regardless of its budget.

    Each host measures whole blocks of a grid; in a race all hosts begin with the same layout.
    """
    facts = study.provenance
    begins = facts.made_by is None and facts.grid_grew is None  #: no earlier study chose this grid
    takes_look = begins and facts.has_first_look
    beside_s, n_first = guess_s(study), n_of_first_block(study)
    ahead_s = beside_s if study.warms_cache else 0.0
    if begins and facts.may_grow:
        ahead_s = SCOUTS * (beside_s + min(60.0, study.shortest_window_s))
    ahead_s += before_launches_s(study)
    if takes_look:
        ahead_s += lasts_s(study)
    if study.strategy != "race":
        n, window_s = len(study.layouts), study.window_s * study.windows_per_launch
        each_s = beside_s + (_in_slices_s(window_s) if study.n_resident > 1 else window_s)
        launches = {"aa": 2, "check": 2}.get(study.strategy, 1) * n * ceil(max(1, study.n_blocks) / n_hosts)
        first_s, all_s = (ahead_s + count * each_s for count in (n_first, launches))
        return Before(n_first, None, first_s, all_s, inf if study.strategy == "check" else all_s)
    from tuner.core.search.racing import N_REPLICATES

    look_s = lasts_s(study) if takes_look else None
    n_in_a_row, first_each_s, later_s, at_end_s = (
        _in_turns(study, beside_s, n_first)
        if study.n_resident > 1
        else _one_by_one(study, beside_s, n_first, n_hosts)
    )
    first_s = ahead_s + n_in_a_row * first_each_s
    fewest = N_REPLICATES - max(0, n_in_a_row - n_first)  # the first block may repeat a layout
    most = MOST_PER_LAYOUT * min(len(study.layouts), MOST_RIVALS) + MOST_BESIDE
    quickest_s, longest_s = (first_s + ceil(k / n_hosts) * later_s + at_end_s for k in (fewest, most))
    return Before(n_first, look_s, first_s, quickest_s, longest_s)


class _RaceTimes(NamedTuple):
    """The launches of a race, in seconds."""

    n_in_a_row: int  #: launches until each layout of the first block was measured
    first_s: float  #: length of each of them
    later_s: float  #: length of each later launch
    at_end_s: float  #: launches after the race


def _one_by_one(study: StudyRecord, beside_s: float, n_first: int, n_hosts: int) -> _RaceTimes:
    from tuner.core.search.racing import FIRST_WINDOW_S, SOONER

    n_in_a_row = n_first if n_hosts == 1 else 1 + ceil((n_first - 1) / n_hosts)
    later_s = beside_s + _within(study, SOONER * sqrt(beside_s * LENGTH_REF_S))
    return _RaceTimes(n_in_a_row, beside_s + _within(study, FIRST_WINDOW_S), later_s, 0.0)


def _in_turns(study: StudyRecord, beside_s: float, n_first: int) -> _RaceTimes:
    """Return the launches of a race in slices on one host, whose best layouts run alone at the end."""
    from tuner.core.search.heat_race import FIRST_WINDOW_S, N_ALONE, USUAL_LAUNCH_SD
    from tuner.core.search.racing import SOONER

    n_heats = max(1, ceil((n_first - 1) / (study.n_resident - 1)))  # one layout is in each of them
    usual_s = SOONER * sqrt(beside_s) * USUAL_SECOND_SD / USUAL_LAUNCH_SD
    first_s, later_s = (
        beside_s + _in_slices_s(_within(study, length_s)) for length_s in (FIRST_WINDOW_S, usual_s)
    )
    return _RaceTimes(n_first - 1 + n_heats, first_s, later_s, N_ALONE * (beside_s + study.window_s))


def _in_slices_s(counted_s: float) -> float:
    """Return the length of slices with *counted_s* seconds that count."""
    from tuner.core.windows.slices import MOST_SKIP_SHARE

    return (1 + MOST_SKIP_SHARE) * counted_s


def n_of_first_block(study: StudyRecord) -> int:
    """Return the number of layouts in the first block: a race may begin with a well-spread subset."""
    n = len(study.layouts)
    if study.strategy != "race" or study.kind == "strict":
        return n
    from tuner.core.search.racing import N_SPREAD

    return min(n, N_SPREAD)


def _within(study: StudyRecord, length_s: float) -> float:
    return min(study.window_s, max(study.shortest_window_s, length_s))
