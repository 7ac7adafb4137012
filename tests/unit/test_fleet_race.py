"""The race on several boxes: what each is given, that nobody waits, what is claimed and how often wrongly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import log
from random import Random

import pytest

from tuner.core.domain.fleet import Done, Place
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Goal, Kind, Proposal
from tuner.core.search.own_suites import own_suite
from tuner.core.search.racing import Race
from tuner.core.search.strategies import fleet_race
from tuner.core.search.strategies.fleet_race import FleetRace
from tuner.core.search.suite import Suite, SuiteNoise

from ..luck import at_most
from ..raising import raises
from ..wording import wording
from .spread_boxes import Boxes

KINDS: tuple[Kind, ...] = ("strict", "calibrated")
both_kinds = pytest.mark.parametrize("kind", KINDS)
LAYOUTS = tuple(Layout(24 // threads, threads) for threads in (1, 2, 3, 4, 6, 8, 12, 24))
TRUTH = (600.0, 700.0, 800.0, 1000.0, 900.0, 780.0, 700.0, 500.0)


def suite(
    truth: Sequence[float] = TRUTH, *, sd: float = 0.05, within: float = 0.1, window_s: float | None = 600.0
) -> Suite:
    noise = SuiteNoise(window_sd=sd)
    return Suite("test", LAYOUTS[: len(truth)], (tuple(truth),), noise, within, 0.95, 120.0, window_s)


def boxes(n: int, source: Suite | None = None, stream: str = "luck") -> Boxes:
    return Boxes(source or suite(), [f"box-{number}" for number in range(1, n + 1)], stream)


def asked(fleet: Boxes, box: str | None = None) -> list[Layout]:
    return [done.place.asked.layout for done in fleet.done if box in (None, done.place.box)]


# ------------------------------------------------------------------ one box


@pytest.mark.parametrize(
    ("source", "n_blocks"),
    [
        (suite(), 40),
        (suite([1000, 970, 960, 950, 900], sd=0.1, window_s=None), 40),
        # a guide has its say, again and again; each time takes 0.1 s
        (replace(own_suite("curve"), surfaces=own_suite("curve").surfaces[:1]), 20),
        (replace(own_suite("curve+free-length+drift"), surfaces=own_suite("curve").surfaces[1:2]), 40),
    ],
    ids=["plain", "lengths vary", "guided", "drift"],
)
@both_kinds
def test_on_one_box_it_is_the_race(kind: Kind, source: Suite, n_blocks: int) -> None:
    fleet, strategy, race = boxes(1, source), FleetRace(source.goal(kind), 5), Race(source.goal(kind), 5)
    proposals = list(race.propose())
    for _ in range(n_blocks):
        n_block = len(proposals)
        for proposal in proposals:
            fleet.hand_out(strategy)
            assert [place.asked for place in fleet.places()] == [proposal]
            fleet.step(strategy)
        race.learn([window for done in fleet.done[-n_block:] for window in done.windows])
        assert repr(strategy.answer()) == repr(race.answer())
        assert repr(strategy.estimates()) == repr(race.estimates())
        proposals = list(race.propose())
        if not proposals:
            break
    fleet.hand_out(strategy)

    assert [place.asked for place in fleet.places()] == proposals
    assert strategy.expected_rest(fleet.places()) == race.expected_rest()
    assert strategy.levels() == {}


# ------------------------------------------------------------------ the first launches


def test_each_box_measures_the_same_reference_first_and_then_the_first_block_is_shared_out() -> None:
    fleet, strategy = boxes(3), FleetRace(suite().goal("strict"), 5)
    fleet.lead(strategy, n=3)
    first = asked(fleet)
    fleet.lead(strategy, n=7)

    assert len(set(first)) == 1
    assert sorted(done.place.box for done in fleet.done[:3]) == ["box-1", "box-2", "box-3"]
    assert len(set(asked(fleet))) == 8
    assert Counter(asked(fleet))[first[0]] == 3
    assert {(done.place.block, done.place.position) for done in fleet.done[:3]} == {(0, 0)}


def test_calibrated_shares_out_the_first_block_and_then_each_box_measures_the_same_reference() -> None:
    fleet, strategy = boxes(3), FleetRace(suite().goal("calibrated"), 5)
    fleet.lead(strategy, n=6)
    first = asked(fleet)
    fleet.lead(strategy, n=6)
    of_box = [set(asked(fleet, box)) for box in fleet.names]

    assert len(set(first)) == 6
    assert {done.place.block for done in fleet.done[:6]} == {0}
    assert len(set[Layout].intersection(*of_box)) == 1


def test_a_reference_has_as_many_threads_as_cores() -> None:
    layouts = (Layout(1, 1), Layout(2, 2), Layout(4, 4), Layout(8, 8))
    strategy = FleetRace(Goal(layouts, cores=4), 1)
    place = strategy.next_for("a", [], ["a", "b"])

    assert place is not None
    assert place.asked.layout == Layout(2, 2)


def test_a_box_that_comes_late_measures_the_reference_first() -> None:
    fleet, strategy = boxes(1), FleetRace(suite(sd=0.1).goal("strict"), 5)
    fleet.lead(strategy, n=10)
    fleet.names = ["box-1", "box-2"]
    fleet.hand_out(strategy)
    (late,) = [place for place in fleet.places() if place.box == "box-2"]

    assert (late.block, late.position) == (0, 0)
    assert late.asked.layout in asked(fleet, "box-1")
    fleet.lead(strategy, n=4)
    assert set(strategy.levels()) == {"box-1", "box-2"}


def test_no_place_is_requested_twice() -> None:
    fleet = boxes(4, suite(sd=0.1))
    fleet.lead(FleetRace(suite(sd=0.1).goal("strict"), 5), n=60)
    places = Counter((done.place.block, done.place.position, done.place.box) for done in fleet.done)

    assert max(places.values()) == 1


# ------------------------------------------------------------------ no box waits


@both_kinds
def test_every_box_has_something_to_do_until_the_answer_is_known(kind: Kind) -> None:
    source = suite([1000.0, 960.0, 950.0, 900.0], sd=0.1)
    fleet, strategy = boxes(4, source), FleetRace(source.goal(kind), 5)
    while not strategy.answer().reached:
        fleet.hand_out(strategy)
        assert len(fleet.under_way) == 4
        assert len(fleet.done) < 500
        fleet.step(strategy)
    before = fleet.places()
    fleet.hand_out(strategy)

    assert fleet.places() == before
    assert all(strategy.next_for(name, [], fleet.names) is None for name in fleet.names)


def test_what_is_under_way_is_not_requested_once_more() -> None:
    """Of a leader and three equal rivals four boxes measure all, not all the same."""
    source = suite([1000.0, 990.0, 990.0, 990.0], sd=0.1, within=0.02)
    fleet, strategy = boxes(4, source), FleetRace(source.goal("strict"), 5)
    fleet.lead(strategy, n=30)
    fleet.hand_out(strategy)

    assert len({place.asked.layout for place in fleet.places()}) >= 2


@both_kinds
def test_more_boxes_take_less_time(kind: Kind) -> None:
    source = suite([1000.0, 960.0, 950.0, 900.0], sd=0.1, within=0.05)
    hours = []
    for n in (1, 4):
        total_s = 0.0
        for seed in range(4):
            fleet, strategy = boxes(n, source, str(seed)), FleetRace(source.goal(kind), seed)
            while not strategy.answer().reached and fleet.step(strategy):
                pass
            total_s += fleet.now_s
        hours.append(total_s / 3600)

    assert hours[1] < hours[0] / 2


# ------------------------------------------------------------------ the same again


@both_kinds
def test_the_same_news_give_the_same_places_and_looking_changes_nothing(kind: Kind) -> None:
    fleets = [boxes(3, suite(sd=0.1)), boxes(3, suite(sd=0.1))]
    strategies = [FleetRace(suite().goal(kind), 5) for _ in fleets]
    for _ in range(25):
        for name in fleets[1].names:
            others = [place for place in fleets[1].places() if place.box != name]
            strategies[1].next_for(name, others, fleets[1].names)
        strategies[1].answer(), strategies[1].estimates(), strategies[1].levels()
        for fleet, strategy in zip(fleets, strategies, strict=True):
            fleet.step(strategy)

    assert repr(fleets[0].done) == repr(fleets[1].done)


@both_kinds
@pytest.mark.parametrize("n", [1, 2, 5, 9, 20])
def test_shown_what_was_done_a_new_one_continues_as_the_first_would(kind: Kind, n: int) -> None:
    fleet, strategy = boxes(3, suite(sd=0.1)), FleetRace(suite(sd=0.1).goal(kind), 5)
    fleet.lead(strategy, n=n)
    fleet.hand_out(strategy)
    fleet.lose(strategy, "box-2")
    resumed = FleetRace(suite(sd=0.1).goal(kind), 5)
    for done in fleet.done:
        resumed.learn(done)

    assert repr(resumed.answer()) == repr(strategy.answer())
    assert repr(resumed.estimates()) == repr(strategy.estimates())
    assert repr(resumed.levels()) == repr(strategy.levels())
    for names in (["box-1", "box-3"], ["box-1", "box-2", "box-3", "box-4"]):
        for name in names:
            others = [place for place in fleet.places() if place.box != name]
            assert resumed.next_for(name, others, names) == strategy.next_for(name, others, names)


# ------------------------------------------------------------------ boxes that go


def test_a_box_that_is_back_continues_with_what_it_was_at_and_another_takes_the_layout() -> None:
    fleet, strategy = boxes(2), FleetRace(suite().goal("strict"), 5)
    fleet.lead(strategy, n=2)
    fleet.hand_out(strategy)
    (lost,) = [place for place in fleet.places() if place.box == "box-2"]
    fleet.lose(strategy, "box-2")

    assert strategy.next_for("box-2", fleet.places(), ["box-1", "box-2"]) == lost
    other = strategy.next_for("box-3", fleet.places(), ["box-1", "box-3"])
    assert other is not None  # the reference first
    strategy.learn(Done(other, ()))
    other = strategy.next_for("box-3", fleet.places(), ["box-1", "box-3"])
    assert other is not None
    assert other.asked.layout == lost.asked.layout


def test_a_layout_that_failed_is_requested_no_more_even_as_the_reference() -> None:
    fleet, strategy = boxes(2), FleetRace(suite().goal("strict"), 5)
    fleet.hand_out(strategy)
    reference = fleet.places()[0].asked.layout
    fleet.vain(strategy, "box-1", failed=[reference])
    fleet.lead(strategy, n=20)

    assert Counter(asked(fleet))[reference] <= 2  # the other box was at it
    assert strategy.answer().layout == LAYOUTS[3]


def test_where_everything_failed_nothing_is_requested() -> None:
    fleet, strategy = boxes(2), FleetRace(suite().goal("strict"), 5)
    fleet.hand_out(strategy)
    fleet.vain(strategy, "box-1", failed=LAYOUTS)
    fleet.vain(strategy, "box-2")

    assert not fleet.step(strategy)
    assert strategy.answer() == Answer(None, False, "strict")


# ------------------------------------------------------------------ what is claimed


@both_kinds
def test_boxes_of_unlike_speed_are_kept_apart_and_do_not_mislead(kind: Kind) -> None:
    source = suite(sd=0.02, within=0.05)
    fleet, strategy = boxes(4, source), FleetRace(source.goal(kind), 5)
    fleet.log_levels = {"box-2": log(0.6), "box-3": log(1.3)}
    while not strategy.answer().reached and fleet.step(strategy):
        pass
    levels = strategy.levels()
    means = {box: one.mean or 0.0 for box, one in levels.items()}

    assert strategy.answer().layout == LAYOUTS[3]
    assert sorted(means, key=lambda box: means[box])[0] == "box-2"
    assert means["box-2"] / means["box-3"] == pytest.approx(0.6 / 1.3, rel=0.06)
    assert levels["box-2"].high is not None
    assert levels["box-2"].high < 1
    best = strategy.estimates()[LAYOUTS[3]].mean
    assert best == pytest.approx(1000 * (0.6 * 1.3) ** 0.25, rel=0.05)


def test_where_boxes_differ_too_much_over_layouts_it_ends_without_an_answer_and_more_boxes_continue() -> None:
    source = suite([1000.0, 995.0], sd=0.01, within=0.02)
    fleet = boxes(2, source)
    fleet.apart = {
        (f"box-{n}", layout): 0.1 if (n + k) % 2 else -0.1
        for n in range(1, 9)
        for k, layout in enumerate(source.layouts)
    }
    strategy = FleetRace(source.goal("strict"), 5)
    fleet.lead(strategy, n=400)

    assert len(fleet.done) < 400
    assert not fleet.under_way
    assert not strategy.answer().reached
    more = [f"box-{n}" for n in range(1, 9)]
    assert strategy.next_for("box-8", [], more) is not None
    assert strategy.next_for("box-1", [], more) is not None


def test_no_more_boxes_are_asked_than_a_race_has_use_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_race, "MOST_BOXES", 3)
    fleet, strategy = boxes(5), FleetRace(suite().goal("strict"), 5)
    fleet.hand_out(strategy)

    assert set(fleet.under_way) == {"box-1", "box-2", "box-3"}
    fleet.lead(strategy, n=5)
    assert set(fleet.under_way) <= {"box-1", "box-2", "box-3"}


def test_limits_are_heeded_as_in_the_race() -> None:
    source = suite(TRUTH[:5], sd=0.02)
    goal = replace(source.goal("strict"), limits={"load": 8.0})
    fleet, strategy = boxes(3, source), FleetRace(goal, 5)
    load = {layout: 20.0 if layout == LAYOUTS[3] else 2.0 for layout in LAYOUTS}
    for _ in range(60):
        fleet.hand_out(strategy)
        if not fleet.under_way:
            break
        name = min(fleet.under_way, key=lambda one: fleet.under_way[one][0])
        until_s, place = fleet.under_way.pop(name)
        fleet.now_s = until_s
        windows = fleet._windows(place, until_s)
        usage = {"load": load[place.asked.layout]}
        strategy.learn(Done(place, [replace(window, usage=usage) for window in windows]))

    assert strategy.answer().reached
    assert strategy.answer().layout == LAYOUTS[4]
    assert strategy.verdicts()[LAYOUTS[3]].state == "beyond"


@pytest.mark.parametrize("n_boxes", [2, 5])
def test_strict_is_wrong_in_at_most_5_percent_where_rivals_lie_just_outside_the_margin(n_boxes: int) -> None:
    """One layout is best, and two are worse by a little more than the margin of 10 %; boxes are unlike."""
    n, wrong = 60, 0
    source = suite([1000.0, 899.0, 899.0], sd=0.1)
    for seed in range(n):
        random, fleet = Random(seed), boxes(n_boxes, source, str(seed))
        fleet.log_levels = {name: random.gauss(0, 0.1) for name in fleet.names}
        strategy = FleetRace(source.goal("strict"), seed)
        while not strategy.answer().reached and fleet.step(strategy):
            pass
        answer = strategy.answer()
        assert answer.reached
        wrong += answer.layout != LAYOUTS[0]

    assert wrong / n <= at_most(0.05, n, n_sds=3)


@both_kinds
def test_the_rest_of_several_boxes_is_reported_once_it_can_be_and_nothing_is_left_at_the_end(
    kind: Kind,
) -> None:
    source = suite([1000.0, 930.0, 900.0], sd=0.1)
    fleet, strategy = boxes(3, source), FleetRace(source.goal(kind), 1)

    fleet.lead(strategy, n=5)
    assert strategy.expected_rest([]) is None
    n_reported = 0
    while not strategy.answer().reached and fleet.step(strategy):
        rest = strategy.expected_rest([])
        if rest is not None:
            n_reported += 1
            assert list(strategy.expected_rest(fleet.places()) or ()) == list(rest[len(fleet.under_way) :])
    assert n_reported > 0
    assert strategy.expected_rest([]) == []


def test_there_is_no_other_kind() -> None:
    with raises(ValueError, wording("rank.no-such-kind-of-race")):
        FleetRace(Goal(LAYOUTS, kind="none"), 1)


def test_a_place_names_its_box_and_asks_for_lengths_that_are_allowed() -> None:
    goal = Goal(LAYOUTS[:2], min_window_s=17.34, max_window_s=17.36)
    place = FleetRace(goal, 1).next_for("here", [], ["here", "there"])

    assert isinstance(place, Place)
    assert place.box == "here"
    assert place.asked == Proposal(place.asked.layout, place.asked.window_s)
    assert 17.34 <= place.asked.window_s <= 17.36
