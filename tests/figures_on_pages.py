"""Figures on pages for people, and who vouches for them.

A figure is a number with a unit. Each is *stamped*, by a comment on a line of its own, which the site shows
and other readers do not see. It holds until the next stamp or heading; with `on this page` until the end,
where nothing nearer holds:

    <!-- measured: COMMAND; COMMAND | MACHINE | DAY -->              a command that is here prints it
    <!-- measured by hand: WHAT WAS DONE | MACHINE | DAY to DAY -->  nothing here repeats it
    <!-- not measured: WHY -->                                       a setting, an example, somebody else's

MACHINE begins with the number of cores. VM is a virtual machine, and vm-2 is one with 2 cores and Python
3.11.7. *Busy* says that other processes worked on its cores meanwhile, *quiet* that none did.

A block of what was printed (``` alone, or ```text) is a figure as well. Code and lines that link to a source
need no stamp.

README.md has no comments: the table of docs/readme-figures.txt has its stamps, each with the beginning of the
line of README.md that it stands before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README, README_FIGURES = ROOT / "README.md", ROOT / "docs" / "readme-figures.txt"
_UNIT = (
    r"%|s|ms|us|µs|ns|min|minutes?|hours?|h|seconds?|MB|kB|GB|KB|MiB|GiB|bytes|times|x(?!-)|points?|million"
    r"|(?:items|jobs|events|requests|windows|launches)(?:/s| a second)?"
)
_NUMBER = r"\d(?:[\d.,]*\d)?(?: \d{3})*"
_FIGURE = re.compile(rf"(?<![\w.])(?:{_NUMBER})(?: (?:and|to|or) {_NUMBER})?\s?(?:{_UNIT})(?![\w/])")
#: names of things, not figures: a confidence level beside its word, the unit of every throughput
_NAMES = re.compile(
    r"\b9[05] % (?:confidence|intervals?)\b|\(Wilson, 95 %\)|\b95 %\*\* intervals?|items/10 min"
)
_STAMP = re.compile(
    r"^<!-- (?P<kind>measured|measured by hand|not measured)(?P<page> on this page)?: (?P<text>.+) -->$"
)
PRINTED = "printed"  #: stands for a block of what a command printed: all of it is figures
_ALMOST = re.compile(r"^\s*<!--\s*(?:not )?measured", re.IGNORECASE)


@dataclass(slots=True)
class Stamp:
    """Who vouches for the figures below it."""

    line: int
    kind: str  #: measured, measured by hand, not measured
    text: str
    is_of_page: bool
    figures: list[str] = field(default_factory=list)

    def parts(self) -> list[str]:
        """What was done, where, when."""
        return [part.strip() for part in self.text.split("|")]


@dataclass(frozen=True, slots=True)
class Page:
    """A page's stamps, the figures that nobody vouches for, and comments that look like stamps only."""

    stamps: tuple[Stamp, ...]
    bare: tuple[tuple[int, str], ...]  #: line, text of the line
    misspelt: tuple[tuple[int, str], ...]


_OF_README = re.compile(r"^\| `(?P<line>[^`]+)` \| (?P<stamp>.+) \|$", re.MULTILINE)


def text_of(path: Path) -> str:
    """Return the text of a page, README.md with the stamps that stand in docs/readme-figures.txt."""
    text = path.read_text(encoding="utf-8")
    if path != README:
        return text
    lines = text.splitlines()
    for row in _OF_README.finditer(README_FIGURES.read_text(encoding="utf-8")):
        at = [number for number, line in enumerate(lines) if line.startswith(row["line"])]
        if len(at) != 1:
            raise ValueError(f"{README_FIGURES}: {len(at)} lines of README.md begin with {row['line']!r}")
        kind, _, rest = row["stamp"].partition(" | ")
        lines.insert(at[0], f"<!-- {kind}: {rest} -->")
    return "\n".join(lines)


def read_page(text: str) -> Page:
    """Hold each figure of a page against its stamps."""
    stamps: list[Stamp] = []
    bare: list[tuple[int, str]] = []
    misspelt: list[tuple[int, str]] = []
    near: Stamp | None = None
    of_page: Stamp | None = None
    for number, line in _lines(text):
        figures = [PRINTED] if line == PRINTED else figures_of(line)
        if found := _STAMP.match(line):
            stamp = Stamp(number, found["kind"], found["text"], found["page"] is not None)
            stamps.append(stamp)
            if stamp.is_of_page:
                of_page = stamp
            else:
                near = stamp
        elif _ALMOST.match(line):
            misspelt.append((number, line))
        elif line.startswith("#"):
            near = None
        elif figures:
            vouches = near or of_page
            if vouches is None:
                bare.append((number, line))
            else:
                vouches.figures += figures
    return Page(tuple(stamps), tuple(bare), tuple(misspelt))


def figures_of(line: str) -> list[str]:
    """The figures of a line of prose or of a table; none where it links to a source."""
    if "](http" in line:
        return []
    return _FIGURE.findall(_NAMES.sub("", re.sub(r"`[^`]*`", "", line)))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are no code, with their numbers; of what was printed the first line of the block."""
    is_fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
            if is_fenced and line.strip() in ("```", "```text"):
                yield number, PRINTED
        elif not is_fenced and not line.startswith("    "):
            yield number, line
