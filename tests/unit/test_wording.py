"""The texts of golden/wording/ and the tests that read them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from ..raising import raises
from ..wording import FOLDER, Wording, closest, end_of, explain_failure, reworded, start_of, texts_of, wording

TESTS = Path(__file__).resolve().parents[1]
NOW = "the disk is very full"  #: what the disk is said to be in place of full
CLOSED = wording("launch.cannot-change-folder", tmp_path="/tmp/x")
A_CLOSED = wording("launch.cannot-change-folder", tmp_path="a")
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


@pytest.mark.parametrize(
    ("wanted", "text", "found"),
    [
        (
            "block 4 needs 12 minutes, more than the budget",
            "Error: block 4 needs about 12 min, more than the budget allows\nStop here.",
            "block 4 needs about 12 min, more than the budget",
        ),
        ("nothing of this kind", "Error: block 4 needs about 12 min", ""),
        (
            wording("launch.cannot-change-folder", tmp_path="/x"),
            "Error: no permission to go to the folder /x/closed\nGo on.",
            "no permission to go to the folder /x/closed",
        ),
        (wording("launch.cannot-change-folder", tmp_path="/x"), "cannot change to the folder: denied", ""),
        (wording("launch.disk-full"), start_of("the disk is very full, the disk is full"), NOW),
    ],
    ids=["longer", "nothing", "to the end of a clause", "without its value", "start"],
)
def test_the_closest_stretch_is_found_inside_a_longer_text(wanted: str, text: str, found: str) -> None:
    assert closest(wanted, text) == found


def test_with_reword_the_words_of_now_are_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "launch.yaml").write_text("other: as it was\ndisk-full: the disk is full of «n» files\n")
    monkeypatch.setattr("tests.wording.FOLDER", tmp_path)
    texts_of.cache_clear()
    try:
        kept = wording("launch.disk-full", n=3)
        lines = explain_failure("in", kept, "Error: the disk has no room for 3 files", reword=True)
        untold = explain_failure("in", kept, "Error: the disk is full of files", reword=True)

        assert lines is not None
        assert "written anew, since --reword was given" in lines
        assert untold is not None
        assert "nothing in the text is like it" in untold
        assert texts_of("launch") == {"other": "as it was", "disk-full": "the disk has no room for «n» files"}
    finally:
        texts_of.cache_clear()


@pytest.mark.parametrize(
    ("kept", "now", "text"),
    [
        (CLOSED, "no permission for /tmp/x/closed", "no permission for «tmp_path»/closed"),
        (wording("watch.windows-left"), "1 of 3 windows", "1 of 3 windows"),
        (A_CLOSED, "a folder is closed, so is another", "«tmp_path» folder is closed, so is another"),
        (A_CLOSED, "the folder is closed", None),
        (A_CLOSED, "a folder or a file is closed", None),
        ("s.yaml:1: " + wording("launch.disk-full") + "\n", f"s.yaml:1: {NOW}\n", NOW),
        ("s.yaml:1: " + wording("launch.disk-full") + "\n", f"s.yaml:2: {NOW}\n", None),
    ],
    ids=["value", "none", "part of a word", "gone", "twice", "what is added", "another is added"],
)
def test_values_become_placeholders_again(kept: Wording, now: str, text: str | None) -> None:
    assert reworded(kept, now) == text


def test_what_is_added_to_a_text_stands_around_it() -> None:
    kept = "s.yaml:1: " + wording("launch.disk-full") + "\n"

    assert kept == f"s.yaml:1: {wording('launch.disk-full')}\n"


def test_texts_in_lists_and_tuples_are_compared_one_by_one() -> None:
    kept = wording("launch.disk-full")
    lines = explain_failure("==", (2, [kept, "b"]), (2, [NOW, "b"]), reword=False)

    assert lines is not None
    assert f"closest: {NOW}" in lines
    lines = explain_failure("in", kept, ["a", NOW], reword=False)

    assert lines is not None
    assert lines[2:] == [f"closest: {NOW}", "the text:", "a", NOW]


def test_the_start_and_the_end_of_a_text_hold_what_stands_there() -> None:
    kept = wording("launch.disk-full")

    assert kept in start_of(f"{kept} again")
    assert kept not in start_of(f"again {kept}")
    assert kept in end_of(f"again {kept}")
    assert kept not in end_of(f"{kept} again")


def test_an_error_that_says_something_else_is_a_failed_comparison(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copy(FOLDER / "launch.yaml", tmp_path)  # under --reword this comparison writes, too
    monkeypatch.setattr("tests.wording.FOLDER", tmp_path)
    with raises(ValueError, wording("launch.disk-full")):
        raise ValueError(f"Error: {wording('launch.disk-full')}")
    with (
        pytest.raises(AssertionError, match=f"closest: {NOW}"),
        raises(ValueError, wording("launch.disk-full")),
    ):
        raise ValueError(f"Error: {NOW}")
    texts_of.cache_clear()


def test_a_failed_comparison_names_the_key_and_its_file() -> None:
    lines = explain_failure("in", wording("launch.disk-full"), f"Error: {NOW}\n", reword=False)

    assert lines is not None
    assert lines[0].startswith("disk-full of tests/golden/wording/launch.yaml")
    assert f"closest: {NOW}" in lines


def test_other_comparisons_are_left_to_pytest() -> None:
    assert explain_failure("==", "a", "b", reword=False) is None
    assert explain_failure("in", "a", ["b"], reword=False) is None
    assert explain_failure("<", wording("launch.disk-full"), "a", reword=False) is None
