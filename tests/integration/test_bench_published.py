"""bench/model/published.py, run for real: its whole path, with figures of our own where none are at hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench" / "model" / "published.py"
PATIENCE_S = 850.0  #: almost all of it for a busy box

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCH), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "is not there"),
        pytest.param("a: [", "is no YAML", marks=pytest.mark.full),  # seconds to load scipy, each time
        pytest.param("nornir_2020: {}", "lacks socorro_2014, gornir_2020", marks=pytest.mark.full),
    ],
)
def test_without_the_published_figures_it_says_what_to_give(
    tmp_path: Path, text: str | None, says: str
) -> None:
    seeds = tmp_path / "seeds.yaml"
    if text is not None:
        seeds.write_text(text)

    done = run("--seeds", seeds, "--only", "pools")

    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.full
def test_the_facts_of_the_job_pools_come_out_but_for_two(shared_data: Path) -> None:
    done = run("--seeds", shared_data / "seeds.yaml", "--only", "pools", "--json")

    assert done.returncode == 0, done.stderr
    verdicts = [fact["verdict"] for fact in json.loads(done.stdout)["pools"]["facts"]]
    assert verdicts.count("no") == 0
    assert verdicts.count("in part") == 2
    assert verdicts.count("yes") == 5


@pytest.mark.full
def test_the_waiting_pools_keep_both_bars(shared_data: Path) -> None:
    done = run("--seeds", shared_data / "seeds.yaml", "--only", "nornir")

    assert done.returncode == 0, done.stderr
    assert "MISS" not in done.stdout
    assert done.stdout.count("met ") == 2


@pytest.mark.full
def test_two_terms_describe_the_socorro_table_and_the_base_does_not(shared_data: Path) -> None:
    variants = ("base", "+ mP q")

    done = run("--seeds", shared_data / "seeds.yaml", "--only", "socorro", "--json", "--variants", *variants)

    assert done.returncode == 0, done.stderr
    base, described = json.loads(done.stdout)["socorro"]
    assert described["worst_ratio"] <= 0.10 < base["worst_ratio"]
    assert described["load_misses"] == []
    assert len(described["left_out_error_ratio"]) == 6
    assert set(described["unmeasured_items_per_10min"]) == {"8x6", "3x8", "6x4"}
