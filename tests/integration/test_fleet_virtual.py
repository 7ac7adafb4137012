"""Whole studies on virtual boxes behind real workers: time is simulated, everything between is real."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.adapters.virtual.memory import MemoryStore, PlannedStop
from tuner.app.plan_builder import plan_record
from tuner.bootstrap.configs import settings_of
from tuner.bootstrap.fleet import fleet_of
from tuner.config.load import Given
from tuner.config.profile import read_profile
from tuner.core.domain.fleet import BoxFacts
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.window import Window
from tuner.core.search.strategies.of_study import spreading_strategy_of
from tuner.study.fleet.study import run_fleet
from tuner.study.launch.outcome import StudyOutcome

from ..fleet_processes import Machines, machines_in
from ..wording import wording

pytestmark = [pytest.mark.integration]
PROFILE = Path(__file__).resolve().parents[2] / "configs" / "profiles" / "waiting-bound.yaml"
N_BOXES = 4
BLOCKS = 8


class Told:
    """A FleetProgress that remembers windows and warnings."""

    def __init__(self) -> None:
        self.began_s: list[float] = []
        self.warnings: list[tuple[str, str]] = []

    def box_came(self, facts: BoxFacts) -> None:
        pass

    def box_went(self, box: str, why: str) -> None:
        self.warnings.append(("box-gone", f"{box}: {why}"))

    def launch_started(self, box: str, layout: Layout, block: int, remaining_s: float | None) -> None:
        pass

    def sampled(
        self, box: str, layout: Layout, elapsed_s: float, window_s: float | None, items_per_s: float | None
    ) -> None:
        pass

    def window_taken(
        self, box: str, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        self.began_s.append(window.started_wall_s + window.length_s)

    def launch_ended(self, box: str) -> None:
        pass

    def warning(self, slug: str, text: str) -> None:
        self.warnings.append((slug, text))


class NoHooks:
    """Hooks of a user who has none."""

    def run(self, event: str, facts: Mapping[str, str]) -> None:
        pass


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    with machines_in(tmp_path) as started:
        started.scheduler()
        boxes = [started.box(f"box-{n}") for n in range(1, N_BOXES + 1)]
        for box in boxes:
            box.until_it_says(wording("fleet.in-the-fleet"))
        yield started


def study(strategy: str) -> StudyRecord:
    profile = read_profile(PROFILE)
    asked = {"strategy": strategy, "cores": "4", "window": "2m", "warmup": "1m"}
    asked |= {"layouts": "4x1,2x2,1x4,1x1", **({"repeats": str(BLOCKS)} if strategy == "all" else {})}
    options = {("study", name): Given(f"--{name}", text) for name, text in asked.items()}
    record = plan_record(settings_of(None, options), profile=profile)
    return replace(record, provenance=replace(record.provenance, is_fleet=True))


def ran(machines: Machines, record: StudyRecord) -> tuple[MemoryStore, StudyOutcome, float, Told]:
    store, result = MemoryStore(record), Told()
    with fleet_of(machines.address, None, record, None, "s.tuner.db") as fleet:
        outcome = run_fleet(fleet, store, result, PlannedStop(), spreading_strategy_of(record), NoHooks())
        return store, outcome, fleet.clock.monotonic_s(), result


def test_blocks_are_shared_out_and_all_windows_come_in_the_order_of_their_time(machines: Machines) -> None:
    record = study("all")

    store, outcome, took_s, result = ran(machines, record)

    assert outcome.exit_code in (0, 5)
    assert result.began_s == sorted(result.began_s)
    counted = [one for one in store.windows() if not one.void]
    assert Counter((one.block, one.layout) for one in counted) == {
        (block, layout): 1 for block in range(BLOCKS) for layout in record.layouts
    }
    assert len({one.box for one in counted}) == N_BOXES
    busy_s = sum((one.ended_wall_s or 0.0) - one.started_wall_s for _, one in store.launches())
    assert busy_s / took_s > 0.9 * N_BOXES


def test_a_race_on_several_boxes_is_decided(machines: Machines) -> None:
    _, outcome, _, result = ran(machines, study("race"))

    assert outcome.exit_code == 0
    assert outcome.answer.reached
    assert result.began_s == sorted(result.began_s)
