"""Grids that grow, and answers at the edge of the layouts, as they are typed; on a simulated box."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .typed import Typed

WAITING = Path(__file__).resolve().parents[2] / "configs" / "profiles" / "waiting-bound.yaml"
GRID = ("grid", "--cores", "4", "--simulate", WAITING)
SHORT = ("--within", "10%", "--window", "1m")
TO_TYPE = "tuner grid --like s.db --layouts 4x2,4x4,4x8,4x16,4x32,4x64"


@pytest.fixture
def tuner(tmp_path: Path) -> Typed:
    return Typed(tmp_path)


def test_a_service_that_waits_gets_the_threads_that_fill_its_cores(tuner: Typed) -> None:
    done = tuner(*GRID, *SHORT, "--json", "--study", "s.db")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    best = found["layouts"][0]
    assert best["processes"] * best["threads"] >= 200
    assert best["throughput_per_10min"]["mean"] / 600 > 300  # four cores could do 333 items/s
    assert found["wider"] is None
    assert "[grid-grows]" in done.stderr
    assert any("The grid grew from 8 to 17 layouts" in note for note in found["study"]["notes"])

    again = tuner("grid", "--resume", "s.db", "--simulate", WAITING, "--json")
    assert (again.returncode, again.stdout) == (0, done.stdout)
    replayed = tuner("replay", "s.db", "--repeats", "1", "--json")
    assert replayed.returncode == 0, replayed.stderr


def test_an_answer_at_the_edge_of_typed_layouts_says_so_everywhere(tuner: Typed) -> None:
    tuner(*GRID, *SHORT, "--layouts", "1x2,2x2,4x2", "--study", "s.db")

    ranked, page = tuner("rank", "s.db"), tuner("export", "s.db", "--page")
    found = json.loads(tuner("rank", "s.db", "--json").stdout)
    facts = found["wider"]
    tuner("report", "s.db", "-o", "s.html")
    result = (tuner.folder / "s.html").read_text(encoding="utf-8")
    assert facts["sentence"].startswith("More threads will give more: 4x2 ")
    assert found["next_step"]["command"] == TO_TYPE
    for text in (ranked.stdout, page.stdout, result):
        assert text.count(facts["sentence"]) == 1
        assert text.count(TO_TYPE) == 1


def test_a_limit_that_keeps_larger_layouts_out_is_named(tuner: Typed) -> None:
    done = tuner(*GRID, *SHORT, "--max-connections", "8", "--study", "s.db")

    assert "[grid-grows]" not in done.stderr
    assert "Larger layouts are kept out: 4x4 opens 16 connections" in done.stdout


def test_a_grid_whose_cores_are_full_stays_as_it_is(tuner: Typed) -> None:
    profile = WAITING.with_name("gil-bound.yaml")

    done = tuner("grid", "--cores", "4", "--simulate", profile, *SHORT, "--json", "--study", "s.db")

    assert done.returncode == 0, done.stderr
    assert done.stderr.count("before block 1") == 1
    found = json.loads(done.stdout)
    assert len(found["layouts"]) == 8
    assert found["wider"] is None


def test_a_plan_says_that_the_grid_may_grow(tuner: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.app.forecasting.COMPUTES_S", 0.1)
    planned = ("plan", "--cores", "4", "--pilot", "5m", "--warmup", "5s", "--json")

    of_grid = tuner(*planned, "--simulate", WAITING, "--study", "a.db")
    of_layouts = tuner(*planned, "--simulate", WAITING, "--layouts", "1x2,4x2", "--study", "b.db")

    assert "That is likely: in the pilot the threads of" in json.loads(of_grid.stdout)["grid_grows"]
    assert json.loads(of_layouts.stdout)["grid_grows"] is None
