"""The program of pi-pools, run for what holds on any box, however busy."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.config.load import load_settings
from tuner.lab.experiments.experiment import USABLE_CORES, At
from tuner.lab.experiments.pi_pools import ASLEEP_S, CPU_S, PiPools
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
from tuner.lab.program import folder_of_programs, run_job

pytestmark = pytest.mark.integration

FOLDER = Path(__file__).resolve().parents[2] / "workers" / "lab"
LONG_S = 300.0
UNITS = {"C_units": 4000.0, "Python_units": 30000.0}  #: of a step: a job takes tens of ms of CPU


def run(at: At, *, handed: bool = True) -> dict[str, float]:
    """With units that are handed over, as `tuner lab` does; else the program finds its own."""
    job = PiPools().job(at)
    if handed:
        job = job.with_handed({**UNITS, USABLE_CORES: float(len(os.sched_getaffinity(0)))})
    job = replace(job, at_most_s=LONG_S, handed={})
    return run_job(job, [sys.executable], folder_of_programs())


EACH_ONCE = [(OWN, PYTHON), (SEMAPHORE, C), (FIXED, C), (SCHEDULED, PYTHON)]
OTHERS = [(OWN, C), (SEMAPHORE, PYTHON), (FIXED, PYTHON), (SCHEDULED, C)]


@pytest.mark.parametrize(
    ("pool", "work"), [*EACH_ONCE, *(pytest.param(*pair, marks=pytest.mark.full) for pair in OTHERS)]
)
def test_every_pool_does_all_jobs_with_the_threads_that_it_may_have(pool: str, work: str) -> None:
    """The kind of work does not change what a pool does, so each pool needs one of them on each push."""
    found = run((work, SLEEPS, pool, 2.0))
    cores = found["n_cores"]

    assert found["n_jobs"] == 2 * cores
    assert found["n_threads"] <= (cores if pool in (FIXED, SCHEDULED) else 2 * cores)
    assert found["batch_s"] > ASLEEP_S * (2 if pool == FIXED else 1)
    assert found["user_s"] + found["system_s"] > found["n_jobs"] * found["job_cpu_s"] / 2
    assert found["beat_max_ms"] >= found["beat_p99_ms"]
    assert "wait_p99_ms" in found
    assert found["foreign_cores"] >= 0


def test_a_job_alone_says_how_many_like_it_fill_a_core() -> None:
    found = run((C, SLEEPS, OWN, ALONE))

    assert found["n_jobs"] == found["n_threads"] == 1
    assert found["fill_core"] > 5
    assert found["ratio"] > 5


def test_a_short_batch_is_repeated_and_has_no_sleeps_to_wait_after() -> None:
    found = run((C, CPU, OWN, ALONE), handed=False)

    assert found["ratio"] > 0.5
    assert "wait_p99_ms" not in found


@pytest.mark.full
def test_every_run_computes_as_many_units_as_it_is_handed_on_as_many_cores() -> None:
    """Twice the units take longer by their own clock; what they take is told over the same time."""
    units = run_job(PiPools.calibration, [sys.executable], folder_of_programs())
    handed = {"C_units": 20 * units["C_units"], "Python_units": units["Python_units"], USABLE_CORES: 1.0}
    job = PiPools().job((C, CPU, OWN, 1.0)).with_handed(handed)
    found = run_job(replace(job, at_most_s=LONG_S), [sys.executable], folder_of_programs())

    assert units["C_units"] > 0
    assert units["Python_units"] > 0
    assert found["n_cores"] == found["n_jobs"] == 1
    assert found["job_cpu_s"] > 2 * CPU_S
    assert found["ratio"] == pytest.approx(found["batch_s"] / CPU_S)


#: each pool of the worker, as long as it takes to count some jobs
WORKS = """
import os, threading, time
from pi_pools import Work, in_c, in_python
from pi_worker import POOLS, Jobs
from tuner.probe import counter

folder = os.environ["TUNER_COUNTER_DIR"]
for pool in POOLS:
    for unit in (in_c, in_python):
        told, n = threading.Event(), counter.read_totals(folder).n_done + 10
        def wait():
            while counter.read_totals(folder).n_done < n:
                time.sleep(0.005)
            told.set()
        waiting = threading.Thread(target=wait)
        waiting.start()
        POOLS[pool](Jobs(Work(unit, 100), lambda: [0.001, 0.0], 4, 2, told))
        waiting.join()
        print(pool, unit.__name__)
"""


def test_every_pool_of_the_worker_counts_its_jobs_and_ends_when_it_is_reported(tmp_path: Path) -> None:
    environment = {**os.environ, "TUNER_COUNTER_DIR": str(tmp_path), "PYTHONPATH": str(FOLDER.parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", WORKS], cwd=FOLDER, env=environment, capture_output=True, text=True,
        timeout=LONG_S, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    pools = ("fixed", "own-threads", "semaphore", "scheduled")
    assert done.stdout.splitlines() == [f"{pool} {unit}" for pool in pools for unit in ("in_c", "in_python")]


def test_the_worker_understands_what_the_config_says_of_each_pool() -> None:
    settings = load_settings(FOLDER.parents[1] / "configs" / "lab" / "pi-pools.yaml", {})
    said = set()
    for variant in sorted({str(layout.variant) for layout in settings.layouts_for(2)}):
        _, *words = settings.service_in(variant).command
        words = [word.replace("{threads}", "8") for word in words]
        # what it does not understand is told before it comes to --help
        done = subprocess.run(
            [sys.executable, *words, "--help"], cwd=FOLDER, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(FOLDER.parents[1])},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        said.add(words[words.index("--pool") + 1] if "--pool" in words else "fixed")

    assert said == {"fixed", "own-threads", "semaphore", "scheduled"}


def test_jitter_makes_sleeps_unequal_and_no_longer() -> None:
    from tuner_workers.lab.pi_pools import sleeps_of

    alike, unequal = sleeps_of(3, 18, ASLEEP_S, 0.0), sleeps_of(3, 18, ASLEEP_S, 0.5)

    assert "--jitter" in PiPools().job((C, SLEEPS, JITTER, 1.0)).options
    assert sum(alike) == pytest.approx(sum(unequal)) == pytest.approx(ASLEEP_S)
    assert len(set(alike)) == 1
    assert 1 < max(unequal) / min(unequal) <= 3
    assert sleeps_of(3, 18, ASLEEP_S, 0.5) == unequal
