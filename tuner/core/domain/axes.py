"""Axes of a service (interpreter, malloc, pool) and the variants that they make: one value of each, joined by
``+``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

from tuner.core.errors import ConfigError
from tuner.core.text.command_words import parse_command

ANY = "*"  #: in place of a value: each of them
MOST_VARIANTS = 100
_BETWEEN = "+"


def variants_of(axes: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]]:
    """The variants that *axes* make, by name: the value of each axis, in their order.

    Raises:
        ConfigError: there are too many.
    """
    if (n := prod(len(values) for values in axes.values())) > MOST_VARIANTS:
        raise ConfigError(f"they make {n} variants, and {MOST_VARIANTS} is the most")
    return {_BETWEEN.join(values): values for values in product(*axes.values())} if axes else {}


def values_of(variant: str) -> tuple[str, ...]:
    """The value of each axis in a *variant* that axes make."""
    return tuple(variant.split(_BETWEEN))


def named(pattern: str, variants: Collection[str]) -> list[str]:
    """Those of *variants* that *pattern* names: ``3.13+jemalloc``, ``3.13+*``."""
    if ANY not in pattern.split(_BETWEEN):
        return [name for name in variants if name == pattern]
    wanted = values_of(pattern)
    return [
        name
        for name in variants
        if len(values_of(name)) == len(wanted)
        and all(one in (ANY, other) for one, other in zip(wanted, values_of(name), strict=True))
    ]


@dataclass(frozen=True, slots=True)
class CommandChange:
    """What one value of an axis does to a command."""

    replace: Mapping[str, str] = field(default_factory=dict)  #: words -> what stands there instead
    interpreter: Sequence[str] = ()  #: Python, with its options, that runs it instead
    prepend: Sequence[str] = ()  #: words before it
    append: Sequence[str] = ()  #: words behind it

    def of(self, words: Sequence[str], script: Callable[[str], str | None]) -> tuple[str, ...]:
        """The command *words* with this change.

        Args:
            words: of the command.
            script: the file of a Python script that is named as commands are; None: it is none.

        Raises:
            ConfigError: the command has no such word, or no Python that could be another; its hint is the
                key that is to blame.
        """
        for old in self.replace:
            if old not in words:
                raise ConfigError(f"the command has no word {old}", hint="replace")
        changed = tuple(self.replace.get(word, word) for word in words)
        if self.interpreter:
            changed = _run_by(changed, self.interpreter, script)
        return (*self.prepend, *changed, *self.append)


def _run_by(
    words: Sequence[str], interpreter: Sequence[str], script: Callable[[str], str | None]
) -> tuple[str, ...]:
    """The command *words* run by another *interpreter*; what stands before its Python or script stays."""
    taken = parse_command(words)
    at = len(words) - len(taken.interpreter) - len(taken.words)
    if taken.is_run:
        raise ConfigError(
            f"{' '.join(taken.before)} chooses the Python itself: write a command for this value",
            hint="interpreter",
        )
    if taken.interpreter:
        return (*words[:at], *interpreter, *words[at + 1 :])
    path = script(words[at]) if at < len(words) else None
    if path is None:
        raise ConfigError(
            f"{words[at] if at < len(words) else 'the command'} is no script of Python's that is found here:"
            " write a command for this value",
            hint="interpreter",
        )
    return (*words[:at], *interpreter, path, *words[at + 1 :])
