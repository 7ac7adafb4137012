"""The program of pi-pools, run for what holds on any box, however busy."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import pytest

from tuner.adapters.lab.program import folder_of_programs, run_job
from tuner.core.lab.experiment import USABLE_CORES, At
from tuner.core.lab.pi_pools import ASLEEP_S, CPU_S, PiPools
from tuner.core.lab.pi_pools_seen import (
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

pytestmark = pytest.mark.integration

LONG_S = 300.0


def run(at: At, units: dict[str, float] | None = None) -> dict[str, float]:
    """With *units* as `tuner lab` hands them over; without them, the program finds its own."""
    job = PiPools().job(at)
    if units is not None:
        job = job.with_handed({**units, USABLE_CORES: float(len(os.sched_getaffinity(0)))})
    job = replace(job, at_most_s=LONG_S, handed={})
    return run_job(job, [sys.executable], folder_of_programs())


@pytest.fixture(scope="module")
def units() -> dict[str, float]:
    """How much work a step is, found once for all runs."""
    return run_job(PiPools.calibration, [sys.executable], folder_of_programs())


@pytest.mark.parametrize(("pool", "work"), [(OWN, PYTHON), (SEMAPHORE, C), (FIXED, C), (SCHEDULED, PYTHON)])
def test_every_pool_does_all_jobs_with_the_threads_that_it_may_have(
    units: dict[str, float], pool: str, work: str
) -> None:
    """And each kind of work is done; which one it is, no pool asks."""
    found = run((work, SLEEPS, pool, 2.0), units)
    cores = found["n_cores"]

    assert found["n_jobs"] == 2 * cores
    assert found["n_threads"] <= (cores if pool in (FIXED, SCHEDULED) else 2 * cores)
    assert found["batch_s"] > ASLEEP_S * (2 if pool == FIXED else 1)
    assert found["user_s"] + found["system_s"] > found["n_jobs"] * found["job_cpu_s"] / 2
    assert found["beat_max_ms"] >= found["beat_p99_ms"]
    assert "wait_p99_ms" in found
    assert found["foreign_cores"] >= 0


def test_a_job_alone_says_how_many_like_it_fill_a_core(units: dict[str, float]) -> None:
    found = run((C, SLEEPS, OWN, ALONE), units)

    assert found["n_jobs"] == found["n_threads"] == 1
    assert found["fill_core"] > 5
    assert found["ratio"] > 5


def test_a_short_batch_is_repeated_and_has_no_sleeps_to_wait_after() -> None:
    found = run((C, CPU, OWN, ALONE))

    assert found["ratio"] > 0.5
    assert "wait_p99_ms" not in found


@pytest.mark.full
def test_every_run_computes_as_many_units_as_it_is_handed_on_as_many_cores(units: dict[str, float]) -> None:
    """Twice the units take longer by their own clock; what they take is told over the same time."""
    handed = {"C_units": 20 * units["C_units"], "Python_units": units["Python_units"], USABLE_CORES: 1.0}
    job = PiPools().job((C, CPU, OWN, 1.0)).with_handed(handed)
    found = run_job(replace(job, at_most_s=LONG_S), [sys.executable], folder_of_programs())

    assert units["C_units"] > 0
    assert units["Python_units"] > 0
    assert found["n_cores"] == found["n_jobs"] == 1
    assert found["job_cpu_s"] > 2 * CPU_S
    assert found["ratio"] == pytest.approx(found["batch_s"] / CPU_S)


def test_jitter_makes_sleeps_unequal_and_no_longer() -> None:
    from tuner_workers.lab.pi_pools import sleeps_of

    alike, unequal = sleeps_of(3, 18, ASLEEP_S, 0.0), sleeps_of(3, 18, ASLEEP_S, 0.5)

    assert "--jitter" in PiPools().job((C, SLEEPS, JITTER, 1.0)).options
    assert sum(alike) == pytest.approx(sum(unequal)) == pytest.approx(ASLEEP_S)
    assert len(set(alike)) == 1
    assert 1 < max(unequal) / min(unequal) <= 3
    assert sleeps_of(3, 18, ASLEEP_S, 0.5) == unequal
