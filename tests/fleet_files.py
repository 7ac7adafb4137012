"""Study files that were measured on several boxes, made up of windows of a virtual one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import exp
from pathlib import Path
from random import Random

from tuner.adapters.sqlite.store import SqliteStore
from tuner.adapters.virtual.box import VirtualBox, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.fleet import BoxFacts
from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import LaunchRecord
from tuner.core.domain.window import Window
from tuner.core.search.strategies.of_study import strategy_of
from tuner.study.run import run_study

A, B, C = Layout(1, 2), Layout(2, 1), Layout(4, 1)
SERVICE = VirtualService({A: 10.0, B: 20.0, C: 15.0})
BEGAN_S = 1_790_000_000.0

#: per box, how much each layout gives there, in thousands of items a window
Gives = Mapping[str, Mapping[Layout, float]]
ALIKE: Gives = {f"box-{n}": {A: 10.0, B: 20.0, C: 15.0} for n in (1, 2, 3)}


def fleet_file(
    path: Path, gives: Gives = ALIKE, *, n_blocks: int = 3, noise: float = 0.01, joined: bool = True
) -> Path:
    """A whole grid: so many blocks on each box, numbered over all of them."""
    templates = _windows()
    study = virtual_study(SERVICE, window_s=5.0, n_blocks=n_blocks * len(gives))
    if joined:
        study = replace(study, provenance=replace(study.provenance, is_fleet=True))
    random = Random(1)
    with SqliteStore.create(path, study) as store:
        for number, box in enumerate(gives if joined else ()):
            facts = Provenance(host=f"host-{number}", kernel="6.1", python=f"3.1{1 + number % 2}.1")
            store.add_box(BoxFacts(box, 4.0, facts), BEGAN_S + number)
        for number, (box, of_layout) in enumerate(gives.items()):
            for block in range(number * n_blocks, (number + 1) * n_blocks):
                for position, (layout, thousands) in enumerate(of_layout.items()):
                    launch = LaunchRecord(
                        block=block,
                        position=position,
                        attempt=1,
                        layout=layout,
                        box=box,
                        started_wall_s=BEGAN_S + 100.0 * block + 10.0 * position,
                        running_after_s=0.5,
                        warmup_s=2.0,
                        settled=True,
                        ended_wall_s=BEGAN_S + 100.0 * block + 10.0 * position + 9.0,
                    )
                    n_done = round(1000 * thousands * exp(random.gauss(0, noise)))
                    taken = replace(
                        templates[layout], n_done=n_done, started_wall_s=launch.started_wall_s + 3.0
                    )
                    store.add_window(store.add_launch(launch), taken)
    return path


def _windows() -> dict[Layout, Window]:
    """One that counts of each layout."""
    store = MemoryStore(virtual_study(SERVICE, window_s=5.0, warmup_s=2.0, n_blocks=1))
    run_study(VirtualBox(SERVICE).box(), store, MemoryProgress(), PlannedStop(), strategy_of(store.study()))
    return {one.layout: store.window(one.launch_id, one.index, one.attempt) for one in store.windows()}
