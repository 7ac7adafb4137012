"""The files of golden/ that hold what commands print."""

from __future__ import annotations

from pathlib import Path

import pytest

from .. import printed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(printed, "FOLDER", tmp_path)
    return tmp_path


def test_parts_are_read_as_they_were_written(folder: Path) -> None:
    printed.write_part("rank", "plain.json", "{\n}\n")
    printed.write_part("rank", "plain.csv", "a\n\n==== \n")

    assert printed.parts_of("rank") == {"plain.csv": "a\n\n==== \n", "plain.json": "{\n}\n"}


def test_a_text_that_differs_is_named_by_its_part_and_its_lines(folder: Path) -> None:
    printed.write_part("rank", "plain.simple", "one\ntwo\n")

    lines = printed.explain_failure("==", "one\n2\n", printed.printed("rank", "plain.simple"), reword=False)

    assert lines is not None
    assert "plain.simple of tests/golden/rank.txt" in lines[0]
    assert lines[1:] == ["line 2, golden:  two", "line 2, printed: 2"]
    assert printed.parts_of("rank") == {"plain.simple": "one\ntwo\n"}


def test_reword_writes_the_part_and_leaves_the_others(folder: Path) -> None:
    printed.write_part("rank", "a.csv", "a\n")

    printed.explain_failure("==", "b\n", printed.printed("rank", "b.csv"), reword=True)

    assert printed.parts_of("rank") == {"a.csv": "a\n", "b.csv": "b\n"}


def test_other_comparisons_are_left_to_pytest() -> None:
    assert printed.explain_failure("==", "a", "b", reword=False) is None
