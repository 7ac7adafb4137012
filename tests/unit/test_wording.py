"""The texts of golden/wording/ and the tests that read them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..raising import raises
from ..wording import FOLDER, closest, end_of, explain_failure, reworded, start_of, texts_of, wording

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


def test_the_closest_stretch_holds_the_values_and_grows_to_whole_words_of_its_clause() -> None:
    kept = wording("launch.cannot-change-folder", tmp_path="/x")

    assert closest(kept, "Error: no permission to go to the folder /x/closed\nGo on.") == (
        "no permission to go to the folder /x/closed"
    )
    assert closest(kept, "cannot change to the folder: Permission denied") == ""


def test_with_reword_the_words_of_now_are_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "launch.yaml").write_text("other: as it was\ndisk-full: the disk is full of «n» files\n")
    monkeypatch.setattr("tests.wording.FOLDER", tmp_path)
    texts_of.cache_clear()
    try:
        kept = wording("launch.disk-full", n=3)
        told = explain_failure("in", kept, "Error: the disk has no room for 3 files", reword=True)
        untold = explain_failure("in", kept, "Error: the disk is full of files", reword=True)

        assert told is not None
        assert "written anew, since --reword was given" in told
        assert untold is not None
        assert "nothing in the text is like it" in untold
        assert texts_of("launch") == {"other": "as it was", "disk-full": "the disk has no room for «n» files"}
    finally:
        texts_of.cache_clear()


def test_values_become_placeholders_again() -> None:
    kept = wording("launch.cannot-change-folder", tmp_path="/tmp/x")

    assert reworded(kept, "no permission for /tmp/x/closed") == "no permission for «tmp_path»/closed"


def test_a_value_is_no_placeholder_where_it_is_a_part_of_a_word() -> None:
    kept = wording("watch.windows-left")

    assert reworded(kept, "1 of 3 windows") == "1 of 3 windows"
    closed = wording("launch.cannot-change-folder", tmp_path="a")
    assert (
        reworded(closed, "a folder is closed, and so is its parent")
        == "«tmp_path» folder is closed, and so is its parent"
    )
    assert reworded(closed, "the folder is closed") is None
    assert reworded(closed, "a folder or a file is closed") is None


def test_what_is_added_to_a_text_is_no_part_of_it() -> None:
    kept = "s.yaml:1: " + wording("launch.disk-full") + "\n"

    assert kept == f"s.yaml:1: {wording('launch.disk-full')}\n"
    assert reworded(kept, "s.yaml:1: the disk is very full\n") == "the disk is very full"
    assert reworded(kept, "s.yaml:2: the disk is very full\n") is None


def test_texts_in_lists_and_tuples_are_compared_one_by_one() -> None:
    kept = wording("launch.disk-full")
    lines = explain_failure("==", (2, [kept, "b"]), (2, ["the disk is very full", "b"]), reword=False)

    assert lines is not None
    assert "closest: the disk is very full" in lines
    lines = explain_failure("in", kept, ["a", "the disk is very full"], reword=False)

    assert lines is not None
    assert lines[2:] == ["closest: the disk is very full", "the text:", "a", "the disk is very full"]


def test_the_start_and_the_end_of_a_text_hold_what_stands_there() -> None:
    kept = wording("launch.disk-full")

    assert kept in start_of(f"{kept} again")
    assert kept not in start_of(f"again {kept}")
    assert kept in end_of(f"again {kept}")
    assert kept not in end_of(f"{kept} again")
    assert closest(kept, start_of("the disk is very full, the disk is full")) == "the disk is very full"


def test_an_error_that_says_something_else_is_a_failed_comparison() -> None:
    with raises(ValueError, wording("launch.disk-full")):
        raise ValueError(f"Error: {wording('launch.disk-full')}")
    with (
        pytest.raises(AssertionError, match="closest: the disk is very full"),
        raises(ValueError, wording("launch.disk-full")),
    ):
        raise ValueError("Error: the disk is very full")


def test_a_failed_comparison_names_the_key_and_its_file() -> None:
    lines = explain_failure("in", wording("launch.disk-full"), "Error: the disk is very full\n", reword=False)

    assert lines is not None
    assert lines[0].startswith("disk-full of tests/golden/wording/launch.yaml")
    assert "closest: the disk is very full" in lines


def test_other_comparisons_are_left_to_pytest() -> None:
    assert explain_failure("==", "a", "b", reword=False) is None
    assert explain_failure("in", "a", ["b"], reword=False) is None
    assert explain_failure("<", wording("launch.disk-full"), "a", reword=False) is None
