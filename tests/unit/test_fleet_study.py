"""Whole studies on several virtual boxes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tuner.adapters.safety_limits import LimitsBrake
from tuner.adapters.virtual.box import Noise, Trouble, VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import Absence, MemoryStore, PlannedStop, VirtualFleet, named_boxes
from tuner.core.domain.fleet import BoxFacts
from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord, WindowRecord
from tuner.core.domain.safety_limits import BoxNow, BrakeLimits
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.window import Sample, Window
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.search.strategies.of_study import spreading_strategy_of
from tuner.ports import Box
from tuner.study.fleet.places import replay_fleet
from tuner.study.fleet.remote_launch import make_order
from tuner.study.fleet.roster import Member, note_start
from tuner.study.fleet.study import run_fleet
from tuner.study.launch.outcome import StudyOutcome

from ..raising import raises
from ..wording import wording

A, B, C = Layout(1, 4), Layout(2, 2), Layout(4, 1)
SERVICE = VirtualService({A: 10.0, B: 20.0, C: 30.0})
FIXED = StoredConfig.of_sections({"service": {"kind": "script", "os_threads": "at-start"}})
FACTS = Provenance(host="here", tuner="1")
SHORT: dict[str, Any] = {
    "window_s": 10.0,
    "warmup_s": 5.0,
    "n_blocks": 4,
    "cores": 4,
    "box_cores": 4.0,
    "provenance": Provenance(is_fleet=True, tuner="1"),
}


class Told:
    """A FleetProgress that remembers."""

    def __init__(self) -> None:
        self.windows: list[tuple[str, Window]] = []
        self.warnings: list[tuple[str, str]] = []
        self.came: list[str] = []
        self.went: list[str] = []
        self.planned: list[int | None] = []

    def box_came(self, facts: BoxFacts) -> None:
        self.came.append(facts.name)

    def box_went(self, box: str, why: str) -> None:
        assert why
        self.went.append(box)

    def launch_started(self, box: str, layout: Layout, block: int, remaining_s: float | None) -> None:
        pass

    def sampled(
        self,
        box: str,
        layout: Layout,
        elapsed_s: float,
        window_s: float | None,
        items_per_s: float | None,
        sample: Sample | None,
    ) -> None:
        pass

    def window_taken(
        self, box: str, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        self.windows.append((box, window))
        self.planned.append(n_planned)

    def launch_ended(self, box: str) -> None:
        pass

    def warning(self, slug: str, text: str) -> None:
        self.warnings.append((slug, text))


class NoHooks:
    """Hooks of a user who has none."""

    def run(self, event: str, facts: Mapping[str, str]) -> None:
        pass


def brake_of(box: VirtualBox, over: Layout) -> LimitsBrake:
    """Leaves out *over*, which takes more memory than it may as soon as it runs."""

    def look() -> BoxNow:
        is_over = box._running is not None and box._running.layout == over
        return BoxNow(0.0, 9 if is_over else 2, 10)

    limits = BrakeLimits(memory_ratio=0.8)
    return LimitsBrake(box.clock, limits, leaves_out=True, look=look, warn=lambda *_: None)


class Ran:
    """A study on several boxes that has run, and all that it left; *store* goes on with one."""

    def __init__(
        self,
        n_boxes: int = 3,
        *,
        store: MemoryStore | None = None,
        stop_after: int | None = None,
        absences: Sequence[Absence] = (),
        troubles: Mapping[str, Sequence[Trouble]] | None = None,
        facts: Sequence[BoxFacts] | None = None,
        over: Layout | None = None,
        service: VirtualService = SERVICE,
        **asked: Any,
    ) -> None:
        self.store = store or MemoryStore(virtual_study(service, **{**SHORT, **asked}))
        study = self.store.study()
        self.progress = Told()
        ended_s = [launch.ended_wall_s or launch.started_wall_s for _, launch in self.store.launches()]

        def box_of(name: str, clock: VirtualClock) -> Box:
            own = (troubles or {}).get(name, ())
            box = VirtualBox(service, Noise(), seed=5, cores=4, name=name, clock=clock, troubles=tuple(own))
            return replace(box.box(), brake=None if over is None else brake_of(box, over))

        self.fleet = VirtualFleet(
            study,
            facts or named_boxes(n_boxes, 4.0, FACTS),
            box_of,
            make_order,
            began_wall_s=max(ended_s, default=None),
            absences=absences,
        )
        stop = PlannedStop(lambda: stop_after is not None and len(self.progress.windows) >= stop_after)
        self.strategy = spreading_strategy_of(study)
        self.outcome: StudyOutcome = run_fleet(
            self.fleet, self.store, self.progress, stop, self.strategy, NoHooks()
        )

    @property
    def slugs(self) -> list[str]:
        return [slug for slug, _ in self.progress.warnings]

    @property
    def counted(self) -> list[WindowRecord]:
        return [one for one in self.store.windows() if not one.void and one.block != WARMING_BLOCK]


def test_every_layout_is_launched_once_a_block_and_every_block_is_of_one_box() -> None:
    ran = Ran(3, n_blocks=6)

    of_block: dict[int, list[WindowRecord]] = defaultdict(list)
    for window in ran.counted:
        of_block[window.block].append(window)
    assert sorted(of_block) == list(range(6))
    for windows in of_block.values():
        assert sorted(one.layout for one in windows) == [A, B, C]
        assert len({one.box for one in windows}) == 1
    assert Counter(one.box for one in ran.counted) == {"box-1": 6, "box-2": 6, "box-3": 6}
    assert ran.outcome.exit_code == 0
    assert ran.outcome.is_over
    assert ran.outcome.n_blocks_done == 6
    assert ran.outcome.answer.layout == C


def test_launches_that_never_settled_are_counted_over_all_boxes_before_they_are_an_alarm() -> None:
    slow = VirtualService({A: 10.0}, settle_s=100.0)
    ran = Ran(2, service=slow, warmup_s=None, warmup_cap_s=40.0, n_blocks=2)
    judged = [one for _, one in ran.store.launches() if one.block != WARMING_BLOCK]
    (text,) = [text for slug, text in ran.progress.warnings if slug == "never-settled"]

    assert [(one.box, one.settled) for one in judged] == [("box-1", False), ("box-2", False)]
    assert wording("grid.all-did-not-settle", n=2) in text  # one launch may be chance, two of two are not


def test_a_layout_that_ran_as_another_box_ran_another_one_ends_the_study() -> None:
    fixed = VirtualService({A: 10.0, C: 30.0}, fixed_threads=4)
    store = MemoryStore(virtual_study(fixed, **{**SHORT, "config": FIXED}))

    with raises(ConfigError, wording("ran.fleet")):
        Ran(2, store=store, service=fixed)

    assert [[reason.slug for reason in one.void] for one in store.windows()][-1] == ["layouts-alike"]
    alike = VirtualService({A: 10.0, C: 30.0})
    assert Ran(2, service=alike, config=FIXED).outcome.exit_code == 0


def test_how_many_windows_are_planned_is_the_same_from_the_first_to_the_last() -> None:
    assert Ran(3, n_blocks=6).progress.planned == [18] * 18


def test_boxes_measure_at_the_same_time() -> None:
    alone, three = Ran(1, n_blocks=6), Ran(3, n_blocks=6)

    assert three.fleet.clock.monotonic_s() < alone.fleet.clock.monotonic_s() / 2.7


def test_a_box_warms_its_cache_before_its_first_launch_and_no_later_one() -> None:
    ran = Ran(2)

    warming = [launch for _, launch in ran.store.launches() if launch.block == WARMING_BLOCK]
    assert sorted(launch.box for launch in warming) == ["box-1", "box-2"]
    first = {
        box: next(one for _, one in ran.store.launches() if one.box == box) for box in ("box-1", "box-2")
    }
    assert all(launch.block == WARMING_BLOCK for launch in first.values())


def test_what_a_killed_box_was_at_is_measured_elsewhere_and_counts_once() -> None:
    ran = Ran(3, n_blocks=3, absences=[Absence("box-2", 30.0)])

    lost = [launch for _, launch in ran.store.launches() if launch.error is not None]
    assert [launch.box for launch in lost] == ["box-2"]
    assert lost[0].error is not None
    assert lost[0].error.startswith("lost: ")
    counted = Counter((one.block, one.layout) for one in ran.counted)
    assert {key for key in counted if key[0] < 3} >= {(block, x) for block in range(3) for x in (A, B, C)}
    assert ran.progress.went == ["box-2"]
    assert ran.outcome.exit_code == 0
    assert ran.outcome.n_launches_failed == 0  # nobody is to blame for it


def test_news_of_a_box_that_was_given_up_are_not_heard() -> None:
    """A box hangs, is told to be gone, and goes on: what it measured counts once, or not at all."""
    ran = Ran(2, n_blocks=4, absences=[Absence("box-2", 30.0, until_s=90.0)])

    keys = Counter((one.block, one.layout, one.box) for one in ran.counted)
    assert max(keys.values()) == 1
    assert ran.progress.came == ["box-1", "box-2", "box-2"]
    assert ran.outcome.exit_code == 0


def test_a_box_that_comes_back_is_given_work_again() -> None:
    ran = Ran(2, n_blocks=6, absences=[Absence("box-2", 60.0, until_s=100.0)])

    after = [one for one in ran.counted if one.box == "box-2" and one.started_wall_s > 1_000_000_000.0 + 100]
    assert after


def test_a_study_that_was_stopped_continues_with_the_boxes_that_are_there() -> None:
    stopped = Ran(3, n_blocks=6, stop_after=5)
    assert stopped.outcome.exit_code == 130
    before = list(stopped.store.windows())

    on = Ran(2, store=stopped.store)

    assert on.outcome.exit_code == 0
    assert on.store.windows()[: len(before)] == before
    counted = Counter((one.block, one.layout) for one in on.counted if one.block < 6)
    assert set(counted) == {(block, x) for block in range(6) for x in (A, B, C)}


def test_a_study_that_continues_knows_what_it_knew() -> None:
    whole = Ran(3, n_blocks=6)

    known = replay_fleet(whole.store, spreading_strategy_of(whole.store.study()))

    assert known.strategy.answer() == whole.strategy.answer()
    assert known.strategy.estimates() == whole.strategy.estimates()
    assert known.ending() == "over"


def test_a_box_with_other_cores_or_another_tuner_is_left_out_and_reported() -> None:
    alike = named_boxes(2, 4.0, FACTS)
    small = replace(alike[0], name="small", cores=2.0)
    old = replace(alike[0], name="old", provenance=Provenance(tuner="0"))
    ran = Ran(facts=[*alike, small, old])

    assert {one.box for one in ran.counted} == {"box-1", "box-2"}
    assert [text.split()[0] for slug, text in ran.progress.warnings if slug == "box-left-out"] == [
        "small",
        "old",
    ]


def test_a_box_that_starts_nothing_is_left_out_and_no_layout_is_blamed() -> None:
    broken = [Trouble("dies-at-start")]
    ran = Ran(2, troubles={"box-1": broken})

    assert {one.box for one in ran.counted} == {"box-2"}
    assert "box-left-out" in ran.slugs
    assert ran.outcome.left_out == ()
    assert ran.outcome.exit_code == 0


def test_a_box_that_breaks_later_is_left_out_and_no_layout_is_blamed() -> None:
    broken = [Trouble("dies-at-start", block=block) for block in range(1, 20)]
    ran = Ran(2, n_blocks=6, troubles={"box-1": broken})

    assert ran.outcome.left_out == ()
    assert ran.outcome.void_cells == ()
    assert "box-left-out" in ran.slugs
    assert {(one.block, one.layout) for one in ran.counted} >= {(n, x) for n in range(6) for x in (A, B, C)}
    assert ran.outcome.exit_code == 0


def test_a_block_whose_box_was_gone_before_its_first_launch_is_made_by_another() -> None:
    ran = Ran(2, n_blocks=4, absences=[Absence("box-1", 0.1)])  # while it warms its cache

    assert {(one.block, one.layout) for one in ran.counted} == {(n, x) for n in range(4) for x in (A, B, C)}
    again = spreading_strategy_of(ran.store.study())
    assert replay_fleet(ran.store, again).ending() == "over"


def test_a_service_that_starts_nowhere_ends_the_study() -> None:
    broken = [Trouble("dies-at-start")]
    with raises(MeasurementError, wording("fleet.starts-on-no-box")):
        Ran(2, troubles={"box-1": broken, "box-2": broken})


def test_a_layout_that_starts_nowhere_is_left_out() -> None:
    broken = [Trouble("dies-at-start", layout=B)]
    ran = Ran(2, troubles={"box-1": broken, "box-2": broken})

    assert ran.outcome.left_out == (B,)
    assert {one.layout for one in ran.counted} == {A, C}
    assert ran.outcome.exit_code == 5


def test_nobody_comes() -> None:
    with raises(MeasurementError, wording("fleet.no-box")):
        Ran(facts=[replace(named_boxes(1, 4.0, FACTS)[0], cores=2.0)])


def test_a_box_that_was_away_late_in_a_study_is_waited_for_beside_one_that_cannot_be_used() -> None:
    alike = named_boxes(1, 4.0, FACTS)
    small = replace(alike[0], name="small", cores=2.0)
    ran = Ran(facts=[*alike, small], n_blocks=20, absences=[Absence("box-1", 700.0, until_s=760.0)])

    assert ran.outcome.exit_code == 0
    assert {one.block for one in ran.counted if one.box == "box-1"} >= set(range(20))


def test_a_box_that_was_away_is_waited_for_beside_one_on_which_nothing_starts() -> None:
    ran = Ran(
        2,
        n_blocks=8,
        troubles={"box-2": [Trouble("dies-at-start")]},
        absences=[Absence("box-1", 200.0, until_s=260.0)],
    )

    assert "box-left-out" in ran.slugs
    assert {one.box for one in ran.counted} == {"box-1"}
    assert ran.outcome.exit_code == 0


def test_a_budget_is_of_time_that_goes_by() -> None:
    ran = Ran(3, n_blocks=30, budget_s=150.0)

    assert ran.outcome.out_of_budget
    assert ran.fleet.clock.monotonic_s() <= 170.0
    assert ran.outcome.n_blocks_done >= 4  # of three boxes; one would have made two


def test_times_are_the_coordinators_whatever_a_box_takes_them_for() -> None:
    alike = named_boxes(2, 4.0, FACTS)
    ran = Ran(facts=[alike[0], replace(alike[1], ahead_s=5000.0)])

    began_s = {one.box: one.started_wall_s for one in reversed(ran.counted)}
    assert abs(began_s["box-1"] - began_s["box-2"]) < 30.0


def test_a_race_ends_with_an_answer_on_any_number_of_boxes() -> None:
    asked: dict[str, Any] = {"strategy": "race", "kind": "strict", "min_window_s": 10.0, "within_ratio": 0.2}
    for n in (1, 2, 3):
        ran = Ran(n, **asked)
        assert ran.outcome.answer.layout == C
        assert ran.outcome.answer.reached
        assert ran.outcome.exit_code == 0
        assert ran.outcome.is_over
        assert ran.slugs == []
        last_s = max(one.started_wall_s + one.length_s for one in ran.counted) - 1_000_000_000.0
        assert ran.fleet.clock.monotonic_s() < last_s + 5.0  # it waits for nobody once it knows
        assert {one.box for one in ran.counted} == {f"box-{k}" for k in range(1, n + 1)}


def test_a_race_whose_box_was_killed_gives_each_place_its_own_number() -> None:
    ran = Ran(
        2,
        strategy="race",
        kind="strict",
        min_window_s=10.0,
        within_ratio=0.2,
        absences=[Absence("box-2", 40.0, until_s=60.0)],
    )

    places = defaultdict(set)
    for _, launch in ran.store.launches():
        if launch.block != WARMING_BLOCK:
            places[launch.block, launch.position, launch.box].add(launch.layout)
    assert all(len(found) == 1 for found in places.values())
    assert ran.outcome.answer.reached


def test_a_budget_without_room_for_a_window_is_refused() -> None:
    with pytest.raises(ConfigError, match="budget"):
        Ran(2, budget_s=5.0)


@pytest.mark.parametrize("n_kept", [1, None])
def test_what_was_left_out_while_it_warmed_the_cache_stays_so_in_a_study_that_continues(
    n_kept: int | None,
) -> None:
    """The file has no place of it; of one that was killed right then it has no place at all."""
    first = Ran(1).store.launches()[0][1].layout
    ran = Ran(1, over=first)
    assert ran.outcome.left_out == (first,)
    kept = MemoryStore(ran.store.study())
    for _, launch in ran.store.launches()[:n_kept]:
        kept.add_launch(launch)
    for window in ran.store.windows() if n_kept is None else ():
        kept.add_window(window.launch_id, ran.store.window(window.launch_id, window.index, window.attempt))

    on = Ran(1, store=kept)

    launched = [launch.layout for _, launch in on.store.launches()]
    assert launched.count(first) == 1
    assert set(launched) == {A, B, C}
    assert on.outcome.left_out == (first,)
    known = replay_fleet(ran.store, spreading_strategy_of(ran.store.study()))
    assert known.failed == (first,)
    assert known.ending() == "over"


def test_a_study_of_several_boxes_that_was_cut_off_has_not_spent_its_budget_once_for_each() -> None:
    stopped = Ran(3, n_blocks=30, budget_s=150.0, stop_after=12)

    known = replay_fleet(stopped.store, spreading_strategy_of(stopped.store.study()))

    assert stopped.fleet.clock.monotonic_s() < 120.0
    assert known.spent_s > 150.0  # of three boxes
    assert known.ending() == "cut-off"


def test_a_grid_whose_budget_has_no_room_for_a_block_is_refused() -> None:
    with raises(ConfigError, wording("grid.one-block-takes")):
        Ran(2, budget_s=40.0)


def test_a_budget_that_starts_and_stops_make_too_short_has_the_first_blocks_measured() -> None:
    ran = Ran(2, budget_s=115.0, warmup_s=None)

    assert ran.outcome.n_windows == 6
    of_budget = [slug for slug in ran.slugs if slug.startswith("budget")]
    assert of_budget == ["budget-short", "budget-short", "budget-over"]
    assert ran.fleet.clock.monotonic_s() <= 115.0
    assert ran.outcome.exit_code == 5


NEVER_SETTLES = replace(SERVICE, settle_s=900.0)


@pytest.mark.parametrize("strategy", ["all", "race"])
@pytest.mark.parametrize("budget_s", [150.0, 240.0, 600.0])
def test_the_budget_holds_on_every_host_though_nothing_settles(strategy: str, budget_s: float) -> None:
    asked: dict[str, Any] = {"strategy": strategy, "warmup_s": None, "budget_s": budget_s}
    if strategy == "race":
        asked |= {"kind": "strict", "min_window_s": 10.0, "within_ratio": 0.2}
    ran = Ran(2, service=NEVER_SETTLES, n_blocks=9, **asked)

    assert ran.outcome.out_of_budget
    assert ran.fleet.clock.monotonic_s() <= budget_s
    assert {one.layout for one in ran.counted} == {A, B, C}
    assert "box-left-out" not in ran.slugs


def test_launches_that_still_start_when_the_budget_ends_are_given_up_and_no_host_is_blamed() -> None:
    ran = Ran(2, service=replace(SERVICE, start_s=1000.0), budget_s=120.0)

    assert ran.fleet.clock.monotonic_s() <= 125.0
    assert "box-left-out" not in ran.slugs
    assert ran.outcome.left_out == ()
    assert ran.outcome.exit_code != 0


def test_stops_that_take_long_are_within_the_budget_from_the_second_launch_on() -> None:
    ran = Ran(2, service=replace(SERVICE, stop_s=20.0), budget_s=180.0, n_blocks=9)

    assert ran.outcome.n_windows >= 6
    assert ran.fleet.clock.monotonic_s() <= 180.0


@pytest.mark.parametrize("is_on_trial", [False, True])
def test_a_start_that_the_brake_stops_does_not_say_that_the_service_starts_nothing_there(
    is_on_trial: bool,
) -> None:
    error = "over-limit: while it started: load 9.00 is over 8"
    launch = LaunchRecord(WARMING_BLOCK, 0, 1, A, "box-1", 0.0, None, None, None, error=error)
    member = Member(named_boxes(1, 4.0, FACTS)[0], is_on_trial=is_on_trial)

    assert not note_start(member, launch, may_try=True)
    assert not member.does_not_start
    assert not member.is_on_trial


def test_a_layout_that_fails_on_one_box_alone_is_tried_as_often_as_any_and_named() -> None:
    broken = [Trouble("dies-at-start", layout=B, block=block) for block in range(1, 20)]
    ran = Ran(2, n_blocks=6, troubles={"box-1": broken})

    assert max(launch.attempt for _, launch in ran.store.launches()) == 3
    (why,) = (text for slug, text in ran.progress.warnings if slug == "box-left-out")
    assert why == (wording("fleet.box-left-out"))
    assert ran.outcome.left_out == ()
    assert ran.outcome.exit_code == 0
