"""bench/robustness.py: its worlds can be read, and its figures against studies whose results are known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tuner.config.suite import read_suite
from tuner.core.domain.strategy import Proposal

from ..bench_modules import loaded
from ..conftest import ROOT

WORLDS = sorted((ROOT / "bench" / "worlds").glob("*.json"))


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    with loaded("ranking", "robustness") as modules:
        yield modules.robustness


def test_a_world_that_is_no_suite_ends_with_one_line(
    bench: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (wrong := tmp_path / "wrong.json").write_text('{"name": "wrong"}')
    for name in (wrong, tmp_path / "absent.json"):
        monkeypatch.setattr("sys.argv", ["robustness.py", str(name)])
        with pytest.raises(SystemExit) as ended:
            bench.main()
        assert ended.value.code == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("path", WORLDS, ids=lambda path: path.stem)
def test_every_world_is_a_suite_with_the_name_of_its_file(path: Any) -> None:
    assert read_suite(path).name == path.stem


def test_a_few_windows_that_lost_most_of_their_throughput_are_no_change_of_a_ratio(bench: Any) -> None:
    """Of these six studies each finds a change if the test does not leave out one launch after the other."""
    job = bench.Job(read_suite(ROOT / "bench" / "worlds" / "rare-outliers.json"), "strict", 1, 3)

    assert not any(bench.one_study(job, number).warned for number in (41, 51, 83, 87, 108, 110))


def test_noise_of_a_layout_that_leads_each_heat_is_no_change_of_a_ratio(bench: Any) -> None:
    """Each of these studies finds a change if noise of a heat's first launch counts as that of the others."""
    world = read_suite(ROOT / "bench" / "worlds" / "busy-noisy-best.json")
    job = bench.Job(world, "strict", seed=0, n_blocks=3, in_turns=True)

    assert not any(bench.one_study(job, number).warned for number in (1, 41, 53, 79, 96))


def test_a_study_without_an_answer_counts_as_right_up_to_five_percent(bench: Any) -> None:
    right = bench.Study(False, True, True, 50, right_in_hours=True)
    none = bench.Study(False, False, False, 2000)
    few = bench.summary("w", "strict", [right] * 97 + [none] * 3)
    many = bench.summary("w", "strict", [right] * 80 + [none] * 20)

    assert (few["right"]["share"], few["unanswered"]) == (1.0, 0.03)
    assert (many["right"]["share"], many["unanswered"]) == (0.85, 0.2)
    assert (few["right_in_hours"]["share"], many["right_in_hours"]["share"]) == (1.0, 0.85)
    assert few["mean_windows"] == 0.97 * 50 + 0.03 * 2000


def test_a_race_in_a_tidy_world_is_right_and_one_that_is_repeated_is_the_same(bench: Any) -> None:
    job = bench.Job(read_suite(ROOT / "bench" / "worlds" / "lone-winner.json"), "strict", 1, 3)
    first = bench.one_study(job, 0)

    assert (first.answered, first.right, first.right_in_hours, first.false) == (True, True, True, False)
    assert bench.one_study(job, 0) == first


def test_a_world_with_noise_as_in_slices_has_as_much_noise_as_before(bench: Any) -> None:
    world = read_suite(ROOT / "bench" / "worlds" / "tidy.json")
    split = bench.with_own_second(world, 0.05)
    noise = split.noise
    of_windows = noise.drift_sd**2 + noise.sample_sd_1s**2 / 600 + noise.window_sd**2

    assert of_windows == pytest.approx(world.noise.window_sd**2)
    assert (noise.sample_sd_1s, noise.launch_sd) == (0.05, world.noise.launch_sd)
    with pytest.raises(SystemExit, match="less noise"):
        bench.with_own_second(world, 2.0)


def test_windows_in_slices_are_shorter_if_most_noise_is_of_the_host(bench: Any) -> None:
    world = read_suite(ROOT / "bench" / "worlds" / "lone-winner.json")
    before = bench.one_study(bench.Job(world, "strict", 1, 3, True), 0)
    split = bench.one_study(bench.Job(bench.with_own_second(world, 0.05), "strict", 1, 3, True), 0)

    assert split.right
    assert split.hours / split.n_windows < before.hours / before.n_windows / 3


def test_a_race_by_heats_and_one_on_two_hosts_find_the_best_layout_in_less_time_on_two_hosts(
    bench: Any,
) -> None:
    world = read_suite(ROOT / "bench" / "worlds" / "lone-winner.json")
    heats = bench.one_study(bench.Job(world, "strict", 1, 3, True), 0)
    hosts = bench.one_study(bench.Job(world, "strict", 1, 3, False, 2), 0)

    for one in (heats, hosts):
        assert (one.answered, one.right, one.right_in_hours, one.false) == (True, True, True, False)
    # of launch and window, 720 s: a heat skips up to a part of each slice; two hosts work at once
    assert heats.hours > heats.n_windows * 720 / 3600
    assert hosts.hours == pytest.approx(hosts.n_windows * 720 / 3600 / 2, rel=0.1)


def test_a_race_under_a_drift_that_differs_between_layouts_is_more_often_right_in_its_hours(
    bench: Any,
) -> None:
    job = bench.Job(read_suite(ROOT / "bench" / "worlds" / "unequal-slow-drift.json"), "strict", 1, 3)
    done = [bench.one_study(job, number) for number in range(12)]

    assert sum(one.right for one in done) < sum(one.right_in_hours for one in done)


def test_a_full_grid_counts_windows_and_intervals(bench: Any) -> None:
    job = bench.Job(read_suite(ROOT / "bench" / "worlds" / "identical-tide.json"), "grid", 1, 3)
    study = bench.one_study(job, 0)

    assert (study.n_windows, study.n_intervals, study.n_ratios) == (24, 8, 7)
    assert 0 <= study.n_covering <= study.n_covering_in_hours <= 8
    assert 0.05 < study.width / 8 < 1


def test_the_truth_in_the_hours_of_a_study_has_the_tide_of_these_hours(bench: Any) -> None:
    world = read_suite(ROOT / "bench" / "worlds" / "identical-unequal-tide.json")
    job, truth = bench.Job(world, "grid", 1, 3), dict(zip(world.layouts, world.surfaces[0], strict=True))
    box = bench.WatchedBox(world, 0, "1/0/0")
    box.now_s = 3600.0
    box.ages_s = [420.0]
    an_hour = bench._truth_in_hours(job, box)
    box.now_s = 24 * 3600.0
    a_day = bench._truth_in_hours(job, box)

    assert 0 < max(abs(an_hour[x] / truth[x] - 1) for x in truth) < 0.25
    assert max(abs(a_day[x] / truth[x] - 1) for x in truth) < 1e-3


def test_the_truth_of_a_study_has_the_ages_of_the_launches_that_it_measured(bench: Any) -> None:
    world = read_suite(ROOT / "bench" / "worlds" / "leaking-best.json")
    box = bench.WatchedBox(world, 0, "1/0/0")
    for layout in world.layouts:
        box.take(Proposal(layout, 600.0))
    best = max(box.truth, key=lambda layout: box.truth[layout])
    seen = bench._truth_in_hours(bench.Job(world, "strict", 1, 3), box)

    assert seen[best] / box.truth[best] == pytest.approx(math.exp(-0.05 * 420 / 3600))
    assert all(seen[x] == pytest.approx(box.truth[x]) for x in box.truth if x != best)


def test_a_check_of_a_full_grid_counts_its_own_windows_and_wrong_verdicts(bench: Any) -> None:
    job = bench.Job(read_suite(ROOT / "bench" / "worlds" / "quiet-unequal-tide.json"), "check", 1, 3)
    done = [bench.one_study(job, number) for number in range(3)]
    found = bench.check_summary(
        "w", "check", [*done, bench.CheckedStudy("stale", (True, False), (False, False), 8)]
    )

    assert all(one.n_windows >= 4 and one.state in ("right", "stale", "open") for one in done)
    assert all(one.wrong == (False, False) for one in done if one.state == "open")
    assert found["wrongly_stale"]["share"] >= 0.25
    assert found["wrongly_right_in_hours"]["share"] == 0
