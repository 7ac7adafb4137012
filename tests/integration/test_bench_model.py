"""The benches of bench/model that hold tuner against others, run for real but shortly: no figure counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ..bench_modules import MODEL, loaded
from ..wording import start_of, wording

pytestmark = [pytest.mark.integration, pytest.mark.full]

PATIENCE_S = 240.0


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(MODEL / script), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_simulation_runs_beside_its_peers() -> None:
    for package in ("simpy", "ciw"):
        pytest.importorskip(package, reason=f"{package} comes with the dependency group bench-model")

    done = run("simulation.py", "--rounds", "1", "--items", "400", "--c-items", "4000", "--json")

    assert done.returncode in (0, 1), done.stderr  # 1: apart by more than 1 %, as so few items may be
    rows = json.loads(done.stdout)
    assert len({row["network"] for row in rows}) == 3
    for row in rows:
        assert row["events_per_s"] > 0
        assert abs(row["apart"]) < 0.5
    assert sum(row["program"] == "Ciw" for row in rows) == 1  # it gets the network without a GIL alone


def test_the_network_runs_beside_the_simulation() -> None:
    few = ("--services", "2", "--cores", "4", "--items", "1000")

    result, listed = run("analytic.py", *few, "--json"), run("analytic.py", *few, "--worst", "3")

    assert result.returncode == 0, result.stderr
    errors = json.loads(result.stdout)["errors"]
    n_cases = errors["throughput"]["n"]
    assert n_cases == errors["load"]["n"] > 2
    assert n_cases == sum(errors[f"throughput, {where}"]["n"] for where in ("in a convoy", "elsewhere"))
    assert errors[wording("bench.regret")]["n"] == 2
    assert listed.returncode == 0, listed.stderr
    assert f"| throughput | {n_cases} |" in listed.stdout
    assert len(listed.stdout.partition("| demands |\n")[2].splitlines()) == 1 + 3


def test_a_race_runs_with_its_guide_and_without() -> None:
    done = run("guide.py", "curve", "--studies", "2", "--processes", "1", "--json")

    assert done.returncode == 0, done.stderr
    without, guided = json.loads(done.stdout)
    assert (without["guided"], guided["guided"]) == (False, True)
    for line in (without, guided):
        assert (line["suite"], line["n"]) == ("curve", 2)
        assert line["windows"] > 2
    assert without["off_ratio"] is None
    assert guided["off_ratio"] is not None


def test_what_binds_a_service_is_reported_beside_what_is_seen_from_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    monkeypatch.setattr(sys, "argv", ["bound.py", str(tmp_path), "waiting"])
    with loaded("bound", folder=MODEL) as bench:
        bound = bench.bound
        assert bound.STUDY.count("window: 12s, warmup: 3s") == 1
        short = bound.STUDY.replace("window: 12s, warmup: 3s", "window: 3s, warmup: 1s")
        monkeypatch.setattr(bound, "STUDY", short)
        monkeypatch.setitem(bound.LAYOUTS, "waiting", "1x1,2x1")
        monkeypatch.setattr(bound, "SETTLED_S", 0.5)
        bound.main()

    result, _, seen = capsys.readouterr().out.partition("From outside")
    assert wording("bench.waiting-waiting-bound") in start_of(result)
    rows = {line.split()[0]: line for line in seen.splitlines()[2:] if line}
    assert set(rows) == {"1x1", "2x1"}
    for row in rows.values():
        assert "sleep" in row
