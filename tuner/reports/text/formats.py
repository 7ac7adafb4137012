"""Tables and paragraphs in all output formats, with every cell escaped for its format."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable
from dataclasses import dataclass

import tabulate as tabulate_module
from tabulate import tabulate, tabulate_formats

from tuner.core.text.safe_text import table_cell

# tabulate adds two blanks around every header, which would exceed the 100 columns of a terminal.
tabulate_module.MIN_PADDING = 0

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}
_FORMULA = ("=", "+", "-", "@")  # a spreadsheet would run such a cell


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows of finished text; *numeric* columns are right-aligned."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int]


def table_formats() -> list[str]:
    """Return every format name that `render_table` accepts."""
    return sorted({"markdown", "csv", "confluence", *tabulate_formats})


def render_table(table: Table, fmt: str) -> str:
    """Return *table* in *fmt*, ending in one newline.

    Raises:
        KeyError: *fmt* is none of `table_formats`.
    """
    if fmt not in table_formats():
        raise KeyError(fmt)
    if fmt in ("csv", "tsv"):  # tabulate would pad the cells of tsv with blanks
        return _render_separated(table, fmt)
    escape = _escape_for(fmt)
    rows = [[escape(cell) for cell in row] for row in table.rows]
    headers = [escape(header) for header in table.headers]
    align = ["right" if column in table.numeric else "left" for column in range(len(headers))]
    return (
        str(
            tabulate(
                rows,
                headers=headers,
                tablefmt=_tabulate_name(fmt),
                colalign=align if rows else None,
                headersglobalalign=None,
                disable_numparse=True,
            )
        )
        + "\n"
    )


def render_paragraph(text: str, fmt: str) -> str:
    """Return *text* as one paragraph of *fmt*, ending in a newline; formats without prose get plain text."""
    clean = escape(text, fmt)
    if fmt in ("html", "unsafehtml", "confluence"):
        return f"<p>{clean}</p>\n"
    return clean + "\n"


def escape(text: str, fmt: str) -> str:
    """Return *text* escaped for *fmt*: no markup, no line break, no control character."""
    return _escape_for(fmt, in_table=False)(text)


def _render_separated(table: Table, fmt: str) -> str:
    out = io.StringIO()
    if fmt == "csv":
        writer = csv.writer(out, lineterminator="\n")
    else:  # no cell holds a tab, so none is quoted
        writer = csv.writer(out, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n")
    writer.writerow(table.headers)
    for row in table.rows:
        writer.writerow(
            [
                table_cell(cell) if column in table.numeric else _no_formula(table_cell(cell))
                for column, cell in enumerate(row)
            ]
        )
    return out.getvalue()


def _no_formula(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _tabulate_name(fmt: str) -> str:
    # "github" writes no alignment colons, "pipe" does; "html" would escape a second time.
    return {"markdown": "pipe", "html": "unsafehtml", "confluence": "unsafehtml"}.get(fmt, fmt)


def _escape_for(fmt: str, *, in_table: bool = True) -> Callable[[str], str]:
    if fmt in ("latex", "latex_booktabs", "latex_longtable"):  # tabulate escapes the cells of these itself
        return table_cell if in_table else _escape_latex
    return _ESCAPES.get(fmt, table_cell)


def _escape(characters: str) -> Callable[[str], str]:
    pattern = re.compile(f"([{re.escape(characters)}])")
    return lambda text: pattern.sub(r"\\\1", table_cell(text))


def _entities(characters: str) -> Callable[[str], str]:
    pattern = re.compile(f"[{re.escape(characters)}]")
    return lambda text: pattern.sub(lambda match: f"&#{ord(match[0])};", table_cell(text))


def _escape_markdown(text: str) -> str:
    # Entities, because Python-Markdown, which mkdocs uses, has no backslash escape for these. An underscore
    # inside a word is no emphasis in Markdown, so it stays readable.
    escaped = re.sub(r"([\\`*\[\]|])", r"\\\1", html.escape(table_cell(text), quote=False)).replace(
        "~", "&#126;"
    )
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", escaped)


def _escape_latex(text: str) -> str:
    return re.sub(r"[\\~^<>&%$#_{}]", lambda match: _LATEX.get(match[0], "\\" + match[0]), table_cell(text))


def _escape_html(text: str) -> str:
    return html.escape(table_cell(text))


def _escape_org(text: str) -> str:
    return table_cell(text).replace("|", r"\vert{}")


_ESCAPES: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(("markdown", "github", "pipe"), _escape_markdown),
    **dict.fromkeys(("html", "unsafehtml", "confluence"), _escape_html),
    "asciidoc": _entities("|*_`#^~+{}[]\\"),  # references are replaced after the table is split into cells
    "mediawiki": _entities("|[]{}'<>&!*#~=:;"),
    "moinmoin": _entities("|[]{}'<>&^`~_"),
    "textile": _entities("|*_@<>&+^~%[]{}\"-"),
    "youtrack": _entities("|*_<>&+^~[]{}"),
    "jira": _escape("\\|{}[]*_^~!+?"),
    "rst": _escape("\\`*|_@"),  # 2x12@gevent would become an e-mail address
    "orgtbl": _escape_org,
    "latex_raw": _escape_latex,
}  # fmt: skip
