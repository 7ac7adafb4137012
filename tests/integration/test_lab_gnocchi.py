"""gnocchi's program: every store it can use, how far away that is, and nothing left of its servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.core.errors import MeasurementError
from tuner.lab.experiments.experiment import LabJob
from tuner.lab.experiments.gnocchi import Gnocchi
from tuner.lab.program import folder_of_programs, run_job

from ..processes import is_running
from ..raising import raises
from ..wording import wording

pytestmark = pytest.mark.integration

FOLDER = Path(__file__).resolve().parents[2] / "workers" / "lab"
LONG_S = 60.0
AWAY_US = 1000.0
ROUNDS = (
    "--rounds",
    "400",
)  #: of work, as `tuner lab` hands them over; else a batch looks for a second how many


def batches(target: str, *options: str, at_most_s: float = 120.0) -> dict[str, float]:
    words = ("--target", target, "--seconds", "0.1", *options)
    return run_job(LabJob("gnocchi_batch.py", words, {}, at_most_s), [sys.executable], folder_of_programs())


@pytest.mark.usefixtures("redis_server")  # where none is installed, it skips
@pytest.mark.parametrize(
    ("target", "trips"), [("local file", 0), ("local redis", 0), ("remote file", 7), ("remote redis", 2)]
)
def test_every_store_is_as_far_away_as_it_was_reported_to_be(target: str, trips: int) -> None:
    """What holds on any box: nobody is nearer than that, and waits are no part of what is computed."""
    values = batches(target, "--delay-us", f"{AWAY_US:g}", "--threads", "2", *ROUNDS)
    figures = {figure.key for figure in Gnocchi.figures} - ({"trip_us"} if target == "local file" else set())

    assert figures <= values.keys()
    assert values["n_batches"] >= 20
    assert 0 < values["low_ms"] <= values["batch_ms"] <= values["high_ms"]
    assert 1 <= values["n_threads"] <= 2
    assert values["busy_us"] > 0
    if trips:
        assert values["trip_us"] >= AWAY_US
        assert values["one_ms"] >= 8 * trips * AWAY_US / 1000
        assert values["batch_ms"] >= 4 * trips * AWAY_US / 1000  # two at a time
    else:
        assert values.get("trip_us", 1.0) > 0


def test_one_thread_is_a_loop_without_a_pool() -> None:
    values = batches("local file", "--threads", "1")

    assert values["batch_ms"] == values["one_ms"]
    assert (values["gain"], values["n_threads"]) == (1.0, 1.0)


@pytest.mark.usefixtures("redis_server")
def test_one_that_is_killed_leaves_no_server_behind() -> None:
    """That nobody is left is what the fixture of every integration test looks at."""
    with raises(MeasurementError, wording("launch.took-longer-and-was-killed")):
        batches("remote redis", "--threads", "2", "--seconds", "1000", *ROUNDS, at_most_s=3.0)


def test_the_work_is_as_many_rounds_as_are_handed() -> None:
    rounds = run_job(Gnocchi.calibration, [sys.executable], folder_of_programs())["rounds"]
    few = batches("local file", "--threads", "1", "--rounds", "10")
    many = batches("local file", "--threads", "1", "--rounds", "100000")

    assert rounds >= 1
    assert many["work_us"] > 10 * few["work_us"]


#: each pool of the worker, as long as it takes to count some series
WORKS = """
import os, threading, time
from gnocchi_stores import store_of
from gnocchi_worker import work_on
from tuner.probe import counter

folder = os.environ["TUNER_COUNTER_DIR"]
for pool in ("loop", "made", "kept"):
    told, n = threading.Event(), counter.read_totals(folder).n_done + 100
    def wait():
        while counter.read_totals(folder).n_done < n:
            time.sleep(0.005)
        told.set()
    waiting = threading.Thread(target=wait)
    waiting.start()
    with store_of("local file", 0.0) as store:
        work_on(store, pool, 4, 10, told)
    waiting.join()
    print(pool)
"""


def test_every_pool_of_the_worker_counts_its_series_and_ends_when_it_is_reported(tmp_path: Path) -> None:
    environment = {**os.environ, "TUNER_COUNTER_DIR": str(tmp_path), "PYTHONPATH": str(FOLDER.parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", WORKS], cwd=FOLDER, env=environment, capture_output=True, text=True,
        timeout=LONG_S, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["loop", "made", "kept"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_that_is_ended_while_its_server_starts_leaves_no_server_and_no_folder(
    tmp_path: Path, how: signal.Signals
) -> None:
    """A server that never answers; nobody can take along the folder of one that is killed."""
    programs, folder = tmp_path / "bin", tmp_path / "tmp"
    programs.mkdir()
    folder.mkdir()
    server = programs / "redis-server"
    server.write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/new && mv {tmp_path}/new {tmp_path}/pid\nexec sleep 1000\n"
    )
    server.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(FOLDER.parents[1]),
        "TMPDIR": str(folder),
    }
    worker = subprocess.Popen(
        [sys.executable, "gnocchi_worker.py", "--target", "local redis"], cwd=FOLDER, env=environment
    )
    try:
        wait_for((tmp_path / "pid").exists)
        worker.send_signal(how)
        code = worker.wait(LONG_S)
    finally:
        worker.kill()
        worker.wait()

    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not is_running(pid))
    assert (code, list(folder.iterdir())) == (0, []) if how == signal.SIGTERM else code == -how


def wait_for(what: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + LONG_S
    while not what():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
