"""kill -9 at random moments: finished windows stay as they are, each kill costs the running one at most."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tuner.adapters.sqlite.store import SqliteStore
from tuner.core.domain.strategy import Claim
from tuner.core.search.strategies.of_study import strategy_of
from tuner.study.strategy_driver import replay_study

pytestmark = pytest.mark.integration

WORKER = Path(__file__).with_name("virtual_study_worker.py")
N_KILLS = {"all": 20, "race": 6}
WITHIN_S = {
    "all": 0.1,
    "race": 1.0,
}  #: a race needs some tenths of a second to load before it measures anything


def started(path: Path, seed: int, strategy: str = "all", n_windows: int = 1) -> subprocess.Popen[str]:
    """Start a tuner that is measuring, with *n_windows* windows in each launch."""
    command = [sys.executable, WORKER, path, str(seed), strategy, str(n_windows)]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "running\n"
    return worker


def killed_after(worker: subprocess.Popen[str], wait_s: float) -> bool:
    """Whether the kill came before it was done."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        worker.wait(wait_s)
    worker.kill()
    with worker:
        return worker.wait(60) == -signal.SIGKILL


def kept(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The windows but for their launch's id, and how many launches were cut off."""
    with SqliteStore.open(path, read_only=True) as store:
        windows = [{**asdict(window), "launch_id": 0} for window in store.windows()]
        return windows, sum(launch.ended_wall_s is None for _, launch in store.launches())


def claimed(path: Path) -> Claim:
    """What the strategy of the study says when it is shown the file."""
    with SqliteStore.open(path, read_only=True) as store:
        return replay_study(store, strategy_of(store.study())).claim()


@pytest.mark.parametrize("strategy", ["all", "race"])
def test_kill_9_at_random_moments_costs_at_most_the_running_window(tmp_path: Path, strategy: str) -> None:
    chance = random.Random(os.environ.get("TUNER_TEST_SEED", "kill"))
    n_kills, seed = 0, 0
    while n_kills < N_KILLS[strategy]:
        seed += 1
        whole, path = tmp_path / f"whole-{seed}.tuner.db", tmp_path / f"cut-{seed}.tuner.db"
        with started(whole, seed, strategy) as uncut:
            assert uncut.wait(60) == 0
        windows: list[dict[str, Any]] = []
        n_kills_here, wait_s = 0, chance.uniform(0, WITHIN_S[strategy])
        while killed_after(started(path, seed, strategy), wait_s):
            n_kills_here += 1
            if n_kills + n_kills_here < N_KILLS[strategy]:
                wait_s = chance.uniform(0, WITHIN_S[strategy])
            else:
                wait_s = 60  # enough: a busy box, where each kill costs most of a run, would go on for long
            before, (windows, n_cut) = windows, kept(path)

            assert windows[: len(before)] == before
            assert n_cut <= n_kills_here
            with contextlib.closing(sqlite3.connect(path)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

        if strategy == "all":  # a race may know better for having seen other times
            assert kept(path)[0] == kept(whole)[0]
        assert claimed(path).answer.reached == (strategy == "race")
        assert claimed(path).n_otherwise == 0
        n_kills += n_kills_here


def test_kill_9_keeps_each_window_that_was_reported_also_within_a_launch(tmp_path: Path) -> None:
    path = tmp_path / "s.tuner.db"
    chance = random.Random(os.environ.get("TUNER_TEST_SEED", "kill"))
    n_before, n_reported_each = 0, []
    while len(n_reported_each) < 12:
        worker = started(path, 1, n_windows=8)
        assert worker.stdout is not None
        reported = [worker.stdout.readline() for _ in range(chance.randint(0, 3))]
        worker.kill()
        with worker:
            n_reported = [*reported, *worker.stdout].count("window\n")
        n_now = len(kept(path)[0])

        assert n_reported <= n_now - n_before <= n_reported + 1  # it may be kept, and not yet reported
        n_before = n_now
        n_reported_each.append(n_reported)
    assert sum(n > 0 for n in n_reported_each) >= 6


def test_a_second_tuner_cannot_write_and_can_once_the_first_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "s.tuner.db"
    with started(path, 1) as first:
        first.send_signal(signal.SIGSTOP)  # else it may have ended before the second one looks
        second = subprocess.run(
            [sys.executable, WORKER, path, "1", "all"], capture_output=True, text=True, timeout=60
        )
        first.kill()

    assert f"another tuner (process {first.pid}) is writing {path}" in second.stderr
    with started(path, 1) as third:
        assert third.wait(60) == 0
