"""docs/messages.md explains each slug of the catalogue; no slug stands elsewhere; errors are as printed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tuner.core.messages import Entry, entries, fleet, host, invalid, launch, service, study, warning

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "tuner" / "core" / "messages"
MODULES = (fleet, host, invalid, launch, service, study)

#: what raises a slug -> the place of the slug among its arguments
_RAISES = {
    "VoidReason": 0,
    "Message": 0,
    "Warned": 1,
    "warning": 0,
    "warn": 0,
    "_warn": 0,
    "_warn_once": 0,
    "_note": 1,
}

#: what an error is made with, its text first
_ERRORS = {"ConfigError", "MeasurementError", "TunerError", "StaleReport", "Misplaced"}
PAGE = (ROOT / "docs" / "messages.md").read_text(encoding="utf-8")


@cache
def calls() -> tuple[tuple[Path, ast.Call], ...]:
    """Every call with arguments in the sources."""
    return tuple(
        (path, node)
        for path in (ROOT / "tuner").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and node.args
    )


def slugs_outside_the_catalogue() -> Iterator[str]:
    """Where a slug is written anywhere else, as ``file:line``."""
    for path, call in calls():
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        place = _RAISES.get(name)
        if path.is_relative_to(CATALOGUE) or place is None or len(call.args) < place + 2:
            continue
        if isinstance(call.args[place], ast.Constant | ast.JoinedStr):
            yield f"{path.relative_to(ROOT)}:{call.lineno}"


@cache
def errors_in_sources() -> set[str]:
    """The texts of errors, with … for every value that is filled in."""
    return {text for _, call in calls() for text in _errors(call)}


def _errors(call: ast.Call) -> set[str]:
    if getattr(call.func, "id", "") in _ERRORS:
        match call.args[0]:
            case ast.Constant(value=str(text)):
                return {text}
            case ast.JoinedStr(values=parts):
                texts = (part.value if isinstance(part, ast.Constant) else "…" for part in parts)
                return {"".join(map(str, texts))}
    return set()


def errors_in_page() -> set[str]:
    return set(re.findall(r"^- `([^`]+)`: ", PAGE.partition("## Errors")[2], re.MULTILINE))


def slugs_of(heading: str) -> list[str]:
    """The slugs of a section, in order."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^- `([a-z-]+)`: \*", section, re.MULTILINE)


def test_the_page_has_every_slug_of_the_catalogue_in_alphabetical_order() -> None:
    assert len(MODULES) == len([*CATALOGUE.glob("*.py")]) - 1  # all but the catalogue itself
    assert slugs_of("Why a window is invalid") == [one.slug for one in entries("invalid")]
    assert slugs_of("Warnings") == [one.slug for one in entries("warning")]


def test_a_slug_that_is_not_in_the_catalogue_cannot_be_raised() -> None:
    assert [*slugs_outside_the_catalogue()] == []


def test_a_slug_is_entered_once() -> None:
    with pytest.raises(ValueError, match="left-out"):
        warning("left-out", "", "")


@pytest.mark.parametrize(
    "entry", [*entries("invalid"), *entries("warning")], ids=lambda one: f"{one.kind}-{one.slug}"
)
def test_each_slug_says_what_to_do_in_whole_sentences(entry: Entry) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", entry.slug)
    assert entry.to_do.endswith(".")
    assert entry.happened.endswith(".") or not entry.happened


def test_every_error_that_is_explained_is_printed_in_these_words() -> None:
    assert len(errors_in_page()) > 10
    assert errors_in_page() - errors_in_sources() == set()
