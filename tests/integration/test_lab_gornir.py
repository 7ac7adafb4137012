"""tuner lab gornir where neither nornir nor Go is there, and then Go; as its user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tuner.lab.program import folder_of_programs
from tuner.lab.tools import find_go

from ..wording import wording

pytestmark = [pytest.mark.integration, pytest.mark.timeout(700)]

TUNER = (sys.executable, "-c", "from tuner.cli import main; main()")
SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "schema" / "lab.schema.json"
LONG_S = 600.0


@pytest.fixture
def go_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The Go of this box; what tuner makes with it goes to a cache of the test's own."""
    found = find_go()
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("no Go here; CI must test with one")
        pytest.skip("no Go here")
    monkeypatch.setenv("GOCACHE", told_by_go(found.program, "GOCACHE"))  # its library, not compiled again
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return found.program


def told_by_go(program: str, name: str) -> str:
    done = subprocess.run([program, "env", name], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A Python that has no package."""
    venv.create(tmp_path / "bare", with_pip=False)
    return tmp_path / "bare" / "bin" / "python"


def lab(
    folder: Path, python: Path, *words: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TUNER, "lab", "gornir", "--python", str(python), "--results", "it.lab.json", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        env={**os.environ, **environment},
    )


def read(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(json.loads(done.stdout))
    (found,) = json.loads(done.stdout)["experiments"]
    return found


def test_what_is_missing_is_reported_and_the_rest_is_run_and_continues_when_it_is_there(
    tmp_path: Path, bare_python: Path, go_program: str
) -> None:
    nowhere = {"PATH": "/nowhere", "GOROOT": "/nowhere"}
    no_go, no_nornir = (
        wording("lab.points-left-out-go"),
        wording("lab.points-left-out-nornir", python=bare_python),
    )
    first = lab(tmp_path, bare_python, "--quick", environment=nowhere)

    assert first.returncode == 0, first.stderr
    assert all(" ".join(text.split()).count(no_go) == 1 for text in (first.stdout, first.stderr))
    assert all(" ".join(text.split()).count(no_nornir) == 1 for text in (first.stdout, first.stderr))
    assert "3/3  wait s " in first.stderr
    kept = read(lab(tmp_path, bare_python, "--json", environment=nowhere))
    assert sorted(kept["left_out"]) == [no_nornir, no_go]

    go = {"PATH": f"{Path(go_program).parent}:{os.environ['PATH']}"}
    found = read(lab(tmp_path, bare_python, "--json", environment=go))

    assert list((tmp_path / "cache" / "tuner").iterdir())
    assert found["left_out"] == [no_nornir]
    assert found["provenance"]["go"]
    measured = {
        (row["at"]["wait s"], row["at"]["pool"]): row["measured"] for row in found["rows"] if row["measured"]
    }
    assert len(measured) == 12
    for (wait_s, pool), figures in measured.items():  # what holds on any box
        assert figures["total_s"]["median"] > wait_s
        assert figures["n_done"]["median"] == 10_000
        if pool.startswith("Go"):
            least, most = {"Go 1": (1, 1), "Go 100": (100, 100)}.get(pool, (1, len(os.sched_getaffinity(0))))
            assert least <= figures["n_procs"]["median"] <= most  # a container may offer less than its cores
        else:
            assert figures["n_threads"]["median"] == 1


def test_the_program_of_go_is_written_as_go_is(go_program: str) -> None:
    source = folder_of_programs() / "goroutine_pool.go"
    gofmt = Path(told_by_go(go_program, "GOROOT")) / "bin" / "gofmt"

    done = subprocess.run([gofmt, "-l", source], capture_output=True, text=True, check=True)
    assert done.stdout == ""
