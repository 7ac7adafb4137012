"""tuner lab with the real packages, as its user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tuner.lab.experiments import EXPERIMENTS
from tuner.lab.experiments.experiment import ProgramExperiment
from tuner.lab.lab import read_published
from tuner.lab.tools import find_go

from ..wording import start_of, wording

pytestmark = [pytest.mark.integration, pytest.mark.services]

TUNER = (sys.executable, "-c", "from tuner.cli import main; main()")
SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "schema" / "lab.schema.json"
LONG_S = 240.0


def lab(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*TUNER, "lab", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.full
@pytest.mark.alone  # of thousands of threads hundreds compute at once: a Redis beside them is too late
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("redis_server")  # where none is installed, it skips at home
def test_all_of_them_are_run_and_reported_with_every_published_figure_beside(
    tmp_path: Path, services_venv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = find_go()
    if go is None:
        if os.environ.get("CI"):
            pytest.fail("no Go here; CI must test with one")
        pytest.skip("no Go here")
    compiled = subprocess.run([go.program, "env", "GOCACHE"], capture_output=True, text=True, check=True)
    monkeypatch.setenv("GOCACHE", compiled.stdout.strip())  # its standard library, not compiled again
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    every = lab(tmp_path, "--all", "--quick", "--json", "--python", str(services_venv / "bin" / "python"))
    out, err = every.communicate(timeout=900)  # the most that a look may take

    facts = json.loads(out)
    Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(facts)
    # layouts of socorro lack windows on a box that is too busy for them
    assert every.returncode == (5 if wording("lab.windows-lacking") in out else 0), err
    assert [found["name"] for found in facts["experiments"]] == [one.name for one in EXPERIMENTS]
    for found, experiment in zip(facts["experiments"], EXPERIMENTS, strict=True):
        points = experiment.points(list(experiment.published(read_published())), quick=True)
        measured = {tuple(row["at"].values()): row for row in found["rows"] if row["measured"]}

        assert measured
        if isinstance(experiment, ProgramExperiment):
            assert measured.keys() == set(points)
            assert found["left_out"] == []
            assert all(row["model"] for row in measured.values())
        assert found["findings"]
        assert found["follows"]
    _, _, gornir, gnocchi, _ = facts["experiments"]
    for row in gornir["rows"]:  # what holds on any box: waves of waits
        if row["measured"]:
            pool = row["at"]["pool"]
            n_waves = 10_000 / int(pool.split()[1]) if pool.startswith("nornir") else 1
            assert row["measured"]["total_s"]["median"] > row["at"]["wait s"] * n_waves
            assert row["measured"]["n_done"]["median"] == 10_000
    assert gnocchi["provenance"]["redis-server"]
    for row in gnocchi["rows"]:
        if row["measured"] and row["at"]["away us"]:
            assert row["measured"]["trip_us"]["median"] >= row["at"]["away us"]


def runs_of(file: Path) -> list[Any]:
    return list(json.loads(file.read_text(encoding="utf-8"))["runs"]) if file.exists() else []


def folders_of_children(pid: int) -> list[Path]:
    """The TMPDIR of each program of the lab that the process has started."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(OSError):  # it may have ended
            words = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            found += [Path(os.fsdecode(word[7:])) for word in words if word.startswith(b"TMPDIR=")]
    return [folder for folder in found if folder.name.startswith("lab-")]


@pytest.mark.full
@pytest.mark.alone  # likewise
@pytest.mark.timeout(600)
def test_nornir_killed_in_the_middle_continues_and_keeps_what_it_had(
    tmp_path: Path, services_venv: Path
) -> None:
    """That nobody is left after the kill is what the fixture of every integration test looks at."""
    words = ("nornir", "--results", "it.lab.json", "--python", str(services_venv / "bin" / "python"))
    first = lab(tmp_path, *words, "--quick")
    deadline_s = time.monotonic() + LONG_S
    while len(runs_of(tmp_path / "it.lab.json")) < 3:
        assert first.poll() is None, first.communicate()
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    folders = folders_of_children(first.pid)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    kept = runs_of(tmp_path / "it.lab.json")

    again = lab(tmp_path, *words, "--json")
    out, err = again.communicate(timeout=LONG_S)

    assert again.returncode == 0, err
    assert not [folder for folder in folders if folder.parent.exists()]  # the guardian took it away
    assert runs_of(tmp_path / "it.lab.json")[: len(kept)] == kept
    assert f"1/{15 - len(kept)}  " in err
    (found,) = json.loads(out)["experiments"]
    Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(json.loads(out))
    measured = [row for row in found["rows"] if row["measured"]]
    assert len(measured) == 15
    for row in measured:  # what holds on any box: waves of waits, and no more threads than workers
        wait_s, n_workers = row["at"]["wait s"], row["at"]["workers"]
        assert row["measured"]["total_s"]["median"] > wait_s * 10_000 / n_workers
        assert row["measured"]["n_threads"]["median"] <= n_workers

    done = lab(tmp_path, *words)
    out, err = done.communicate(timeout=LONG_S)
    assert (done.returncode, err) == (0, "")  # all is there: nothing is run
    assert wording("lab.title-of-nornir-line") in start_of(out)
