"""docs/method/faults.md names tests: each is there, and each test of a fault is on the page."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "method" / "faults.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


def written_in(path: Path) -> set[str]:
    functions = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))
    return {one.name for one in functions if one.name.startswith("test_")}


def test_every_test_that_the_page_of_faults_names_is_there() -> None:
    assert len(NAMED) > 30
    assert [f"{file}::{name}" for file, name in NAMED if name not in written_in(ROOT / file)] == []


def test_every_test_of_a_fault_is_on_its_page() -> None:
    files = sorted((ROOT / "tests" / "e2e" / "faults").glob("test_*.py"))
    written = {(str(file.relative_to(ROOT)), name) for file in files for name in written_in(file)}

    assert files
    assert written - set(NAMED) == set()


def test_every_row_says_what_is_left_what_is_lost_how_it_is_told_and_who_tests_it() -> None:
    tables = PAGE.split("## A thousand kills")[0]
    rows = [line for line in tables.splitlines() if line.startswith("| ") and not line.startswith("| fault")]

    assert len(rows) > 30
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert len(cells) == 5, row
        assert all(cells), row
        assert "::test_" in cells[4] or cells[4].startswith("the same test"), row
