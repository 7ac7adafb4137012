"""How often a reader meets words that the glossary replaces; the numbers may only fall.

``golden/dialect.yaml`` has the number allowed of each phrase, by place: pages (without code), help of the
command line, printed sentences, docstrings. ``pytest --reword tests/unit/test_dialect.py`` lowers the
numbers to the present ones; it raises none.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = ROOT / "tests" / "golden" / "dialect.yaml"
PLACES = ("docs", "help", "printed", "docstrings")
TOO_HIGH = 0.1  #: so much of an allowed number may be unused
SHOWN = 30  #: hits that a failure shows
PHRASES = {
    "void": r"void(?:s|ed)?",
    "strangers": r"strangers?",
    "foreign CPU": r"foreign CPU",
    "doubt": r"doubts?|doubtful",
    "bound by": r"bound by|what binds",
    "cannot be told": r"(?:cannot|can not|not) be told|(?:tell|told) apart",
    "box": r"(?<!tuner )(?<![-.])box(?:es)?(?!\w*:)",
    "brake": r"brakes?(?!:|\.md)",
    "is told": r"(?:is|are|was|were|be) told",
    "tells": r"tells?",
    "says, sees, knows": r"says?|sees|knows",
    "who": r"who(?:ever)?",
    "beside": r"beside",
    "goes on": r"(?:go|goes|gone|going) on",
    "of its own": r"of (?:its|their) own",
    "as it has it": r"as (?:it|they|the \w+) (?:has|have) it",
    "likewise": r"likewise",
    "by itself": r"by (?:itself|themselves)",
    "in hand": r"in hand",
    "make way": r"makes? way",
    "foretell": r"foretells?|foretold",
    "noun clause with what": r"what",
}
#: one pass over a text; each phrase is a group, in the order of PHRASES
FOUND = re.compile(rf"\b(?:{'|'.join(f'({pattern})' for pattern in PHRASES.values())})\b", re.IGNORECASE)
FENCED = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)|<!--.*?-->", re.DOTALL | re.MULTILINE)
SQL = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA)\b")


@pytest.mark.parametrize("place", PLACES)
def test_no_word_that_the_glossary_replaces_comes_back(place: str) -> None:
    allowed = _allowed()[place]

    more = {name: hits for name, hits in _hits()[place].items() if len(hits) > allowed.get(name, 0)}
    assert not more, "\n".join(
        f"{name!r}: {len(hits)} times, {allowed.get(name, 0)} allowed (glossary: docs/words.md)\n  "
        + "\n  ".join(hits[:SHOWN])
        for name, hits in more.items()
    )


@pytest.mark.parametrize("place", PLACES)
def test_the_allowed_numbers_follow_when_such_words_go(place: str, request: pytest.FixtureRequest) -> None:
    allowed, now = _allowed(), Counter({name: len(hits) for name, hits in _hits()[place].items()})
    if request.config.getoption("reword"):
        allowed[place] = {name: min(now[name], n) for name, n in allowed[place].items()}
        ALLOWED.write_text(yaml.safe_dump(allowed, sort_keys=False), encoding="utf-8")

    high = {name: n for name, n in allowed[place].items() if now[name] < (1 - TOO_HIGH) * n}
    assert not high, f"lower these to the present number (--reword does): {[(n, now[n]) for n in high]}"


def test_what_is_code_is_no_prose() -> None:
    text = "A void window\n```text\nvoid\n```\nof `void`, and [a void](void.md) <!-- void -->\n"

    assert [(name, line) for name, line, _ in _in_text(_prose_of(text))] == [("void", 1), ("void", 5)]


def _allowed() -> dict[str, dict[str, int]]:
    read: dict[str, dict[str, int]] = yaml.safe_load(ALLOWED.read_text(encoding="utf-8"))
    return read


@cache
def _hits() -> dict[str, dict[str, list[str]]]:
    """Return, by place and phrase, each hit as ``file:line: text around it``."""
    found: dict[str, dict[str, list[str]]] = {place: {name: [] for name in PHRASES} for place in PLACES}
    for place, path, first, text in _texts():
        at = path.relative_to(ROOT)
        for name, line, around in _in_text(text):
            found[place][name].append(f"{at}:{first + line - 1}: {around}")
    return found


def _in_text(text: str) -> Iterator[tuple[str, int, str]]:
    """Yield phrase, line and surroundings of each hit."""
    names = tuple(PHRASES)
    for match in FOUND.finditer(text):
        around = text[max(0, match.start() - 40) : match.end() + 40]
        line = 1 + text.count("\n", 0, match.start())
        yield names[(match.lastindex or 1) - 1], line, " ".join(around.split())


def _prose_of(page: str) -> str:
    """Return *page* without code, link targets and comments; every line keeps its number."""
    return FENCED.sub(lambda match: "\n" * match[0].count("\n"), page)


def _texts() -> Iterator[tuple[str, Path, int, str]]:
    """Yield place, file, first line and text of all that people read."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        yield "docs", page, 1, _prose_of(page.read_text(encoding="utf-8"))
    for folder in ("tuner", "workers"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for place, line, text in _of_code(path):
                yield place, path, line, text


def _of_code(path: Path) -> Iterator[tuple[str, int, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    is_command = path.parent.name == "cli"
    other: set[int] = set()  # nodes that are no printed sentence by themselves
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and _text_of(node.value):
            other.add(id(node.value))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if (text := ast.get_docstring(node, clean=False)) is not None:
                is_help = is_command and isinstance(node, ast.FunctionDef) and node.name == path.stem
                yield "help" if is_help else "docstrings", node.body[0].lineno, text
        elif isinstance(node, ast.keyword) and node.arg == "help" and is_command:
            other.add(id(node.value))
            if text := _text_of(node.value):
                yield "help", node.value.lineno, text
        elif isinstance(node, ast.JoinedStr):
            other |= {id(part) for part in node.values}
    for node in ast.walk(tree):
        text = _text_of(node)
        if id(node) not in other and " " in text and not SQL.match(text):
            yield "printed", node.lineno, text


def _text_of(node: ast.AST) -> str:
    """Return the text of a string or of the fixed parts of an f-string; empty for other nodes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text_of(part) or "…" for part in node.values)
    return ""
