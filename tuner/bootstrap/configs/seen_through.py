"""A command as tuner measures it: what starts the service stands before it, and shell scripts are read."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from tuner.core.text.command_words import SHELLS, CommandWords, parse_command, shell_script

if TYPE_CHECKING:
    from tuner.services.record import Service

_LONGEST_SCRIPT = 1 << 16
_TITLE = re.compile(r"\[?([\w-]+): ")
_FIELD = re.compile(r"\{(?:processes|threads|process)\}")


@dataclass(frozen=True, slots=True)
class Behind:
    """What a command starts."""

    words: tuple[str, ...]  #: the command, each shell in it replaced by what its text ends with
    taken: CommandWords  #: the same, taken apart
    service: Service | None  #: the known one that it starts
    hidden: Service | None = None  #: one that it starts in a way that tuner cannot tell it a layout
    why: str = ""  #: why not, as a clause


def find_service_command(
    words: Sequence[str], environment: Mapping[str, str] | None, folder: Path, service: Service | None = None
) -> Behind:
    """What the command *words* starts.

    Args:
        words: the command.
        environment: for variables in a shell's text; None: they stay as they are written.
        folder: where scripts are looked for.
        service: what the user says that it is; None: it is looked for.
    """
    taken = parse_command(words, environment)
    text = ""
    script = None if _known(taken.program, service) is not None else _script(taken.words, folder)
    if script is not None:
        text = script[1]
        through = parse_command((*taken.before, *taken.interpreter, *script[0]), environment)
        if _known(through.program, service) is not None or through.obstacle:
            taken = CommandWords(
                through.before,
                through.interpreter,
                through.words,
                through.program,
                {**taken.assigned, **through.assigned},
                taken.is_run or through.is_run,
                through.has_setup,
                through.hides_environment,
                through.is_as_user,
                through.obstacle,
            )
    found = _known(taken.program, service)
    if found is None and taken.obstacle and _FIELD.search(" ".join(words)) is None:
        text = text or " ".join(taken.words)
        if service is None or not _hears_by_environment(service, text):
            return Behind(tuple(words), taken, None, _named_in(text, service), taken.obstacle)
    if found is None:
        return Behind(_with_env(words), taken, None)
    assigned = [f"{name}={value}" for name, value in taken.assigned.items()]
    return Behind((*(["env", *assigned] if assigned else []), *taken.whole), taken, found)


def known_service_of(words: Sequence[str]) -> str:
    """The name of the known service that a process with this command line is; empty: none.

    Some write a title over it: ``gunicorn: master [app:app]``, ``[celeryd: celery@host:MainProcess]``.
    """
    title = _TITLE.match(words[0]) if words else None
    programs = [title[1], title[1].removesuffix("d")] if title else [parse_command(words).program]
    found = next((one for program in programs if (one := _known(program, None))), None)
    return "" if found is None else found.name


def named_later(words: Sequence[str]) -> Service | None:
    """A known service whose program is one of the later *words* of a command."""
    return next((found for word in words[1:] if (found := _known(PurePath(word).name, None))), None)


def _with_env(words: Sequence[str]) -> tuple[str, ...]:
    """*words* with ``env`` before the assignments that they begin with, as no shell runs them."""
    taken = parse_command(words[:2])
    return ("env", *words) if words and taken.assigned and PurePath(words[0]).name != "env" else tuple(words)


def _known(program: str, service: Service | None) -> Service | None:
    from tuner.services.catalogue import known_services

    if service is None:
        return known_services().started_by(program)
    return service if program in service.commands else None


def _named_in(text: str, service: Service | None) -> Service | None:
    found = (_known(word, service) for word in re.findall(r"[\w.-]+", text))
    return next((one for one in found if one is not None), None)


def _hears_by_environment(service: Service, text: str) -> bool:
    """Whether variables tell *service* its layout, and nothing in the *text* that starts it goes before."""
    reported = [form.layout for form in service.forms]
    written = set(re.findall(r"(?<![\w-])-{1,2}[A-Za-z][\w-]*", text))
    return all(one.environment and written.isdisjoint(one.set_by) for one in reported)


def _script(words: Sequence[str], folder: Path) -> tuple[list[str], str] | None:
    """The words of a shell that is given the text of a script instead of its file, and that text."""
    if not words:
        return None
    at = shell_script(words)
    file = words[0 if at is None else at]
    path = Path(shutil.which(file) or file) if at is None and "/" not in file else folder / file
    try:
        if not path.is_file() or path.stat().st_size > _LONGEST_SCRIPT:
            return None
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    first = text.partition("\n")[0]
    shell = list(words[:at]) if at is not None else _of_first_line(first)
    if not shell:
        return None
    return [*shell, "-c", text, file, *words[(at or 0) + 1 :]], text


def _of_first_line(line: str) -> list[str]:
    """The shell that the first line of a script names, with its options; empty: it names none."""
    if not line.startswith("#!"):
        return []
    words = line[2:].split()
    if words and PurePath(words[0]).name == "env":
        words = [word for word in words[1:] if word != "-S"]
    return words if words and PurePath(words[0]).name in SHELLS else []


def cannot_watch(taken: CommandWords) -> str:
    """Why tuner cannot measure what a command starts as another user, for a sentence; empty: it can."""
    if not taken.is_as_user or os.geteuid() == 0:
        return ""
    return (
        f"starts the service as another user by {taken.before[0]}: tuner can neither watch nor stop its"
        " processes; leave that out and start tuner as that user, or as root with user: NAME in a config"
    )
