"""Replaying a study that was measured: its own noise comes back, at its own size."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import exp, log, sqrt
from random import Random
from statistics import fmean, variance

import pytest

from tuner.core.domain.layout import Layout, blocks
from tuner.core.domain.records import LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.strategy import Proposal
from tuner.core.domain.window import VoidReason
from tuner.core.errors import ConfigError
from tuner.core.planning.replay import ReplayJob, replay
from tuner.core.search.recorded import RecordedStudy, record_study
from tuner.core.stats.two_way_anova import Observation, fit

from ..raising import raises
from ..wording import key_of, wording

LAYOUTS = (Layout(1, 24), Layout(4, 6), Layout(24, 1))
RATES = {LAYOUTS[0]: 10.0, LAYOUTS[1]: 20.0, LAYOUTS[2]: 19.0}  # items/s
STUDY = StudyRecord(
    "svc", "all", LAYOUTS, 24, 24.0, 100.0, None, 3, 2, 1, None, 0.0, StoredConfig("{}"), within_ratio=0.03
)


def taken(
    n_blocks: int,
    *,
    n_windows: int = 2,
    window_sd: float = 0.0,
    launch_sd: float = 0.0,
    drift: float = 0.0,
    seed: int = 1,
) -> tuple[dict[int, LaunchRecord], list[WindowRecord]]:
    """What a study of LAYOUTS gave: each launch takes 20 s, then windows of 100 s; drift is +, -, +, ..."""
    random, launches, windows, now_s = Random(seed), {}, [], 1000.0
    for block, order in enumerate(blocks(LAYOUTS, n_blocks, 1)):
        for position, layout in enumerate(order):
            number = len(launches)
            launches[number] = LaunchRecord(block, position, 1, layout, "box", now_s, 5.0, 15.0, True)
            now_s += 20.0
            level = log(RATES[layout]) + launch_sd * random.gauss() + drift * (-1) ** block
            for index in range(n_windows):
                n_done = round(1e6 * 100 * exp(level + window_sd * random.gauss()))
                windows.append(window(number, block, layout, index, now_s, n_done))
                now_s += 100.0
    return launches, windows


def window(launch: int, block: int, layout: Layout, index: int, at_s: float, n_done: int) -> WindowRecord:
    return WindowRecord(
        launch_id=launch, block=block, layout=layout, box="box", index=index, attempt=1,
        started_wall_s=at_s, length_s=100.0, n_done=n_done, n_failed=0, load1_mean=1.0, load1_max=1.0,
        n_active_mean=None, service_cpu_s=1.0, tuner_cpu_s=0.0, backend_cpu_s=0.0, foreign_cpu_s=0.0,
        steal_s=0.0, pss_bytes=None, void=(),
    )  # fmt: skip


def recorded(n_blocks: int = 4, **noise: float) -> RecordedStudy:
    return record_study("svc", STUDY, *taken(n_blocks, **noise))  # type: ignore[arg-type]


def test_the_study_s_estimates_are_the_truth_and_its_margin_and_windows_the_goal() -> None:
    study = recorded()
    box = study.box(0, "1")
    goal = study.goal("strict")

    assert [exp(truth) for truth in study.truths] == pytest.approx(
        [6e8 * RATES[x] / 1e0 / 1 for x in LAYOUTS]
    )
    assert [box.is_right(layout) for layout in LAYOUTS] == [False, True, False]
    assert (goal.within, goal.min_window_s, goal.max_window_s, goal.cores) == (0.03, 100.0, 100.0, 24)
    assert study.launch_s == pytest.approx(20.0)


def test_launches_and_windows_differ_as_much_as_they_did_in_the_study() -> None:
    study = recorded(100, window_sd=0.05, launch_sd=0.03)
    box = study.box(0, "1")
    pairs = [[log(seen.value) for seen in box.take(Proposal(LAYOUTS[1], 100.0, 2))] for _ in range(2000)]
    within = sqrt(fmean([(one - other) ** 2 / 2 for one, other in pairs]))
    between = sqrt(variance([fmean(pair) for pair in pairs]))

    # The study's 300 launches tell a variance to sqrt(2 / 200), the 2000 drawn to sqrt(2 / 2000): of the sd
    # half of that; 4 of these are allowed.
    assert within == pytest.approx(0.05, rel=4 * (1 / sqrt(2 * 300) + 1 / sqrt(2 * 2000)))
    assert between == pytest.approx(sqrt(0.03**2 + 0.05**2 / 2), rel=4 * (1 / sqrt(400) + 1 / sqrt(4000)))


def test_what_fitting_took_from_few_launches_is_given_back() -> None:
    launches, windows = taken(3, n_windows=1, launch_sd=0.03)
    study = record_study("svc", STUDY, launches, windows)
    seen = [Observation(LAYOUTS.index(x.layout), x.block, log(6.0 * x.n_done)) for x in windows]

    drawn = [one for launch in study.launches for one in launch]
    assert fmean([one**2 for one in drawn]) == pytest.approx(fit(seen, 3).residual_variance)


def test_a_launch_is_drawn_with_its_windows_together() -> None:
    study = recorded(3, window_sd=0.05, launch_sd=0.03)
    box = study.box(0, "1")
    drawn = {tuple(sorted(launch)) for launch in study.launches}

    for _ in range(20):
        values = [log(seen.value) - study.truths[0] for seen in box.take(Proposal(LAYOUTS[0], 100.0, 2))]
        drift = [box._drift(seen) for seen in (box.now_s - 150.0, box.now_s - 50.0)]
        plain = sorted(value - one for value, one in zip(values, drift, strict=True))
        assert any(plain == pytest.approx(one) for one in drawn)


def test_drift_comes_back_block_by_block_whatever_is_launched() -> None:
    study = recorded(40, drift=0.06)
    box = study.box(0, "1")
    values = [
        log(box.take(Proposal(layout, 100.0))[0].value) - study.truths[number]
        for _ in range(200)
        for number, layout in enumerate(LAYOUTS)
    ]

    # A path that goes in straight lines between +0.06 and -0.06 is even over that range.
    assert max(map(abs, values)) <= 0.06 + 1e-6
    assert sqrt(fmean([value**2 for value in values])) == pytest.approx(0.06 / sqrt(3), rel=0.1)
    assert fmean([abs(one - other) for one, other in pairwise(values)]) < 0.06


def test_void_windows_and_the_warming_launch_do_not_count() -> None:
    launches, windows = taken(4)
    void = replace(windows[0], n_done=1, void=(VoidReason("worker-died", ""),))
    warming = replace(windows[1], block=-1, n_done=1)

    assert record_study("svc", STUDY, launches, [*windows[2:], void, warming]).truths == pytest.approx(
        recorded().truths
    )


def test_a_study_whose_blocks_are_single_launches_is_taken_as_one_block() -> None:
    launches, windows = taken(3, launch_sd=0.02)
    single = [replace(one, block=number) for number, one in enumerate(windows)]
    alone = [replace(one, block=one.launch_id) for one in single]
    study = record_study("svc", STUDY, launches, alone)

    assert len(study.drift) == 1
    assert study.box(0, "1")._drift(1e6) == 0.0


@pytest.mark.parametrize(
    ("n_blocks", "n_layouts", "said"),
    [(1, 3, wording("simulate.one-launch-of-each")), (3, 1, wording("simulate.layouts-without-windows"))],
    ids=key_of,
)
def test_a_study_too_small_to_replay_is_refused(n_blocks: int, n_layouts: int, said: str) -> None:
    launches, windows = taken(n_blocks)
    few = [one for one in windows if one.layout in LAYOUTS[:n_layouts]]

    with raises(ConfigError, said):
        record_study("svc", STUDY, launches, few)


def test_strategies_are_replayed_on_it_and_the_seed_decides() -> None:
    study = recorded(6, window_sd=0.02, launch_sd=0.02, drift=0.03)
    job = ReplayJob(study, "successive-halving", seed=5)
    runs = [replay(job, 0, repeat) for repeat in range(20)]

    assert runs == [replay(job, 0, repeat) for repeat in range(20)]
    assert sum(one.right for one in runs) >= 15
    assert {one.n_windows for one in runs} == {29}  # a budget of 30
