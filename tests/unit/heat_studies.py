"""Studies whose layouts take turns, on a simulated host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from tuner.adapters.virtual.box import Noise, Trouble, VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.service import Gate
from tuner.core.search.strategies.of_study import strategy_of
from tuner.ports import Box, Progress, Stop
from tuner.study.run import run_study

RATES = {
    Layout(1, 1): 10.0,
    Layout(2, 2): 24.0,
    Layout(4, 1): 30.0,
    Layout(1, 4): 22.0,
    Layout(2, 1): 18.0,
    Layout(8, 1): 23.0,
}
SERVICE = VirtualService(RATES, settle_s=3.0)
QUIET = Noise(window_sd=0.003, launch_sd=0.003, sample_sd=0.02)


def heat_study(**asked: object) -> StudyRecord:
    usual = {
        "strategy": "race",
        "kind": "strict",
        "n_resident": 3,
        "window_s": 60.0,
        "min_window_s": 20.0,
        "warmup_s": 5.0,
        "within_ratio": 0.05,
        "warms_cache": False,
    }
    return virtual_study(SERVICE, **{**usual, **asked})


def box_with_places(
    noise: Noise = QUIET,
    clock: VirtualClock | None = None,
    troubles: tuple[Trouble, ...] = (),
    gate: Gate = "freeze",
    kind: Callable[..., VirtualBox] = VirtualBox,
    seed: int = 5,
) -> Box:
    """A simulated host with room for several launches at once."""
    clock = clock or VirtualClock()

    def place() -> Box:
        box = kind(SERVICE, noise, seed=seed, cores=4, clock=clock, troubles=troubles).box()
        return replace(box, gate=gate)

    @contextmanager
    def another() -> Iterator[Box]:
        yield place()

    return replace(place(), another=another)


def measured(
    study: StudyRecord,
    box: Box,
    *,
    progress: Progress | None = None,
    stop: Stop | None = None,
    store: MemoryStore | None = None,
) -> MemoryStore:
    store = store or MemoryStore(study)
    run_study(box, store, progress or MemoryProgress(), stop or PlannedStop(), strategy_of(study))
    return store
