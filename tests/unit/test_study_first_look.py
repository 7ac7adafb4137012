"""A first look: short windows of layouts far apart, for a ranking to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner.adapters.virtual.box import VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.app.measuring import provisional_ranking
from tuner.bootstrap.stores import new_store, open_store
from tuner.core.domain.layout import Layout, divisors_grid
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import WARMING_BLOCK, StudyRecord, WindowRecord
from tuner.core.search.strategies.of_study import strategy_of
from tuner.ports import Store
from tuner.reports.beginning import render_first_look
from tuner.study.first_look import before, layouts_of
from tuner.study.launch.outcome import StudyOutcome
from tuner.study.run import run_study

from ..wording import wording

GRID = divisors_grid(24)
SERVICE = VirtualService({layout: 1.0 + min(layout.total_threads, 24) for layout in GRID})


def asked(*, looks: bool = True) -> StudyRecord:
    usual: dict[str, Any] = {"strategy": "race", "window_s": 600.0, "min_window_s": 60.0, "n_blocks": 0}
    return virtual_study(SERVICE, **usual, warmup_s=None, provenance=Provenance(has_first_look=looks))


class Ran:
    """A race that begins with a first look, up to the windows of a few blocks."""

    def __init__(self, stop_after: int = 40, store: Store | None = None, *, looks: bool = True) -> None:
        self.store = store or MemoryStore(asked(looks=looks))
        self.progress = MemoryProgress()
        self.reported: list[tuple[float, Sequence[WindowRecord]]] = []  #: after so many seconds, the windows
        clock = VirtualClock.resumed(self.store)
        began_s = clock.monotonic_s()
        stop = PlannedStop(lambda: len(self.progress.windows) >= stop_after)
        self.outcome: StudyOutcome = run_study(
            VirtualBox(SERVICE, seed=3, cores=24, clock=clock).box(),
            self.store,
            self.progress,
            stop,
            strategy_of(self.store.study()),
            looked=lambda windows: self.reported.append((clock.monotonic_s() - began_s, windows)),
        )


def test_it_is_over_within_ten_minutes_and_has_layouts_far_apart() -> None:
    ran = Ran()

    ((after_s, windows),) = ran.reported
    assert after_s < 600.0
    seen = {window.layout for window in windows}
    assert len(seen) >= 8
    assert {Layout(24, 1), Layout(1, 24)} <= seen
    assert {window.block for window in windows} == {WARMING_BLOCK}


def test_what_is_measured_after_it_and_what_is_claimed_is_as_it_would_be_without() -> None:
    looked, plain = Ran(40), Ran(40 - len(layouts_of(Ran().store.study())), looks=False)

    def blocks(ran: Ran) -> list[tuple[int, Layout, float]]:
        return [
            (one.block, one.layout, round(one.length_s, 6)) for one in ran.store.windows() if one.block >= 0
        ]

    assert blocks(looked) == blocks(plain)
    assert looked.outcome.answer.layout == plain.outcome.answer.layout
    assert plain.reported == []


def test_one_that_was_cut_off_continues_and_is_reported_once() -> None:
    first = Ran(3)
    second = Ran(store=first.store)

    assert first.outcome.exit_code == 130
    assert first.reported == []
    ((_, windows),) = second.reported
    assert [window.layout for window in windows] == list(layouts_of(second.store.study()))


def test_one_that_is_done_is_not_taken_again() -> None:
    first = Ran()
    again = Ran(store=first.store)

    assert again.reported == []


def test_its_ranking_is_marked_as_provisional_and_says_what_is_not_known() -> None:
    ran = Ran()
    ((_, windows),) = ran.reported
    text = render_first_look(ran.store.study(), windows)

    assert text.startswith(wording("grid.provisional-ranking"))
    assert wording("grid.not-known-yet-by-a-first-look") in text
    ranked = [line.split()[0] for line in text.splitlines() if line.startswith("  ")]
    assert {*ranked} == {str(window.layout) for window in windows}


def test_it_is_what_a_study_shows_that_ends_before_its_first_block_is_begun(tmp_path: Path) -> None:
    file = tmp_path / "s.tuner.db"
    n_looks = len(layouts_of(asked()))
    with new_store(file, asked()) as store:
        Ran(n_looks - 1, store=store)
    before_block = provisional_ranking(file)
    with open_store(file) as store:
        Ran(2, store=store)
    in_block = provisional_ranking(file)

    assert before_block.startswith(wording("grid.provisional-ranking"))
    assert in_block == ""


def test_a_first_look_that_saw_nothing_says_so() -> None:
    ran = Ran()

    assert render_first_look(ran.store.study(), []) == ""


def test_what_is_expected_before_anything_was_measured_comes_in_order() -> None:
    looked, plain = before(Ran(1).store.study()), before(Ran(1, looks=False).store.study())

    assert plain.look_s is None
    assert looked.look_s is not None
    assert looked.look_s < looked.first_s < looked.quickest_s < looked.longest_s
    assert looked.first_s > plain.first_s


def test_its_short_windows_are_no_reason_to_warn_of_few_items() -> None:
    """Each finishes about three items in 15 s."""
    slow = VirtualService(dict.fromkeys(GRID, 0.2))
    record = replace(asked(), layouts=tuple(GRID))
    store, progress = MemoryStore(record), MemoryProgress()
    clock = VirtualClock.resumed(store)
    looked: list[Sequence[WindowRecord]] = []

    run_study(
        VirtualBox(slow, seed=3, cores=24, clock=clock).box(),
        store,
        progress,
        PlannedStop(lambda: bool(looked)),
        strategy_of(store.study()),
        looked=lambda _windows: looked.append(_windows),
    )

    assert looked
    assert all(window.n_done < 20 for window in looked[0])
    assert [slug for slug, _ in progress.warnings if slug == "few-items"] == []
