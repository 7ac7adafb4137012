"""Studies whose best layout needs more and more memory, made by a virtual box."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tuner.adapters.sqlite.store import SqliteStore
from tuner.adapters.virtual.box import Noise, VirtualBox, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.search.strategies.of_study import strategy_of
from tuner.ports import Store
from tuner.study.run import run_study

A, B = Layout(4, 6), Layout(1, 24)
MB = 1e6


@cache
def measured(leak_bytes_per_s: float, strategy: str = "all", most_bytes: float | None = None) -> MemoryStore:
    """A study of two layouts, of which the better one leaks; *most_bytes* is a limit."""
    service = VirtualService(
        {A: 200.0, B: 100.0}, leak_bytes_per_s={A: leak_bytes_per_s}, start_s=0.0, settle_s=0.0
    )
    limits = {} if most_bytes is None else {"memory_bytes": most_bytes}
    store = MemoryStore(virtual_study(service, warms_cache=False, strategy=strategy, limits=limits))
    box = VirtualBox(service, Noise(window_sd=0.01)).box()
    run_study(box, store, MemoryProgress(), PlannedStop(), strategy_of(store.study()))
    return store


def kept(path: Path, store: Store) -> Path:
    """The file of a study."""
    with SqliteStore.create(path, store.study()) as file:
        for number, (launch_id, launch) in enumerate(store.launches(), start=1):
            assert file.add_launch(launch) == number
            for window in store.windows():
                if window.launch_id == launch_id:
                    file.add_window(number, store.window(launch_id, window.index, window.attempt))
            file.finish_launch(number, launch)
    return path
