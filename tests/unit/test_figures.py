from __future__ import annotations

import pytest

from tuner.core.text.figures import busy_cores, first_of, list_names, percent, pluralize


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.02, "2 %"),
        (0.0, "0 %"),
        (2.1e-16, "0 %"),
        (0.003, "0.3 %"),
        (0.00123, "0.12 %"),
        (0.123456, "12.3 %"),
        (1.0691, "107 %"),
        (33.9, "3390 %"),
    ],
)
def test_a_share_has_as_many_digits_as_people_read(ratio: float, text: str) -> None:
    assert percent(ratio) == text


@pytest.mark.parametrize(
    ("count", "thing", "text"),
    [
        (1, "core", "1 core"),
        (1.0, "core", "1 core"),
        (1.5, "core", "1.5 cores"),
        (0, "window", "0 windows"),
        (2, "process", "2 processes"),
        (3, "launch", "3 launches"),
        (2_000_000, "item", "2000000 items"),
    ],
)
def test_one_is_one_and_all_else_is_many(count: float, thing: str, text: str) -> None:
    assert pluralize(count, thing) == text


def test_what_is_shown_as_one_is_one() -> None:
    assert pluralize(1.0004, "core", ".3g") == "1 core"
    assert pluralize(1.004, "core", ".3g") == "1 core"
    assert pluralize(1.04, "core", ".3g") == "1.04 cores"


@pytest.mark.parametrize(
    ("n", "text"),
    [(0, ""), (2, "1, 2"), (4, "1, 2, 3, 4"), (5, "1, 2, 3 and 2 more"), (6750, "1, 2, 3 and 6747 more")],
)
def test_a_list_in_a_sentence_is_cut_where_it_would_grow_long(n: int, text: str) -> None:
    assert list_names(range(1, n + 1), 3) == text


@pytest.mark.parametrize(("n", "shown"), [(0, 0), (3, 3), (4, 4), (5, 3), (100, 3)])
def test_what_is_left_out_is_never_one_alone(n: int, shown: int) -> None:
    assert list(first_of(range(n), 3)) == list(range(shown))


@pytest.mark.parametrize(
    ("count", "text"), [(0.15, "0.15 core"), (1.0, "1.00 core"), (1.004, "1.00 core"), (2.0, "2.00 cores")]
)
def test_more_than_one_core_in_use_is_several(count: float, text: str) -> None:
    assert busy_cores(count) == text
