"""When a launch has warmed up: decided while it runs, once a second."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, variance

# Chosen on simulated launches (Poisson items; 100 seeds each): waiting longer than this costs more time than
# the rest of the transient costs accuracy. See tests/unit/test_warmup.py.
SHORTEST_STRETCH_S = 10  #: two halves of five seconds each
STRETCH_RATIO = 1 / 2  #: of the time since the first item: the longer it took, the longer it must hold
MIN_ITEMS = 8  #: in the stretch; slow items make it longer
MIN_BUSY_S = 4  #: seconds of the stretch in which an item finished: one burst shows no rate
TOLERANCE_RATIO = 0.05  #: halves that differ by less are level
TOLERANCE_ACTIVE = 0.5  #: tasks; a count of few tasks is coarse
STANDARD_ERRORS = 1.5  #: a difference within these is noise
HOLD_S = 3  #: seconds in a row that must say so: looking every second invites luck


def has_settled(items_per_s: Sequence[float], n_active: Sequence[float | None]) -> bool:
    """Whether throughput and active count have settled, seen from the latest second.

    Looks at the later half of the time since the first item finished (at least 10 s; longer until it holds 8
    items in 4 different seconds) and compares its two halves: they have settled when their means differ by
    less than 5 % (or half a task), or by no more than 1.5 standard errors, in each of the last 3 seconds.

    Constant work passes after 10-25 s; items of 5 s, one at a time, after 40-75 s. What it may get wrong: a
    trend slower than 1 % a second passes, and so does one that the noise hides (items/s that rise to 100 with
    a time constant of 10 s pass with 6 % still to come, to 10 with 16 %), and a step that is yet to come. It
    never settles while nothing is finished or throughput changes visibly: the caller needs a cap.

    Args:
        items_per_s: items finished, one value a second since the launch was up, the latest last.
        n_active: the active count in the same seconds, None where it could not be seen. Never load1, which
            remembers the previous layout for minutes.

    Raises:
        ValueError: the two are not of one length.
    """
    if len(items_per_s) != len(n_active):
        raise ValueError(f"{len(items_per_s)} seconds of items, {len(n_active)} of the active count")
    n = len(items_per_s)
    return all(_is_level(items_per_s[: n - ago], n_active[: n - ago]) for ago in range(HOLD_S))


def _is_level(items_per_s: Sequence[float], n_active: Sequence[float | None]) -> bool:
    length = _stretch_s(items_per_s)
    if length is None:
        return False
    active = [count for count in n_active[-length:] if count is not None]
    return _halves_agree(items_per_s[-length:], 0.0) and _halves_agree(active, TOLERANCE_ACTIVE)


def _stretch_s(items_per_s: Sequence[float]) -> int | None:
    """Seconds to look back on; None when too little is known."""
    first = next((second for second, items in enumerate(items_per_s) if items > 0), None)
    if first is None:
        return None
    known_s = len(items_per_s) - first
    for length in range(max(SHORTEST_STRETCH_S, round(known_s * STRETCH_RATIO)), known_s + 1):
        stretch = items_per_s[-length:]
        if sum(stretch) >= MIN_ITEMS and sum(items > 0 for items in stretch) >= MIN_BUSY_S:
            return length
    return None


def _halves_agree(values: Sequence[float], tolerance: float) -> bool:
    """Whether the later half differs from the earlier by tolerance or noise at most; too few to say: yes."""
    middle = len(values) // 2
    if middle < 2:
        return True
    earlier, later = values[:middle], values[-middle:]
    noise = STANDARD_ERRORS * sqrt((variance(earlier) + variance(later)) / middle)
    return abs(fmean(later) - fmean(earlier)) <= max(tolerance, TOLERANCE_RATIO * fmean(values), noise)
