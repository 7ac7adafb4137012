"""Text of other programs and people cannot steer a terminal or a page."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tuner.core.text.safe_text import (
    escape_unprintable,
    number_unprintable,
    one_line,
    page_line,
    printable,
    table_cell,
    visible,
)

ON_ONE_LINE = (printable, escape_unprintable, number_unprintable, one_line, page_line, table_cell)
HOSTILE = "a\x1b[31mb\r\nc\t\u202ed\ud800\x00\u2028e\u200b"
#: every character that ends a line, drives a terminal or turns text around
STEERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e]")


@pytest.mark.parametrize(
    ("clean", "expected"),
    [
        (printable, "a?[31mb c ?d?? e?"),
        (escape_unprintable, r"a\x1b[31mb\r\nc\t\u202ed\ud800\x00\u2028e\u200b"),
        (number_unprintable, r"a\x1b[31mb\x0d\x0ac\x09\x202ed\xd800\x00\x2028e\x200b"),
        (one_line, "a [31mb  c  d   e "),
        (page_line, "a [31mb c d e"),
        (table_cell, "a b c \\u202ed\ud800 e\\u200b"),
        (visible, "a [31mb \nc\t\\u202ed\ufffd  e\\u200b"),
    ],
)
def test_each_place_shows_hostile_text_in_its_way(clean: Callable[[str], str], expected: str) -> None:
    assert clean(HOSTILE) == expected


@given(st.text(st.characters() | st.sampled_from(HOSTILE)))
@example(HOSTILE)
def test_nothing_that_steers_is_left(text: str) -> None:
    for clean in ON_ONE_LINE:
        assert STEERS.search(clean(text)) is None
    assert STEERS.search(re.sub(r"[\t\n]", "", visible(text))) is None


def test_text_that_can_be_printed_stays() -> None:
    text = "größer als 3 µs — naïve 日本 🙂"

    for clean in (
        printable,
        escape_unprintable,
        number_unprintable,
        one_line,
        page_line,
        table_cell,
        visible,
    ):
        assert clean(text) == text


def test_long_text_of_others_is_cut() -> None:
    assert one_line("x" * 1000) == "x" * 300 + "..."
    assert visible("x" * 1000, 10) == "x" * 9 + "…"
