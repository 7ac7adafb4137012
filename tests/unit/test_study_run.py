"""Whole studies on the virtual box."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tuner.adapters.virtual.box import Noise, Trouble, VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout, blocks, divisors_grid, parse_layout
from tuner.core.domain.records import WARMING_BLOCK
from tuner.core.domain.strategy import Proposal
from tuner.core.domain.window import Reading, VoidReason, Window
from tuner.core.errors import ConfigError
from tuner.core.search.strategies.of_study import strategy_of
from tuner.study.launch.outcome import StudyOutcome
from tuner.study.launch.plan_cells import spoils_launch
from tuner.study.run import run_study
from tuner.study.timetable import check_budget

from ..raising import raises
from ..wording import key_of, wording

pytestmark = pytest.mark.pythons

A, B, C = Layout(1, 4), Layout(2, 2), Layout(4, 1)
SERVICE = VirtualService({A: 10.0, B: 20.0, C: 30.0})
SHORT: dict[str, Any] = {"window_s": 10.0, "warmup_s": 5.0, "n_blocks": 2}


WINDOW = Window(A, 0, 1, 0.0, 1.0, 1, 0, (), (), (Reading(0.0, 0, 0), Reading(1.0, 1, 0)))


class Ran:
    """A study that has run, and all that it left."""

    def __init__(
        self,
        troubles: tuple[Trouble, ...] = (),
        stop_after: int | None = None,
        noise: Noise | None = None,
        **asked: Any,
    ) -> None:
        self.store = MemoryStore(virtual_study(SERVICE, **{**SHORT, **asked}))
        self.progress = MemoryProgress()
        self.clock = VirtualClock.resumed(self.store)
        virtual = VirtualBox(SERVICE, noise or Noise(), seed=5, cores=4, clock=self.clock, troubles=troubles)
        stop = PlannedStop(lambda: stop_after is not None and len(self.progress.windows) >= stop_after)
        self.outcome: StudyOutcome = run_study(
            virtual.box(), self.store, self.progress, stop, strategy_of(self.store.study())
        )

    @property
    def slugs(self) -> list[str]:
        return [slug for slug, _ in self.progress.warnings]


def test_every_layout_gets_one_launch_and_window_per_block_in_the_planned_order() -> None:
    ran = Ran(seed=9, n_blocks=4)

    taken = [(window.block, window.layout) for window in ran.store.windows()]
    assert taken == [
        (block, layout) for block, layouts in enumerate(blocks((A, B, C), 4, 9)) for layout in layouts
    ]
    assert len({window.launch_id for window in ran.store.windows()}) == 12
    assert ran.outcome.exit_code == 0
    assert ran.outcome.n_blocks_done == 4


def test_windows_are_as_long_as_asked_and_sampled_every_second_and_at_both_edges() -> None:
    ran = Ran(window_s=7.5)

    for record in ran.store.windows():
        window = ran.store.window(record.launch_id, record.index, record.attempt)
        at_s = [sample.at_s - window.samples[0].at_s for sample in window.samples]
        assert at_s == [0, 1, 2, 3, 4, 5, 6, 7, 7.5]
        assert window.length_s == 7.5
        assert window.n_done == window.samples[-1].n_done_total - window.samples[0].n_done_total
        assert [usage.at_s - window.samples[0].at_s for usage in window.usage] == [0, 5, 7.5]


def test_windows_give_what_is_true_of_the_service() -> None:
    store = MemoryStore(virtual_study(SERVICE, n_blocks=1))
    run_study(
        VirtualBox(SERVICE, Noise(0, 0, 0, 0, 0), cores=4).box(),
        store,
        MemoryProgress(),
        PlannedStop(),
        strategy_of(store.study()),
    )

    throughput = {window.layout: window.n_done / window.length_s for window in store.windows()}
    assert throughput == pytest.approx(SERVICE.items_per_s, rel=1e-3)
    assert all(window.load1_max == pytest.approx(4, abs=0.05) for window in store.windows())


def test_the_first_launch_only_warms_the_page_cache() -> None:
    ran = Ran()

    (_, first), *others = ran.store.launches()
    assert first.block == WARMING_BLOCK
    assert first.warmup_s == 5.0
    assert first.ended_wall_s is not None
    assert all(launch.block >= 0 for _, launch in others)
    assert 1 not in {window.launch_id for window in ran.store.windows()}


def test_no_launch_is_discarded_when_none_is_wanted() -> None:
    ran = Ran(warms_cache=False)

    assert [launch.block for _, launch in ran.store.launches()] == [0, 0, 0, 1, 1, 1]


def test_several_windows_of_one_launch_share_its_processes() -> None:
    ran = Ran(windows_per_launch=3)

    per_launch = Counter(window.launch_id for window in ran.store.windows())
    assert set(per_launch.values()) == {3}
    assert [window.index for window in ran.store.windows()][:3] == [0, 1, 2]
    assert ran.outcome.n_windows == 18


def test_warm_up_ends_once_the_launch_has_settled() -> None:
    ran = Ran(noise=Noise(0, 0, 0, 0, 0), warmup_s=None, warmup_cap_s=120.0)

    for _, launch in ran.store.launches():
        assert launch.settled is True
        assert 20 <= launch.warmup_s <= 100


def test_a_launch_that_never_settles_is_measured_after_the_cap_and_said_so() -> None:
    service = VirtualService({A: 10.0}, settle_s=10_000.0)
    store, progress = MemoryStore(virtual_study(service, n_blocks=2, warmup_cap_s=40.0)), MemoryProgress()
    run_study(
        VirtualBox(service, Noise(0, 0, 0, 0, 0)).box(),
        store,
        progress,
        PlannedStop(),
        strategy_of(store.study()),
    )

    launches = [launch for _, launch in store.launches()]
    assert [launch.settled for launch in launches] == [False, False, False]
    assert launches[1].warmup_s == pytest.approx(40.0)
    assert [slug for slug, _ in progress.warnings].count(
        "never-settled"
    ) == 1  # the second: one may be chance
    assert len(store.windows()) == 2


def test_a_warm_up_of_fixed_length_is_not_judged() -> None:
    ran = Ran(warmup_s=5.0)

    assert {launch.settled for _, launch in ran.store.launches()} == {None}


@pytest.mark.parametrize(
    ("trouble", "slug"),
    [
        (Trouble("foreign-cpu", B, block=0, window_attempt=1), "disturbed"),
        (Trouble("dry", B, block=0, window_attempt=1), "source-dry"),
        (Trouble("clock-jump", B, block=0, window_attempt=1), "clock-jumped"),
        (Trouble("wrong-threads", B, block=0, window_attempt=1), "wrong-layout"),
        (Trouble("dies", B, block=0, window_attempt=1), "worker-died"),
    ],
)
def test_a_void_window_is_kept_shown_and_taken_again(trouble: Trouble, slug: str) -> None:
    ran = Ran((trouble,))

    tries = [window for window in ran.store.windows() if (window.block, window.layout) == (0, B)]
    assert [[reason.slug for reason in window.void] for window in tries] == [[slug], []]
    assert [window.attempt for window in tries] == [1, 2]
    assert [window.void for window in ran.progress.windows if window.void] == [tries[0].void]
    assert (ran.outcome.n_windows, ran.outcome.n_void, ran.outcome.exit_code) == (6, 1, 0)


@pytest.mark.parametrize(
    ("kind", "n_launches"),
    [("foreign-cpu", 1), ("dry", 1), ("clock-jump", 1), ("wrong-threads", 2), ("dies", 2)],
)
def test_only_what_spoils_the_launch_costs_another_launch(kind: Any, n_launches: int) -> None:
    ran = Ran((Trouble(kind, B, block=0, window_attempt=1),))

    made = [launch for _, launch in ran.store.launches() if (launch.block, launch.layout) == (0, B)]
    assert [launch.attempt for launch in made] == list(range(1, n_launches + 1))
    assert [launch.error is not None for launch in made] == [True] * (n_launches - 1) + [False]


def test_whatever_a_launch_reports_of_itself_spoils_it() -> None:
    assert spoils_launch(replace(WINDOW, void=(VoidReason("launcher-died", "supervisord is gone"),)))
    assert not spoils_launch(replace(WINDOW, void=(VoidReason("stolen", ""), VoidReason("stalled", ""))))
    assert not spoils_launch(WINDOW)


def test_a_dead_worker_ends_its_window_at_once() -> None:
    ran = Ran((Trouble("dies", B, block=0, window_attempt=1, after_s=3.0),), window_s=600.0)

    spoilt = next(window for window in ran.store.windows() if window.void)
    assert spoilt.length_s == 3.0


def test_threads_may_take_as_long_to_appear_as_the_warm_up_lasts() -> None:
    ran = Ran((Trouble("late-threads", after_s=4.5),), warmup_s=5.0)

    assert ran.outcome.n_launches_failed == 0
    assert ran.outcome.exit_code == 0


def test_a_layout_without_its_threads_after_the_warm_up_fails_its_launch() -> None:
    ran = Ran((Trouble("late-threads", B, block=0, attempt=1, after_s=6.0),), warmup_s=5.0)

    errors = [launch.error for _, launch in ran.store.launches() if launch.error]
    assert errors == [wording("grid.wrong-layout-after-warm-up")]
    assert ran.outcome.n_void == 0


def test_a_source_that_ran_dry_is_given_a_warm_up_to_fill_before_the_next_try() -> None:
    ran = Ran((Trouble("dry", B, block=0, window_attempt=1),), warmup_s=5.0)

    first, second = (window for window in ran.store.windows() if (window.block, window.layout) == (0, B))
    assert second.launch_id == first.launch_id
    assert second.started_wall_s - (first.started_wall_s + first.length_s) == 5.0


def test_the_limits_of_a_valid_window_are_the_studys() -> None:
    burst = Trouble("foreign-cpu", B, block=0, window_attempt=1, size=0.25)  # 0.3 of 1 core on average

    assert Ran((burst,)).outcome.n_void == 1
    assert Ran((burst,), foreign_limit_cores=0.5).outcome.n_void == 0
    assert Ran((burst,), n_resident=2).outcome.n_void == 0


def test_seconds_that_were_slept_through_are_left_out_and_void_the_window() -> None:
    class SleepyClock(VirtualClock):
        """Sleeps five seconds too long, once."""

        def sleep_until(self, at_s: float) -> None:
            self.n_sleeps = getattr(self, "n_sleeps", 0) + 1
            super().sleep_until(at_s + 5 * (self.n_sleeps == 10))

    store = MemoryStore(virtual_study(SERVICE, **{**SHORT, "warms_cache": False}))
    box = VirtualBox(SERVICE, cores=4, clock=SleepyClock.resumed(store)).box()
    run_study(box, store, MemoryProgress(), PlannedStop(), strategy_of(store.study()))

    first = store.windows()[0]
    at_s = [sample.at_s for sample in store.samples(first.launch_id, first.index, first.attempt)]
    assert [reason.slug for reason in first.void] == ["stalled"]
    assert [later - earlier for earlier, later in pairwise(at_s)] == [1, 1, 1, 6, 1]
    assert first.length_s == 10.0


def test_a_window_that_stays_void_is_given_up_and_the_study_continues() -> None:
    ran = Ran((Trouble("foreign-cpu", B, block=0),))

    tries = [window for window in ran.store.windows() if (window.block, window.layout) == (0, B)]
    assert [window.attempt for window in tries] == [1, 2, 3]
    assert ran.outcome.void_cells == ((0, B),)
    assert ran.outcome.left_out == ()
    assert ran.outcome.n_windows == 5
    assert ran.outcome.exit_code == 5
    assert "cell-void" in ran.slugs


def test_a_launch_that_dies_at_start_is_recorded_and_made_again() -> None:
    ran = Ran((Trouble("dies-at-start", B, block=0, attempt=1),))

    made = [launch for _, launch in ran.store.launches() if (launch.block, launch.layout) == (0, B)]
    assert [(launch.attempt, launch.error) for launch in made] == [
        (1, wording("grid.layout-died-at-start")),
        (2, None),
    ]
    assert made[0].running_after_s is None
    assert ran.outcome.exit_code == 0
    assert ran.outcome.n_launches_failed == 1


def test_a_worker_that_dies_while_warming_up_fails_the_launch() -> None:
    ran = Ran((Trouble("dies-warming", B, block=1, attempt=1),))

    made = [launch for _, launch in ran.store.launches() if (launch.block, launch.layout) == (1, B)]
    assert made[0].error is not None
    assert wording("grid.died-while-warmed-up") in made[0].error
    assert len(made) == 2
    assert ran.outcome.n_void == 0


def test_a_layout_that_fails_at_every_attempt_of_the_first_block_is_named_and_left_out() -> None:
    ran = Ran((Trouble("dies-at-start", B),), n_blocks=3)

    made = Counter(launch.block for _, launch in ran.store.launches() if launch.layout == B)
    assert made[0] == 3
    assert not made[1]
    assert not made[2]
    assert ran.outcome.left_out == (B,)
    assert ran.outcome.exit_code == 5
    assert [text for slug, text in ran.progress.warnings if slug == "left-out"] == [
        wording("grid.no-window-and-left-out")
    ]


def test_a_layout_that_fails_in_a_later_block_only_is_not_left_out() -> None:
    ran = Ran((Trouble("dies-at-start", B, block=1),), n_blocks=3)

    assert ran.outcome.left_out == ()
    assert ran.outcome.void_cells == ((1, B),)
    assert {window.block for window in ran.store.windows() if window.layout == B} == {0, 2}


def test_a_study_in_which_nothing_could_be_measured_exits_3() -> None:
    ran = Ran((Trouble("dies-warming"),))

    assert ran.outcome.exit_code == 3
    assert ran.store.windows() == []


@pytest.mark.parametrize("warms_cache", [True, False])
@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("dies-at-start", wording("grid.service-does-not-start")),
        ("dies-warming", wording("grid.service-does-not-warm-up")),
    ],
    ids=key_of,
)
def test_a_service_that_never_starts_is_given_up_after_the_smallest_layout(
    trouble: str, said: str, warms_cache: bool
) -> None:
    grid = (Layout(4, 4), Layout(2, 2), Layout(4, 1), Layout(1, 4), Layout(1, 2))
    service = VirtualService(dict.fromkeys(grid, 10.0))
    store, progress = MemoryStore(virtual_study(service, **SHORT, warms_cache=warms_cache)), MemoryProgress()
    box = VirtualBox(service, troubles=[Trouble(trouble)]).box()

    outcome = run_study(box, store, progress, PlannedStop(), strategy_of(store.study()))

    assert outcome.exit_code == 3
    assert [launch.layout for _, launch in store.launches()][1:] == [Layout(1, 2)]
    assert progress.warnings[-1] == ("never-started", said)


def test_a_study_whose_launches_all_fail_in_one_way_ends_with_the_smallest_layout() -> None:
    service = VirtualService({A: 0.0, B: 0.0, C: 0.0})
    store, progress = MemoryStore(virtual_study(service, **SHORT)), MemoryProgress()

    outcome = run_study(VirtualBox(service).box(), store, progress, PlannedStop(), strategy_of(store.study()))

    slug, text = progress.warnings[-1]
    failed = [launch.layout for _, launch in store.launches() if launch.error is not None]
    assert (slug, outcome.exit_code) == ("fails-alike", 3)
    assert text == f"{len(failed)} launches " + wording("grid.launches-fail-alike")
    assert failed.count(A) == 1 + (failed[0] == A)
    assert failed[-1] == A


def test_why_the_service_does_not_answer_stands_in_the_first_window() -> None:
    class Refusing(VirtualBox):
        def problem(self) -> str:
            return "it closed the connection"

    service = VirtualService({A: 0.0})
    store, progress = MemoryStore(virtual_study(service, **SHORT)), MemoryProgress()
    run_study(Refusing(service).box(), store, progress, PlannedStop(), strategy_of(store.study()))

    (reason,) = store.windows()[0].void
    silent = next(text for slug, text in progress.warnings if slug == "nothing-counted")
    assert reason.detail == wording("rank.item-finished-not-one") + ": it closed the connection"
    assert silent == wording("grid.no-item-in-warm-up") + ": it closed the connection"


def test_a_service_that_starts_as_its_smallest_layout_is_not_said_never_to_start_though_ctrl_c_comes() -> (
    None
):
    big, small = Layout(4, 4), Layout(1, 1)
    service = VirtualService({big: 40.0, small: 10.0})
    store = MemoryStore(virtual_study(service, **{**SHORT, "warms_cache": False, "seed": 5}))
    progress = MemoryProgress()
    box = VirtualBox(service, troubles=[Trouble("dies-at-start", big)]).box()
    stop = PlannedStop(lambda: progress.n_warmup_ticks > 0)  # of the smallest, which is tried

    outcome = run_study(box, store, progress, stop, strategy_of(store.study()))

    assert [launch.layout for _, launch in store.launches()] == [big, small]
    assert "never-started" not in dict(progress.warnings)
    assert outcome.exit_code == 130


def test_a_launch_that_failed_by_bad_luck_does_not_fail_again_by_the_same() -> None:
    """The only layout's first launch dies in half of the studies; asked again whether it starts, half do."""
    service, n_died, n_given_up = VirtualService({A: 10.0}), 0, 0
    for seed in range(30):
        store, progress = MemoryStore(virtual_study(service, **SHORT)), MemoryProgress()
        box = VirtualBox(service, seed=seed, risks={"dies-at-start": 0.5}).box()
        run_study(box, store, progress, PlannedStop(), strategy_of(store.study()))
        n_died += store.launches()[0][1].error is not None
        n_given_up += "never-started" in dict(progress.warnings)

    assert 8 <= n_died <= 22  # from the seeds: always the same
    assert 0.2 * n_died <= n_given_up <= 0.8 * n_died


def test_a_service_that_starts_in_its_smallest_layout_is_tried_in_all_others() -> None:
    ran = Ran((Trouble("dies-at-start", B), Trouble("dies-at-start", C)))

    assert ran.outcome.left_out == (B, C)
    assert {window.layout for window in ran.store.windows()} == {A}
    assert "never-started" not in ran.slugs


def test_a_study_that_was_given_up_continues_once_its_service_starts() -> None:
    store = MemoryStore(virtual_study(SERVICE, **SHORT))
    for troubles in ([Trouble("dies-at-start")], []):
        box = VirtualBox(SERVICE, clock=VirtualClock.resumed(store), troubles=troubles).box()
        outcome = run_study(box, store, MemoryProgress(), PlannedStop(), strategy_of(store.study()))

    assert outcome.exit_code == 0
    assert len(store.windows()) == 6


def test_a_layout_that_finishes_nothing_is_reported_while_it_warms_up_and_gives_no_window() -> None:
    service = VirtualService({A: 0.0, B: 20.0})
    store, progress = MemoryStore(virtual_study(service, **SHORT, max_attempts=2)), MemoryProgress()

    outcome = run_study(VirtualBox(service).box(), store, progress, PlannedStop(), strategy_of(store.study()))

    assert next(text for slug, text in progress.warnings if slug == "nothing-counted") == (
        wording("grid.no-item-in-warm-up")
    )
    assert {reason.slug for window in store.windows() for reason in window.void} == {"no-items"}
    assert outcome.left_out == (A,)
    assert outcome.exit_code == 5


def test_a_layout_of_fewer_threads_than_asked_is_no_window_and_ends_early() -> None:
    class OneThread(VirtualBox):
        @contextmanager
        def counting(self, layout: Layout) -> Any:
            with super().counting(layout) as counting:
                read = counting.read
                counting.read = lambda: replace(read(), n_slots=1)  # type: ignore[method-assign]
                yield counting

        @contextmanager
        def watching(self, launch: Any, extra_pids: frozenset[int]) -> Any:
            with super().watching(launch, extra_pids) as watch:
                usage = watch.usage
                watch.usage = lambda **how: replace(usage(**how), n_threads=1)  # type: ignore[method-assign]
                yield watch

    store = MemoryStore(virtual_study(SERVICE, **SHORT, layouts=(A,), max_attempts=1))
    run_study(OneThread(SERVICE).box(), store, MemoryProgress(), PlannedStop(), strategy_of(store.study()))

    (window,) = store.windows()
    assert [(reason.slug, reason.detail) for reason in window.void] == [
        ("wrong-layout", wording("grid.threads-that-count"))
    ]
    assert window.length_s == 5.0


@pytest.mark.parametrize(("fresh_until_s", "length_s"), [(0.0, 10.0), (9.0, 3.0), (11.5, 6.0)])
def test_a_window_without_fresh_counts_is_void_and_never_without_length(
    fresh_until_s: float, length_s: float
) -> None:
    """Warm-up is from 0.5 s to 5.5 s of a launch, the window the ten seconds after."""

    class Stuck(VirtualBox):
        @contextmanager
        def counting(self, layout: Layout) -> Any:
            with super().counting(layout) as counting:
                read, last = counting.read, [counting.read()]
                stuck_s = last[0].at_s + fresh_until_s

                def repeat() -> Reading:
                    reading = read()
                    if reading.at_s <= stuck_s:
                        last[0] = reading
                    return last[0]

                counting.read = repeat  # type: ignore[method-assign]
                yield counting

    store = MemoryStore(virtual_study(SERVICE, **{**SHORT, "n_blocks": 1}, layouts=(A,), max_attempts=1))
    run_study(Stuck(SERVICE).box(), store, MemoryProgress(), PlannedStop(), strategy_of(store.study()))

    (window,) = store.windows()
    assert "probe-gap" in [reason.slug for reason in window.void]
    assert window.length_s == length_s


def test_the_budget_ends_the_study_at_a_whole_block() -> None:
    cell_s = 0.5 + 5.0 + 10.0 + 0.25
    ran = Ran(n_blocks=10, budget_s=cell_s * (1 + 3 * 4))

    assert ran.outcome.n_blocks_done in (3, 4)
    assert ran.outcome.n_windows == 3 * ran.outcome.n_blocks_done
    assert ran.clock.wall_s() - ran.store.study().created_wall_s <= cell_s * (1 + 3 * 4)
    assert ran.outcome.exit_code == 5
    assert "budget-over" in ran.slugs


def test_a_budget_that_holds_everything_changes_nothing() -> None:
    ran = Ran(budget_s=3600.0)

    assert ran.outcome.exit_code == 0
    assert ran.slugs == []


@pytest.mark.parametrize(
    ("strategy", "layouts"), [("all", "1x1 1x2 1x4"), ("check", "1x1 1x2 1x4"), ("aa", "1x1 1x1 1x1")]
)
def test_a_budget_too_short_names_only_options_that_the_command_has(strategy: str, layouts: str) -> None:
    study = virtual_study(SERVICE, **{**SHORT, "budget_s": 45.0, "strategy": strategy})

    with raises(ConfigError, wording("grid.one-block-needs-more-time")) as caught:
        check_budget(study, [Proposal(parse_layout(one), 12.0) for one in layouts.split()])
    hint = str(caught.value.hint)
    assert "--budget" in hint
    assert ("--layouts" in hint) is (strategy == "all")
    assert "--min-window" not in hint


def test_a_budget_too_short_for_one_block_is_refused_before_anything_starts() -> None:
    study = virtual_study(SERVICE, **{**SHORT, "budget_s": 44.9})
    store = MemoryStore(study)

    with raises(ConfigError, wording("grid.one-block-takes-longer-than-budget")):
        check_budget(study, strategy_of(study).propose())
    with pytest.raises(ConfigError):
        run_study(
            VirtualBox(SERVICE).box(), store, MemoryProgress(), PlannedStop(), strategy_of(store.study())
        )
    assert store.launches() == []


def test_a_requested_stop_finishes_the_window_and_no_more() -> None:
    ran = Ran(stop_after=2)

    assert len(ran.store.windows()) == 2
    assert all(window.length_s == 10.0 for window in ran.store.windows())
    assert all(launch.ended_wall_s is not None for _, launch in ran.store.launches())
    assert ran.outcome.interrupted
    assert ran.outcome.exit_code == 130


def test_a_requested_stop_leaves_the_other_windows_of_a_launch() -> None:
    ran = Ran(stop_after=1, windows_per_launch=3)

    assert len(ran.store.windows()) == 1


def test_a_stop_while_a_launch_warms_up_ends_it_at_once_and_spoils_nothing() -> None:
    store, progress = MemoryStore(virtual_study(SERVICE, warms_cache=False)), MemoryProgress()
    stop = PlannedStop(lambda: progress.n_warmup_ticks == 3)
    outcome = run_study(VirtualBox(SERVICE).box(), store, progress, stop, strategy_of(store.study()))

    ((_, launch),) = store.launches()
    assert (launch.warmup_s, launch.settled, launch.error) == (3.0, None, None)
    assert launch.ended_wall_s is not None
    assert store.windows() == []
    assert outcome.exit_code == 130


def test_a_stop_after_the_last_window_interrupts_nothing() -> None:
    ran = Ran(stop_after=6)

    assert ran.outcome.exit_code == 0


def test_the_time_that_is_left_shrinks_to_nothing() -> None:
    ran = Ran(n_blocks=3)

    remaining_s = [remaining for _, _, remaining in ran.progress.counts]
    assert remaining_s == sorted(remaining_s, reverse=True)
    assert remaining_s[-1] == 0
    assert [taken for taken, _, _ in ran.progress.counts] == list(range(1, 10))
    assert {planned for _, planned, _ in ran.progress.counts} == {9}


def test_a_whole_grid_for_24_cores_runs_in_virtual_time() -> None:
    service = VirtualService({layout: 5.0 + layout.total_threads for layout in divisors_grid(24)})
    store = MemoryStore(virtual_study(service))
    outcome = run_study(
        VirtualBox(service).box(), store, MemoryProgress(), PlannedStop(), strategy_of(store.study())
    )

    assert outcome.n_windows == 66
    assert {window.length_s for window in store.windows()} == {600.0}
