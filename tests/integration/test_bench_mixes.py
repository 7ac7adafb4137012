"""bench/model/mixes.py and convoy.py, run for real but shortly: what they measure means nothing here."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tuner.adapters.sqlite.store import SqliteStore

from ..wording import wording

pytestmark = [pytest.mark.integration, pytest.mark.full]

BENCH = Path(__file__).resolve().parents[2] / "bench" / "model"
PATIENCE_S = 240.0
BUSY_BOX = ("--foreign-limit", "1000")  #: strangers never void a window of these tests


def command(script: str, *arguments: str | Path) -> list[str]:
    return [sys.executable, str(BENCH / script), *map(str, arguments)]


def run(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(script, *arguments), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def measure(folder: Path, *more: str) -> list[str]:
    """A few seconds of the mixed mix."""
    few = ("--mixes", "mixed", "--layouts", "1x1,2x1", "--windows", "2", "--window", "3s", "--warmup", "1s")
    return command("mixes.py", "measure", "--into", folder, *few, *BUSY_BOX, *more)


def kept(folder: Path) -> list[tuple[str, int, float]]:
    """Layout, block and begin of every window in the study."""
    with SqliteStore.open(folder / "mixed.tuner.db", read_only=True) as store:
        return [(str(one.layout), one.block, one.started_wall_s) for one in store.windows() if not one.void]


def test_a_measurement_that_was_killed_continues_and_is_reported(tmp_path: Path) -> None:
    study = tmp_path / "mixed.tuner.db"
    with subprocess.Popen(measure(tmp_path), stderr=subprocess.DEVNULL) as first:
        deadline_s = time.monotonic() + PATIENCE_S
        while not study.exists() or not kept(tmp_path):
            assert first.poll() is None
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        first.kill()
    before = kept(tmp_path)

    second = subprocess.run(
        measure(tmp_path), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )

    assert second.returncode == 0, second.stderr
    assert kept(tmp_path)[: len(before)] == before
    assert sorted((layout, block) for layout, block, _ in kept(tmp_path)) == [
        ("1x1", 0), ("1x1", 1), ("2x1", 0), ("2x1", 1),
    ]  # fmt: skip

    result = run("mixes.py", "report", "--from", tmp_path, "--json", *BUSY_BOX)

    assert result.returncode == 5, result.stderr  # no 200 points
    (mix,) = json.loads(result.stdout)["mixes"]
    assert mix["mix"]["name"] == "mixed"
    assert mix["n_windows"] == 4
    for layout in ("1x1", "2x1"):
        found: dict[str, Any] = mix["layouts"][layout]
        assert found["throughput_per_s"] > 0
        assert found["load"] is not None  # the looks beside the study were found
        assert found["predicted"]["network"]["throughput_per_s"] > 0


def test_another_question_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    once = ("--layouts", "1x1", "--windows", "1")
    subprocess.run(measure(tmp_path, *once), check=True, stderr=subprocess.DEVNULL, timeout=PATIENCE_S)
    written = (tmp_path / "mixed.yaml").read_text()

    other = subprocess.run(
        measure(tmp_path, *once, "--window", "4s"),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert other.returncode == 2
    assert wording("bench.begun-something-else-study") in other.stderr
    assert (tmp_path / "mixed.yaml").read_text() == written


def test_no_window_is_begun_once_the_time_is_over(tmp_path: Path) -> None:
    late = subprocess.run(
        measure(tmp_path, "--hours", "0"), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )

    assert late.returncode == 5
    assert wording("bench.time-over") in late.stderr
    assert not (tmp_path / "mixed.tuner.db").exists()


def test_the_convoy_experiment_tells_what_makes_its_load() -> None:
    done = run("convoy.py", "--threads", "2", "--seconds", "1", "--json")

    assert done.returncode == 0, done.stderr
    cases = json.loads(done.stdout)
    assert {one["threads"] for one in cases} == {1, 2}
    for one in cases:
        assert one["items_per_s"] > 0
        assert 0 < one["holder"] <= 1
        service = one["holder"] + one["waiters"] + one["children"] + one["blocked"]
        causes = one["by_waiters"] + one["by_blocked"] + one["by_rest"]
        assert causes == pytest.approx(service - one["plain"])
