"""tuner lab gnocchi with a real Redis, as its user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

pytestmark = [pytest.mark.integration, pytest.mark.services]

TUNER = (sys.executable, "-c", "from tuner.cli import main; main()")
SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "schema" / "lab.schema.json"


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("redis_server")  # where none is installed, it skips
def test_a_quick_look_has_every_published_row_measured_and_modelled(
    tmp_path: Path, services_venv: Path
) -> None:
    done = subprocess.run(
        [*TUNER, "lab", "gnocchi", "--quick", "--json", "--results", "it.lab.json",
         "--python", str(services_venv / "bin" / "python")],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(told)
    (found,) = told["experiments"]
    assert found["provenance"]["redis-server"]
    rows = [row for row in found["rows"] if row["published"]]
    assert len(rows) == 12
    for row in rows:
        assert row["measured"]["batch_ms"]["median"] > 0
        assert row["model"]["batch_ms"] > 0
        if row["at"]["away us"]:
            assert row["measured"]["trip_us"]["median"] >= row["at"]["away us"]
    assert len(found["findings"]) == 9
