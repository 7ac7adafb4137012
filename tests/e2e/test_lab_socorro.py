"""tuner lab socorro as its user types it: a study of real workers, interrupted and gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tuner.bootstrap.stores import open_store
from tuner.core.domain.records import WARMING_BLOCK, WindowRecord
from tuner.lab.experiments.socorro_runs import CORES, FAR, HERE, PUBLISHED

from ..wording import wording

pytestmark = [pytest.mark.integration, pytest.mark.full]

TUNER = (sys.executable, "-c", "from tuner.cli import main; main()")
SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "schema" / "lab.schema.json"
LONG_S = 400.0


def lab(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*TUNER, "lab", "socorro", "--results", "it.lab.json", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def windows(folder: Path) -> list[WindowRecord]:
    file = folder / "it.layouts.tuner.db"
    if not file.exists():
        return []
    with open_store(file, read_only=True) as store:
        return [one for one in store.windows() if one.block != WARMING_BLOCK]


@pytest.mark.timeout(1200)
def test_interrupted_in_the_middle_it_continues_and_tells_every_layout(tmp_path: Path) -> None:
    first = lab(tmp_path, "--quick")
    deadline_s = time.monotonic() + LONG_S
    while not windows(tmp_path):
        assert first.poll() is None, first.communicate()
        assert time.monotonic() < deadline_s
        time.sleep(0.2)
    os.kill(first.pid, signal.SIGINT)
    _, err = first.communicate(timeout=LONG_S)
    kept = windows(tmp_path)

    assert first.returncode == 130, err
    assert err.endswith(wording("lab.go-tuner-lab-socorro"))
    assert kept

    again = lab(tmp_path, "--json", "--page", "it.md")
    out, err = again.communicate(timeout=LONG_S)

    assert windows(tmp_path)[: len(kept)] == kept
    facts: dict[str, Any] = json.loads(out)
    Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(facts)
    (found,) = facts["experiments"]
    lacking = [one for one in found["left_out"] if one.startswith("Valid windows are missing")]
    assert again.returncode == (5 if lacking else 0), err  # on a box that is too busy for a layout
    counted = [one for one in windows(tmp_path) if not one.void and one.n_done]
    here = [row for row in found["rows"] if row["at"]["box"] == HERE and row["measured"]]
    assert len(here) == len({str(one.layout) for one in counted}) >= 1
    assert sum(row["measured"]["items_per_10min"]["n"] for row in here) == len(counted)
    if any(one.layout.total_threads == 1 for one in counted if one.layout.variant == "threaded"):
        far = [row for row in found["rows"] if row["at"]["box"] == FAR]
        assert all(row["measured"] and row["model"] for row in far)
        assert len([row for row in far if row["published"]]) == len(PUBLISHED)
        assert all(row["measured"]["cpu_percent"]["median"] <= 100.1 * CORES for row in far)
    assert "without --quick" in found["left_out"][0]
    assert (tmp_path / "it.md").read_text(encoding="utf-8").startswith("# socorro: ")
    assert (tmp_path / "it.svg").exists()

    done = lab(tmp_path)
    out, err = done.communicate(timeout=LONG_S)
    assert done.returncode == again.returncode
    assert "items/10 min" in out
    assert len(err.splitlines()) == 1  # what is left out; nothing is run


def test_a_study_that_is_there_already_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "it.layouts.tuner.db").write_bytes(b"something of mine")

    done = lab(tmp_path, "--quick")
    _, err = done.communicate(timeout=LONG_S)

    assert done.returncode == 2
    assert err.startswith(
        "Error: it.layouts.tuner.db " + wording("study-file.exists-already-never-overwritten")
    )
    assert not (tmp_path / "it.lab.json").exists()
    assert (tmp_path / "it.layouts.tuner.db").read_bytes() == b"something of mine"
