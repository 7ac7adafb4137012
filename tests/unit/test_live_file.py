"""The file beside a study that says what runs now: there while it holds, whatever is in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tuner.adapters.sqlite.store import SqliteStore
from tuner.adapters.terminal.live_file import LiveFile, live_path, read_live, render_live
from tuner.app.study_queries import live_now, overview
from tuner.cli.watch import _Look
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord
from tuner.core.domain.window import Reading, Sample, Usage, VoidReason, Window

from ..wording import end_of, wording
from . import boards


def no_warning(slug: str, text: str) -> None:
    pytest.fail(f"{slug}: {text}")


def new_study(path: Path) -> SqliteStore:
    return SqliteStore.create(path, boards.study_of(["4x6", "6x4"]))


def test_what_runs_is_in_the_file_as_long_as_the_study_is_measured(tmp_path: Path) -> None:
    study = tmp_path / "s.tuner.db"
    file = LiveFile(study, no_warning)
    file.warning("no-backend", "told before the study is held")
    assert read_live(study) is None

    with new_study(study), file.written(7):
        file.launch_started(Layout(4, 6), 2, 0, 3600.0)
        live, is_held = live_now(study)
        shown = overview(study)

    assert is_held
    assert live is not None
    assert (live.phase, live.layout, live.block, live.n_taken) == ("starting", Layout(4, 6), 2, 7)
    assert live.warnings == (("no-backend", wording("watch.text-of-a-warning")),)
    assert shown.live is not None
    assert shown.is_held
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.tuner.db"]
    assert live_now(study) == (None, False)
    assert overview(study).live is None
    assert overview(study).is_over is False


def test_a_window_that_does_not_count_is_reported_too(tmp_path: Path) -> None:
    study = tmp_path / "s.tuner.db"
    file = LiveFile(study, no_warning)
    with file.written(7, 1):
        before = read_live(study)
        for void in ((VoidReason("foreign-cpu", "a neighbour"),), ()):
            file._written_at_s -= 2.0
            file.window_taken(taken(void), 8, None, None)
        after = read_live(study)

    assert before is not None
    assert after is not None
    assert (before.n_taken, before.n_void) == (7, 1)
    assert (after.n_taken, after.n_void) == (8, 2)


def taken(void: tuple[VoidReason, ...]) -> Window:
    samples = (Sample(0, 0, 0, 18.0, 1.0, 1.0, 20), Sample(600, 2612, 0, 19.0, 1.0, 1.0, 22))
    usage = tuple(Usage(x, x, 0, 0, 0, 0, 0, 0, None, 4, 24, None, None, None) for x in (0, 600))
    readings = (Reading(0, 0, 0), Reading(600, 2612, 0))
    return Window(Layout(4, 6), 0, 1, 0.0, 600.0, 2612, 0, samples, usage, readings, void)


def test_watch_looks_again_after_a_window_that_does_not_count(tmp_path: Path) -> None:
    study, layout = tmp_path / "s.tuner.db", Layout(4, 6)
    file = LiveFile(study, no_warning)
    void = taken((VoidReason("foreign-cpu", "a neighbour"),))
    with new_study(study) as store, file.written(0):
        file.launch_started(layout, 0, 0, None)
        launch_id = store.add_launch(LaunchRecord(0, 0, 1, layout, "stage-1", 0.0, 1.0, 1.0, True))
        look = _Look(study)
        before = look.board
        store.add_window(launch_id, void)
        file._written_at_s -= 2.0
        file.window_taken(void, 0, None, None)
        look.renew()

    assert (before.n_void, look.board.n_void) == (0, 1)


def test_what_a_tuner_before_this_one_says_is_read(tmp_path: Path) -> None:
    live = boards.live_of("4x6")
    said = json.loads(render_live(live))
    del said["n_void"]
    live_path(tmp_path / "s.tuner.db").write_text(json.dumps(said))

    assert read_live(tmp_path / "s.tuner.db") == live


def test_seconds_of_a_window_are_written_every_other_one(tmp_path: Path) -> None:
    study = tmp_path / "s.tuner.db"
    file = LiveFile(study, no_warning)
    with file.written(0):
        file.launch_started(Layout(4, 6), 0, 0, None)
        for n in range(100):  # far less than two seconds
            file.sampled(Layout(4, 6), n, 600.0, Sample(n, n, 0, 1.0, 1.0, 1.0, 3), 1.5)
        before = read_live(study)
        file._written_at_s -= 2.0
        file.sampled(Layout(4, 6), 100.0, 600.0, Sample(100, 100, 0, 1.0, 1.0, 1.0, 3), 1.5)
        after = read_live(study)

    assert before is not None
    assert before.phase == "starting"
    assert after is not None
    assert (after.phase, after.elapsed_s, after.items_per_s, after.n_active) == ("window", 100.0, 1.5, 3)


def test_a_file_that_a_kill_left_behind_says_nothing(tmp_path: Path) -> None:
    study = tmp_path / "s.tuner.db"
    new_study(study).close()
    live_path(study).write_text(render_live(boards.live_of("4x6")))

    assert read_live(study) == boards.live_of("4x6")
    assert live_now(study) == (None, False)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", "{}", "null", "\0", "[" * 100_000, '{"format": 2}']
    + [
        json.dumps({**json.loads(render_live(boards.live_of("4x6"))), **wrong})
        for wrong in (
            {"layout": 3}, {"layout": "0x0"}, {"phase": "x"}, {"elapsed_s": "nan"}, {"n_taken": 1e400},
            {"warnings": 3}, {"warnings": [[1]]}, {"load1": []}, {"at_wall_s": 1e300}, {"remaining_s": 1e12},
            {"n_planned": -1}, {"window_s": -5}, {"n_active": 10**300},
        )
    ],
)  # fmt: skip
def test_a_file_that_is_none_of_ours_says_nothing(tmp_path: Path, text: str) -> None:
    study = tmp_path / "s.tuner.db"
    live_path(study).write_text(text)

    assert read_live(study) is None


def test_a_link_to_a_study_shows_what_runs(tmp_path: Path) -> None:
    study, link = tmp_path / "s.tuner.db", tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    study.touch()
    link.symlink_to(study)

    assert live_path(link) == live_path(study)


def test_where_it_cannot_be_written_the_study_is_reported_once_and_continues(tmp_path: Path) -> None:
    lines: list[str] = []
    file = LiveFile(tmp_path / "missing" / "s.tuner.db", lambda slug, text: lines.append(f"{slug}: {text}"))
    with file.written(0):
        file.launch_started(Layout(4, 6), 0, 0, None)

    assert len(lines) == 1
    assert lines[0].startswith("no-live-file: ")
    assert wording("watch.live-file-cannot-be-written") in end_of(lines[0])


def test_a_link_that_somebody_laid_is_not_written_through(tmp_path: Path) -> None:
    study, theirs = tmp_path / "s.tuner.db", tmp_path / "theirs"
    theirs.write_text("kept")
    (tmp_path / "s.tuner.db-live").symlink_to(theirs)
    (tmp_path / "s.tuner.db-live.new").symlink_to(theirs)
    lines: list[str] = []

    with LiveFile(study, lambda slug, _: lines.append(slug)).written(0):
        pass

    assert theirs.read_text() == "kept"
    assert lines == ["no-live-file"]
