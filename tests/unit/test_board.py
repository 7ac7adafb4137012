"""Where each layout stands: from a study file, and from the strategy of a study that runs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.adapters.sqlite.store import SqliteStore
from tuner.adapters.virtual.box import Noise, VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, PlannedStop
from tuner.app.study_queries import overview
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord
from tuner.core.domain.strategy import Answer
from tuner.core.ranking.live_status import BoardKeeper, board_of
from tuner.core.search.strategies.of_study import Followed, strategy_of
from tuner.core.stats.groups import OfBest
from tuner.core.stats.interval import Estimate
from tuner.reports.live.live_words import describe_end, describe_place, describe_standing
from tuner.study.run import run_study

from ..wording import wording
from . import boards

STUDIES = Path(__file__).resolve().parents[2] / "bench" / "studies"


@pytest.mark.parametrize("file", sorted(STUDIES.glob("*.tuner.db")), ids=lambda file: file.name)
def test_every_layout_of_a_real_study_has_a_place_and_its_ranking_s_value(file: Path) -> None:
    found = overview(file)

    board = board_of(found)

    assert {place.layout for place in board.places} == set(found.study.layouts)
    assert board.n_windows == sum(not window.void for window in found.windows)
    assert board.n_void == sum(bool(window.void) for window in found.windows)
    of_row = {row.layout: row.throughput_per_10min for row in found.ranking.rows}
    assert all(place.value == of_row[place.layout] for place in board.places)
    assert board.stage in ("over", "at-rest")
    assert board.live is None


def test_a_race_that_was_cut_off_is_not_over_and_a_grid_that_is_whole_is() -> None:
    race = overview(STUDIES / "crash-processor-2-cores-busy.tuner.db")
    grid = overview(STUDIES / "gunicorn-2-cores-busy.tuner.db")

    assert race.study.strategy == "race"
    assert board_of(race).stage == "at-rest"
    assert board_of(race).places[0].state == "leads"
    assert {place.state for place in board_of(race).places[1:]} == {"open"}
    assert board_of(grid).stage == "over"
    assert board_of(replace(grid, is_held=True)).stage == "running"


def test_a_layout_against_itself_names_nobody() -> None:
    board = board_of(overview(STUDIES / "crash-processor-2-cores-busy.aa.tuner.db"))

    assert board.answer is None
    assert [place.state for place in board.places] == ["open"]
    assert board.n_void == 11  # of 24 windows: each was tried as often as it may be, so its pairs are taken
    assert board.stage == "over"
    assert describe_standing(board) == wording("watch.pairs-are-taken")


def raced(tmp_path: Path, **asked: object) -> Path:
    """A race on a virtual box, of layouts that take 200, 400 and 800 MiB."""
    service = VirtualService(
        {Layout(2, 1): 10.0, Layout(4, 1): 20.0, Layout(8, 1): 30.0},
        {Layout(2, 1): 2.0, Layout(4, 1): 4.0, Layout(8, 1): 8.0},
    )
    file = tmp_path / "s.tuner.db"
    study = replace(virtual_study(service, window_s=60.0, warmup_s=10.0), strategy="race", **asked)
    with SqliteStore.create(file, study) as store:
        noise = Noise(window_sd=0.002, launch_sd=0.002, drift_sd=0.002, sample_sd=0.01)
        box = VirtualBox(service, noise, seed=3, clock=VirtualClock.resumed(store)).box()
        run_study(box, store, MemoryProgress(), PlannedStop(), strategy_of(study))
    return file


def test_a_race_tells_which_limit_a_layout_passes_and_what_is_slower_is_not_out_for_one(
    tmp_path: Path,
) -> None:
    board = board_of(overview(raced(tmp_path, limits={"load": 6.0})))

    data = {str(place.layout): (place.state, describe_place(place, board)) for place in board.places}
    assert data["4x1"] == ("leads", "the answer")
    assert data["8x1"][0] == "kept-out"
    assert re.fullmatch(r"load \d\S*, over 6", data["8x1"][1])
    assert data["2x1"][0] == "behind"
    assert wording("rank.that-keeps-load") in describe_standing(board)


def test_a_budget_that_is_spent_is_reported_as_such_and_one_that_is_not_as_the_end(tmp_path: Path) -> None:
    found = overview(raced(tmp_path, budget_s=240.0))
    started = overview(STUDIES / "crash-processor-2-cores-busy.tuner.db")

    assert board_of(found).stage == "at-rest"
    assert wording("watch.budget-is-spent") in describe_end(board_of(found))
    assert wording("watch.or-after-its-budget") in describe_end(board_of(replace(found, is_held=True)))
    assert "spent" not in describe_end(board_of(started))


def launch(layout: Layout, error: str | None) -> LaunchRecord:
    return LaunchRecord(0, 0, 1, layout, "stage-1", 0.0, None, None, None, error)


def test_a_study_that_runs_is_reported_by_its_strategy_and_failures_by_their_launches() -> None:
    study = boards.study_of(["4x6", "6x4", "1x24", "24x1", "12x2"])
    a, b, c, d, e = study.layouts
    keeper = BoardKeeper(study)
    for layout in (a, b, c):
        keeper._add(layout, 2400, 600.0, is_void=False)
    keeper._add(e, 0, 600.0, is_void=True)
    estimates = {a: Estimate(4.0, 3.9, 4.1), b: Estimate(3.95, 3.8, 4.2), c: Estimate(3.0, 2.9, 3.12)}
    launches = [launch(d, "out of memory"), launch(a, None)]

    beside = {b: OfBest(Estimate(0.99, 0.95, 1.03)), c: OfBest(Estimate(0.75, 0.7, 0.8))}

    board = keeper.board(Answer(a, False, "strict", (b,)), estimates, (d,), lambda: launches, None, beside)

    states = {place.layout: (place.state, place.reason) for place in board.places}
    assert states == {
        a: ("leads", None), b: ("open", None), c: ("behind", None), d: ("failed", "out of memory"),
        e: ("unseen", wording("rank.no-window-counts")),
    }  # fmt: skip
    assert [place.layout for place in board.places] == [a, b, c, d, e]
    assert board.places[0].value == Estimate(2400.0, 3.9 * 600, 4.1 * 600)
    assert board.places[2].behind_ratio == pytest.approx(1 - 0.8)
    assert board.places[2].beside == Estimate(0.75 * 2400, 0.7 * 2400, 0.8 * 2400)
    assert (board.n_windows, board.n_void) == (3, 1)


def test_a_race_under_way_tells_of_its_limits_what_its_strategy_knows() -> None:
    study = boards.study_of(["4x6", "6x4", "8x3"], limits={"load": 20.0})
    a, b, c = study.layouts
    keeper = BoardKeeper(study)
    for layout in study.layouts:
        keeper._add(layout, 2400, 600.0, is_void=False)
    estimates = {a: Estimate(4.0, 3.9, 4.1), b: Estimate(3.95, 3.8, 4.2), c: Estimate(5.0, 4.9, 5.1)}
    judged = {b: boards.not_shown("load", 20.0, 19.8), c: boards.beyond("load", 20.0, 25.0)}

    board = keeper.board(Answer(a, False, "strict", (b,)), estimates, (), tuple, judged)

    assert [(place.state, describe_place(place, board)) for place in board.places] == [
        ("leads", "leads"),
        ("open", wording("watch.may-be-best")),
        ("kept-out", wording("watch.load-over")),
    ]
    assert board.places[2].reason is not None
    assert "25" in board.places[2].reason
    led = keeper.board(Answer(b, False, "strict", doubt=0.01), estimates, (), tuple, judged)
    assert describe_standing(led) == wording("watch.leads-but-not-shown-to-keep")


def test_a_full_grid_under_way_names_no_leader_where_there_are_limits() -> None:
    study = boards.study_of(["4x6", "6x4"], strategy="all", limits={"load": 20.0})
    a, b = study.layouts
    keeper = BoardKeeper(study)
    for layout in (a, b):
        keeper._add(layout, 2400, 600.0, is_void=False)

    board = keeper.board(Answer(a, False, "none"), {a: Estimate(4.0), b: Estimate(3.0)}, (), tuple)

    assert board.answer is None
    assert {place.state for place in board.places} == {"open"}
    assert "tuner watch" in describe_standing(board)


def test_before_the_first_block_is_whole_a_layout_has_its_plain_mean() -> None:
    study = boards.study_of(["4x6", "6x4"])
    keeper = BoardKeeper(study)
    keeper._add(study.layouts[0], 2612, 600.0, is_void=False)

    board = keeper.board(Answer(None, False, "strict"), {}, (), tuple)

    assert [(place.state, place.value.mean) for place in board.places] == [("open", 2612.0), ("unseen", None)]


def test_a_strategy_that_is_followed_is_asked_once_per_block() -> None:
    class Counting:
        asked = 0

        def answer(self) -> Answer:
            self.asked += 1
            return Answer(None, False, "none")

        def estimates(self) -> dict[Layout, Estimate]:
            return {}

        def learn(self, windows: object, failed: object = ()) -> None:
            pass

    strategy = Counting()
    followed = Followed(strategy)  # type: ignore[arg-type]
    for _ in range(3):
        followed.answer()
        followed.estimates()
    assert strategy.asked == 1

    followed.learn((), (Layout(1, 1),))
    followed.answer()

    assert strategy.asked == 2
    assert followed.failed == (Layout(1, 1),)
    assert followed.expected_rest() is None
    assert followed.verdicts() == {}
