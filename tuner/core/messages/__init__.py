"""The texts of everything that tuner prints with a slug, and their catalogue: slug, cause and solution.

`invalid` has the reasons why a window is invalid; `service` (and its probe and feeder), `host`, `launch`,
`study` and `fleet` have the warnings. docs/messages.md is made from them.

The function below an entry words its sentence from typed values. Callers pass these values and no prose:
``warn(*left_out(layout))``. A slug that has no entry cannot be raised: a test looks for slugs elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Literal, NamedTuple, ParamSpec

from tuner.core.domain.window import VoidReason

P = ParamSpec("P")
Kind = Literal["invalid", "warning"]


class Message(NamedTuple):
    """A warning as it is printed."""

    slug: str
    text: str

    def on(self, host: str) -> Message:
        """Return the same warning with the name of its *host* in a fleet."""
        return Message(self.slug, f"{host}: {self.text}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One slug with its text in docs/messages.md: Markdown, with links relative to docs/."""

    kind: Kind
    slug: str
    happened: str  #: information in addition to the sentence
    to_do: str


_ENTRIES: dict[tuple[Kind, str], Entry] = {}


def entries(kind: Kind) -> list[Entry]:
    """Return the entries of one kind by slug, from the imported modules."""
    return sorted((one for one in _ENTRIES.values() if one.kind == kind), key=lambda one: one.slug)


def warning(slug: str, happened: str, to_do: str) -> Callable[[Callable[P, str]], Callable[P, Message]]:
    """Register a warning; the decorated function returns its text. Several functions may share a slug."""
    _enter(Entry("warning", slug, happened, to_do))

    def worded_by(sentence: Callable[P, str]) -> Callable[P, Message]:
        @wraps(sentence)
        def message(*args: P.args, **kwargs: P.kwargs) -> Message:
            return Message(slug, sentence(*args, **kwargs))

        return message

    return worded_by


def invalid_window(
    slug: str, happened: str, to_do: str
) -> Callable[[Callable[P, str]], Callable[P, VoidReason]]:
    """Register a reason for an invalid window; the decorated function returns its text."""
    _enter(Entry("invalid", slug, happened, to_do))

    def worded_by(sentence: Callable[P, str]) -> Callable[P, VoidReason]:
        @wraps(sentence)
        def reason(*args: P.args, **kwargs: P.kwargs) -> VoidReason:
            return VoidReason(slug, sentence(*args, **kwargs))

        return reason

    return worded_by


def with_reasons(sentence: str, *problems: str) -> str:
    """Append the known *problems* to a sentence; empty ones are unknown."""
    known = "; ".join(problem for problem in problems if problem)
    return f"{sentence}: {known}" if known else sentence


def _enter(entry: Entry) -> None:
    if (entry.kind, entry.slug) in _ENTRIES:
        raise ValueError(f"{entry.slug} is in the catalogue already")
    _ENTRIES[entry.kind, entry.slug] = entry
