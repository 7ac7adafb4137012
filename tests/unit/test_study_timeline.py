from __future__ import annotations

from tuner.study.timeline import Timeline


def test_time_begins_with_the_first_moment_and_breaks_are_part_of_it() -> None:
    timeline = Timeline()

    assert timeline.at(1000.0) == 0.0
    assert timeline.at(1005.0, 10.0) == 5.0
    assert timeline.at(90_000.0) == 89_000.0


def test_a_clock_that_was_set_back_goes_on_from_the_latest_moment() -> None:
    timeline = Timeline()
    timeline.at(1000.0)
    timeline.at(1005.0, 10.0)

    assert timeline.at(15.0) == 15.0  # not before the window had ended
    assert timeline.at(20.0) == 20.0  # and at the pace of the clock again
    assert timeline.at(12.0) == 20.0


def test_nothing_begins_before_what_it_came_after_had_ended() -> None:
    timeline = Timeline()
    timeline.at(1000.0, 600.0)

    assert timeline.at(1599.999) == 600.0
    assert timeline.at(1600.0) == 600.001
