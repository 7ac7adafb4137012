"""The Pythons that are typed to run a service by: each is asked what it is."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tuner.core.errors import ConfigError
from tuner.core.text.command_words import is_python

_PYTHON = re.compile(r"python3\.[0-9]+t?")
_MOST_NAMED = 8


def parse_pythons(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The interpreters that were typed, by what they are called: ``3.13``, ``3.14t``; of two 3.13 ``3.13.5``.

    Args:
        texts: each the name or the path of a Python, with options of its own if it has some.

    Returns:
        The words of each, in their order; its program with its whole path, which no PATH changes.

    Raises:
        ConfigError: one is no Python, is not here or gives no answer, or is named twice.
    """
    asked = [(text, *_parse_python(text)) for text in texts]
    seen: dict[tuple[str, ...], str] = {}
    for text, words, _ in asked:
        if words in seen:
            raise ConfigError(f"--python {text} is named twice", hint="Name each interpreter once.")
        seen[words] = text
    n_of_short = Counter(names[0] for _, _, names in asked)
    found: dict[str, tuple[str, ...]] = {}
    for text, words, (short, whole) in asked:
        name = short if n_of_short[short] == 1 else whole
        if name in found:
            raise ConfigError(
                f"--python {text} is Python {whole}, the same version as {shlex.join(found[name])}",
                hint="Give them names in a config: service:"
                " {axes: {python: {NAME: {interpreter: PYTHON}, ...}}}",
            )
        found[name] = words
    return found


def _parse_python(text: str) -> tuple[tuple[str, ...], tuple[str, str]]:
    from tuner.adapters.worker_interpreter import interpreter_names

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"--python {text}: cannot be split into words: {error}", hint=_hint()) from error
    if not words:
        raise ConfigError("--python: names no interpreter", hint=_hint())
    named = Path(words[0])
    if "/" in words[0] and os.access(named / "bin" / "python", os.X_OK):
        raise ConfigError(f"--python {text} is a folder", hint=f"Name its Python: {named / 'bin' / 'python'}")
    if not is_python(named.name):
        raise ConfigError(
            f"invalid --python {text}: expected a Python by its name, as python3.13", hint=_hint()
        )
    program = shutil.which(words[0])
    if program is None:
        raise ConfigError(f"--python {text}: there is no such program", hint=_hint())
    # no link is followed: a virtual environment's Python is one
    whole = (os.path.abspath(program), *words[1:])
    names = interpreter_names(whole)
    if names is None:
        raise ConfigError(
            f"cannot use --python {text}: it does not run as a Python", hint=f"Try {program} --version."
        )
    return whole, names


def _hint() -> str:
    """Which Pythons there are."""
    found = set()
    for folder in os.get_exec_path():
        try:
            found |= {name for name in os.listdir(folder) if _PYTHON.fullmatch(name)}
        except OSError:
            continue
    here = sorted(found, key=lambda name: (len(name), name), reverse=True)[:_MOST_NAMED]
    others = f"Here are {', '.join(here)}; or" if here else "Name one that is here, or"
    return f"{others} name a virtual environment's: VENV/bin/python."
