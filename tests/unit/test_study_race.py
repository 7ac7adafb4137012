"""Studies that a strategy leads: what it is asked, what it is told, when it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from tuner.adapters.virtual.box import Noise, Trouble, VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout, blocks, divisors_grid
from tuner.core.domain.records import WARMING_BLOCK
from tuner.core.domain.strategy import Answer, Observed, Proposal, Strategy
from tuner.core.search.strategies.of_study import strategy_of
from tuner.core.stats.interval import Estimate
from tuner.study.launch.outcome import StudyOutcome
from tuner.study.run import run_study
from tuner.study.strategy_driver import replay_study

from ..wording import wording

A, B, C = Layout(1, 4), Layout(2, 2), Layout(4, 1)
SERVICE = VirtualService({A: 10.0, B: 20.0, C: 30.0}, settle_s=1.0)
SHORT: dict[str, Any] = {
    "strategy": "race",
    "window_s": 10.0,
    "min_window_s": 5.0,
    "warmup_s": 5.0,
    "n_blocks": 0,
}


class Script:
    """Asks for the blocks it is given, whatever comes; a layout that failed is left out."""

    def __init__(self, *asked: Sequence[Proposal], reached: bool = True) -> None:
        self.reported: list[tuple[list[Observed], list[Layout]]] = []
        self._asked, self._reached = asked, reached
        self._failed: set[Layout] = set()

    def propose(self) -> Sequence[Proposal]:
        if len(self.reported) >= len(self._asked):
            return []
        return [one for one in self._asked[len(self.reported)] if one.layout not in self._failed]

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        self.reported.append((list(windows), list(failed)))
        self._failed.update(failed)

    def answer(self) -> Answer:
        seen = [window for windows, _ in self.reported for window in windows]
        best = max(seen, key=lambda window: window.value).layout if seen else None
        return Answer(best, self._reached and len(self.reported) >= len(self._asked), "strict")

    def estimates(self) -> Mapping[Layout, Estimate]:
        return {window.layout: Estimate(window.value) for windows, _ in self.reported for window in windows}


class Foretelling(Script):
    """Knows what it will ask for."""

    n_started = 0

    def propose(self) -> Sequence[Proposal]:
        self.n_started = len(self.reported) + 1
        return super().propose()

    def expected_rest(self) -> Sequence[Proposal] | None:
        return [one for asked in self._asked[self.n_started :] for one in asked]


class Ran:
    """A session of a study, and all that it left."""

    def __init__(
        self,
        strategy: Strategy,
        *troubles: Trouble,
        store: MemoryStore | None = None,
        stop_after: int | None = None,
        clock: VirtualClock | None = None,
        **asked: Any,
    ) -> None:
        self.store = store or MemoryStore(virtual_study(SERVICE, **{**SHORT, **asked}))
        self.progress = MemoryProgress()
        self.clock = clock or VirtualClock.resumed(self.store)
        box = VirtualBox(SERVICE, seed=5, cores=4, clock=self.clock, troubles=troubles).box()
        stop = PlannedStop(lambda: stop_after is not None and len(self.progress.windows) >= stop_after)
        self.outcome: StudyOutcome = run_study(box, self.store, self.progress, stop, strategy)

    @property
    def slugs(self) -> list[str]:
        return [slug for slug, _ in self.progress.warnings]

    @property
    def made(self) -> list[tuple[int, int, Layout, int]]:
        launches = [launch for _, launch in self.store.launches() if launch.block != WARMING_BLOCK]
        return [(one.block, one.position, one.layout, one.attempt) for one in launches]


def each(*layouts: Layout, window_s: float = 10.0, n_windows: int = 1) -> list[Proposal]:
    return [Proposal(layout, window_s, n_windows) for layout in layouts]


def test_launches_are_made_as_asked_each_with_its_own_windows() -> None:
    ran = Ran(Script(each(B, A), [Proposal(A, 5.0, 3), Proposal(C, 7.0)]))

    assert ran.made == [(0, 0, B, 1), (0, 1, A, 1), (1, 0, A, 1), (1, 1, C, 1)]
    assert [round(window.length_s) for window in ran.store.windows()] == [10, 10, 5, 5, 5, 7]
    asked = [(launch.window_s, launch.n_windows) for _, launch in ran.store.launches()][1:]
    assert asked == [(10.0, 1), (10.0, 1), (5.0, 3), (7.0, 1)]
    assert ran.outcome.exit_code == 0


def test_a_strategy_is_reported_each_block_with_its_times_and_usage() -> None:
    strategy = Script(each(A), [Proposal(B, 5.0, 2)])
    ran = Ran(strategy, limits={"load": 100.0})

    ((first,), _), ((second, third), _) = strategy.reported
    assert (first.layout, second.layout, third.layout) == (A, B, B)
    assert second.launch == third.launch != first.launch
    warming = 0.5 + 5.0 + 0.25  # starts, warms up, stops: the launch that warms the page cache is the first
    assert first.launch_began_s == pytest.approx(warming)
    assert first.began_s == pytest.approx(warming + 5.5)
    assert second.launch_began_s == third.launch_began_s == pytest.approx(first.began_s + 10.25)
    assert third.began_s == pytest.approx(second.began_s + 5.0)
    windows = ran.store.windows()
    assert [seen.value for seen in (first, second, third)] == [one.n_done / one.length_s for one in windows]
    assert first.usage["memory_bytes"] == SERVICE.pss_bytes_per_process
    assert first.box == "virtual-box"


def test_a_strategy_is_reported_no_usage_where_nothing_is_limited() -> None:
    """A study may have 100 000 windows."""
    strategy = Script(each(A))
    Ran(strategy)

    (((first,), _),) = strategy.reported
    assert first.usage == {}


def test_a_layout_may_be_launched_twice_in_one_block() -> None:
    strategy = Script(each(A, B, A))
    ran = Ran(strategy)

    assert ran.made == [(0, 0, A, 1), (0, 1, B, 1), (0, 2, A, 1)]
    values = [seen.value for seen in strategy.reported[0][0]]
    assert values[0] != values[2]  # two launches, each with noise of its own


def test_void_windows_are_taken_again_and_not_told() -> None:
    strategy = Script(each(A, B), each(B, C, n_windows=3))
    ran = Ran(
        strategy,
        Trouble("foreign-cpu", B, block=1, window=1, window_attempt=1),
        Trouble("dies", C, block=1, attempt=1, window=2),
    )

    assert ran.outcome.n_void == 2
    assert [seen.layout for seen in strategy.reported[1][0]] == [B, B, B, C, C, C]
    by_launch = Counter(seen.launch for seen in strategy.reported[1][0])
    assert list(by_launch.values()) == [3, 2, 1]  # C had to be launched again for its last window
    assert strategy.reported[1][1] == []


def test_a_layout_that_cannot_be_run_is_reported_as_failed_and_tried_no_more() -> None:
    strategy = Script(each(A, B, C, B), each(B, C))
    ran = Ran(strategy, Trouble("dies-at-start", B))

    assert [made for made in ran.made if made[2] == B] == [(0, 1, B, 1), (0, 1, B, 2), (0, 1, B, 3)]
    assert [failed for _, failed in strategy.reported] == [[B], []]
    assert ran.outcome.left_out == (B,)
    assert ran.outcome.exit_code == 5
    assert ran.slugs.count("left-out") == 1


def test_a_layout_that_only_gives_void_windows_while_others_do_not_is_given_up() -> None:
    strategy = Script(*[each(B, A)] * 5)
    ran = Ran(strategy, Trouble("foreign-cpu", B))

    assert [failed for _, failed in strategy.reported] == [[], [], [B], [], []]
    assert len(ran.store.windows()) == 3 * 3 + 5
    assert ran.outcome.left_out == (B,)


def test_a_box_that_is_never_quiet_ends_the_session_and_condemns_no_layout() -> None:
    disturbed, quiet = Script(*[each(A)] * 12), Script(*[each(A)] * 12)
    ran = Ran(disturbed, Trouble("foreign-cpu"))
    again = Ran(quiet, store=ran.store)

    assert ran.slugs.count("box-not-quiet") == 1
    result = dict(ran.progress.warnings)["box-not-quiet"]
    assert "tuner doctor" in result
    assert "--foreign-limit" in result
    assert len(ran.store.windows()) == 10 * 3 + 2
    assert ran.outcome.exit_code == 3
    assert again.outcome.left_out == ()
    assert again.outcome.exit_code == 0
    assert [len(windows) for windows, _ in quiet.reported] == [0] * 10 + [1, 1]


def test_a_box_that_is_quiet_now_and_then_ends_no_session() -> None:
    disturbed = [Trouble("foreign-cpu", block=block) for block in range(20) if block != 9]
    ran = Ran(Script(*[each(A)] * 19), *disturbed)

    assert "box-not-quiet" not in ran.slugs
    assert ran.outcome.n_blocks_done == 19


def test_time_never_goes_back_whatever_the_clocks_do() -> None:
    class Nervous(VirtualClock):
        """Is set back an hour whenever something starts."""

        def sleep_until(self, at_s: float) -> None:
            if at_s - self.monotonic_s() == SERVICE.start_s:
                self.jump_wall(-3600.0)
            super().sleep_until(at_s)

    strategy = Script(*[each(A, B, C)] * 4)
    store = MemoryStore(virtual_study(SERVICE, **SHORT))
    Ran(strategy, store=store, clock=Nervous.resumed(store))

    seen = [window for windows, _ in strategy.reported for window in windows]
    assert len(seen) == 12
    assert any(later.started_wall_s < earlier.started_wall_s for earlier, later in pairwise(store.windows()))
    assert all(window.launch_began_s <= window.began_s for window in seen)
    assert all(
        later.launch_began_s >= earlier.began_s + earlier.length_s
        for earlier, later in pairwise(seen)
        if later.launch != earlier.launch
    )


def test_breaks_between_sessions_are_part_of_the_time() -> None:
    strategy = Script(each(A), each(B))
    ran = Ran(strategy, stop_after=1)
    clock = VirtualClock.resumed(ran.store)
    clock.jump_wall(7200.0)
    again = Script(each(A), each(B))
    Ran(again, store=ran.store, clock=clock)

    ((first,), _), ((second,), _) = again.reported
    assert ran.outcome.exit_code == 130
    assert second.launch_began_s - first.began_s >= 7200.0


def test_nobody_knows_how_long_a_race_takes_unless_it_says_so() -> None:
    asked = [each(A, B), each(A), each(C, n_windows=2)]
    silent, telling = Ran(Script(*asked)), Ran(Foretelling(*asked))

    assert {(planned, left) for _, planned, left in silent.progress.counts[:-1]} == {(None, None)}
    assert {planned for _, planned, _ in telling.progress.counts} == {5}
    left = [remaining for _, _, remaining in telling.progress.counts]
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0


def test_the_budget_ends_a_race_before_a_block_that_would_not_end_in_it() -> None:
    launch_s = 0.5 + 5.0 + 10.0 + 0.25
    ran = Ran(Script(*[each(A, B)] * 10), budget_s=launch_s * 7.5)

    assert ran.outcome.n_blocks_done == 3
    assert ran.outcome.out_of_budget
    assert not ran.outcome.answer.reached
    assert ran.outcome.exit_code == 5
    assert ("budget-over", wording("grid.budget-ends-after")) in ran.progress.warnings


def test_a_race_that_has_its_answer_is_done_though_windows_are_missing() -> None:
    ran = Ran(Script(each(A, B), each(A, B)), Trouble("foreign-cpu", B, block=1))

    assert ran.outcome.void_cells == ((1, B),)
    assert ran.outcome.exit_code == 0


def test_a_race_that_asks_for_nothing_more_without_an_answer_is_weaker_than_asked() -> None:
    assert Ran(Script(each(A), reached=False)).outcome.exit_code == 5


def test_what_a_file_holds_makes_the_strategy_know_what_it_knew() -> None:
    asked = [each(A, B), each(C, n_windows=2), each(A)]
    live, shown = Script(*asked), Script(*asked)
    ran = Ran(live, Trouble("dies-at-start", B), Trouble("foreign-cpu", A, window_attempt=1))
    known = replay_study(ran.store, shown)

    assert shown.reported == live.reported
    assert known.failed == (B,)
    assert known.otherwise == ()
    assert known.n_windows == ran.outcome.n_windows
    assert known.claim().answer == ran.outcome.answer
    lasted = [one.ended_wall_s - one.started_wall_s for _, one in ran.store.launches()]
    assert known.spent_s == pytest.approx(sum(lasted))


def test_a_block_in_hand_is_known_as_far_as_it_got() -> None:
    ran = Ran(Script(each(A, B, C)), stop_after=2)
    shown = Script(each(A, B, C))
    known = replay_study(ran.store, shown)

    assert ran.outcome.exit_code == 130
    assert [seen.layout for seen in shown.reported[0][0]] == [A, B]
    assert known.claim().unseen == (C,)


def test_the_rest_is_what_is_missing_of_the_block_in_hand_and_what_is_foreseen() -> None:
    asked = [each(A, B), each(C, window_s=5.0, n_windows=4)]
    ran = Ran(Foretelling(*asked), stop_after=1)
    rest = replay_study(ran.store, Foretelling(*asked)).rest

    assert rest is not None
    assert rest.n_windows == 1 + 4
    beside_s = 0.5 + 5.0 + 0.25
    assert rest.lasts_s == pytest.approx(beside_s + 10.0 + beside_s + 4 * 5.0)


@pytest.mark.parametrize("n_windows", [1, 3])
def test_windows_of_two_launches_of_a_cell_shift_no_block_of_the_full_grid(n_windows: int) -> None:
    asked = {**SHORT, "strategy": "all", "n_blocks": 3, "windows_per_launch": n_windows}
    store = MemoryStore(virtual_study(SERVICE, **asked))
    ran = Ran(
        strategy_of(store.study()),
        *(Trouble("dies", layout, attempt=1, window=n_windows - 1) for layout in (A, B)),
        *(Trouble("foreign-cpu", layout, block=1) for layout in (A, B, C)),
        store=store,
    )

    order = blocks((A, B, C), 3, store.study().seed)
    made = [(block, layout) for block, _, layout, attempt in ran.made if attempt == 1]
    assert made == [(block, layout) for block, layouts in enumerate(order) for layout in layouts]


@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 3))])
def test_a_whole_race_ends_with_an_answer_that_is_right(seed: int) -> None:
    grid = divisors_grid(4)
    service = VirtualService({layout: 10.0 + layout.processes for layout in grid}, settle_s=1.0)
    asked = {**SHORT, "warmup_s": 20.0, "window_s": 600.0, "min_window_s": 60.0, "seed": seed}
    store = MemoryStore(virtual_study(service, **asked))
    box = VirtualBox(service, Noise(sample_sd=0.0), seed=seed, clock=VirtualClock.resumed(store)).box()
    outcome = run_study(box, store, MemoryProgress(), PlannedStop(), strategy_of(store.study()))

    assert outcome.exit_code == 0
    assert outcome.answer.reached
    best = max(service.items_per_s.values())
    assert service.items_per_s[outcome.answer.layout] >= 0.98 * best
    assert all(59.9 < window.length_s < 600.1 for window in store.windows())
    assert replay_study(store, strategy_of(store.study())).claim().answer == outcome.answer
