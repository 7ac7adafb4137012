"""Pools for jobs that compute and sleep: what is made of runs whose cause is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest

from tuner.lab.experiments.experiment import At, LabClaim, LabRun, Outcome, outcome
from tuner.lab.experiments.pi_pools import CPU_S, PiPools
from tuner.lab.experiments.pi_pools_seen import (
    ALONE,
    CPU,
    FIXED,
    JITTER,
    OWN,
    PYTHON,
    SCHEDULED,
    SEMAPHORE,
    SLEEPS,
    C,
)
from tuner.lab.experiments.verdicts import Ratio, both, either
from tuner.lab.lab import read_published
from tuner.lab.page import lab_picture
from tuner.lab.report import render_lab

from ..wording import start_of, wording

SEEDS = read_published()
CORES = 4
SLOWER = 1.25  #: a job, when all cores compute
ASLEEP = 17.0
Change = Callable[[At, dict[str, float]], None]


def pi_run(at: At, block: int = 0) -> LabRun:
    """A run on cores that are shared without any loss, in CPU times of a job."""
    work, kind, pool, n = at
    n_jobs = 1 if n == ALONE else round(float(n) * CORES)
    lanes = 1.0 if work == PYTHON else CORES / SLOWER
    asleep = 0.0 if kind == CPU else ASLEEP
    n_waves = n_jobs / CORES if pool == FIXED and n != ALONE else 1.0
    at_once = n_jobs / n_waves
    ratio = n_waves * max(1 + asleep, at_once / lanes)
    wait_ms = 0.5 * at_once * (0.5 if pool == JITTER else 1.0)
    values = {
        "ratio": ratio,
        "batch_s": ratio * CPU_S,
        "job_cpu_s": CPU_S,
        "jobs_per_s": n_jobs / ratio / CPU_S,
        "n_jobs": float(n_jobs),
        "n_cores": float(CORES),
        "n_physical": CORES / 2,
        "n_threads": float(min(n_jobs, CORES) if pool in (FIXED, SCHEDULED) else n_jobs),
        "beat_p99_ms": 1.0,
        "beat_max_ms": 2.0,
        "foreign_cores": 0.1,
        "usable_cores": float(CORES),
    }
    if kind != CPU:
        values["wait_p99_ms"] = wait_ms
    if n == ALONE:
        values["fill_core"] = ratio
    return LabRun(at, block, values)


def pi_outcome(
    change: Change | None = None, seeds: Mapping[str, Any] = SEEDS, *, quick: bool = False, n: int = 3
) -> Outcome:
    """What those runs come to, each changed by *change* first."""
    experiment = PiPools()
    runs = [
        pi_run(at, block)
        for block in range(n)
        for at in experiment.points(list(experiment.published(SEEDS)), quick=quick)
    ]
    for run in runs:
        if change is not None:
            change(run.at, run.values)  # type: ignore[arg-type]
    return outcome(experiment, seeds, runs)


def finding(found: Outcome, begins: str) -> LabClaim:
    (one,) = [one for one in found.findings if one.claim.removeprefix("Not published: ").startswith(begins)]
    return one


@pytest.fixture(scope="module")
def whole() -> Outcome:
    return pi_outcome()


def test_published_sentences_become_ratios_to_a_job_alone() -> None:
    result = PiPools().published(SEEDS)

    assert result[C, CPU, OWN, 1.0]["ratio"] == pytest.approx(1.6)
    assert result[C, SLEEPS, OWN, ALONE] == pytest.approx({"ratio": 55 / 3, "fill_core": 18.5})


def test_each_figure_stands_in_a_sentence() -> None:
    block = SEEDS["pi_pools_2023"]
    said = " ".join([block["source"], *block["facts"]])

    assert all(re.search(rf"\b{re.escape(f'{value:g}')}\b", said) for value in block["figures"].values())


def test_the_model_has_seen_four_kinds_of_jobs_and_no_pool_at_work(whole: Outcome) -> None:
    fitted = [row.at for row in whole.rows if row.is_fitted]
    errors = whole.errors("ratio")

    assert set(fitted) == {
        (C, CPU, OWN, ALONE),
        (C, CPU, OWN, 1.0),
        (C, SLEEPS, OWN, ALONE),
        (PYTHON, CPU, OWN, ALONE),
    }
    by_turns = [at for at in errors if at[0] == C and at[2] in (SEMAPHORE, SCHEDULED)]
    assert len(by_turns) == 14
    assert max(abs(errors[at]) for at in by_turns) < 1e-9
    assert wording("lab.cores-all-compute-worth") in whole.model


def test_the_published_figures_reach_nothing_but_their_column_and_what_is_held_against_it(
    whole: Outcome,
) -> None:
    other = deepcopy(SEEDS)
    other["pi_pools_2023"]["figures"].update(all_cores_s=3.0, with_sleeps_s=70, threads=100)
    found = pi_outcome(seeds=other)

    assert [row.measured for row in found.rows] == [row.measured for row in whole.rows]
    assert [row.modelled for row in found.rows] == [row.modelled for row in whole.rows]
    assert found.follows == whole.follows
    assert [row.published for row in found.rows] != [row.published for row in whole.rows]


def test_cores_that_lose_nothing_starve_nobody_and_leave_nothing_to_mend(whole: Outcome) -> None:
    """18 times asleep, 1.25 times slower: full from 14.4 per core on, so 15 still are flat, 20 are not."""
    verdicts = {
        wording("lab.claim-computes-longer"): False,
        wording("lab.claim-more-threads-never-help"): True,
        wording("lab.claim-fixed-pool"): True,
        wording("lab.claim-flat"): False,
        wording("lab.claim-starve"): False,
        wording("lab.claim-as-many-permits"): False,
        wording("lab.claim-jobs-ask-for-more"): False,
        wording("lab.claim-scheduled-pool"): True,
        wording("lab.claim-utilization-of-18"): False,  # 15 do it: the cores are worth less when all compute
        wording("lab.claim-begin-together"): True,
        wording("lab.claim-under-the-gil"): True,
    }

    assert {begins: finding(whole, begins).holds for begins in verdicts} == verdicts
    assert wording("lab.cores-where-those-share") in finding(whole, wording("lab.claim-only-computes")).why
    why = finding(whole, wording("lab.claim-one-thread-per-job")).why
    assert wording("lab.those-tried") in why
    assert wording("lab.full-from") in why
    assert wording("lab.published-figures") in why


def rising(at: At, values: dict[str, float]) -> None:
    if at[:3] in ((C, SLEEPS, OWN), (C, SLEEPS, JITTER)) and at[3] != ALONE and float(at[3]) > 10:
        values["ratio"] *= 2


def test_threads_that_take_longer_than_the_cores_work_starve_and_permits_mend_it() -> None:
    found = pi_outcome(rising)

    assert finding(found, wording("lab.claim-flat")).holds is True
    assert finding(found, wording("lab.claim-starve")).holds is True
    assert finding(found, wording("lab.claim-as-many-permits")).holds is True


def test_as_many_threads_as_utilization_asks_for_are_enough_where_a_core_is_a_core() -> None:
    def full_cores(at: At, values: dict[str, float]) -> None:
        n_jobs = values["n_jobs"]
        if at[0] == C and at[2] == SEMAPHORE:
            values["ratio"] = max(1 + ASLEEP, n_jobs / CORES)
            values["jobs_per_s"] = n_jobs / values["ratio"] / CPU_S

    assert finding(pi_outcome(full_cores), wording("lab.claim-utilization")).holds is True


def test_a_heart_that_beats_late_beside_threads_of_their_own_shows_it() -> None:
    def late(at: At, values: dict[str, float]) -> None:
        if at[2] == OWN and at[3] != ALONE:
            values["beat_p99_ms"] = 5 * float(at[3])

    assert finding(pi_outcome(late), wording("lab.claim-jobs-ask-for-more")).holds is True
    assert finding(pi_outcome(late, n=1), wording("lab.claim-jobs-ask-for-more")).holds is None
    assert (
        finding(pi_outcome(n=1), wording("lab.claim-begin-together")).holds is None
    )  # one run tells no tail


def test_runs_that_lie_apart_tell_nothing() -> None:
    """One run of three in which the event loop took half as long again."""
    seen: dict[At, int] = {}

    def once(at: At, values: dict[str, float]) -> None:
        seen[at] = seen.get(at, 0) + 1
        if at == (C, SLEEPS, SCHEDULED, 20.0) and seen[at] == 2:
            values["ratio"] *= 1.5

    assert finding(pi_outcome(once), wording("lab.claim-scheduled-pool")).holds is None


def test_rows_beside_others_tell_nothing_and_claims_on_the_other_rows_are_reported() -> None:
    def beside(at: At, values: dict[str, float]) -> None:
        values["foreign_cores"] = 0.8 if at[2] == SCHEDULED else 0.1

    found = pi_outcome(beside)
    disturbed = {row.at[2] for row in found.rows if row.is_disturbed}

    assert disturbed == {SCHEDULED}
    assert all(row.n_disturbed == (3 if row.is_disturbed else 0) for row in found.rows)
    assert finding(found, wording("lab.claim-scheduled-pool")).holds is None
    assert wording("lab.job-not-run-undisturbed") in finding(found, wording("lab.claim-scheduled-pool")).why
    assert finding(found, wording("lab.claim-fixed-pool")).holds is True
    assert wording("lab.no-claim-rests-on-those") in render_lab(found, "Here.", "plain").replace("\n", " ")


def test_of_several_runs_the_undisturbed_ones_count() -> None:
    def slow(at: At, values: dict[str, float]) -> None:
        if at == (C, SLEEPS, SCHEDULED, 20.0) and not seen:
            seen.append(at)
            values.update(foreign_cores=0.8, ratio=3 * values["ratio"])

    seen: list[At] = []
    found = pi_outcome(slow)
    (row,) = [row for row in found.rows if row.n_disturbed]

    assert (row.at, row.measured["ratio"].n, row.is_disturbed) == ((C, SLEEPS, SCHEDULED, 20.0), 2, False)
    assert finding(found, wording("lab.claim-scheduled-pool")).holds is True


def test_single_runs_are_off_by_as_much_as_the_same_job_took_in_them() -> None:
    def uneven(at: At, values: dict[str, float]) -> None:
        if at == (C, CPU, OWN, 4.0):
            values["job_cpu_s"] *= 1.2

    assert finding(pi_outcome(n=1), wording("lab.claim-fixed-pool")).holds is True
    assert finding(pi_outcome(uneven, n=1), wording("lab.claim-fixed-pool")).holds is None
    assert finding(pi_outcome(uneven, n=3), wording("lab.claim-fixed-pool")).holds is True


def test_claims_that_take_two_cores_is_not_known_on_one() -> None:
    def one_core(at: At, values: dict[str, float]) -> None:
        values["n_cores"] = 1.0

    found = pi_outcome(one_core)

    assert finding(found, wording("lab.claim-only-computes")).holds is None
    assert finding(found, wording("lab.claim-under-the-gil")).holds is None


def test_jobs_that_keep_in_step_do_not_starve() -> None:
    def in_step(at: At, values: dict[str, float]) -> None:
        if at[:3] == (C, SLEEPS, OWN) and at[3] != ALONE:
            values["ratio"] = ASLEEP + SLOWER * float(at[3])

    found = finding(pi_outcome(in_step), wording("lab.claim-starve"))

    assert found.holds is False
    assert wording("lab.over-cores-work") in found.why


def test_what_uses_more_cores_under_the_gil_than_one_has_none() -> None:
    def free(at: At, values: dict[str, float]) -> None:
        if at[:3] == (PYTHON, SLEEPS, OWN):
            values["ratio"] = max(1 + ASLEEP, values["n_jobs"] / CORES)

    assert finding(pi_outcome(free), wording("lab.claim-under-the-gil")).holds is False


@pytest.mark.parametrize("quick", [False, True])
def test_it_is_reported_and_drawn(quick: bool) -> None:
    found = pi_outcome(quick=quick, n=1 if quick else 3)
    assert finding(found, wording("lab.claim-scheduled-pool")).holds is True
    svg = ElementTree.fromstring(lab_picture(found).svg(standalone=True))
    result = [one.text or "" for one in svg.iter("{http://www.w3.org/2000/svg}title")][1:]
    csv = render_lab(found, "", "csv").splitlines()

    assert len(result) == len(csv) - 1 == len([row for row in found.rows if row.measured])
    assert wording("lab.title-of-pi-pools") in start_of(render_lab(found, "Somewhere.", "simple"))
    assert found.follows.count(". ") == 3  # four sentences


def test_verdicts_need_all_runs_to_say_the_same() -> None:
    ratio = Ratio(0.9, 1.0, 1.2)

    assert (ratio.at_most(1.2), ratio.at_most(1.0), ratio.at_most(0.8)) == (True, None, False)
    assert (ratio.at_least(0.9), ratio.at_least(1.0), ratio.at_least(1.3)) == (True, None, False)
    assert (ratio.near(1.0), ratio.near(2.0)) == (None, False)
    assert (both(True, None), both(None, False), both(True)) == (None, False, True)
    assert (either(False, None), either(None, True), either(False)) == (None, True, False)


def test_many_lines_come_in_panels_whose_names_do_not_meet(whole: Outcome) -> None:
    svg = ElementTree.fromstring(lab_picture(whole).svg(standalone=True))
    texts = [
        (float(one.get("x", 0)), float(one.get("y", 0)), one.text or "")
        for one in svg.iter("{http://www.w3.org/2000/svg}text")
    ]
    pools = {OWN, FIXED, SEMAPHORE, SCHEDULED, JITTER}
    names = sorted((x, y) for x, y, text in texts if text in pools)

    assert [text for _, _, text in texts if "time, of" in text] == [
        wording("lab.time-one-job-cpu", work=work, kind=kind)
        for work in (C, PYTHON)
        for kind in (CPU, SLEEPS)
    ]
    assert len(names) == 11
    assert all(x != other_x or other_y - y > 12 for (x, y), (other_x, other_y) in pairwise(names))


def test_rows_and_steps_stand_in_the_order_in_which_they_are_reported(whole: Outcome) -> None:
    own = [row.at[3] for row in whole.rows if row.at[:3] == (C, SLEEPS, OWN)]

    assert own == [ALONE, 1.0, 4.0, 10.0, 15.0, 20.0, 25.0, 30.0]
