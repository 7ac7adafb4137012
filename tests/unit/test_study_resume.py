"""A study that was cut off goes on where it was, and sees the same windows as one that was not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tuner.adapters.virtual.box import Kind, Trouble, VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord, WindowRecord
from tuner.core.domain.window import Window
from tuner.core.search.strategies.of_study import strategy_of
from tuner.ports import Clock, Store
from tuner.study.launch.outcome import StudyOutcome
from tuner.study.run import run_study

from .cut_off import cut_clock, kept

A, B = Layout(1, 4), Layout(2, 2)
SERVICE = VirtualService({A: 10.0, B: 20.0}, settle_s=1.0)
SHORT: dict[str, Any] = {"window_s": 4.0, "warmup_s": 2.0, "n_blocks": 2}
FAULTS = (
    Trouble("dies", A, block=0, attempt=1),
    Trouble("dies-at-start", B, block=0, attempt=1),
    Trouble("dies-warming", B, block=1, attempt=1, after_s=1.0),
    Trouble("wrong-threads", B, block=1, attempt=2, after_s=1.0),
)
GIVEN_UP = {"never-started", "fails-alike"}
RISKS: Mapping[Kind, float] = {
    "dies-at-start": 0.15,
    "dies-warming": 0.1,
    "dies": 0.15,
    "wrong-threads": 0.1,
    "foreign-cpu": 0.15,
    "dry": 0.1,
    "clock-jump": 0.1,
}


class CutStore(MemoryStore):
    """Power goes off right before or after the *n*-th change of the file."""

    n_left = -1
    after = False

    def _change(self, change: Callable[..., Any], *values: Any) -> Any:
        self.n_left -= 1
        if self.n_left == 0 and not self.after:
            raise KeyboardInterrupt
        result = change(*values)
        if self.n_left == 0:
            raise KeyboardInterrupt
        return result

    def add_launch(self, launch: LaunchRecord) -> int:
        return self._change(super().add_launch, launch)

    def finish_launch(self, launch_id: int, launch: LaunchRecord) -> None:
        self._change(super().finish_launch, launch_id, launch)

    def add_window(self, launch_id: int, window: Window) -> None:
        self._change(super().add_window, launch_id, window)


def run_on(store: Store, clock: Clock, troubles: tuple[Trouble, ...] = ()) -> StudyOutcome:
    box = VirtualBox(SERVICE, seed=3, cores=4, clock=clock, troubles=troubles).box()
    return run_study(box, store, MemoryProgress(), PlannedStop(), strategy_of(store.study()))


def uncut(troubles: tuple[Trouble, ...] = (), **asked: Any) -> MemoryStore:
    store = MemoryStore(virtual_study(SERVICE, **{**SHORT, **asked}))
    run_on(store, VirtualClock.resumed(store), troubles)
    return store


def cut_at_sleep(n: int, troubles: tuple[Trouble, ...], **asked: Any) -> tuple[MemoryStore, bool]:
    """Cut off at the *n*-th sleep and resume; the store, and whether it was cut at all."""
    store = MemoryStore(virtual_study(SERVICE, **{**SHORT, **asked}))
    clock = cut_clock(store, n)
    try:
        run_on(store, clock, troubles)
    except KeyboardInterrupt:
        run_on(store, VirtualClock.resumed(store), troubles)
        return store, True
    return store, False


@pytest.mark.parametrize("troubles", [(), FAULTS], ids=["quiet", "troubled"])
def test_a_cut_at_any_second_changes_no_window(troubles: tuple[Trouble, ...]) -> None:
    wanted = kept(uncut(troubles))
    n_cuts = 0
    while True:
        store, was_cut = cut_at_sleep(n_cuts + 1, troubles)
        if not was_cut:
            break
        n_cuts += 1

        assert kept(store) == wanted, f"cut at sleep {n_cuts}"

    assert n_cuts >= 4 * (2 + 4 + 2)


def test_a_cut_between_the_windows_of_a_launch_keeps_the_finished_ones_and_takes_the_others() -> None:
    disturbed = (Trouble("foreign-cpu", A, block=0, window=1, window_attempt=1),)
    wanted = kept(uncut(disturbed, windows_per_launch=3), moments=False)
    n_cuts = 0
    while True:
        store, was_cut = cut_at_sleep(n_cuts + 1, disturbed, windows_per_launch=3)
        if not was_cut:
            break
        n_cuts += 1

        assert kept(store, moments=False) == wanted, f"cut at sleep {n_cuts}"

    assert n_cuts >= 4 * (2 + 3 * 4 + 2)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("troubles", [(), FAULTS], ids=["quiet", "troubled"])
def test_a_cut_at_any_change_of_the_file_changes_no_window(
    troubles: tuple[Trouble, ...], after: bool
) -> None:
    wanted = kept(uncut(troubles), moments=False)
    n_cuts = 0
    while True:
        store = CutStore(virtual_study(SERVICE, **SHORT))
        store.n_left, store.after = n_cuts + 1, after
        try:
            run_on(store, VirtualClock.resumed(store), troubles)
            break
        except KeyboardInterrupt:
            n_cuts += 1
        run_on(store, VirtualClock.resumed(store), troubles)

        assert kept(store, moments=False) == wanted, f"cut {n_cuts}"

    assert n_cuts >= 2 + 3 * 4


def test_many_cuts_in_a_row_still_end_in_the_same_study() -> None:
    wanted = kept(uncut())
    store = MemoryStore(virtual_study(SERVICE, **SHORT))
    n_cuts = 0
    while True:
        try:  # one launch takes 8 sleeps: each session gets one launch done and cuts the next
            run_on(store, cut_clock(store, 9))
            break
        except KeyboardInterrupt:
            n_cuts += 1

    assert kept(store) == wanted
    assert n_cuts == 4


def test_a_finished_study_has_nothing_left_to_resume() -> None:
    store = uncut()
    before = store.windows(), store.launches()
    outcome = run_on(store, VirtualClock.resumed(store))

    assert (store.windows(), store.launches()) == before
    assert outcome.n_windows == 4
    assert outcome.exit_code == 0


def test_a_stop_and_a_resume_add_up_to_the_whole_study() -> None:
    store, progress = MemoryStore(virtual_study(SERVICE, **SHORT)), MemoryProgress()
    clock = VirtualClock.resumed(store)
    box = VirtualBox(SERVICE, seed=3, cores=4, clock=clock).box()
    stopped = run_study(
        box, store, progress, PlannedStop(lambda: len(progress.windows) == 3), strategy_of(store.study())
    )
    first = store.windows()
    resumed = run_on(store, VirtualClock.resumed(store))

    assert stopped.interrupted
    assert not resumed.interrupted
    assert store.windows()[:3] == first
    assert kept(store) == kept(uncut())


def test_a_layout_left_out_before_the_cut_stays_left_out() -> None:
    broken = (Trouble("dies-at-start", A),)
    store, progress = MemoryStore(virtual_study(SERVICE, **SHORT)), MemoryProgress()
    box = VirtualBox(SERVICE, seed=3, clock=VirtualClock.resumed(store), troubles=broken).box()
    run_study(
        box,
        store,
        progress,
        PlannedStop(lambda: "left-out" in dict(progress.warnings)),
        strategy_of(store.study()),
    )
    n_before = sum(launch.layout == A for _, launch in store.launches())
    outcome = run_on(store, VirtualClock.resumed(store), broken)

    assert n_before in (3, 4)  # the launch that only warms the cache may be one of them
    assert outcome.left_out == (A,)
    assert sum(launch.layout == A and launch.block > 0 for _, launch in store.launches()) == 0


@pytest.mark.parametrize(("pause_s", "n_windows", "n_warmed"), [(60.0, 1, 1), (7200.0, 1, 2), (7200.0, 2, 2)])
def test_the_page_cache_is_warmed_again_only_after_a_long_pause(
    pause_s: float, n_windows: int, n_warmed: int
) -> None:
    store, progress = MemoryStore(virtual_study(SERVICE, **SHORT)), MemoryProgress()
    box = VirtualBox(SERVICE, clock=VirtualClock.resumed(store)).box()
    run_study(
        box,
        store,
        progress,
        PlannedStop(lambda: len(progress.windows) == n_windows),
        strategy_of(store.study()),
    )
    clock = VirtualClock.resumed(store)
    clock.jump_wall(pause_s)
    run_on(store, clock)

    assert sum(launch.block == WARMING_BLOCK for _, launch in store.launches()) == n_warmed


def test_time_spent_before_the_cut_counts_against_the_budget() -> None:
    cell_s = 0.5 + 2.0 + 4.0 + 0.25
    asked = {**SHORT, "n_blocks": 10, "budget_s": cell_s * (1 + 2 * 3.5)}
    store, progress = MemoryStore(virtual_study(SERVICE, **asked)), MemoryProgress()
    box = VirtualBox(SERVICE, clock=VirtualClock.resumed(store)).box()
    run_study(
        box, store, progress, PlannedStop(lambda: len(progress.windows) == 5), strategy_of(store.study())
    )
    outcome = run_on(store, VirtualClock.resumed(store))

    assert outcome.n_blocks_done == 3
    assert outcome.exit_code == 5


def test_a_block_that_was_begun_is_finished_by_who_continues_with_the_same_budget_again() -> None:
    cell_s = 0.5 + 2.0 + 4.0 + 0.25
    disturbed = (Trouble("foreign-cpu", A, block=1, window_attempt=1), Trouble("foreign-cpu", B, block=1))
    store = MemoryStore(virtual_study(SERVICE, **{**SHORT, "n_blocks": 4, "budget_s": cell_s * 5.5}))
    progress = MemoryProgress()
    box = VirtualBox(SERVICE, clock=VirtualClock.resumed(store), cores=4, troubles=disturbed).box()
    run_study(
        box, store, progress, PlannedStop(lambda: len(progress.windows) == 5), strategy_of(store.study())
    )
    outcome = run_on(store, VirtualClock.resumed(store))

    assert outcome.n_blocks_done == 3
    assert outcome.exit_code == 5


def test_resuming_a_study_whose_budget_is_over_gives_it_the_same_again() -> None:
    cell_s = 0.5 + 2.0 + 4.0 + 0.25
    store = MemoryStore(
        virtual_study(SERVICE, **{**SHORT, "n_blocks": 10, "budget_s": cell_s * (1 + 2 * 3.5)})
    )
    done = [run_on(store, VirtualClock.resumed(store)) for _ in range(3)]

    assert [outcome.n_blocks_done for outcome in done] == [3, 7, 10]
    assert [outcome.exit_code for outcome in done] == [5, 5, 0]


def test_windows_of_a_cut_launch_belong_to_the_launch_that_gave_them() -> None:
    store = CutStore(virtual_study(SERVICE, **{**SHORT, "windows_per_launch": 2}))
    store.n_left, store.after = 4, True  # warming launch: 2, next launch and its first window: 2
    with pytest.raises(KeyboardInterrupt):
        run_on(store, VirtualClock.resumed(store))
    run_on(store, VirtualClock.resumed(store))

    first: list[WindowRecord] = list(store.windows()[:2])
    cut, again = dict(store.launches())[first[0].launch_id], dict(store.launches())[first[1].launch_id]
    assert first[0].launch_id != first[1].launch_id
    assert cut.ended_wall_s is None
    assert (cut.block, cut.position, cut.attempt) == (again.block, again.position, again.attempt)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    cuts=st.lists(st.integers(1, 120), max_size=4),
    windows_per_launch=st.integers(1, 3),
    max_attempts=st.integers(1, 3),
)
def test_whatever_goes_wrong_and_whenever_it_is_cut_the_rules_hold(
    seed: int, cuts: list[int], windows_per_launch: int, max_attempts: int
) -> None:
    asked = {**SHORT, "windows_per_launch": windows_per_launch, "max_attempts": max_attempts, "n_blocks": 3}

    def run(store: MemoryStore, n_cut: int = -1) -> bool:
        clock = cut_clock(store, n_cut)
        box = VirtualBox(SERVICE, seed=seed, cores=4, clock=clock, risks=RISKS).box()
        progress = MemoryProgress()
        try:
            run_study(box, store, progress, PlannedStop(), strategy_of(store.study()))
        except KeyboardInterrupt:
            return True
        assume(not GIVEN_UP & dict(progress.warnings).keys())  # such a study is no whole one
        return False

    whole, store = MemoryStore(virtual_study(SERVICE, **asked)), MemoryStore(virtual_study(SERVICE, **asked))
    run(whole)
    n_cut = sum(run(store, cut) for cut in cuts)
    run(store)

    assert kept(store, moments=False) == kept(whole, moments=False)
    tries: dict[tuple[int, Layout, int], list[WindowRecord]] = {}
    for window in store.windows():
        tries.setdefault((window.block, window.layout, window.index), []).append(window)
    for taken in tries.values():
        assert [window.attempt for window in taken] == list(range(1, len(taken) + 1))
        assert len(taken) <= max_attempts
        assert all(window.void for window in taken[:-1])
    failed = Counter((launch.block, launch.layout) for _, launch in store.launches() if launch.error)
    assert all(n <= max_attempts for (block, _), n in failed.items() if block != WARMING_BLOCK)
    assert sum(launch.ended_wall_s is None for _, launch in store.launches()) <= n_cut
