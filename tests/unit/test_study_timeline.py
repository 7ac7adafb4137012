from __future__ import annotations

from tuner.study.timeline import Timeline


def test_time_begins_with_the_first_moment_and_breaks_are_part_of_it() -> None:
    timeline = Timeline()

    assert timeline.at(1000.0) == 0.0
    assert timeline.at(1005.0, 10.0) == 5.0
    assert timeline.at(90_000.0) == 89_000.0


def test_a_clock_that_was_set_back_continues_from_the_latest_moment() -> None:
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


def test_each_box_continues_by_its_own_clock_from_a_common_beginning() -> None:
    timeline = Timeline()

    assert timeline.at(1000.0, 600.0, box="one") == 0.0
    assert timeline.at(1005.0, 600.0, box="other") == 5.0
    assert timeline.at(1600.0, box="one") == 600.0


def test_a_clock_that_goes_back_on_one_box_holds_up_no_other() -> None:
    timeline = Timeline()
    timeline.at(1000.0, 600.0, box="one")
    timeline.at(1300.0, box="other")

    assert timeline.at(100.0, box="one") == 600.0
    assert timeline.at(1301.0, box="other") == 301.0


def test_a_box_whose_clock_is_behind_begins_with_the_study_and_continues_at_its_pace() -> None:
    timeline = Timeline()
    timeline.at(1000.0, box="one")

    assert timeline.at(990.0, box="behind") == 0.0
    assert timeline.at(1020.0, box="behind") == 30.0
