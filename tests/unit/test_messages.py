"""docs/messages.md explains every slug that the sources use, and no other; its errors are told like that."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SLUG = re.compile(r"[a-z]+(-[a-z]+)*")
#: what tells something -> the place of the slug among its arguments
_TELLERS = {"VoidReason": 0, "warning": 0, "warn": 0, "_warn": 0, "_warn_once": 0, "_note": 1}


#: what an error is made with, its text first
_ERRORS = {"ConfigError", "MeasurementError", "TunerError", "StaleReport", "Misplaced"}
PAGE = (ROOT / "docs" / "messages.md").read_text(encoding="utf-8")


@cache
def in_sources() -> tuple[set[str], set[str]]:
    """The slugs, and the texts of errors, with … for every value that is filled in."""
    slugs, errors = set[str](), set[str]()
    for path in (ROOT / "tuner").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args:
                slugs |= _slugs(node)
                errors |= _errors(node)
    return slugs, errors


def _slugs(call: ast.Call) -> set[str]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    place = _TELLERS.get(name)
    if place is None or len(call.args) <= place:
        return set()
    slug = call.args[place]
    if isinstance(slug, ast.Constant) and isinstance(slug.value, str) and _SLUG.fullmatch(slug.value):
        return {slug.value}
    return set()


def _errors(call: ast.Call) -> set[str]:
    if getattr(call.func, "id", "") in _ERRORS:
        match call.args[0]:
            case ast.Constant(value=str(text)):
                return {text}
            case ast.JoinedStr(values=parts):
                texts = (part.value if isinstance(part, ast.Constant) else "…" for part in parts)
                return {"".join(map(str, texts))}
    return set()


def slugs_in_page() -> set[str]:
    return set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE))


def errors_in_page() -> set[str]:
    return set(re.findall(r"^\| `([^`]+)` \|", PAGE.partition("## Errors")[2], re.MULTILINE))


def test_every_slug_is_explained() -> None:
    assert in_sources()[0] - slugs_in_page() == set()


def test_no_slug_is_explained_that_nothing_uses() -> None:
    assert slugs_in_page() - in_sources()[0] == set()


def test_every_error_that_is_explained_is_told_in_these_words() -> None:
    assert len(errors_in_page()) > 30
    assert errors_in_page() - in_sources()[1] == set()
