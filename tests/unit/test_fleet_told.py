"""A study on several boxes, told to what shows a study."""

from __future__ import annotations

from tuner.adapters.terminal.fleet_lines import FleetTee
from tuner.adapters.virtual.memory import MemoryProgress
from tuner.core.domain.fleet import BoxFacts, Done
from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.strategy import Goal, Observed
from tuner.core.domain.window import Sample
from tuner.core.search.strategies.fleet_grid import FleetGrid
from tuner.core.search.strategies.of_study import FollowedOnFleet

from ..wording import wording
from .test_follower import Silent
from .test_live_file import taken

A, B = Layout(4, 6), Layout(6, 4)
SAMPLE = Sample(1.0, 10, 0, 17.5, 1.0, 1.0, 21)


def facts(name: str) -> BoxFacts:
    return BoxFacts(name, 4.0, Provenance(host=name))


def test_what_each_box_does_is_reported_of_that_box() -> None:
    follower, result = Silent(), MemoryProgress()
    fleet = FleetTee([follower, result])
    for name in ("box-1", "box-2", "box-3"):
        fleet.box_came(facts(name))
    fleet.launch_started("box-1", A, 2, 100.0)
    fleet.launch_started("box-2", B, 3, 100.0)
    fleet.sampled("box-1", A, 5.0, 600.0, 4.0, SAMPLE)
    fleet.sampled("box-2", B, 6.0, None, None, None)
    one, other, idle = follower.live().boxes

    assert (one.box, one.phase, one.layout, one.block, one.window_s) == ("box-1", "window", A, 2, 600.0)
    assert (other.box, other.phase, other.layout, other.block) == ("box-2", "warming-up", B, 3)
    assert (idle.box, idle.layout) == ("box-3", None)
    assert [layout for layout, *_ in result.launches] == [A, B]


def test_a_box_that_goes_is_warned_of_and_shown_no_more() -> None:
    follower, result = Silent(), MemoryProgress()
    fleet = FleetTee([follower, result])
    for name in ("box-1", "box-2"):
        fleet.box_came(facts(name))
    fleet.window_taken("box-1", taken(()), 1, 9, 600.0)
    fleet.box_went("box-1", "not heard of for 20 s")

    assert [one.box for one in follower.live().boxes] == ["box-2"]
    assert follower.live().n_taken == 1
    assert result.warnings == [("box-gone", "box-1 is gone: " + wording("fleet.heard-no-more"))]
    assert result.boxes_left == ["box-1"]


def test_a_strategy_that_is_followed_is_asked_once_after_each_place_and_says_what_cannot_be_run() -> None:
    grid = FleetGrid(Goal((A, B), 0.02, 0.95, "none", 600.0, 600.0, 24), seed=1, n_blocks=2)
    followed = FollowedOnFleet(grid)
    before = followed.answer()
    place = followed.next_for("box-1", [], ["box-1"])
    assert place is not None
    window = Observed(place.asked.layout, 4.0, 1, 0.0, 1.0, 600.0, box="box-1")
    followed.learn(Done(place, [window]))
    other = followed.next_for("box-1", [], ["box-1"])
    assert other is not None
    followed.learn(Done(other, (), failed=(other.asked.layout,)))

    assert before.layout is None
    assert followed.answer() == grid.answer()
    assert followed.answer() is followed.answer()
    assert followed.estimates() == grid.estimates()
    assert followed.failed == (other.asked.layout,)
    assert followed.verdicts() == {}
    assert followed.expected_rest([]) == grid.expected_rest([])
