"""A first look: one short window each of layouts far apart, for a ranking to begin with.

As those of scouts, its windows are shown to no strategy and counted in no ranking: what is measured after it,
and what is claimed, is as it would be without.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import FIRST_LOOK, WARMING_BLOCK, LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.strategy import Proposal
from tuner.core.search.growth import LOOKS
from tuner.core.search.spread import spread_subset
from tuner.study.launch.deadline import Deadline
from tuner.study.timetable import guess_s

LASTS_S = 540.0  #: about so long at most
WINDOW_S = 15.0
WARMUP_S = 30.0  #: at most, of a launch: half of it is start where a service is slow


def is_due(study: StudyRecord, launches: Sequence[tuple[int, LaunchRecord]]) -> bool:
    """Whether *study* is to begin, or go on, with a first look."""
    facts = study.provenance
    if facts.get(LOOKS) != "yes" or "made_by" in facts:
        return False
    return all(launch.block == WARMING_BLOCK and launch.position != 1 for _, launch in launches)


def layouts_of(study: StudyRecord) -> Sequence[Layout]:
    """The layouts that it looks at, in run order."""
    each_s = min(guess_s(study), WARMUP_S + 2.0) + WINDOW_S
    chosen = spread_subset(study.layouts, max(2, int(LASTS_S / each_s)))
    Random(study.seed).shuffle(chosen)
    return chosen


def lasts_s(study: StudyRecord) -> float:
    """About how long it takes; the launch that is discarded before it included."""
    beside_s = min(guess_s(study), WARMUP_S + 2.0)
    return len(layouts_of(study)) * (beside_s + WINDOW_S) + beside_s * study.warms_cache


def look_at(layout: Layout) -> Proposal:
    """What is measured of *layout*."""
    return Proposal(layout, WINDOW_S)


def deadline(now_s: float, *, discards: bool = False) -> Deadline:
    """Warm-up is cut short, and no window is ever."""
    return Deadline(share_ends_s=now_s + WARMUP_S + (0.0 if discards else WINDOW_S))


def windows_of(
    launches: Sequence[tuple[int, LaunchRecord]], windows: Sequence[WindowRecord]
) -> Sequence[WindowRecord]:
    """The *windows* of a study that a first look took, void ones included."""
    looks = {
        id_ for id_, launch in launches if launch.block == WARMING_BLOCK and launch.position >= FIRST_LOOK
    }
    return [window for window in windows if window.launch_id in looks]
