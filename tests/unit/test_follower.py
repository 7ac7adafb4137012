"""What is known of a study that runs, of one box and of several."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.adapters.terminal.live_file import Follower, LiveFile, read_live
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Sample
from tuner.reports.live.live import moment_facts

from .test_live_file import taken

A, B = Layout(4, 6), Layout(6, 4)
SAMPLE = Sample(1.0, 10, 0, 17.5, 1.0, 1.0, 21)


class Silent(Follower):
    """Shows nothing."""

    def _show_change(self, *, at_once: bool) -> None:
        pass


def two_boxes(follower: Follower) -> None:
    follower.turn_to("box-1")
    follower.launch_started(A, 2, 0, 3600.0)
    follower.turn_to("box-2")
    follower.launch_started(B, 5, 1, 3500.0)
    follower.warming_up(B, 12.0, 4.0)
    follower.turn_to("box-1")
    follower.sampled(A, 30.0, 600.0, SAMPLE, 4.35)


def test_what_runs_on_each_box_is_known_apart() -> None:
    follower = Silent()
    two_boxes(follower)
    one, other = follower.live().boxes

    assert (one.box, one.phase, one.layout, one.block) == ("box-1", "window", A, 2)
    assert (one.elapsed_s, one.window_s, one.items_per_s, one.load1) == (30.0, 600.0, 4.35, 17.5)
    assert (other.box, other.phase, other.layout, other.block) == ("box-2", "warming-up", B, 5)
    assert (other.elapsed_s, other.window_s, other.items_per_s, other.load1) == (12.0, None, 4.0, None)


def test_windows_are_counted_over_all_boxes_and_what_is_left_is_what_was_reported_last() -> None:
    follower = Silent()
    two_boxes(follower)
    follower.window_taken(taken(()), 8, 20, 3000.0)
    follower.turn_to("box-2")
    live = follower.live()

    assert (live.n_taken, live.n_planned) == (8, 20)
    assert live.remaining_s == pytest.approx(3000.0, abs=60.0)
    assert live.layout == B


def test_a_box_that_left_is_there_no_more() -> None:
    follower = Silent()
    two_boxes(follower)
    follower.window_taken(taken(()), 8, 20, 3000.0)
    follower.box_left("box-1")

    assert [one.box for one in follower.live().boxes] == ["box-2"]
    assert follower.live().n_taken == 8


def test_a_box_that_is_back_begins_with_nothing() -> None:
    follower = Silent()
    two_boxes(follower)
    follower.box_left("box-1")
    follower.turn_to("box-1")
    follower.launch_started(B, 3, 0, None)
    other, one = follower.live().boxes

    assert (other.box, one.box, one.layout, one.items_per_s) == ("box-2", "box-1", B, None)


def test_a_study_on_one_box_names_none() -> None:
    follower = Silent()
    follower.launch_started(A, 0, 0, None)

    assert follower.live().boxes == ()
    assert "boxes" not in moment_facts(follower.live())


def test_the_file_beside_the_study_has_every_box_as_it_is(tmp_path: Path) -> None:
    study = tmp_path / "s.tuner.db"
    file = LiveFile(study, lambda slug, text: pytest.fail(f"{slug}: {text}"))
    with file.written(0):
        two_boxes(file)
        file.launch_started(A, 2, 0, None)  # that is written at once
        found = read_live(study)

    assert found is not None
    assert [(one.box, one.layout, one.block) for one in found.boxes] == [("box-1", A, 2), ("box-2", B, 5)]
    assert [one["layout"] for one in moment_facts(found)["boxes"]] == ["4x6", "6x4"]


def taking_turns(follower: Follower) -> None:
    follower.in_turns([A], A)
    follower.launch_started(A, 2, 0, None)
    follower.warming_up(A, 12.0, 4.0)
    follower.in_turns([A, B], B)
    follower.launch_started(B, 2, 1, None)
    follower.warming_up(B, 15.0, 5.0)
    follower.in_turns([A, B], A)
    follower.sampled(A, 1.0, 20.0, SAMPLE, 4.35)
    follower.in_turns([A, B], B)
    follower.sampled(B, 2.0, 20.0, SAMPLE, 5.5)


def test_of_layouts_that_take_turns_the_one_that_works_is_known_and_where_it_was() -> None:
    follower = Silent()
    taking_turns(follower)
    works = follower.live()
    follower.in_turns([A, B], A)
    again = follower.live()

    assert works.started == again.started == (A, B)
    assert (works.layout, works.phase, works.elapsed_s) == (B, "window", 2.0)
    assert (again.layout, again.phase, again.elapsed_s, again.items_per_s) == (A, "window", 1.0, 4.35)


def test_a_layout_whose_turns_are_over_is_not_started_any_more() -> None:
    follower = Silent()
    taking_turns(follower)
    follower.window_taken(taken(()), 8, 20, None)
    follower.in_turns([A], A)
    one = follower.live()
    follower.in_turns([], None)

    assert (one.started, one.layout, one.n_taken) == ((A,), A, 8)
    assert follower.live().started == ()
    assert "started" not in moment_facts(follower.live())


def test_layouts_that_take_turns_are_in_the_file_that_others_watch(tmp_path: Path) -> None:
    file = LiveFile(tmp_path / "s.tuner.db", lambda *_: None)
    with file.written(0):
        taking_turns(file)
        file.launch_started(B, 3, 0, None)  # that is written at once
        found = read_live(tmp_path / "s.tuner.db")

    assert found is not None
    assert found.started == (A, B)
    assert moment_facts(found)["started"] == ["4x6", "6x4"]
