"""From what was seen to a window."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tuner.core.layout import Layout
from tuner.core.window import Reading, Sample, Usage, VoidReason, Window


def window_from(
    layout: Layout,
    samples: Sequence[Sample],
    usage: Sequence[Usage],
    readings: tuple[Reading, Reading],
    void: Sequence[VoidReason] = (),
    *,
    index: int,
    attempt: int,
) -> Window:
    """Make the window of what was seen; its length is the time between the two readings of the probe.

    Counts that fell give 0 items, not fewer: `tuner.core.validity` says that they did.

    Raises:
        ValueError: the window has no length.
    """
    first, last = readings
    length_s = last.at_s - first.at_s
    if length_s <= 0:
        raise ValueError(f"a window has a length; its readings are {length_s} s apart")
    return Window(
        layout=layout,
        index=index,
        attempt=attempt,
        started_wall_s=usage[0].wall_s,
        length_s=length_s,
        n_done=max(0, last.n_done_total - first.n_done_total),
        n_failed=max(0, last.n_failed_total - first.n_failed_total),
        samples=tuple(samples),
        usage=tuple(usage),
        readings=readings,
        void=tuple(void),
    )


def items_per_s(samples: Sequence[Sample]) -> list[float]:
    """Items finished well between one sample and the next, per second; one value fewer than samples."""
    return [
        (later.n_done_total - earlier.n_done_total) / (later.at_s - earlier.at_s)
        for earlier, later in pairwise(samples)
        if later.at_s > earlier.at_s
    ]
