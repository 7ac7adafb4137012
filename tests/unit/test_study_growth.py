"""Studies whose grid grows, on the virtual box: what is measured, kept and resumed."""

from __future__ import annotations

from dataclasses import replace
from math import log2
from typing import Any

import pytest

from tuner.adapters.virtual.box import Noise, Trouble, VirtualBox, VirtualClock, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.adapters.virtual.service import Truth, VirtualService
from tuner.core.domain.layout import Layout, divisors_grid, parse_layout
from tuner.core.domain.provenance import Provenance, WorkerFacts
from tuner.core.domain.records import WARMING_BLOCK, StudyRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.search.growth import growth_of
from tuner.core.search.strategies.of_study import Followed, strategy_of
from tuner.core.windows.launch_sums import tally
from tuner.ports import Box
from tuner.study.launch.outcome import StudyOutcome
from tuner.study.run import run_study
from tuner.study.strategy_driver import replay_study

from ..wording import wording

pytestmark = pytest.mark.pythons

GRID = tuple(divisors_grid(4))
GIL_IS_ON = WorkerFacts({"worker_gil": "on"})


class Waiting:
    """A service whose items take 1 ms of CPU and 100 ms of waiting, on any layout."""

    n_layouts, start_s, settle_s, stop_s = len(GRID), 0.5, 2.0, 0.5

    def __init__(self, cpu_s: float = 0.001, wait_s: float = 0.1, pss_bytes: float = 60e6) -> None:
        self._cpu_s, self._wait_s, self._pss_bytes = cpu_s, wait_s, pss_bytes

    def truth(self, layout: Layout, cores: int) -> Truth:
        """Threads wait, until they fill the cores or the GILs of their processes."""
        most = min(cores, layout.processes) / self._cpu_s
        per_s = min(layout.total_threads / (self._cpu_s + self._wait_s), 0.97 * most)
        return Truth(
            items_per_s=per_s,
            n_active=min(per_s * self._cpu_s, cores),
            worker_cores=per_s * self._cpu_s,
            n_gil_waiting=0.0,
            pss_bytes=self._pss_bytes * layout.processes,
        )


class Gaining(Waiting):
    """Twice the threads give 10 % more, up to 16 of them."""

    def truth(self, layout: Layout, cores: int) -> Truth:
        """Never near the cores."""
        doublings = min(4.0, log2(layout.total_threads))
        return replace(super().truth(Layout(1, 1), cores), items_per_s=20 * 1.1**doublings)


def asked(**more: Any) -> StudyRecord:
    usual: dict[str, Any] = {
        "layouts": GRID,
        "cores": 4,
        "box_cores": 4.0,
        "window_s": 10.0,
        "warmup_s": 2.0,
        "n_blocks": 2,
        "provenance": Provenance(may_grow=True, workers=GIL_IS_ON),
    }
    return virtual_study(VirtualService(dict.fromkeys(GRID, 1.0)), **{**usual, **more})


class Ran:
    """A study that has run, in as many sessions as it took."""

    def __init__(
        self,
        study: StudyRecord,
        service: Waiting | None = None,
        stops_after: tuple[int, ...] = (),
        troubles: tuple[Trouble, ...] = (),
        noise: Noise | None = None,
        **box: Any,
    ) -> None:
        self.store, self.progress = MemoryStore(study), MemoryProgress()
        self.outcomes: list[StudyOutcome] = []
        for n_windows in (*stops_after, 10**6):
            clock = VirtualClock.resumed(self.store)
            virtual = VirtualBox(
                service or Waiting(), noise or Noise(), seed=5, cores=4, clock=clock, troubles=troubles
            )
            stop = PlannedStop(lambda most=n_windows: len(self.store.windows()) >= most)  # type: ignore[misc]
            self.outcomes.append(self._session(replace(virtual.box(), **box), stop))

    def _session(self, box: Box, stop: PlannedStop) -> StudyOutcome:
        followed = Followed(strategy_of(self.store.study()))
        return run_study(
            box,
            self.store,
            self.progress,
            stop,
            followed,
            lambda study: followed.follow(strategy_of(study)),
        )

    @property
    def scouts(self) -> list[str]:
        return [
            str(launch.layout)
            for _, launch in self.store.launches()
            if launch.block == WARMING_BLOCK and launch.position
        ]

    @property
    def measured(self) -> list[tuple[int, str, float, int]]:
        """Every window as it came out."""
        return [(one.block, str(one.layout), one.length_s, one.n_done) for one in self.store.windows()]


def test_a_study_of_a_service_that_waits_measures_the_layouts_that_fill_it() -> None:
    ran = Ran(asked())

    assert ran.scouts == ["4x2", "4x4", "4x8", "4x16", "4x32", "4x64", "4x128"]
    study = ran.store.study()
    assert study.layouts[: len(GRID)] == GRID
    assert parse_layout("4x128") in study.layouts
    blocks = [{one.layout for one in ran.store.windows() if one.block == block} for block in (0, 1)]
    assert blocks == [set(study.layouts)] * 2, "every block is whole"
    assert ran.outcomes[-1].exit_code == 0
    assert ran.progress.warnings == [("grid-grows", wording("grid.grows"))]


def test_scouts_count_for_nothing_but_the_layouts() -> None:
    ran = Ran(asked())

    n_scouts = len(ran.scouts)
    assert ran.outcomes[-1].n_windows == len(ran.store.windows()) - n_scouts
    assert {one.block[1] for one in tally(ran.store.windows()).launches} == {0, 1}
    known = replay_study(ran.store, strategy_of(ran.store.study()))
    assert known.n_windows == ran.outcomes[-1].n_windows
    assert not known.otherwise


def test_a_service_that_fills_the_cores_is_looked_at_once_and_its_grid_stays() -> None:
    ran = Ran(asked(), Waiting(cpu_s=0.1, wait_s=0.001))

    assert ran.scouts == ["4x2"]
    assert ran.store.study().layouts == GRID
    assert ran.progress.warnings == []
    assert ran.store.study().provenance.grid_grew is not None


def test_the_first_scout_warms_the_page_cache() -> None:
    ran = Ran(asked())

    assert all(launch.position > 0 for _, launch in ran.store.launches() if launch.block == WARMING_BLOCK)


@pytest.mark.parametrize("strategy", ["all", "race"])
@pytest.mark.parametrize("n_windows", [1, 9])
def test_a_study_that_was_cut_off_grows_and_continues_as_one_that_was_not(
    n_windows: int, strategy: str
) -> None:
    kind: Any = {"race": "strict", "all": "none"}[strategy]
    study = asked(strategy=strategy, kind=kind, within_ratio=0.2)

    whole, cut = Ran(study), Ran(study, stops_after=(n_windows,))

    assert cut.outcomes[0].interrupted
    assert not cut.outcomes[0].is_over
    assert cut.measured == whole.measured
    assert cut.store.study() == whole.store.study()


@pytest.mark.parametrize("n_windows", [(), (2,), (3,)])
def test_small_gains_are_looked_at_once_more_also_after_a_cut(n_windows: tuple[int, ...]) -> None:
    ran = Ran(asked(n_blocks=1), Gaining(), n_windows, noise=Noise(0, 0, 0, 0, 0))

    assert ran.scouts == ["4x2", "4x4", "4x4", "4x2", "4x8", "8x4"]
    assert "up to 4x4" in ran.progress.warnings[0][1]


def test_layouts_that_were_typed_do_not_grow() -> None:
    ran = Ran(asked(provenance=Provenance(workers=GIL_IS_ON)))

    assert ran.scouts == []
    assert ran.store.study().layouts == GRID


def test_what_was_begun_without_scouts_never_gets_them() -> None:
    before = Ran(asked(provenance=Provenance()), stops_after=(3,))
    study = asked()

    store = MemoryStore(study)
    for _, launch in before.store.launches():
        store.finish_launch(store.add_launch(launch), launch)
    again = Ran(study)
    again.store = store
    again._session(
        VirtualBox(Waiting(), Noise(), seed=5, cores=4, clock=VirtualClock.resumed(store)).box(),
        PlannedStop(),
    )

    assert again.scouts == []


def test_the_grid_grows_no_further_than_the_box_and_the_limits_allow() -> None:
    ran = Ran(asked(), refuses=lambda one: "no files" if one.total_threads > 40 else None)
    assert max(one.total_threads for one in ran.store.study().layouts) == 32

    ran = Ran(asked(config=StoredConfig('{"study": {"max_connections": 20}}')))
    assert max(one.total_threads for one in ran.store.study().layouts) == 16
    growth = growth_of(ran.store.study())
    assert growth is not None
    assert "20 is the most" in growth.ways[0].why

    processes = Waiting(pss_bytes=100e6)
    assert Ran(asked(limits={"memory_bytes": 300e6}), processes).store.study().layouts == GRID
    assert Ran(asked(), processes, free_bytes=lambda: 300e6).store.study().layouts == GRID


def test_the_grid_grows_no_further_than_the_budget_has_room_for() -> None:
    # a launch takes about 14 s; the grid around 4x4 has 14 layouts, that around 4x8 has 17
    few = Ran(asked(budget_s=250.0, n_blocks=1))
    none = Ran(asked(budget_s=150.0, n_blocks=1))

    assert none.scouts == []
    assert few.scouts == ["4x2", "4x4"]
    assert len(few.store.study().layouts) == 14
    assert [outcome.exit_code for outcome in (few.outcomes[-1], none.outcomes[-1])] == [0, 0]


def test_scouts_of_a_full_grid_are_short() -> None:
    ran = Ran(asked(window_s=120.0, n_blocks=1), Waiting(cpu_s=0.1, wait_s=0.001))

    lengths_s = {one.length_s for one in ran.store.windows() if one.block == WARMING_BLOCK}
    assert lengths_s == {60.0}
