"""docs/method/faults.csv names tests: each is there, and each test of a fault is in the table."""

from __future__ import annotations

import ast
import csv
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "docs" / "method" / "faults.csv").read_text(encoding="utf-8")
NAMED = re.findall(r"(tests/[\w/]+\.py)::(\w+)", TABLE)


def written_in(path: Path) -> set[str]:
    functions = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))
    return {one.name for one in functions if one.name.startswith("test_")}


def test_every_test_that_the_table_of_faults_names_is_there() -> None:
    assert len(NAMED) > 30
    assert [f"{file}::{name}" for file, name in NAMED if name not in written_in(ROOT / file)] == []


def test_every_test_of_a_fault_is_in_the_table() -> None:
    files = sorted((ROOT / "tests" / "e2e" / "faults").glob("test_*.py"))
    written = {(str(file.relative_to(ROOT)), name) for file in files for name in written_in(file)}

    assert files
    assert written - set(NAMED) == set()


def test_every_row_has_the_fault_its_effect_the_message_and_a_test() -> None:
    rows = list(csv.DictReader(TABLE.splitlines()))

    assert len(rows) > 30
    for row in rows:
        assert all(row[column] for column in ("group", "fault", "kept", "lost", "message", "test")), row
        assert "::test_" in row["test"], row
