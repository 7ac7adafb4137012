"""A feeder sends no more once its launch is about to be stopped: servers wait for requests under way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from tuner.adapters.virtual.box import Trouble, VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.launch import RunningLayout
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.search.strategies.of_study import strategy_of
from tuner.study.run import run_study

A = Layout(1, 4)
SERVICE = VirtualService({A: 10.0})


class NotingBox(VirtualBox):
    """Notes in which order it is told to stop."""

    events: list[str]

    @contextmanager
    def running(self, layout: Layout, environment: Mapping[str, str]) -> Iterator[RunningLayout]:
        with super().running(layout, environment) as running:
            self.events.append("started")
            try:
                yield running
            finally:
                self.events.append("service stops")

    @contextmanager
    def feeding(self, layout: Layout) -> Iterator[None]:
        with super().feeding(layout):
            yield
        self.events.append("feeder is gone")

    def rest(self) -> None:
        self.events.append("feeder rests")


@pytest.mark.parametrize("troubles", [(), (Trouble("dies-warming", block=0, attempt=1),)])
def test_a_feeder_rests_before_its_service_stops(troubles: tuple[Trouble, ...]) -> None:
    study = virtual_study(SERVICE, window_s=10.0, warmup_s=5.0, n_blocks=1)
    store = MemoryStore(study)
    box = NotingBox(SERVICE, seed=5, cores=4, clock=VirtualClock.resumed(store), troubles=troubles)
    box.events = []
    run_study(box.box(), store, MemoryProgress(), PlannedStop(lambda: False), strategy_of(store.study()))

    once = ["started", "feeder rests", "service stops", "feeder is gone"]
    assert "started" in box.events
    stops = [one for one in box.events if one != "feeder is gone"]
    assert stops == once[:3] * box.events.count("started")
