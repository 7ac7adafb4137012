"""The published experiments as workers: each config of configs/lab/ measured for real, in short windows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tuner.lab.tools import find_go

from ..wording import wording
from .conftest import Tuner

pytestmark = pytest.mark.integration
CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "lab"


def measured(tuner: Tuner, name: str, *layouts: str, python: str = sys.executable) -> None:
    """Every layout gives a window in which items were counted, by workers that *python* runs."""
    config = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text(encoding="utf-8"))
    service = config["service"]
    assert service["command"][0] == "python3"
    service["command"][0] = python
    service["directory"] = str((CONFIGS / service["directory"]).resolve())
    config["study"] = {
        "strategy": "all", "layouts": list(layouts), "window": "2s", "warmup": "1s", "repeats": 1,
        "warm_cache": False, "foreign_limit": 1000, "memory_pressure_limit": 1,
    }  # fmt: skip
    (tuner.folder / "s.yaml").write_text(yaml.safe_dump(config, sort_keys=False))

    done = tuner("grid", "s.yaml", "--json")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["layouts"]
    assert {row["layout"] for row in found} == set(layouts)
    assert all(row["throughput_per_10min"]["mean"] > 0 for row in found), done.stderr


@pytest.mark.services
def test_nornir_is_a_worker_by_its_own_runner_and_by_coroutines(tuner: Tuner, services_venv: Path) -> None:
    python = str(services_venv / "bin" / "python")

    measured(tuner, "nornir", "1x8@nornir+here+one-arena", "2x4@asyncio+here+glibc", python=python)


def test_goroutines_and_threads_are_workers(tuner: Tuner) -> None:
    go = find_go()
    if go is None:
        if os.environ.get("CI"):
            pytest.fail("no Go here; CI must test with one")
        pytest.skip("no Go here")
    compiled = subprocess.run([go.program, "env", "GOCACHE"], capture_output=True, text=True, check=True)
    cache = {"GOCACHE": compiled.stdout.strip(), "XDG_CACHE_HOME": str(tuner.folder / "cache")}

    measured(replace(tuner, environment=cache), "gornir", "2x8@goroutines+one", "1x8@threads+cores")

    (program,) = (tuner.folder / "cache" / "tuner").glob("goroutine_worker-*")  # built once by two processes
    assert os.access(program, os.X_OK)


def test_batches_of_gnocchi_are_workers_with_a_loop_and_with_pools(tuner: Tuner) -> None:
    measured(tuner, "gnocchi", "1x-@loop+file+here", "1x4@kept+far-file+here")


def test_jobs_that_compute_and_sleep_are_workers_on_pools(tuner: Tuner) -> None:
    """tests/integration/test_lab_pi_pools.py has each pool with each kind of work."""
    measured(tuner, "pi-pools", "1x8@own-threads+Python+here", "1x8@scheduled+C+here")


@pytest.mark.full
def test_jobs_are_workers_on_the_other_pools(tuner: Tuner) -> None:
    measured(tuner, "pi-pools", "1x8@fixed+C+here", "1x8@semaphore+Python+here")


@pytest.mark.full
def test_batches_of_gnocchi_are_workers_with_pools_made_for_each_and_with_two_processes(tuner: Tuner) -> None:
    measured(tuner, "gnocchi", "2x-@loop+file+here", "1x4@made+far-file+here", "1x4@kept+file+here")


def test_a_worker_whose_thread_fails_ends_and_says_why() -> None:
    folder = CONFIGS.parents[1] / "workers" / "lab"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from steady import *\nrun_until_stopped(lambda stopped: in_threads(3, lambda: 1 / 0, stopped))",
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}:{folder.parents[1]}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.endswith(wording("lab.zerodivisionerror-division-zero"))
