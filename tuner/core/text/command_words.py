"""Parts of a command line: wrappers, interpreter, and program."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from tuner.core.text.shell_text import (
    ALL_ARGUMENTS,
    LastCommand,
    ObscureError,
    last_command,
    passes_arguments_on,
    plain_words,
    uses_own_arguments,
    variables_set_before,
)
from tuner.core.text.wrappers import MODULE, is_assignment, start_of

_PYTHON = re.compile(r"(python|pypy)[0-9.]*t?d?$")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
#: quoted text, or a backslash with the quoted character; group 1: a line end after a backslash outside single
#: quotes
_QUOTED = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\(?:(\r?\n)|.)""", re.DOTALL)
_BACKSLASH = re.compile(r"\\(?:(\r?\n)|.)", re.DOTALL)
_PYTHON_VALUED = frozenset({"-X", "-W", "--check-hash-based-pycs"})
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
_SHELL_VALUED = frozenset({"--rcfile", "--init-file"})
#: options that set the files which a shell reads before its text
_LOGIN = frozenset({"--login", "--rcfile", "--init-file"})
_BRACES = re.compile(r"(?<!\$)\{(?:processes|threads|process|variant|cores|cores_per_process)\}|[{}]")
_GIVEN_COMMAND = 'exec "$0" "$@"'  #: text of a shell that replaces itself by the command in its arguments


@dataclass(frozen=True, slots=True)
class CommandWords:
    """The parts of a command line, in order, without the assignments of ``env``."""

    before: tuple[str, ...] = ()  #: words of the program that starts it: ``nice -n 5``, ``uv run``
    interpreter: tuple[
        str, ...
    ] = ()  #: Python and its options, with ``-m``; empty: the program starts without Python
    words: tuple[str, ...] = ()  #: program, or Python's module or script, with its arguments
    #: name of the program without folders; of a module, its package; empty: there is no program
    program: str = ""
    assigned: Mapping[str, str] = field(default_factory=dict)  #: variables that ``env`` sets for it
    is_run: bool = False  #: whether a runner (``uv run``) starts it in a project's environment
    #: whether a shell runs other commands before it, which may change the environment
    has_setup: bool = False
    hides_environment: bool = False  #: whether it does not inherit the environment (``sudo``, ``env -i``)
    is_as_user: bool = False  #: whether it may start as another user
    #: reason, as a clause, why the command in a shell's text was not found; empty: it was found
    obstacle: str = ""

    @property
    def is_module(self) -> bool:
        """Whether the first of the words is a module, not a file."""
        return (*self.before, *self.interpreter)[-1:] in (("-m",), ("--module",))

    @property
    def whole(self) -> tuple[str, ...]:
        """The command line without the assignments."""
        return (*self.before, *self.interpreter, *self.words)


def split_command(text: str) -> list[str]:
    """Split a command in one text into words, as a shell does.

    A backslash at the end of a line joins the next line to it (POSIX 2.2.1), unlike in ``shlex.split``.

    Raises:
        ValueError: a quote is not closed, or a backslash ends the text.
    """
    try:
        return shlex.split(_QUOTED.sub(_with_lines_joined, text))
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {error}") from error


def parse_command(words: Sequence[str], environment: Mapping[str, str] | None = None) -> CommandWords:
    """Parse the command line *words* into its parts.

    It recognises before a program: assignments and ``exec`` of a shell (both left out: ``exec`` means nothing
    without one), ``env``, the programs of `text.wrappers`, and shells with a text (``sh -c``) that ends
    with a command. The command of a shell's text is placed after the text: ``sh -c 'cd /srv; exec "$0" "$@"'
    gunicorn app:app``, or stands alone if the text has nothing else.

    Args:
        words: the command line.
        environment: values of variables in a shell's text; None: variables are not replaced.
    """
    parts = _Parts(list(words))
    while parts.rest and not parts.is_module and parts.step(environment):
        pass
    rest, is_module = parts.rest, parts.is_module
    interpreter: list[str] = []
    if rest and not is_module and is_python(PurePath(rest[0]).name):
        interpreter = _take_first(rest, _n_of_interpreter(rest))
        is_module = bool(interpreter) and interpreter[-1] == "-m"
    program = ""
    if rest:
        program = rest[0].partition(".")[0] if is_module else PurePath(rest[0]).name
        program = program.rpartition(":")[2] if parts.is_run else program  # hatch run ENVIRONMENT:PROGRAM
    return CommandWords(
        tuple(parts.before),
        tuple(interpreter),
        tuple(rest),
        program,
        parts.assigned,
        parts.is_run,
        parts.has_setup,
        parts.hides_environment,
        parts.is_as_user,
        parts.obstacle,
    )


@dataclass(slots=True)
class _Parts:
    """The state of the parser of a command line."""

    rest: list[str]
    before: list[str] = field(default_factory=list)
    assigned: dict[str, str] = field(default_factory=dict)
    may_assign: bool = True  #: whether a shell would read ``A=1`` as an assignment here
    is_module: bool = False  #: whether the next word is the name of a module
    is_run: bool = False
    has_setup: bool = False
    hides_environment: bool = False
    is_as_user: bool = False
    obstacle: str = ""

    def step(self, environment: Mapping[str, str] | None) -> bool:
        """Consume one program from the front; return False if it starts no other program."""
        rest = self.rest
        name = PurePath(rest[0]).name
        if self.may_assign and len(rest) > 1 and is_assignment(rest[0]):
            variable, _, value = _take_first(rest, 1)[0].partition("=")
            self.assigned[variable] = value
            return True
        if rest[0] == "exec" and len(rest) > 1:
            del rest[: 3 if rest[1] == "-a" and len(rest) > 3 else 1]
            self.may_assign = False
            return True
        if name == "env" and (found := _assignments(rest[1:])) is not None:
            self.assigned |= dict(found)
            del rest[: 1 + len(found)]
            self.may_assign = False
            return True
        if name == "env" and rest[1:2] in (["-S"], ["--split-string"]) and len(rest) > 2:
            rest[1:3] = shlex.split(rest[2])
            return True
        if name in SHELLS and (call := _shell_call(rest)) is not None:
            return self._through_shell(call, environment)
        if (start := start_of(rest)) is None:
            return False
        self.before += _take_first(rest, start.n_words)
        self.assigned |= start.assigned
        self.may_assign = False
        self.is_run = self.is_run or start.wrapper.project
        self.is_module = start.wrapper.project and self.before[-1] in MODULE
        self.hides_environment = self.hides_environment or start.hides_environment
        self.is_as_user = self.is_as_user or start.wrapper.is_user
        return True

    def _through_shell(self, call: _ShellCall, environment: Mapping[str, str] | None) -> bool:
        try:
            last = last_command(call.text)
            written = last.words[1:] if last.words[0] == "exec" else last.words
            if passes_arguments_on(written):
                self.before += _take_first(
                    self.rest, call.n_words + (len(written) == 1)
                )  # "$@" does not include "$0"
                self.has_setup = self.has_setup or bool(last.before)
                return bool(self.rest)
            words = _words_in(last, written, self.rest[call.n_words + 1 :], environment)
        except ObscureError as error:
            self.obstacle = str(error)
            return False
        if last.before or call.is_login:
            between = "" if not last.before or last.before.endswith("\n") else " "
            text = f"{last.before}{between}{_GIVEN_COMMAND}"
            text = _BRACES.sub(lambda found: found[0] if len(found[0]) > 1 else 2 * found[0], text)
            self.before += [*self.rest[: call.n_words - 1], text]
            self.has_setup = True
        self.rest[:] = words
        self.may_assign = True
        return bool(words)


def _words_in(
    last: LastCommand, written: Sequence[str], arguments: Sequence[str], environment: Mapping[str, str] | None
) -> list[str]:
    """Return the words of the *last* command of a shell's text, *written* there, with the *arguments*.

    Raises:
        ObscureError: they depend on the shell's actions.
    """
    if uses_own_arguments(last.before):
        raise ObscureError("the command before it uses the shell's name or arguments")
    if environment is not None and (names := variables_set_before(last, environment)):
        raise ObscureError(f"it uses ${names[0]}, which is set before it")
    at = written.index(ALL_ARGUMENTS) if ALL_ARGUMENTS in written else len(written)
    return [
        *plain_words(written[:at], environment),
        *(arguments if at < len(written) else []),
        *plain_words(written[at + 1 :], environment),
    ]


@dataclass(frozen=True, slots=True)
class _ShellCall:
    """A shell that is started with a text."""

    n_words: int  #: number of words up to the text, which is included
    text: str
    is_login: bool  #: whether the shell reads its own files first


def _shell_call(words: Sequence[str]) -> _ShellCall | None:
    """Parse a shell's *words* with a text; None: they name a script, or nothing."""
    at, has_text, is_login = 1, False, False
    while at < len(words) and words[at][:1] in ("-", "+") and len(words[at]) > 1:
        word = words[at]
        at += 1
        if word == "--":
            break
        if word.startswith("--"):
            is_login = is_login or word in _LOGIN
            at += word in _SHELL_VALUED
            continue
        has_text = has_text or (word[0] == "-" and "c" in word)
        is_login = is_login or (word[0] == "-" and not {"l", "i"}.isdisjoint(word))
        at += word[-1] in "oO"
    return _ShellCall(at + 1, words[at], is_login) if has_text and at < len(words) else None


def shell_script(words: Sequence[str]) -> int | None:
    """Return the index of the script that a shell runs (``bash -e run.sh``); None: there is none."""
    if not words or PurePath(words[0]).name not in SHELLS or _shell_call(words) is not None:
        return None
    at = 1
    while at < len(words) and words[at][:1] in ("-", "+") and len(words[at]) > 1:
        at += 1 + (words[at][-1] in "oO" and not words[at].startswith("--"))
    return at if at < len(words) else None


def is_runner(words: Sequence[str]) -> bool:
    """Return whether a process with this command line runs another (``uv run gunicorn``).

    Runners that are scripts have an interpreter before them; some are replaced by their program (exec). A
    shell is not a runner, because it may be the worker itself.
    """
    if is_shell(words):
        return False
    taken = parse_command(words)
    return bool(taken.before) or (
        bool(taken.interpreter) and not taken.is_module and bool(parse_command(taken.words).before)
    )


def is_shell(words: Sequence[str]) -> bool:
    """Return whether a process with this command line is a shell."""
    return bool(words) and PurePath(words[0]).name.lstrip("-") in SHELLS


def is_python(name: str) -> bool:
    """Return whether a program of that name is a Python interpreter."""
    return _PYTHON.match(name) is not None


def _with_lines_joined(quoted: re.Match[str]) -> str:
    """Return a piece of a command without its continued line ends; single quotes keep theirs."""
    if quoted[0].startswith('"'):
        return _BACKSLASH.sub(_with_lines_joined, quoted[0])
    return "" if quoted[1] else quoted[0]


def _take_first(words: list[str], n: int) -> list[str]:
    """Remove the first *n* of *words* and return them."""
    moved = words[:n]
    del words[:n]
    return moved


def _assignments(words: Sequence[str]) -> list[tuple[str, str]] | None:
    """Return the assignments of ``env`` before its program; None: it has options, or no program."""
    found: list[tuple[str, str]] = []
    for word in words:
        if (match := _ASSIGNMENT.fullmatch(word)) is None:
            return None if word.startswith("-") else found
        found.append((match[1], match[2]))
    return None


def _n_of_interpreter(words: Sequence[str]) -> int:
    """Return the number of *words* for Python and its options, up to a script, or with ``-m``.

    The count ends before ``-c``, because the program after it is part of Python's arguments."""
    n = 1
    while n < len(words):
        word = words[n]
        if word == "-m":
            return n + 1
        if word == "-c" or not word.startswith("-") or word == "-":
            return n
        n += 2 if word in _PYTHON_VALUED else 1
    return n
