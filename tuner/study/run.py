"""The use case: measure what the store does not hold yet, block by block."""

from __future__ import annotations

from tuner.ports import Box, Progress, Stop, Store
from tuner.study.outcome import StudyOutcome


def run_study(box: Box, store: Store, progress: Progress, stop: Stop) -> StudyOutcome:
    """Measure what *store* asks for (``store.study()``) and does not hold yet; every window is in it once taken.

    A new study and a resumed one are the same call. Windows already in the store stay as they are, a launch that was
    cut off is made again, the order follows from the recorded seed.

    Args:
        box: where to measure.
        store: opened for writing.
        progress: told about everything, warnings included.
        stop: asked between seconds; once it says so, the window in hand is finished and kept, no further one begun.

    Raises:
        ConfigError: not even one block fits into the budget (before anything starts), the service cannot be run
            at all, or the store cannot be written; what is finished is in the store.
        KeyboardInterrupt: the second Ctrl-C, as it came, with everything stopped.
    """
    raise NotImplementedError
