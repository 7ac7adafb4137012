"""bench/studies/record.py: a measured study without what names a host or a person."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tuner.adapters.sqlite import digests
from tuner.adapters.sqlite.store import SqliteStore

from ..bench_modules import BENCH, loaded

pytestmark = pytest.mark.integration
STUDIES = BENCH / "studies"
MEASURED = STUDIES / "gunicorn-2-cores.tuner.db"


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """The study as its host kept it: with names."""
    file = tmp_path / "named.tuner.db"
    file.write_bytes(MEASURED.read_bytes())
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("INSERT INTO provenance VALUES ('host', 'secret.example'), ('user', 'somebody')")
        connection.execute("UPDATE launch SET box = 'secret.example'")
        (config,) = connection.execute("SELECT config FROM study").fetchone()
        sections = json.loads(config)
        sections["service"]["feeder"]["sample"] = "/home/somebody/sample.json"
        connection.execute("UPDATE study SET config = ?", (json.dumps(sections),))
        digests.keep_everything(connection)
    return file


def test_a_recorded_study_names_nobody_and_keeps_its_windows(named: Path, tmp_path: Path) -> None:
    into = tmp_path / "recorded.tuner.db"
    with loaded("record", folder=STUDIES) as bench:
        bench.record.record(named, into)

    assert b"secret" in named.read_bytes()
    assert b"somebody" in named.read_bytes()
    assert b"secret" not in into.read_bytes()
    assert b"somebody" not in into.read_bytes()
    with (
        SqliteStore.open(into, read_only=True) as recorded,
        SqliteStore.open(MEASURED, read_only=True) as own,
    ):
        assert recorded.windows() == own.windows()
        assert recorded.sums().launches == own.sums().launches


def test_a_study_whose_texts_hold_other_paths_is_refused(named: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(named)) as connection, connection:
        connection.execute("UPDATE launch SET error = 'cannot read /home/somebody/app.py' WHERE id = 2")

    with loaded("record", folder=STUDIES) as bench, pytest.raises(ValueError, match="holds a path"):
        bench.record.record(named, tmp_path / "recorded.tuner.db")
