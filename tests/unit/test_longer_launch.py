"""A race launches an answer that loses throughput or grows in memory for an hour, and its rival, too."""

from __future__ import annotations

import json
from functools import cache
from math import log
from pathlib import Path
from statistics import fmean

import pytest

from tuner.adapters.virtual.box import Noise, VirtualBox, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.app.exporting import compare_studies
from tuner.app.model import calibrate_file, explain_file
from tuner.app.study_queries import overview, rank_file, replay_study
from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.ranking.aging import Halves, LongerLaunch
from tuner.core.ranking.ranked import Ranking
from tuner.core.search.recheck import Asked
from tuner.core.search.strategies.of_study import strategy_of
from tuner.reports.ranking.answer import answer_sentence
from tuner.reports.ranking.ranking_data import render_ranking_json
from tuner.reports.ranking.ranking_words import notes
from tuner.study.launch.outcome import StudyOutcome
from tuner.study.pilot_run import read_pilot
from tuner.study.recheck_plan import read_past
from tuner.study.run import run_study

from ..leaking_studies import MB, kept
from ..wording import wording

A, B = Layout(4, 6), Layout(1, 24)
HOUR_S = 3600.0
FALLS, GROWS = "throughput-falls", "memory-grows"


def service(trend_per_h: float = 0.0, growth_per_h: float = 0.0) -> VirtualService:
    """A is 1.25 times as fast as B at first."""
    return VirtualService(
        {A: 200.0, B: 160.0},
        trend_per_h={A: trend_per_h},
        leak_bytes_per_s={A: growth_per_h / HOUR_S},
        start_s=0.0,
        settle_s=0.0,
    )


def race(of: VirtualService, **asked: object) -> MemoryStore:
    return MemoryStore(virtual_study(of, warms_cache=False, strategy="race", **asked))


def measure(
    of: VirtualService, store: MemoryStore, stop: PlannedStop | None = None
) -> tuple[StudyOutcome, list[str]]:
    """Go on with a study; gives the slugs of its warnings, too."""
    progress = MemoryProgress()
    noise = Noise(window_sd=0.01, launch_sd=0.005, sample_sd=0.02)
    outcome = run_study(
        VirtualBox(of, noise).box(), store, progress, stop or PlannedStop(), strategy_of(store.study())
    )
    return outcome, [slug for slug, _ in progress.warnings]


def longer(store: MemoryStore) -> list[Layout]:
    return [one.layout for _, one in store.launches() if one.n_windows == 6]


@cache
def measured(trend_per_h: float, growth_per_h: float = 0.0, most_bytes: float | None = None) -> MemoryStore:
    of = service(trend_per_h, growth_per_h)
    store = race(of, limits={} if most_bytes is None else {"memory_bytes": most_bytes})
    measure(of, store)
    return store


def ranked(path: Path, store: MemoryStore) -> Ranking:
    return rank_file(kept(path / "s.tuner.db", store))[1]


def test_an_answer_that_falls_below_its_rival_within_an_hour_is_none(tmp_path: Path) -> None:
    store = measured(-1.0)
    ranking = ranked(tmp_path, store)

    assert longer(store) == [A, B]
    assert ranking.claim is not None
    assert not ranking.claim.answer.reached
    assert answer_sentence(ranking.claim) == wording("rank.answer-overtaken")
    assert wording("rank.longer-launch-overtaken") in notes(store.study(), ranking)


def test_the_next_step_is_a_race_in_windows_of_an_hour(tmp_path: Path) -> None:
    step = ranked(tmp_path, measured(-1.0)).next_step

    assert step is not None
    assert step.slug == "longer"
    assert step.words[-6:] == ("--layouts", "4x6,1x24", "--window", "1h", "--min-window", "1h")


def test_an_answer_that_falls_but_stays_ahead_of_its_rival_is_kept(tmp_path: Path) -> None:
    store = measured(-0.15)
    record, ranking = rank_file(kept(tmp_path / "s.tuner.db", store))
    facts = json.loads(render_ranking_json(record, ranking))["study"]

    assert longer(store) == [A, B]
    assert ranking.claim is not None
    assert ranking.claim.answer.reached
    assert [one["slug"] for one in facts["warnings"]] == [FALLS]
    assert facts["longer_launch"]["rival"] == "1x24"
    assert facts["longer_launch"]["late_to_rival_ratio"] == pytest.approx(1.12, abs=0.03)
    assert not facts["longer_launch"]["is_overtaken"]


def test_a_race_whose_answer_does_not_change_ends_without_longer_launches(tmp_path: Path) -> None:
    store = measured(0.0)

    assert longer(store) == []
    assert ranked(tmp_path, store).longer is None


@pytest.mark.parametrize(("most_bytes", "is_longer"), [(1000 * MB, True), (5000 * MB, False), (None, False)])
def test_memory_that_grows_matters_if_it_will_exceed_the_limit(
    most_bytes: float | None, is_longer: bool
) -> None:
    store = measured(0.0, 60 * MB, most_bytes)

    assert longer(store) == ([A, B] if is_longer else [])


def test_without_a_limit_it_matters_if_it_will_exceed_the_memory_of_the_host() -> None:
    of = service(growth_per_h=60 * MB)
    small, large = (race(of, provenance=Provenance(memory=memory)) for memory in ("1.0 GiB", "15.6 GiB"))

    assert GROWS in measure(of, small)[1]
    assert longer(small) == [A, B]
    assert GROWS not in measure(of, large)[1]
    assert longer(large) == []


def test_the_race_does_not_learn_from_its_longer_launches() -> None:
    store = measured(-1.0)
    answer = replay_study(store).strategy.answer()
    alone = MemoryStore(store.study())
    for number, launch in store.launches():
        if launch.n_windows != 6:
            new = alone.add_launch(launch)
            for window in store.windows():
                if window.launch_id == number:
                    alone.add_window(new, store.window(number, window.index, window.attempt))
            alone.finish_launch(new, launch)

    assert answer == replay_study(alone).strategy.answer()
    assert replay_study(store).otherwise == ()
    assert replay_study(store).ending() == "over"


@pytest.mark.parametrize(("window_s", "is_longer"), [(40.0, False), (60.0, True)])
def test_a_trend_in_less_than_ten_minutes_of_windows_does_not_cost_two_hours(
    window_s: float, is_longer: bool
) -> None:
    of = service(-2.0)
    store = race(of, window_s=window_s)

    assert (FALLS in measure(of, store)[1]) is is_longer
    assert longer(store) == ([A, B] if is_longer else [])


@pytest.mark.parametrize("n_more", [1, 8])
def test_a_race_that_was_cut_off_in_its_longer_launches_continues_them(n_more: int) -> None:
    of, whole = service(-1.0), measured(-1.0)
    n_before = sum(one.n_windows == 1 for _, one in whole.launches())
    store = race(of)
    first, _ = measure(of, store, PlannedStop(lambda: len(store.windows()) >= n_before + n_more))
    second, _ = measure(of, store)

    assert first.interrupted
    assert second.is_over
    assert set(longer(store)) == {A, B}
    assert len([one for one in store.windows() if not one.void]) == len(whole.windows())


def test_a_race_whose_budget_ends_before_its_longer_launches_says_how_to_continue(tmp_path: Path) -> None:
    of, whole = service(-1.0), measured(-1.0)
    last = max(one.ended_wall_s or 0.0 for _, one in whole.launches() if one.n_windows == 1)
    first = min(one.started_wall_s for _, one in whole.launches())
    store = race(of, budget_s=last - first + 1800.0)
    outcome, slugs = measure(of, store)
    step = ranked(tmp_path, store).next_step

    assert outcome.out_of_budget
    assert FALLS in slugs
    assert longer(store) == []
    assert step is not None
    assert step.sentence == wording("rank.longer-launch-left")
    assert "--resume" in step.words


def test_a_check_compares_with_the_launches_that_the_race_learnt_from() -> None:
    store = measured(-1.0)
    long_ones = {n for n, one in store.launches() if one.n_windows == 6}
    past = read_past(store, Asked(A, (B,), 0.02, 0.95, "strict"))

    assert len(long_ones) == 2
    assert past is not None
    ordinary = [one for one in store.windows() if one.launch_id not in long_ones]
    mean = fmean(log(one.n_done / one.length_s) for one in ordinary if one.layout == A)
    assert past.levels[A] - past.levels[B] == pytest.approx(-past.gaps[B][0])
    assert past.levels[A] == pytest.approx(mean, abs=0.03)  # its hour alone is at half of that


def test_the_time_of_a_study_is_estimated_from_the_launches_that_the_race_learnt_from() -> None:
    store = measured(-1.0)
    pilot = read_pilot(store)

    assert pilot is not None
    counting = [one for _, one in store.launches() if one.warmup_s is not None and one.block >= 0]
    assert pilot.n_launches == len(counting) - 2
    assert pilot.window is not None
    assert pilot.window.mean == pytest.approx(0.018, abs=0.005)  # with the hours 0.22


def test_a_comparison_is_of_the_launches_that_the_race_learnt_from(tmp_path: Path) -> None:
    fallen, steady = measured(-1.0), measured(0.0)
    before = kept(tmp_path / "before.tuner.db", steady)
    after = kept(tmp_path / "after.tuner.db", fallen)

    change = compare_studies(before, after).throughput.of(A)
    assert change is not None
    of_a = [number for number, one in fallen.launches() if one.layout == A and one.warmup_s is not None]
    assert change.n_launches[1] == len(of_a) - 1  # without the hour


def test_a_calibration_and_an_explanation_are_of_the_launches_that_the_race_learnt_from(
    tmp_path: Path,
) -> None:
    store = measured(-1.0)
    long_ones = {number for number, one in store.launches() if one.n_windows == 6}
    file = kept(tmp_path / "s.tuner.db", store)
    ordinary = [one for one in store.windows() if one.layout == A and one.launch_id not in long_ones]

    (of_a,) = [one for one in calibrate_file(file).measured if one.layout == A]
    assert of_a.n_windows == len(ordinary)
    # the ranking's estimate, which corrects for drift: near the mean of these launches
    assert of_a.throughput_per_s == overview(file).ranking.throughput_per_s[A]
    assert of_a.throughput_per_s == pytest.approx(
        sum(one.n_done for one in ordinary) / sum(one.length_s for one in ordinary), rel=0.005
    )
    assert explain_file(file)[2] == overview(file).rules


@pytest.mark.parametrize(
    ("late", "is_overtaken"),
    [
        pytest.param(90.0, False, id="a slow launch, from start to end"),
        pytest.param(84.0, True, id="it loses more than its rival, too"),
    ],
)
def test_the_noise_between_launches_overtakes_no_answer(late: float, is_overtaken: bool) -> None:
    own, rival = Halves(A, 3600.0, 92.0, late), Halves(B, 3600.0, 100.0, 98.0)
    assert LongerLaunch(own, rival, 0.02).is_overtaken is is_overtaken
