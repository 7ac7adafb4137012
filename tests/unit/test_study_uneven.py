"""The warning that connections spread unevenly: where a closed loop starves threads, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.adapters.virtual.box import VirtualBox, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.domain.requests import ConnectionSpread, Requests
from tuner.core.search.strategies.of_study import strategy_of
from tuner.study.launch.launching import Workbench
from tuner.study.run import run_study

SERVICE = VirtualService({Layout(2, 2): 20.0})


@pytest.mark.parametrize(("rate_per_s", "n_warnings"), [(None, 1), (10.0, 0)])
def test_threads_that_wait_for_requests_at_a_rate_are_not_starved_by_connections(
    rate_per_s: float | None, n_warnings: int
) -> None:
    study = virtual_study(SERVICE, window_s=5.0, warmup_s=1.0, n_blocks=1)
    store, progress, box = MemoryStore(study), MemoryProgress(), VirtualBox(SERVICE).box()
    run_study(box, store, MemoryProgress(), PlannedStop(), strategy_of(study))
    spread = ConnectionSpread(10.0, 8.0, (80.0, 0.0))
    window = replace(store.window(2, 0, 1), requests=Requests(rate_per_s=rate_per_s, spread=spread))

    Workbench(study, box, store, progress, PlannedStop())._warn_of_uneven_connections(window)

    assert [slug for slug, _ in progress.warnings] == ["connections-uneven"] * n_warnings
