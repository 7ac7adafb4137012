"""tuner grid as it is by default, for real: a race over scripts of the user's own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ..wording import wording
from .sleeping_worker import sleeping_worker
from .typed import Typed

pytestmark = pytest.mark.integration


def config(folder: Path, within: str = "10%", study: str = "") -> Path:
    """Workers that sleep: with five times the threads they do five times as much, on any box."""
    (folder / "worker.py").write_text(sleeping_worker())
    path = folder / "s.yaml"
    path.write_text(
        f"service:\n  kind: script\n  name: sleeper\n  command: [{sys.executable}, {folder / 'worker.py'}]\n"
        "study: {layouts: [1x1, 1x5, 2x12], window: 1s, min_window: 500ms, warmup: 500ms,"
        f" within: {within}, warm_cache: no, foreign_limit: 1000, memory_pressure_limit: 1{study}}}\n"
    )
    return path


def test_a_race_names_the_best_and_every_command_knows_why(tuner, typed: Typed) -> None:
    done = tuner("grid", config(tuner.folder), "--json")

    assert done.returncode == 0, done.stderr
    ranking = json.loads(done.stdout)
    answer = ranking["answer"]
    assert (answer["layout"], answer["reached"], answer["kind"]) == ("2x12", True, "strict")
    assert (answer["within"], answer["confidence"], answer["n_layouts"]) == (0.1, 0.95, 3)
    assert answer["windows"] == sum(row["n_windows"] for row in ranking["layouts"])
    assert answer["claim"].startswith(wording("rank.within-of-the-best-strict"))
    assert [row["layout"] for row in ranking["layouts"]] == ["2x12", "1x5", "1x1"]
    assert ranking["layouts"][-1]["behind_ratio"] > 0.5
    assert (
        typed("grid", "--resume", "sleeper.tuner.db", "--json").stdout == done.stdout
    )  # nothing is left to do
    assert typed("export", "sleeper.tuner.db", "--into", "RUNBOOK.md").returncode == 0
    assert answer["claim"] in (tuner.folder / "RUNBOOK.md").read_text()
    other = typed("rank", "sleeper.tuner.db", "--confidence", "0.9")
    assert other.returncode == 2
    assert wording("grid.race-for-an-answer") in other.stderr


@pytest.mark.full
def test_a_budget_that_is_over_says_what_is_known_and_how_to_continue(tuner, typed: Typed) -> None:
    first = tuner("grid", config(tuner.folder, "0.1%", ", budget: 25s"))

    assert first.returncode == 5, first.stderr
    assert "[budget-over]" in first.stderr
    assert first.stdout.startswith(wording("rank.no-answer-leads-so-far"))
    assert "tuner grid --resume sleeper.tuner.db" in first.stderr
    before = json.loads(typed("rank", "sleeper.tuner.db", "--json").stdout)["answer"]["windows"]

    second = typed("grid", "--resume", "sleeper.tuner.db", "--json")

    assert second.returncode in (0, 5), second.stderr
    assert json.loads(second.stdout)["answer"]["windows"] > before
