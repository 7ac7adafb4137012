"""docs/messages.md explains every slug that the sources use, and no other; its errors are told like that."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SLUG = re.compile(r"[a-z]+(-[a-z]+)*")
#: what tells something -> the place of the slug among its arguments
_TELLERS = {"VoidReason": 0, "warning": 0, "warn": 0, "_warn": 0, "_note": 1}


def slugs_in_sources() -> set[str]:
    return {slug for path in (ROOT / "tuner").rglob("*.py") for slug in _slugs(path)}


def _slugs(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        place = _TELLERS.get(name)
        if place is None or len(node.args) <= place:
            continue
        slug = node.args[place]
        if isinstance(slug, ast.Constant) and isinstance(slug.value, str) and _SLUG.fullmatch(slug.value):
            yield slug.value


#: what an error is made with, its text first
_ERRORS = {"ConfigError", "MeasurementError", "TunerError", "StaleReport", "Misplaced"}
PAGE = (ROOT / "docs" / "messages.md").read_text(encoding="utf-8")


def slugs_in_page() -> set[str]:
    return set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE))


def errors_in_sources() -> set[str]:
    """Their texts, with … for every value that is filled in."""
    found = set()
    for path in (ROOT / "tuner").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _ERRORS and node.args:
                match node.args[0]:
                    case ast.Constant(value=str(text)):
                        found.add(text)
                    case ast.JoinedStr(values=parts):
                        texts = (part.value if isinstance(part, ast.Constant) else "…" for part in parts)
                        found.add("".join(map(str, texts)))
    return found


def errors_in_page() -> set[str]:
    return set(re.findall(r"^\| `([^`]+)` \|", PAGE.partition("## Errors")[2], re.MULTILINE))


def test_every_slug_is_explained() -> None:
    assert slugs_in_sources() - slugs_in_page() == set()


def test_no_slug_is_explained_that_nothing_uses() -> None:
    assert slugs_in_page() - slugs_in_sources() == set()


def test_every_error_that_is_explained_is_told_in_these_words() -> None:
    assert len(errors_in_page()) > 30
    assert errors_in_page() - errors_in_sources() == set()
