"""The part of a runbook that belongs to tuner: what lies between its two marks, and nothing else.

The marks are comments of the runbook's own format, named after the service; in Markdown::

    <!-- tuner:ranking:crash_processor begin -->
    <!-- tuner:ranking:crash_processor end -->

Each stands on a line of its own. Marks in a fenced code block (as in a page about tuner) are text, not marks.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from tuner.core.errors import ConfigError
from tuner.reports.formats import escape

#: format -> (before, after) of a one-line comment
COMMENTS = {
    "markdown": ("<!-- ", " -->"),
    "github": ("<!-- ", " -->"),
    "pipe": ("<!-- ", " -->"),
    "html": ("<!-- ", " -->"),
    "mediawiki": ("<!-- ", " -->"),
    "asciidoc": ("// ", ""),
    "rst": (".. ", ""),
    "orgtbl": ("# ", ""),
    "latex": ("% ", ""),
    "latex_booktabs": ("% ", ""),
    "textile": ("###. ", ""),
    "moinmoin": ("## ", ""),
}
_SUFFIXES = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".adoc": "asciidoc",
    ".asciidoc": "asciidoc",
    ".rst": "rst",
    ".org": "orgtbl",
    ".tex": "latex",
    ".textile": "textile",
    ".mediawiki": "mediawiki",
    ".wiki": "mediawiki",
}
_HEADINGS = {
    "html": "<h2>{}</h2>",
    "mediawiki": "== {} ==",
    "asciidoc": "== {}",
    "rst": "{}\n{underline}",
    "orgtbl": "* {}",
    "latex": "\\section*{{{}}}",
    "latex_booktabs": "\\section*{{{}}}",
    "textile": "h2. {}",
    "moinmoin": "= {} =",
}
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


def format_of(path: PurePath) -> str:
    """The format that a runbook's file name says.

    Raises:
        ConfigError: the ending is not known.
    """
    try:
        return _SUFFIXES[path.suffix.lower()]
    except KeyError:
        known = ", ".join(sorted(_SUFFIXES))
        raise ConfigError(
            f"{path}: cannot tell the runbook's format from its ending",
            hint=f"Name one with --format ({', '.join(sorted(COMMENTS))}), or use an ending of {known}.",
        ) from None


def marks(service: str, fmt: str) -> tuple[str, str]:
    """The lines that begin and end the section of *service* in *fmt*.

    Raises:
        ConfigError: *fmt* has no comments, hence no marks.
    """
    if fmt not in COMMENTS:
        raise ConfigError(
            f"{fmt} has no comments to mark a section with",
            hint=f"Print it to paste it yourself, or use one of {', '.join(sorted(COMMENTS))}.",
        )
    before, after = COMMENTS[fmt]
    name = re.sub(r"[^A-Za-z0-9._-]", "-", service).replace("--", "-")
    return f"{before}tuner:ranking:{name} begin{after}", f"{before}tuner:ranking:{name} end{after}"


def updated(text: str, section: str, *, service: str, fmt: str, name: str) -> str:
    """The runbook *text* with *section* between the marks of *service*; added at the end when there are none.

    Line ends stay those of the runbook; what lies outside the marks stays byte for byte. *name* is the
    runbook's, for errors.

    Raises:
        ConfigError: one mark without the other, a mark twice, or in the wrong order.
    """
    begin, end = marks(service, fmt)
    newline = "\r\n" if "\r\n" in text else "\n"
    body = newline.join([begin, "", *section.strip("\n").split("\n"), "", end])
    lines = text.split("\n")
    places = _places(lines, (begin, end), fenced=fmt in ("markdown", "github", "pipe"))
    begins, ends = places[begin], places[end]
    if not begins and not ends:
        return text + _gap(text, newline) + _heading(service, fmt, newline) + body + newline
    if len(begins) != 1 or len(ends) != 1 or begins[0] > ends[0]:
        raise _broken(name, begin, end, begins, ends)
    first, last = begins[0], ends[0]
    tail = "\r" if lines[last].endswith("\r") else ""
    return "\n".join([*lines[:first], body + tail, *lines[last + 1 :]])


def _places(lines: list[str], wanted: tuple[str, str], *, fenced: bool) -> dict[str, list[int]]:
    """The line numbers (from 0) on which each mark stands, those in fenced code left out."""
    places: dict[str, list[int]] = {mark: [] for mark in wanted}
    fence = ""
    for number, line in enumerate(lines):
        stripped = line.strip()
        if fenced and (match := _FENCE.match(line)):
            if not fence:
                fence = match[1]
            elif match[1].startswith(fence) and stripped == match[1]:
                fence = ""
            continue
        if not fence and stripped in places:
            places[stripped].append(number)
    return places


def _broken(name: str, begin: str, end: str, begins: list[int], ends: list[int]) -> ConfigError:
    if begins and not ends:
        where, what = begins[0], f"the mark {begin!r} has no {end!r} after it"
    elif ends and not begins:
        where, what = ends[0], f"the mark {end!r} has no {begin!r} before it"
    elif len(begins) > 1 or len(ends) > 1:
        mark, places = (begin, begins) if len(begins) > 1 else (end, ends)
        where, what = places[1], f"the mark {mark!r} stands here a second time"
    else:
        where, what = ends[0], f"the mark {end!r} stands before {begin!r}"
    return ConfigError(
        f"{name}:{where + 1}: {what}; nothing was written", hint="Put both marks back, or delete both."
    )


def _gap(text: str, newline: str) -> str:
    if not text:
        return ""
    return newline if text.endswith("\n") else newline * 2


def _heading(service: str, fmt: str, newline: str) -> str:
    title = escape(f"Processes and threads of {service}", fmt)
    line = _HEADINGS.get(fmt, "## {}").format(title, underline="=" * len(title))
    return line.replace("\n", newline) + newline * 2
