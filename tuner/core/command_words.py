"""A command line taken apart: what stands before the program, which interpreter runs it, and the program."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

_PYTHON = re.compile(r"(python|pypy)[0-9.]*t?d?$")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
#: text in quotes, or a backslash with what it quotes; group 1: the line end after one outside single quotes
_QUOTED = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\(?:(\r?\n)|.)""", re.DOTALL)
_BACKSLASH = re.compile(r"\\(?:(\r?\n)|.)", re.DOTALL)
_PYTHON_VALUED = frozenset({"-X", "-W", "--check-hash-based-pycs"})
#: programs that become what they start -> their options that take a value
_NICE = {"nice": {"-n", "--adjustment"}, "ionice": {"-c", "--class", "-n", "--classdata"}}
_UV = (
    "-p --python -w --with --with-editable --with-requirements --env-file --extra --no-extra --group"
    " --no-group --only-group --package --directory --project --config-file --cache-dir --color -i"
    " --index-url --index --default-index --extra-index-url -f --find-links -P --upgrade-package"
    " --reinstall-package --refresh-package --index-strategy --keyring-provider --resolution --prerelease"
    " --fork-strategy --exclude-newer --exclude-newer-package --link-mode -C --config-setting --config-"
    " settings-package --no-build-package --no-build-isolation-package --no-binary-package --python-"
    " preference --python-platform --allow-insecure-host"
)
_HATCH = "-e --env -p --project --data-dir --cache-dir --config -i --include -x --exclude -f --filter"
#: programs that run another in a project's environment by ``run`` -> their options that take a value
_RUNNERS = {
    "uv": frozenset(_UV.split()),
    "poetry": frozenset({"-C", "--directory", "-P", "--project"}),
    "pipenv": frozenset({"--python"}),
    "pdm": frozenset({"-c", "--config", "-p", "--project", "-S", "--skip", "--venv"}),
    "hatch": frozenset(_HATCH.split()),
}


@dataclass(frozen=True, slots=True)
class CommandWords:
    """The parts of a command line, in their order. What ``env`` assigns is among the parts no more."""

    before: tuple[str, ...] = ()  #: what starts it: ``nice -n 5``, ``uv run``
    interpreter: tuple[
        str, ...
    ] = ()  #: Python and its options, with ``-m``; empty: the program is started itself
    words: tuple[str, ...] = ()  #: the program, or Python's module or script, and its arguments
    program: str = ""  #: its name: without folders, of a module the package; empty: there is none
    assigned: Mapping[str, str] = field(default_factory=dict)  #: what ``env`` puts into its environment
    is_run: bool = False  #: a runner (``uv run``) starts it in a project's environment

    @property
    def is_module(self) -> bool:
        """Whether the first of the words names a module, not a file."""
        return (*self.before, *self.interpreter)[-1:] in (("-m",), ("--module",))

    @property
    def whole(self) -> tuple[str, ...]:
        """The command line without the assignments."""
        return (*self.before, *self.interpreter, *self.words)


def split_command(text: str) -> list[str]:
    """Split a command that was written as one text into words, as a shell does.

    A backslash at the end of a line joins the next line to it (POSIX 2.2.1), unlike in ``shlex.split``.

    Raises:
        ValueError: a quote is not closed, or a backslash ends the text.
    """
    try:
        return shlex.split(_QUOTED.sub(_with_lines_joined, text))
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {error}") from error


def taken_apart(words: Sequence[str]) -> CommandWords:
    """The parts of the command line *words*.

    Known before a program are ``env`` with assignments, a shell's ``exec`` (left out: it means nothing
    without one), ``nice``, ``ionice``, and ``run`` of uv, Poetry, Pipenv, PDM and Hatch. Where ``env`` has
    options it is taken for the program.
    """
    rest = list(words)
    before: list[str] = []
    assigned: dict[str, str] = {}
    is_run = is_module = False  # whether a module's name comes next
    while rest and not is_module:
        name = PurePath(rest[0]).name
        if name == "env" and (found := _assignments(rest[1:])) is not None:
            assigned |= dict(found)
            del rest[: 1 + len(found)]
        elif rest[0] == "exec" and len(rest) > 1:
            del rest[0]
        elif name in _NICE and (n := _n_options(rest[1:], _NICE[name])) is not None:
            before += _moved(rest, 1 + n)
        elif name in _RUNNERS and (n := _to_run(rest, _RUNNERS[name])) is not None:
            before += _moved(rest, n)
            is_run, is_module = True, before[-1] in ("-m", "--module")
        else:
            break
    interpreter: list[str] = []
    if rest and not is_module and _PYTHON.match(PurePath(rest[0]).name):
        n = _n_of_interpreter(rest)
        interpreter = _moved(rest, n)
        is_module = bool(interpreter) and interpreter[-1] == "-m"
    program = ""
    if rest:
        program = rest[0].partition(".")[0] if is_module else PurePath(rest[0]).name
        program = program.rpartition(":")[2] if is_run else program  # hatch run ENVIRONMENT:PROGRAM
    return CommandWords(tuple(before), tuple(interpreter), tuple(rest), program, assigned, is_run)


def is_runner(words: Sequence[str]) -> bool:
    """Whether a process with this command line runs another (``uv run gunicorn``).

    Those that are scripts have an interpreter before them; some become what they run.
    """
    taken = taken_apart(words)
    return taken.is_run or (
        bool(taken.interpreter) and not taken.is_module and taken_apart(taken.words).is_run
    )


def is_python(name: str) -> bool:
    """Whether a program of that name is a Python interpreter."""
    return _PYTHON.match(name) is not None


def _with_lines_joined(quoted: re.Match[str]) -> str:
    """Return a piece of a command without its continued line ends; single quotes keep theirs."""
    if quoted[0].startswith('"'):
        return _BACKSLASH.sub(_with_lines_joined, quoted[0])
    return "" if quoted[1] else quoted[0]


def _moved(words: list[str], n: int) -> list[str]:
    """The first *n* of *words*, which they are taken out of."""
    moved = words[:n]
    del words[:n]
    return moved


def _assignments(words: Sequence[str]) -> list[tuple[str, str]] | None:
    """What ``env`` is told before its program; None: it has options, or no program."""
    found: list[tuple[str, str]] = []
    for word in words:
        if (match := _ASSIGNMENT.fullmatch(word)) is None:
            return None if word.startswith("-") else found
        found.append((match[1], match[2]))
    return None


def _n_options(words: Sequence[str], valued: frozenset[str] | set[str]) -> int | None:
    """How many of *words* are options, up to the first that is none; None: there is none."""
    n = 0
    while n < len(words):
        word = words[n]
        if word == "--":
            n += 1
            break
        if not word.startswith("-"):
            break
        n += 2 if word in valued else 1
        if word in ("-m", "--module"):
            break
    return n if n < len(words) else None


def _to_run(words: Sequence[str], valued: frozenset[str]) -> int | None:
    """How many of a runner's *words* stand before the program that it runs; None: it runs none."""
    at = _n_options(words[1:], valued)
    if at is None or words[at + 1] != "run":
        return None
    options = _n_options(words[at + 2 :], valued)
    return None if options is None else at + 2 + options


def _n_of_interpreter(words: Sequence[str]) -> int:
    """How many of *words* are Python and its options, up to a script, or with ``-m``; a program that ``-c``
    gives is Python's own."""
    n = 1
    while n < len(words):
        word = words[n]
        if word == "-m":
            return n + 1
        if word == "-c" or not word.startswith("-") or word == "-":
            return n
        n += 2 if word in _PYTHON_VALUED else 1
    return n
