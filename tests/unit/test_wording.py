"""The texts of golden/wording/ and the tests that read them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..wording import FOLDER, closest, explain_failure, reworded, texts_of, wording

TESTS = Path(__file__).resolve().parents[1]
USE = re.compile(r'wording\(\s*"([a-z-]+\.[a-z0-9-]+)"')


def used_keys() -> set[str]:
    return {key for path in TESTS.rglob("*.py") for key in USE.findall(path.read_text(encoding="utf-8"))}


def test_each_text_is_used_and_each_key_has_one() -> None:
    kept = {f"{path.stem}.{name}" for path in FOLDER.glob("*.yaml") for name in texts_of(path.stem)}

    assert used_keys() == kept


def test_no_text_is_kept_twice() -> None:
    texts = [text for path in FOLDER.glob("*.yaml") for text in texts_of(path.stem).values()]

    assert sorted(texts) == sorted(set(texts))


def test_a_placeholder_without_a_value_is_refused() -> None:
    with pytest.raises(ValueError, match="has the placeholders"):
        wording("launch.disk-full", n=3)


def test_the_closest_stretch_is_found_inside_a_longer_text() -> None:
    text = "Error: block 4 needs about 12 min, more than the budget allows\nStop here."

    assert closest("block 4 needs 12 minutes, more than the budget", text) == (
        "block 4 needs about 12 min, more than the budget"
    )
    assert closest("nothing of this kind", text) == ""


def test_values_become_placeholders_again() -> None:
    kept = wording("launch.cannot-change-folder-closed", tmp_path="/tmp/x")

    assert reworded(kept, "no permission for /tmp/x/closed") == "no permission for «tmp_path»/closed"


def test_a_failed_comparison_names_the_key_and_its_file() -> None:
    lines = explain_failure("in", wording("launch.disk-full"), "Error: the disk is very full\n", reword=False)

    assert lines is not None
    assert lines[0].startswith("disk-full of tests/golden/wording/launch.yaml")
    assert "closest: the disk is very full" in lines


def test_other_comparisons_are_left_to_pytest() -> None:
    assert explain_failure("==", "a", "b", reword=False) is None
    assert explain_failure("in", wording("launch.disk-full"), ["a"], reword=False) is None
