"""What ran of the layouts of a study that is resumed."""

from __future__ import annotations

from collections.abc import Iterable

from tuner.core.domain.records import WindowRecord
from tuner.core.windows.layout_check import RanLayouts
from tuner.ports import Store


def read_ran_before(store: Store, windows: Iterable[WindowRecord]) -> RanLayouts:
    """What was there of each layout that has a window in *store*: in its last one that counts."""
    ran = RanLayouts(store.study().config)
    last = {window.layout: window for window in windows if not window.void}
    for window in last.values():
        ran.judged(store.window(window.launch_id, window.index, window.attempt))
    return ran
