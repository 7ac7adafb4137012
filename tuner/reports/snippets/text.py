"""Parts shared by all snippets: comments, names, quoting, and the error for unsupported rollouts."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

from tuner.core.domain.rollout import PROCESS, Rollout
from tuner.core.errors import ConfigError
from tuner.core.text.safe_text import number_unprintable

WIDTH = 110  #: line length of comments


class Unfit(ConfigError):
    """A format cannot hold a rollout; `tuner.reports.snippets.snippet` adds which ones can."""


def comment(sentences: Iterable[str], mark: str = "#") -> str:
    """*sentences* as lines of a comment, each ending in a newline."""
    lines = []
    for sentence in sentences:
        lines += textwrap.wrap(
            number_unprintable(sentence),
            WIDTH,
            initial_indent=f"{mark} ",
            subsequent_indent=f"{mark}   ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "".join(f"{line}\n" for line in lines)


def comment_header(rollout: Rollout, *more: str) -> list[str]:
    """Return the header of every snippet: provenance and remarks."""
    hidden = [
        f"{name} had a value in the study, which keeps no secrets: set it as you do."
        for name in rollout.hidden
    ]
    return [*rollout.provenance, *more, *rollout.remarks, *hidden]


def describe_limits(rollout: Rollout) -> list[str]:
    """Return the resource limits as sentences, for formats that have no syntax for them."""
    limits = ", ".join(f"{name} {value}" for name, value in rollout.limits.items())
    return [f"The study ran with these resource limits: {limits}."] if limits else []


def number_left_out(rollout: Rollout) -> list[str]:
    """Return a note that identical programs do not get their numbers, which they might read."""
    left_out = [name for name, value in rollout.environment.items() if PROCESS in value]
    return [f"{name} is not there: it was a program's number in the study." for name in left_out]


def overriding(rollout: Rollout, what: str) -> list[str]:
    """Return the options that must not be in the command, because *what* sets the layout."""
    if not rollout.overriding:
        return []
    return [
        f"Take out of your command, if it has them: {', '.join(rollout.overriding)}. They override {what}."
    ]


def comment_command(words: Iterable[str]) -> str:
    """Return a command for people, in a comment."""
    import shlex

    return " ".join(shlex.quote(word.replace(PROCESS, "N")) for word in words)


def slug(name: str) -> str:
    """Return *name* as part of the names of programs, units and files."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "service"


def printable(text: str, what: str) -> str:
    """Return *text*, for formats that cannot express non-printable characters.

    Raises:
        Unfit: there is such a character.
    """
    if not text.replace(PROCESS, "").isprintable():
        raise Unfit(f"{what} has a line break or another character that cannot be written there")
    return text


def with_number(text: str, number: str) -> str:
    """Return *text* with *number* in place of a program's number."""
    return text.replace(PROCESS, number)
