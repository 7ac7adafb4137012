"""A service's command that was typed without ``--`` before it."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from tuner.core.errors import TunerError


def check_dashes(name: str, parameters: Sequence[Any], arguments: Sequence[str]) -> None:
    """Refuse a service's command where a config is expected, and say what to type.

    Args:
        name: the command of tuner.
        parameters: those of that command, as typer has them.
        arguments: what was typed behind it.

    Raises:
        TunerError: the first of the *arguments* that is no option is a program.
    """
    if not any("--command" in one.opts for one in parameters) or "--" in arguments:
        return
    valued = {option for one in parameters if not getattr(one, "is_flag", False) for option in one.opts}
    words = iter(enumerate(arguments))
    for at, word in words:
        if word in valued:
            next(words, None)
        elif not word.startswith("-"):
            if _is_program(word):
                typed = shlex.join([*arguments[:at], "--", *arguments[at:]])
                raise TunerError(
                    f"{word} is a program, where tuner {name} expects a config",
                    hint=f"Put -- before the command of a service: tuner {name} {typed}",
                )
            return


def _is_program(word: str) -> bool:
    """Whether *word* begins a command line: no config has such a name."""
    from tuner.core.text.command_words import SHELLS, is_python
    from tuner.core.text.wrappers import WRAPPERS, is_assignment
    from tuner.services.catalogue import known_services

    path = PurePath(word)
    if os.path.exists(word):  # False as well where a folder may not be entered
        is_file = os.path.isfile(word) and os.access(word, os.X_OK)
        return is_file and path.suffix not in (".yaml", ".yml", ".db")
    program = path.name
    if is_assignment(word) or is_python(program) or program in SHELLS or program in WRAPPERS:
        return True
    return shutil.which(word) is not None or known_services().started_by(program) is not None
