"""Insertion of tuner's section into a runbook file, between two marks; the rest stays unchanged.

`tuner.reports.runbook.document` generates the text of the section.

The marks are comments in the runbook's format, named after the service; in Markdown::

    <!-- tuner:ranking:crash_processor begin -->
    <!-- tuner:ranking:crash_processor end -->

Each mark stands on a line of its own. A section made with options (`--current 1x24`) stores them in a comment
below its first mark, so that a check without options compares like with like. Marks in a fenced code block
(as in a page about tuner) are text, not marks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import PurePath
from typing import Any

from tuner.core.errors import ConfigError
from tuner.core.ranking.overview import Overview
from tuner.reports.charts.heat_map import heat_map_picture
from tuner.reports.charts.ranking import ranking_picture
from tuner.reports.documents import PAGE_FORMATS
from tuner.reports.documents.blocks import Picture
from tuner.reports.text.formats import escape

#: format -> text before and after a one-line comment
COMMENTS = {
    "markdown": ("<!-- ", " -->"),
    "github": ("<!-- ", " -->"),
    "pipe": ("<!-- ", " -->"),
    "html": ("<!-- ", " -->"),
    "confluence": ("<!-- ", " -->"),
    "mediawiki": ("<!-- ", " -->"),
    "asciidoc": ("// ", ""),
    "rst": (".. ", ""),
    "orgtbl": ("# ", ""),
    "latex": ("% ", ""),
    "latex_booktabs": ("% ", ""),
    "textile": ("###. ", ""),
    "moinmoin": ("## ", ""),
}
_FENCED = ("markdown", "github", "pipe")  # formats that show text between fences literally
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
    "confluence": "<h2>{}</h2>",
    "mediawiki": "== {} ==",
    "asciidoc": "== {}",
    "rst": "{}\n{underline}",
    "orgtbl": "* {}",
    "latex": "\\section*{{{}}}",
    "latex_booktabs": "\\section*{{{}}}",
    "textile": "h2. {}",
    "moinmoin": "= {} =",
}
_MADE_WITH = re.compile(r"made with((?: --[a-z0-9-]+(?: [^\s<>-][^\s<>]*)?)+)")
_IN_XML = "-&#45;"  # two hyphens in a comment
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


@dataclass(frozen=True, slots=True)
class MadeWith:
    """The options of a section as they were typed; None for options not given."""

    current: str | None = None
    confidence: float | None = None
    objective: str | None = None
    max_load: str | None = None
    max_memory: str | None = None
    max_p95: str | None = None
    within: str | None = None
    costs: str | None = None
    repeat_after: str | None = None
    pictures: bool | None = None
    horizon: str | None = None

    def __str__(self) -> str:
        given = ((name, value) for name, value in asdict(self).items() if value is not None)
        return " ".join(
            f"--{name.replace('_', '-')}{'' if value is True else ' ' + ''.join(str(value).split())}"
            for name, value in given
        )

    @classmethod
    def parse(cls, text: str) -> MadeWith:
        """Return the options that ``str`` wrote; options of another version of tuner are dropped."""
        words = text.split()
        given = {
            word[2:].replace("-", "_"): value
            for word, value in zip(words, [*words[1:], "--"], strict=True)
            if word.startswith("--")
        }
        known: dict[str, Any] = {
            field.name: given[field.name]
            for field in fields(cls)
            if field.name in given and field.name != "pictures" and not given[field.name].startswith("--")
        }
        if "pictures" in given:
            known["pictures"] = True
        if (level := known.pop("confidence", None)) and re.fullmatch(r"0\.[5-9]\d*", level):
            known["confidence"] = float(level)
        return cls(**known)


def format_of(path: PurePath) -> str:
    """Return the format for the extension of a runbook's file name.

    Raises:
        ConfigError: the extension is unknown.
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
    """Return the lines that begin and end the section of *service* in *fmt*.

    Raises:
        ConfigError: *fmt* has no comments, hence no marks.
    """
    if fmt not in COMMENTS:
        printed = "Print it with --page" if fmt in PAGE_FORMATS else "Print it"
        raise ConfigError(
            f"{fmt} has no comments to mark a section with",
            hint=f"{printed} to paste it yourself, or use one of {', '.join(sorted(COMMENTS))}.",
        )
    before, after = COMMENTS[fmt]
    name = re.sub(r"[^A-Za-z0-9._-]", "-", service).replace("--", "-")
    if fmt == "confluence":
        name = re.sub("--+", "-", name)  # a comment in XML may not contain two hyphens in a row
    return f"{before}tuner:ranking:{name} begin{after}", f"{before}tuner:ranking:{name} end{after}"


def check_format(text: str, *, service: str, fmt: str, name: str) -> None:
    """Raise ConfigError if the runbook *text*, called *name*, has the section of *service* in comments of a
    format other than *fmt*: it would get a second section.
    """
    lines = text.split("\n")
    own = marks(service, fmt)
    for other in COMMENTS:
        begin, _ = marks(service, other)
        places = _places(lines, (begin,), fenced=fmt in _FENCED)[begin]
        if places and begin not in own:
            raise ConfigError(
                f"{name}:{places[0] + 1}: the section of {service} is kept as {other} here, not as {fmt}",
                hint=f"Add --format {other}, or delete that section.",
            )


def parse_made_with(text: str, *, service: str, fmt: str) -> MadeWith:
    """Return the options of the section of *service* in the runbook *text*; empty if there is none."""
    begin, _ = marks(service, fmt)
    before, after = COMMENTS[fmt]
    lines = [line.strip() for line in text.split("\n")]
    for place in _places(lines, (begin,), fenced=fmt in _FENCED)[begin][:1]:
        for line in lines[place + 1 : place + 3]:
            reported = line.removeprefix(before).removesuffix(after).replace(_IN_XML, "--")
            found = _MADE_WITH.fullmatch(reported)
            if found:
                return MadeWith.parse(found[1])
    return MadeWith()


def update_runbook(
    text: str, section: str, *, service: str, fmt: str, name: str, options: MadeWith | None = None
) -> str:
    """Return the runbook *text* with *section* between the marks of *service*, appended if there are none.

    Line ends stay those of the runbook; text outside the marks stays byte for byte. *name* is the runbook's,
    for errors.

    Raises:
        ConfigError: one mark without the other, a mark twice, or in the wrong order; or a mark in *section*.
    """
    begin, end = marks(service, fmt)
    if any(_places(section.split("\n"), (begin, end), fenced=fmt in _FENCED).values()):
        raise ConfigError(
            f"the study's own text has a line that is a mark of {name}: {begin!r} or {end!r}",
            hint="Print the page with --page, and paste it yourself.",
        )
    newline = "\r\n" if "\r\n" in text else "\n"
    before, after = COMMENTS[fmt]
    made = "" if options is None else str(options)
    if fmt == "confluence":
        made = made.replace("--", _IN_XML)
    sentences = [f"{before}made with {made}{after}", ""] if made else []
    body = newline.join([begin, "", *sentences, *section.strip("\n").split("\n"), "", end])
    lines = text.split("\n")
    places = _places(lines, (begin, end), fenced=fmt in _FENCED)
    begins, ends = places[begin], places[end]
    if not begins and not ends:
        return text + _gap(text, newline) + _heading(service, fmt, newline) + body + newline
    if len(begins) != 1 or len(ends) != 1 or begins[0] > ends[0]:
        raise _marks_broken(name, begin, end, begins, ends)
    first, last = begins[0], ends[0]
    tail = "\r" if lines[last].endswith("\r") else ""
    return "\n".join([*lines[:first], body + tail, *lines[last + 1 :]])


def _places(lines: list[str], wanted: tuple[str, ...], *, fenced: bool) -> dict[str, list[int]]:
    """Return the line numbers (from 0) of each mark, without those in fenced code."""
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


def _marks_broken(name: str, begin: str, end: str, begins: list[int], ends: list[int]) -> ConfigError:
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


# Picture files of a runbook, stored next to it.


@dataclass(frozen=True, slots=True)
class Pictures:
    """References to the pictures for a page, and the text of each file."""

    blocks: tuple[Picture, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)  #: file name -> SVG


def runbook_pictures(overview: Overview, stem: str) -> Pictures:
    """Return the ranking and the heat map, in files whose names begin with *stem*."""
    best = next((row.layout.variant for row in overview.ranking.rows), "")
    drawn = {"ranking": ranking_picture(overview), "layouts": heat_map_picture(overview, best)}
    service = re.sub(r"[^A-Za-z0-9._]+", "-", overview.study.service).strip("-")
    blocks, files = [], {}
    for name, picture in drawn.items():
        if picture is not None:
            file = f"{stem}-{service}-{name}.svg"
            blocks.append(Picture(file, f"{picture.title}. {picture.summary}"))
            files[file] = picture.svg(standalone=True) + "\n"
    return Pictures(tuple(blocks), files)
