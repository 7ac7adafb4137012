"""deploy/docker/study.sh: what a container's first process does with a study, signals and exit codes."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from ..e2e.sleeping_worker import sleeping_worker

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy" / "docker" / "study.sh"
PATIENCE_S = 60.0
STUDY = """\
service: {{kind: script, name: sleeper, command: [{python}, {worker}]}}
study: {{strategy: all, layouts: [1x1, 1x2], window: 1s, warmup: 1s, repeats: 20, warm_cache: no,
  foreign_limit: 1000, memory_pressure_limit: 1, max_attempts: 9}}
"""


def environment(folder: Path, **own: str) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "STUDY": str(folder / "s.tuner.db"), **own}


def n_windows(study: Path) -> int:
    with (
        suppress(sqlite3.OperationalError),
        closing(sqlite3.connect(f"file:{study}?mode=ro", uri=True)) as file,
    ):
        return int(file.execute("SELECT count(*) FROM window").fetchone()[0])
    return 0


@pytest.mark.parametrize(("budget", "code"), [("1h", 0), ("1m", 2)])
def test_a_study_ends_with_a_runbook_or_says_why_there_is_none(
    tmp_path: Path, budget: str, code: int
) -> None:
    """Simulated. A budget that ends before the answer is a result (5); one too short for a block an error."""
    profile = ROOT / "configs" / "profiles" / "socorro-2014.yaml"
    asked = "--cores 2 --layouts 1x1,1x2 --strategy all --repeats 90"
    words = ["/bin/sh", SCRIPT, "--simulate", profile, *asked.split()]
    own = environment(tmp_path, BUDGET=budget, CONFIG=str(ROOT / "configs" / "crash_processor.yaml"))

    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=own)

    assert done.returncode == code, done.stderr
    assert ("budget-over" in done.stderr) is (code == 0)
    assert (tmp_path / "RUNBOOK.md").exists() is (code == 0)


@pytest.mark.full
def test_a_stop_that_comes_while_tuner_is_started_is_handed_on(tmp_path: Path) -> None:
    """The shell traces its commands. Its prompt for that sends the signal, before the first one that
    follows the start; what then still runs, the check that each test ends with finds."""
    (tmp_path / "worker.py").write_text(sleeping_worker("0.01"))
    config = tmp_path / "study.yaml"
    config.write_text(STUDY.format(python=sys.executable, worker=tmp_path / "worker.py"))
    once = "${!:+$(mkdir once 2>/dev/null && kill -TERM $$)}+ "
    own = environment(tmp_path, CONFIG=str(config), PS4=once)

    done = subprocess.run(
        ["/bin/sh", "-x", SCRIPT], capture_output=True, text=True, cwd=tmp_path, env=own, timeout=PATIENCE_S
    )

    assert (tmp_path / "once").is_dir()
    assert done.returncode in (128 + signal.SIGTERM, 130), done.stderr  # before tuner hears signals, or after
    assert n_windows(tmp_path / "s.tuner.db") == 0


def test_a_stop_is_not_lost_on_a_process_that_is_not_yet_tuner(tmp_path: Path) -> None:
    """A program in tuner's place that any SIGTERM ends: of stops that come right after its start, most went
    to a copy of the shell and were forgotten."""
    program = tmp_path / "bin" / "tuner"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable} -S\nimport time\ntime.sleep({10 * PATIENCE_S})\n")
    program.chmod(0o755)
    own = environment(tmp_path, CONFIG="none.yaml", PS4="${!:+${once:=$(kill -TERM $$)x}}+ ")
    own["PATH"] = f"{program.parent}{os.pathsep}{own['PATH']}"

    for _ in range(10):
        done = subprocess.run(
            ["/bin/sh", "-x", SCRIPT],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=own,
            timeout=PATIENCE_S,
        )

        assert done.returncode == 128 + signal.SIGTERM, done.stderr


def test_a_stop_is_handed_on_and_the_next_start_continues(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(sleeping_worker("0.01"))
    config, study = tmp_path / "study.yaml", tmp_path / "s.tuner.db"
    config.write_text(STUDY.format(python=sys.executable, worker=tmp_path / "worker.py"))
    own = environment(tmp_path, CONFIG=str(config))
    codes, counts = [], []

    for _ in range(2):
        n_before = counts[-1] if counts else 0
        process = subprocess.Popen(
            ["/bin/sh", SCRIPT], stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=own
        )
        deadline = time.monotonic() + PATIENCE_S
        while n_windows(study) <= n_before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=PATIENCE_S)[1]
        codes.append(process.returncode)
        counts.append(n_windows(study))

    assert codes == [130, 130], said
    assert 0 < counts[0] < counts[1]
    assert (tmp_path / "RUNBOOK.md").exists()
