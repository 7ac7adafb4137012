from __future__ import annotations

import pytest

from tuner.reports.text.cells import fold_tables
from tuner.reports.text.formats import Table, render_table

from ..wording import wording

pytestmark = pytest.mark.pythons

TABLE = render_table(
    Table(
        ("rank", "layout", "items", "bottleneck", "memory"),
        (("1", "24x2", "47354", "waiting", "1932 MB"), ("1", "8x6", "47231", "GIL", "660 MB")),
        frozenset({0, 2, 4}),
    ),
    "simple",
)
TEXT = f"A sentence that is much longer than the terminal is wide.\n\n{TABLE}\nThe end.\n"


def test_a_table_that_fits_stays_as_it_is() -> None:
    width = max(map(len, TABLE.splitlines()))

    assert fold_tables(TEXT, width) == TEXT
    assert fold_tables(TEXT, 300) == TEXT


def test_what_does_not_fit_comes_below_with_the_names_of_its_rows() -> None:
    assert fold_tables(TEXT, 32) == wording("report.folded-tables")


def test_a_column_that_never_fits_stands_alone_beside_the_names() -> None:
    parts = fold_tables(TABLE, 5).split("\n\n")

    assert [part.splitlines()[0].split() for part in parts] == [
        ["rank", "layout", "items"],
        ["rank", "layout", "bottleneck"],
        ["rank", "layout", "memory"],
    ]


def test_a_table_whose_first_column_names_its_rows_repeats_that_alone() -> None:
    table = render_table(Table(("service", "forms"), (("rq", "fork, simple"),), frozenset()), "simple")

    assert fold_tables(table, 10) == table
    wide = render_table(Table(("service", "a", "b"), (("rq", "fork", "simple"),), frozenset()), "simple")
    assert fold_tables(wide, 14) == wording("services.table-of-two")


def test_texts_without_tables_are_left_alone() -> None:
    for text in ("", "\n", "-----\n", '{"a": 1}\n', "| a |\n|---|\n"):
        assert fold_tables(text, 3) == text
