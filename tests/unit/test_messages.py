"""docs/messages.md explains every slug that the sources use, and no other."""

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


def slugs_in_page() -> set[str]:
    page = (ROOT / "docs" / "messages.md").read_text(encoding="utf-8")
    return set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE))


def test_every_slug_is_explained() -> None:
    assert slugs_in_sources() - slugs_in_page() == set()


def test_no_slug_is_explained_that_nothing_uses() -> None:
    assert slugs_in_page() - slugs_in_sources() == set()
