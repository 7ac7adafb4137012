"""A race that was cut off asks for the same launches again, and loses no window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tuner.adapters.virtual.box import Kind, Noise, Trouble, VirtualBox, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WindowRecord
from tuner.core.domain.strategy import Answer, Observed, Proposal, Strategy
from tuner.core.search.strategies.of_study import strategy_of
from tuner.core.stats.interval import Estimate
from tuner.study.launch.outcome import StudyOutcome
from tuner.study.run import run_study
from tuner.study.strategy_driver import replay_study

from ..wording import wording
from .cut_off import cut_clock, kept

A, B, C = Layout(1, 4), Layout(2, 2), Layout(4, 1)
LAYOUTS = (A, B, C)
SERVICE = VirtualService({A: 10.0, B: 19.9, C: 20.0}, settle_s=1.0)
SHORT: dict[str, Any] = {
    "strategy": "race", "window_s": 4.0, "min_window_s": 2.0, "warmup_s": 2.0, "n_blocks": 0,
    "within_ratio": 0.1,
}  # fmt: skip
FAULTS = (
    Trouble("dies", A, block=0, attempt=1),
    Trouble("dies-at-start", B, block=0, attempt=1),
    Trouble("foreign-cpu", C, block=0, window_attempt=1),
    Trouble("dies-warming", B, block=1, attempt=1, after_s=1.0),
    Trouble("wrong-threads", C, block=2, attempt=1, after_s=1.0),
)
GIVEN_UP = {"never-started", "fails-alike"}
RISKS: Mapping[Kind, float] = {
    "dies-at-start": 0.1, "dies-warming": 0.1, "dies": 0.1, "foreign-cpu": 0.15, "clock-jump": 0.1,
}  # fmt: skip


class Greedy:
    """Every layout once, then twice whoever is best in what was seen, until 8 blocks are done."""

    def __init__(self, *, contrary: bool = False, n_blocks: int = 8) -> None:
        self._contrary, self._n_blocks = contrary, n_blocks
        self.n_reported = 0
        self._values: dict[Layout, list[float]] = {}
        self._failed: set[Layout] = set()

    def propose(self) -> Sequence[Proposal]:
        left = [layout for layout in LAYOUTS if layout not in self._failed]
        if self.n_reported >= self._n_blocks or not left:
            return []
        if not self._values:
            return [Proposal(layout, 4.0) for layout in left]
        seen = sorted(
            (x for x in left if x in self._values), key=lambda x: sum(self._values[x]) / len(self._values[x])
        )
        best = (seen or left)[0 if self._contrary else -1]
        return [Proposal(best, 3.0, 2), Proposal(left[self.n_reported % len(left)], 2.0), Proposal(best, 2.0)]

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        self.n_reported += 1
        self._failed.update(failed)
        for window in windows:
            self._values.setdefault(window.layout, []).append(window.value)

    def answer(self) -> Answer:
        return Answer(max(self._values, default=None), self.n_reported >= self._n_blocks, "strict")

    def estimates(self) -> Mapping[Layout, Estimate]:
        return {layout: Estimate(fmean(values)) for layout, values in self._values.items()}


def session(
    store: MemoryStore,
    strategy: Strategy,
    troubles: tuple[Trouble, ...] = (),
    *,
    n_cut: int = -1,
    risks: Mapping[Kind, float] | None = None,
    seed: int = 3,
) -> tuple[StudyOutcome | None, MemoryProgress]:
    """Go on with a study until it ends or is cut off at the *n_cut*-th sleep: then there is no outcome."""
    clock = cut_clock(store, n_cut)
    box = VirtualBox(
        SERVICE, Noise(0.02, 0.01), seed=seed, cores=4, clock=clock, troubles=troubles, risks=risks
    ).box()
    progress = MemoryProgress()
    try:
        return run_study(box, store, progress, PlannedStop(), strategy), progress
    except KeyboardInterrupt:
        return None, progress


def new_study(**asked: Any) -> MemoryStore:
    return MemoryStore(virtual_study(SERVICE, **{**SHORT, **asked}))


@pytest.mark.parametrize(
    ("n_blocks", "troubles"),
    [
        (5, FAULTS),  # in the first three blocks; two are quiet
        pytest.param(8, FAULTS, marks=pytest.mark.full),
        pytest.param(8, (), marks=pytest.mark.full),
    ],
    ids=["5 blocks", "8 blocks", "8 quiet blocks"],
)
def test_a_cut_at_any_second_changes_no_window_and_no_decision(
    n_blocks: int, troubles: tuple[Trouble, ...]
) -> None:
    whole = new_study()
    session(whole, Greedy(n_blocks=n_blocks), troubles)
    wanted = kept(whole, moments=False)
    n_cuts = 0
    while True:
        store = new_study()
        outcome, _ = session(store, Greedy(n_blocks=n_blocks), troubles, n_cut=n_cuts + 1)
        if outcome is not None:
            break
        n_cuts += 1
        before = store.windows()
        outcome, progress = session(store, Greedy(n_blocks=n_blocks), troubles)

        assert outcome is not None
        assert store.windows()[: len(before)] == before
        assert kept(store, moments=False) == wanted, f"cut at sleep {n_cuts}"
        assert "chosen-otherwise" not in dict(progress.warnings)

    assert n_cuts >= 100


def test_the_race_itself_continues_as_it_began_after_a_cut_at_any_second() -> None:
    n_cuts = n_windows = 0
    while True:
        n_cuts += 5
        store = new_study()
        outcome, _ = session(store, strategy_of(store.study()), FAULTS, n_cut=n_cuts)
        if outcome is not None:
            break
        before = store.windows()
        outcome, progress = session(store, strategy_of(store.study()), FAULTS)

        assert outcome is not None
        assert outcome.exit_code == 0
        assert store.windows()[: len(before)] == before
        assert "chosen-otherwise" not in dict(progress.warnings), f"cut at sleep {n_cuts}"
        assert replay_study(store, strategy_of(store.study())).claim().answer == outcome.answer
        n_windows = max(n_windows, len(store.windows()))

    assert n_cuts >= 5 * 4
    assert n_windows > len(LAYOUTS) + 2


def test_a_finished_race_has_nothing_left_to_resume() -> None:
    store = new_study()
    first, _ = session(store, strategy_of(store.study()))
    before = store.windows(), store.launches()
    again, _ = session(store, strategy_of(store.study()))

    assert (store.windows(), store.launches()) == before
    assert again == first


def test_a_file_of_another_version_loses_nothing_and_continues_from_what_was_measured() -> None:
    store = new_study()
    session(store, Greedy(), n_cut=60)
    before = store.windows()
    n_blocks = len({window.block for window in before})
    other = Greedy(contrary=True, n_blocks=n_blocks + 2)
    outcome, progress = session(store, other)

    assert outcome is not None
    assert outcome.exit_code == 0
    assert n_blocks >= 3
    assert store.windows()[: len(before)] == before
    (result,) = [text for slug, text in progress.warnings if slug == "chosen-otherwise"]
    assert wording("grid.blocks-are-not-what-was-asked", value=n_blocks - 1) in result
    assert {window.block for window in store.windows()[len(before) :]} == {n_blocks, n_blocks + 1}
    known = replay_study(store, Greedy(contrary=True, n_blocks=n_blocks + 2))
    assert known.otherwise == tuple(range(1, n_blocks))
    assert known.claim().n_otherwise == n_blocks - 1
    assert known.n_windows == sum(not window.void for window in store.windows())


def test_a_file_of_another_version_is_resumed_as_often_as_one_of_its_own() -> None:
    started = new_study()
    session(started, Greedy(), n_cut=60)

    def copied() -> MemoryStore:
        store = new_study()
        for launch_id, launch in started.launches():
            store.add_launch(launch)
            for window in [window for window in started.windows() if window.launch_id == launch_id]:
                store.add_window(launch_id, started.window(launch_id, window.index, window.attempt))
        return store

    whole = copied()
    session(whole, Greedy(contrary=True, n_blocks=6))
    wanted = kept(whole, moments=False)
    n_cuts = 0
    while True:
        store = copied()
        outcome, _ = session(store, Greedy(contrary=True, n_blocks=6), n_cut=n_cuts + 1)
        if outcome is not None:
            break
        n_cuts += 1
        session(store, Greedy(contrary=True, n_blocks=6))

        assert kept(store, moments=False) == wanted, f"cut at sleep {n_cuts}"

    assert n_cuts >= 20


@pytest.mark.parametrize("n_cut", range(60, 76))
def test_nothing_is_added_to_a_block_that_would_have_been_chosen_otherwise(n_cut: int) -> None:
    store = new_study()
    session(store, Greedy(), n_cut=n_cut)
    before = store.launches()
    n_blocks = 1 + max(launch.block for _, launch in before)
    session(store, Greedy(contrary=True, n_blocks=n_blocks + 1))

    assert n_blocks >= 3
    assert {launch.block for _, launch in store.launches()[len(before) :]} == {n_blocks}


def test_a_block_after_which_others_were_begun_is_left_as_it_is() -> None:
    store = new_study()
    session(store, Greedy(), n_cut=60)
    session(store, Greedy(contrary=True, n_blocks=6))  # does not go on with the block in hand
    before = store.launches()
    outcome, _ = session(store, Greedy(n_blocks=9))  # had asked for that block, and finds it unfinished

    assert outcome is not None
    assert outcome.n_blocks_done == 9
    blocks = [launch.block for _, launch in store.launches()[len(before) :]]
    assert blocks
    assert min(blocks) > max(launch.block for _, launch in before)


def test_a_strategy_that_asks_for_less_than_the_file_holds_is_reported_all_of_it() -> None:
    store = new_study()
    session(store, Greedy())
    shorter = Greedy(n_blocks=3)
    outcome, progress = session(store, shorter)

    assert outcome is not None
    assert shorter.n_reported == 8
    assert outcome.n_windows == sum(not window.void for window in store.windows())
    assert "chosen-otherwise" in dict(progress.warnings)


def test_resuming_a_race_whose_budget_is_over_gives_it_the_same_again() -> None:
    store = new_study(budget_s=60.0)
    outcomes = [session(store, Greedy())[0] for _ in range(4)]

    done = [outcome.n_blocks_done for outcome in outcomes if outcome is not None]
    assert done[0] < done[1] < done[2]
    assert done[-1] == 8
    assert [outcome.exit_code for outcome in outcomes if outcome is not None][:2] == [5, 5]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), cuts=st.lists(st.integers(1, 150), max_size=4))
def test_whatever_goes_wrong_and_whenever_it_is_cut_the_rules_hold(seed: int, cuts: list[int]) -> None:
    whole, store = new_study(), new_study()
    _, progress = session(whole, Greedy(), risks=RISKS, seed=seed)
    assume(not GIVEN_UP & dict(progress.warnings).keys())  # such a study is no whole one
    for n_cut in cuts:
        before = store.windows()
        session(store, Greedy(), risks=RISKS, seed=seed, n_cut=n_cut)
        assert store.windows()[: len(before)] == before
    outcome, progress = session(store, Greedy(), risks=RISKS, seed=seed)

    assert outcome is not None
    assume(not GIVEN_UP & dict(progress.warnings).keys())
    assert kept(store, moments=False) == kept(whole, moments=False)
    assert "chosen-otherwise" not in dict(progress.warnings)
    tries: dict[tuple[int, Layout, int, int], list[WindowRecord]] = {}
    positions = dict(store.launches())
    for window in store.windows():
        place = window.block, window.layout, positions[window.launch_id].position, window.index
        tries.setdefault(place, []).append(window)
    for taken in tries.values():
        assert [window.attempt for window in taken] == list(range(1, len(taken) + 1))
        assert all(window.void for window in taken[:-1])
