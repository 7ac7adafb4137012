"""Pools: hand-computed batches, limits, and the published figures where they are at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.model.machine import Machine
from tuner.core.model.pools import (
    PoolCosts,
    PoolJob,
    WaitingBatch,
    batch_s,
    by_turns_s,
    fit_pool_costs,
    fixed_pool_s,
    in_step_s,
    own_threads_s,
    run_waiting_pool,
    threads_to_fill,
    waiting_pool_bound_s,
)

from ..raising import raises
from ..wording import wording

NOTHING = PoolCosts(0.0, 0.0, 0.0)
PUBLISHED = PoolCosts(start_s=0.289, task_s=59e-6, thread_s=116e-6, wake_s=2e-3)  # near every good fit
JOB = PoolJob(cpu_s=3.0, asleep_s=52.0, n_turns=104)
TWELVE = Machine(cores=12)
CORNERS = ((0.05, 100), (0.05, 10_000), (1.0, 100), (1.0, 10_000))  #: wait_s, workers

costs = st.builds(
    PoolCosts,
    start_s=st.floats(0, 1),
    task_s=st.floats(0, 1e-3),
    thread_s=st.floats(0, 1e-3),
    wake_s=st.floats(0, 1e-2),
)
n_tasks, n_workers, waits_s = st.integers(1, 200), st.integers(1, 250), st.floats(0, 0.5)


def test_without_any_cost_a_batch_takes_its_waves() -> None:
    assert run_waiting_pool(10, 1.0, 10, NOTHING).total_s == pytest.approx(1.0)
    assert run_waiting_pool(10, 1.0, 5, NOTHING).total_s == pytest.approx(2.0)
    assert run_waiting_pool(11, 1.0, 5, NOTHING).total_s == pytest.approx(3.0)  # a wave more for the one left
    assert run_waiting_pool(7, 1.0, 1, NOTHING).total_s == pytest.approx(7.0)


def test_three_tasks_on_two_workers_by_hand() -> None:
    run = run_waiting_pool(3, 10.0, 2, PoolCosts(start_s=5.0, task_s=2.0, thread_s=3.0, wake_s=0.5))

    # Handed in at 1, 5 and 9, with 3 for a thread: waits begin at 4 and 8, the third task queues at 9.
    # Back at 14.5 and 18.5, 1 each: the first thread takes the third task at 15.5, is back at 26, done at 27.
    assert run.total_s == pytest.approx(5.0 + 27.0)
    assert run.n_threads == 2
    assert run.gil_s == pytest.approx(3 * 2.0 + 2 * 3.0)


def test_an_idle_thread_is_taken_before_one_is_started() -> None:
    # Handing in one task takes 0.5 to 1 s of the GIL, its wait 1 s: few are ever away at the same time.
    run = run_waiting_pool(50, 1.0, 50, PoolCosts(0.0, task_s=1.0, thread_s=0.5))

    assert 2 <= run.n_threads <= 5


def test_who_returns_first_matters_only_where_both_want_the_gil() -> None:
    quiet = PoolCosts(0.0, 1e-6, 1e-6)
    busy = PoolCosts(0.0, 1e-2, 1e-2)

    assert run_waiting_pool(50, 1.0, 10, quiet, "returning first").total_s == pytest.approx(
        run_waiting_pool(50, 1.0, 10, quiet, "handing in first").total_s, rel=1e-3
    )
    handing_in = run_waiting_pool(50, 0.1, 50, busy, "handing in first")
    assert handing_in.n_threads == 50  # nobody returns before all are handed in
    assert run_waiting_pool(50, 0.1, 50, busy, "returning first").n_threads < 20


@settings(deadline=None)
@given(n_tasks, waits_s, n_workers, costs)
def test_no_batch_takes_less_than_its_bound(n: int, wait_s: float, workers: int, of: PoolCosts) -> None:
    total_s = run_waiting_pool(n, wait_s, workers, of).total_s

    assert total_s >= waiting_pool_bound_s(n, wait_s, workers, of) * (1 - 1e-9)


@settings(deadline=None)
@given(st.integers(1, 1000), waits_s, n_workers)
def test_with_usual_costs_a_batch_comes_near_its_bound(n: int, wait_s: float, workers: int) -> None:
    total_s = run_waiting_pool(n, wait_s, workers, PUBLISHED).total_s

    assert total_s <= 1.3 * waiting_pool_bound_s(n, wait_s, workers, PUBLISHED)


@settings(deadline=None)
@given(n_tasks, waits_s, n_workers, costs)
def test_more_tasks_and_longer_waits_never_end_sooner(
    n: int, wait_s: float, workers: int, of: PoolCosts
) -> None:
    total_s = run_waiting_pool(n, wait_s, workers, of).total_s

    assert run_waiting_pool(n + 1, wait_s, workers, of).total_s >= total_s * (1 - 1e-9)
    assert run_waiting_pool(n, wait_s, workers, replace(of, start_s=of.start_s + 1)).total_s == pytest.approx(
        total_s + 1
    )
    assert run_waiting_pool(n, 2 * wait_s + 0.1, workers, of).total_s > total_s


@given(n_tasks, waits_s, n_workers)
def test_where_threads_cost_nothing_more_of_them_never_take_longer(
    n: int, wait_s: float, workers: int
) -> None:
    assert run_waiting_pool(n, wait_s, workers + 1, NOTHING).total_s <= run_waiting_pool(
        n, wait_s, workers, NOTHING
    ).total_s * (1 + 1e-9)


def test_a_pool_beyond_its_gil_gains_nothing_from_more_workers() -> None:
    totals = {n: run_waiting_pool(10_000, 0.05, n, PUBLISHED).total_s for n in (2000, 5000, 10_000)}

    assert max(totals.values()) == pytest.approx(min(totals.values()))
    assert run_waiting_pool(10_000, 0.05, 10_000, PUBLISHED).n_threads < 1500


@pytest.mark.parametrize(("n", "wait_s", "workers"), [(0, 1.0, 1), (1, 1.0, 0), (1, -1.0, 1)])
def test_a_pool_without_tasks_or_workers_or_time_is_refused(n: int, wait_s: float, workers: int) -> None:
    with raises(ValueError, wording("model.a-pool-needs")):
        run_waiting_pool(n, wait_s, workers, NOTHING)


def test_a_cost_below_0_is_refused() -> None:
    with pytest.raises(ValueError, match="thread_s"):
        PoolCosts(0.0, 0.0, -1e-6)


def test_a_fixed_pool_grows_with_its_waves() -> None:
    for n_waves in (1, 2, 5):
        assert fixed_pool_s(12 * n_waves, JOB, TWELVE, 12) == pytest.approx(55.0 * n_waves, rel=1e-3)
    assert fixed_pool_s(13, JOB, TWELVE, 12) == pytest.approx(110.0, rel=1e-3)


def test_the_last_wave_of_a_fixed_pool_has_the_jobs_that_are_left() -> None:
    """Two that share one core, and then one alone: 2 s and 1 s."""
    assert fixed_pool_s(3, PoolJob(1.0, 0.0), Machine(1), 2) == pytest.approx(3.0)
    assert fixed_pool_s(1, PoolJob(1.0, 0.5), Machine(1), 2) == pytest.approx(1.5)


def test_costs_are_found_from_batches_of_a_few_tasks() -> None:
    """Fits begin with ten tasks as one, which a batch of four has not."""
    right = PoolCosts(0.2, 1e-4, 2e-4)
    batches = [
        WaitingBatch(n, 0.05, workers, run_waiting_pool(n, 0.05, workers, right).total_s)
        for n in (4, 8, 40)
        for workers in (1, 2, 8)
    ]
    found = fit_pool_costs(batches)

    for batch in batches:
        assert batch_s(batch, found) == pytest.approx(batch.total_s, rel=0.05)


def test_one_thread_per_job_is_flat_until_the_cores_are_full_and_then_rises_with_the_work() -> None:
    assert own_threads_s(120, JOB, TWELVE) == pytest.approx(55.0, rel=0.01)
    assert own_threads_s(400, JOB, TWELVE) == pytest.approx(400 * 3 / 12, rel=0.01)


def test_jobs_in_step_compute_while_nobody_sleeps() -> None:
    assert in_step_s(12, JOB, TWELVE) == pytest.approx(55.0)
    assert in_step_s(120, JOB, TWELVE) == pytest.approx(52.0 + 120 * 3 / 12)


@pytest.mark.parametrize("n", [1, 12, 100, 220, 240, 400])
def test_jobs_by_turns_take_their_own_time_or_that_of_the_cores(n: int) -> None:
    assert by_turns_s(n, JOB, TWELVE) == pytest.approx(max(55.0, n * 3 / 12))


@pytest.mark.parametrize("machine", [TWELVE, Machine(cores=12, physical_cores=6, smt_gain_ratio=0.25)])
@pytest.mark.parametrize("n", [1, 12, 60, 137, 220, 300])
def test_jobs_out_of_step_lie_between_turns_and_jobs_in_step(machine: Machine, n: int) -> None:
    own_s = own_threads_s(n, JOB, machine)

    assert by_turns_s(n, JOB, machine) * (1 - 1e-6) <= own_s <= in_step_s(n, JOB, machine) * (1 + 1e-6)


def test_a_job_without_sleeps_gains_nothing_from_more_threads_than_cores() -> None:
    plain = PoolJob(cpu_s=3.0, asleep_s=0.0)

    assert own_threads_s(12, plain, TWELVE) == pytest.approx(3.0, rel=1e-3)
    assert 48 / own_threads_s(48, plain, TWELVE) == pytest.approx(12 / 3.0, rel=1e-3)


def test_a_gil_plays_no_part_in_pools_of_jobs() -> None:
    assert own_threads_s(60, JOB, replace(TWELVE, has_gil=True)) == own_threads_s(
        60, JOB, replace(TWELVE, has_gil=False)
    )


def test_threads_that_fill_the_cores() -> None:
    assert round(threads_to_fill(12, 0.054)) == 222
    assert threads_to_fill(12, JOB.utilization) == pytest.approx(220.0)
    for wrong in (0.0, 1.5, -0.1):
        with pytest.raises(ValueError, match="utilization"):
            threads_to_fill(12, wrong)


@pytest.fixture(scope="module")
def nornir(shared_data: Path) -> Sequence[Any]:
    rows = yaml.safe_load((shared_data / "seeds.yaml").read_text(encoding="utf-8"))["nornir_2020"]["rows"]
    return [(row[0], row[1], row[-1]) for row in rows]


def mean_error(rows: Sequence[Any], of: PoolCosts) -> float:
    return fmean(
        abs(run_waiting_pool(10_000, wait, n, of).total_s / total_s - 1) for wait, n, total_s in rows
    )


def test_the_published_waiting_pools_are_met_within_3_percent_by_one_set_of_costs(
    nornir: Sequence[Any],
) -> None:
    assert len(nornir) == 32
    assert mean_error(nornir, PUBLISHED) <= 0.03


def test_costs_from_the_four_corners_alone_predict_all_32_within_5_percent(nornir: Sequence[Any]) -> None:
    """The corners say start_s + 100 wake_s and two more; wherever on the line that is left, it holds."""
    total_s = {(wait, n): total for wait, n, total in nornir}
    waves_s = fmean([total_s[0.05, 100] - 5.0, total_s[1.0, 100] - 100.0])

    for start_s in (0.1, 0.25, 0.4):
        wake_s = (waves_s - start_s) / 100
        # task_s and thread_s from the corners of 10 000 workers, one after the other until both agree.
        task_s = thread_s = 1e-4
        for _ in range(30):
            of = PoolCosts(start_s, task_s, thread_s, wake_s)
            task_s *= (total_s[0.05, 10_000] / run_waiting_pool(10_000, 0.05, 10_000, of).total_s) ** 1.5
            of = PoolCosts(start_s, task_s, thread_s, wake_s)
            thread_s *= (total_s[1.0, 10_000] / run_waiting_pool(10_000, 1.0, 10_000, of).total_s) ** 1.5
        found = PoolCosts(start_s, task_s, thread_s, wake_s)

        assert mean_error([row for row in nornir if (row[0], row[1]) in CORNERS], found) <= 0.005
        assert mean_error(nornir, found) <= 0.05
