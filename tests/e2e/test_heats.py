"""tuner grid with layouts that stay resident and take turns, for real: a race over scripts."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from .sleeping_worker import sleeping_worker
from .typed import Typed

pytestmark = pytest.mark.integration

PATIENCE_S = 120.0


def config(folder: Path) -> Path:
    """Workers that sleep: with five times the threads they do five times as much, on any box."""
    (folder / "worker.py").write_text(sleeping_worker())
    path = folder / "s.yaml"
    path.write_text(
        f"service:\n  kind: script\n  name: sleeper\n  gate: freeze\n"
        f"  command: [{sys.executable}, {folder / 'worker.py'}]\n"
        "study: {layouts: [1x1, 2x12], slices: auto, window: 2s, min_window: 2s, warmup: 1s,"
        " within: 10%, warm_cache: no, foreign_limit: 1000, memory_pressure_limit: 1}\n"
    )
    return path


def workers_of(folder: Path) -> list[psutil.Process]:
    """The workers that run."""
    worker = str(folder / "worker.py")
    return [one for one in psutil.process_iter(["cmdline"]) if worker in (one.info["cmdline"] or ())]


def heats_of(path: Path) -> list[tuple[int, int | None]]:
    """Block and heat of the launches that are kept."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT block, heat FROM launch ORDER BY id").fetchall()


def test_a_race_in_heats_names_the_best(tuner, typed: Typed) -> None:
    done = tuner("grid", config(tuner.folder), "--json")

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)["answer"]
    assert (answer["layout"], answer["reached"]) == ("2x12", True)
    heats = heats_of(tuner.folder / "sleeper.tuner.db")
    assert heats[:2] == [(0, 0)] * 2
    assert [heat for _, heat in heats[-2:]] == [None, None]  # both, alone for a full window
    assert (answer["slices"]["layout"], answer["slices"]["other"]) == ("2x12", "1x1")
    assert typed("grid", "--resume", "sleeper.tuner.db", "--json").stdout == done.stdout
    assert workers_of(tuner.folder) == []


@pytest.mark.parametrize("victim", ["tuner", "supervisord"])
def test_kill_9_amid_a_heat_leaves_nothing_frozen_or_running(tuner, victim: str) -> None:
    path = config(tuner.folder)
    command = [*tuner.program, "grid", str(path)]
    with subprocess.Popen(
        command,
        cwd=tuner.folder,
        env={**os.environ, **tuner.environment},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        deadline_s = time.monotonic() + PATIENCE_S
        while len(workers_of(tuner.folder)) < 3 and time.monotonic() < deadline_s:  # 1 and 2
            time.sleep(0.05)
        found = workers_of(tuner.folder)
        assert len(found) == 3
        if victim == "tuner":
            process.kill()
        else:
            os.kill(found[0].ppid(), signal.SIGKILL)
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    while workers_of(tuner.folder) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert workers_of(tuner.folder) == []
    with closing(sqlite3.connect(tuner.folder / "sleeper.tuner.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert heats_of(tuner.folder / "sleeper.tuner.db")[:2] == [(0, 0)] * 2
