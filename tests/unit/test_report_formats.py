from __future__ import annotations

import csv
import io
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tuner.core.text.safe_text import escape_invisible
from tuner.reports.text.formats import Table, escape, render_paragraph, render_table, table_formats

pytestmark = pytest.mark.pythons

NASTY = "a|b *c* _d_ `e` <script>&amp; [x](y) {z} \\ ~s~ ^u^ $m$ #h"
TEXT = st.text(st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=30).map(
    lambda text: " ".join(text.split())
)


def table_of(*cells: str) -> Table:
    return Table(("layout", "items"), tuple((cell, "1") for cell in cells), frozenset({1}))


class Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.tags: set[str] = set()
        self.inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.cells[-1] += data


def cells_of(page: str) -> tuple[list[str], set[str]]:
    parser = Cells()
    parser.feed(page)
    return parser.cells, parser.tags


@given(TEXT)
def test_a_markdown_reader_gets_every_cell_as_it_was(text: str) -> None:
    page = (
        MarkdownIt("commonmark")
        .enable(["table", "strikethrough"])
        .render(render_table(table_of(text), "markdown"))
    )

    cells, tags = cells_of(page)

    assert [" ".join(cell.split()) for cell in cells] == ["layout", "items", escape_invisible(text), "1"]
    assert tags <= {"table", "thead", "tbody", "tr", "th", "td"}


@given(TEXT)
@pytest.mark.parametrize("fmt", ["html", "unsafehtml"])
def test_a_browser_gets_every_cell_as_it_was(fmt: str, text: str) -> None:
    cells, tags = cells_of(render_table(table_of(text), fmt))

    assert [" ".join(cell.split()) for cell in cells] == ["layout", "items", escape_invisible(text), "1"]
    assert tags <= {"table", "thead", "tbody", "tr", "th", "td"}


@given(TEXT)
def test_csv_carries_every_cell_and_no_formula(text: str) -> None:
    rows = list(csv.reader(io.StringIO(render_table(table_of(text), "csv"))))

    assert rows[1][0].removeprefix("'") == escape_invisible(text).removeprefix("'")
    assert not rows[1][0].startswith(("=", "+", "-", "@"))


@pytest.mark.parametrize(
    "fmt",
    [
        "markdown",
        "github",
        "pipe",
        "asciidoc",
        "mediawiki",
        "moinmoin",
        "textile",
        "youtrack",
        "jira",
        "orgtbl",
    ],
)
def test_a_bar_in_a_cell_makes_no_further_cell(fmt: str) -> None:
    def bars(cell: str) -> int:
        lines = render_table(table_of(cell), fmt).replace("\\|", "").splitlines()
        return sum(line.count("|") for line in lines)

    assert bars("a|b") == bars("ab")


@pytest.mark.parametrize("fmt", table_formats())
def test_every_format_renders_hostile_text_on_as_many_lines_as_tame_text(fmt: str) -> None:
    hostile = render_table(table_of(NASTY, "one\ntwo\r\n\x1b[31mred"), fmt)
    tame = render_table(table_of("a", "b"), fmt)

    assert len(hostile.splitlines()) == len(tame.splitlines())
    assert "\x1b" not in hostile
    assert hostile.endswith("\n")


@pytest.mark.parametrize("fmt", ["latex", "latex_raw", "latex_booktabs", "latex_longtable"])
def test_latex_gets_no_command_from_a_cell(fmt: str) -> None:
    rendered = render_table(table_of("50% & $x_1$ \\input{y}"), fmt)

    assert r"50\% \& \$x\_1\$" in rendered
    assert r"\input" not in rendered


def test_a_paragraph_of_html_cannot_inject_markup() -> None:
    assert render_paragraph("<b>x</b>", "html") == "<p>&lt;b&gt;x&lt;/b&gt;</p>\n"


def test_restructured_text_shows_markup_characters() -> None:
    assert escape("*a* `b` |c| d_", "rst") == r"\*a\* \`b\` \|c\| d\_"


@pytest.mark.parametrize("fmt", table_formats())
@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\u2066", "\U000e0041"])
def test_what_turns_text_around_or_is_not_seen_is_reported(fmt: str, hidden: str) -> None:
    text = f"a{hidden}txt.exe"

    for made in (render_table(table_of(text), fmt), render_paragraph(text, fmt)):
        assert hidden not in made
        assert f"u{ord(hidden):04x}txt" in made
