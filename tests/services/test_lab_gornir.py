"""tuner lab gornir with the real nornir and the real Go, as its user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.adapters.lab.go import go_here

pytestmark = [pytest.mark.integration, pytest.mark.services]

TUNER = (sys.executable, "-c", "from tuner.cli import main; main()")
LONG_S = 840.0


@pytest.mark.timeout(900)
def test_threads_coroutines_and_goroutines_stand_in_one_table(tmp_path: Path, services_venv: Path) -> None:
    if go_here() is None:
        if os.environ.get("CI"):
            pytest.fail("no Go here; CI must test with one")
        pytest.skip("no Go here")
    words = ("gornir", "--quick", "--python", str(services_venv / "bin" / "python"), "--page", "it.md")
    done = subprocess.run(
        [*TUNER, "lab", *words, "--json"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG_S,
    )

    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["experiments"]
    measured = [row for row in found["rows"] if row["measured"]]
    assert (len(measured), found["left_out"]) == (27, [])
    for row in measured:  # what holds on any box
        wait_s, pool = row["at"]["wait s"], row["at"]["pool"]
        n_waves = 10_000 / int(pool.split()[1]) if pool.startswith("nornir") else 1
        assert row["measured"]["total_s"]["median"] > wait_s * n_waves
        assert row["measured"]["n_done"]["median"] == 10_000
        assert row["model"]["total_s"] > wait_s
    page = (tmp_path / "it.md").read_text(encoding="utf-8")
    assert page.startswith("# gornir: threads, coroutines or goroutines?\n\n**In CPU time, ")
    assert (tmp_path / "it.svg").is_file()
