"""How fast the memory of the layouts of a study grows, from the samples of its windows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.core.windows.memory_growth import SHORTEST_S, Look, MemoryGrowth, pool_growth
from tuner.ports import Store

if TYPE_CHECKING:
    from tuner.core.windows.launch_sums import LaunchTally, Sums

MOST_WINDOWS = 150  #: that are read again, 4 ms each


def memory_growth(
    store: Store, sums: Sums, confidence: float, horizon_s: float
) -> Mapping[Layout, MemoryGrowth]:
    """Return the growth of memory of each layout; those whose launches are too short are left out.

    Each end of an interval holds with the *confidence*. At most `MOST_WINDOWS` windows are read, those
    of the fastest layouts first.
    """
    chosen = _choose(sums.launches)
    looks: dict[int, list[Look]] = {one.launch: [] for one in chosen}
    windows = sums.windows_of(list(looks)) if looks else []
    for one in sorted(windows, key=lambda window: (window.launch_id, window.index)):
        if not one.void:
            usage = store.window(one.launch_id, one.index, one.attempt).usage
            looks[one.launch_id] += [
                (moment.at_s, float(moment.pss_bytes)) for moment in usage if moment.pss_bytes is not None
            ]
    by_layout: defaultdict[Layout, list[LaunchTally]] = defaultdict(list)
    for launch in chosen:
        by_layout[launch.layout].append(launch)
    looks_of = {x: [looks[one.launch] for one in own] for x, own in by_layout.items()}
    now_bytes = {
        x: sum(one.pss_bytes for one in own) / sum(one.n_pss for one in own) for x, own in by_layout.items()
    }
    return pool_growth(looks_of, now_bytes, confidence, horizon_s)


def _choose(launches: Sequence[LaunchTally]) -> list[LaunchTally]:
    """Return launches that are long enough, those of the fastest layouts first."""
    n_done: Counter[Layout] = Counter()
    lasted_s: defaultdict[Layout, float] = defaultdict(float)
    for one in launches:
        n_done[one.layout] += one.n_done
        lasted_s[one.layout] += one.length_s
    found: list[LaunchTally] = []
    n_windows = 0
    for one in sorted(launches, key=lambda one: (-n_done[one.layout] / lasted_s[one.layout], one.layout)):
        if one.n_pss and one.length_s >= SHORTEST_S / 2 and n_windows + one.n_windows <= MOST_WINDOWS:
            found.append(one)
            n_windows += one.n_windows
    return found
