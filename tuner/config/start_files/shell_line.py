"""A shell line (POSIX 2) as the one program that it ends in, with its variables and folder.

Nothing is run: parts that need a shell are rejected, or kept as `COMPUTED` where they may not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from tuner.config.start_files.dotenv import end_of_braces, name_after, value_of_braces
from tuner.config.start_files.started import COMPUTED, Variables, Where
from tuner.core.errors import ConfigError

_OPERATORS = ("&&", "||", ";;", ";", "&", "|", "(", ")", "\n")
_REDIRECTION = re.compile(r"[0-9]*(?:<<-?|>>|<&|>&|<>|>\||&>>?|<|>)")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_WITH_QUOTED_DEFAULT = re.compile(r"""\$\{\w+:?[-=](?P<quote>['"]).*(?P=quote)\}""", re.DOTALL)
_RESERVED = frozenset(
    [
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "for",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "{",
        "}",
        "!",
        "[[",
        "function",
        "select",
    ]
)
_SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh"))
_SPECIAL = "@*#?$!-0123456789"
_HINT = (
    "Name the last command of the line: tuner init -- COMMAND. Or put the line into a script and name that."
)


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """The last program of a shell line."""

    words: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)  #: that the line assigns or exports
    directory: str | None = None  #: that the line changes to
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Token:
    text: str  #: as it is written
    at: int
    is_operator: bool = False
    is_redirection: bool = False


def shell_text(words: Sequence[str]) -> str | None:
    """Return the line of ``sh -c LINE``; None if *words* are another command, or give LINE arguments."""
    if len(words) < 3 or PurePath(words[0]).name not in _SHELLS:
        return None
    for n, word in enumerate(words[1:], start=1):
        if re.fullmatch(r"-[a-z]*c", word):
            return words[n + 1] if len(words) == n + 2 else None
        if not word.startswith("-"):
            return None
    return None


def read_shell_line(text: str, variables: Variables, where: Where) -> ShellCommand:
    """Return the last program that the line *text* starts.

    Earlier commands of the line are ignored, except ``cd``, ``export`` and assignments. Variables are
    replaced from *variables*, to which the assignments of the line are added.

    Raises:
        ConfigError: the line needs a shell, or a quote or bracket is not closed; with the place.
    """
    commands = _commands(_tokens(text, where), text, where)
    environment: dict[str, str] = {}
    directory: str | None = None
    left_out: list[str] = []
    notes: list[str] = []
    words: list[str] = []
    for n, tokens in enumerate(commands):
        is_last = n == len(commands) - 1
        if is_last and tokens[0].text in _RESERVED:
            raise _needs_a_shell(where(tokens[0].at), tokens[0].text)
        written = " ".join(token.text for token in tokens)
        first = tokens[0].text
        if not is_last and first not in ("cd", "export", "set") and not _only_assigns(tokens):
            left_out.append(written)
            continue
        assigned, words = _simple_command(tokens, variables, where, notes)
        if words[:1] and words[0] in ("cd", "export", "exec") and words[1:2] and words[1][:1] in ("-", "~"):
            raise _needs_a_shell(where(tokens[1].at), f"{words[0]} {words[1]}")
        if words[:1] == ["cd"] and not is_last:
            target = words[1] if len(words) > 1 else str(Path.home())
            directory = str(PurePath(directory or "") / target)
        elif words[:1] == ["export"] and not is_last:
            for word in words[1:]:
                name, _, value = word.partition("=")
                environment[name] = value if "=" in word else variables.get(name) or ""
                variables.own[name] = environment[name]
        elif is_last:
            environment |= assigned
    while words[:1] == ["exec"]:
        del words[0]
    if not words:
        raise ConfigError(f"{where(0)}: the line starts no program", hint=_HINT)
    if left_out:
        notes.insert(0, f"not run before a launch: {'; '.join(left_out)}")
    return ShellCommand(tuple(words), environment, directory, tuple(notes))


def _commands(tokens: Iterable[_Token], text: str, where: Where) -> list[list[_Token]]:
    """Return the commands of the line, in order."""
    commands: list[list[_Token]] = [[]]
    before = ""  # the operator before the command
    for token in tokens:
        if not token.is_operator:
            commands[-1].append(token)
            continue
        if token.text in ("(", ")", "|"):
            raise _needs_a_shell(where(token.at), token.text)
        if commands[-1]:
            commands.append([])
            before = token.text
    commands = [command for command in commands if command]
    if not commands:
        raise ConfigError(f"{where(0)}: the line starts no program", hint=_HINT)
    if before == "||" and text.rstrip()[-2:] != "||":
        raise _needs_a_shell(where(text.rindex("||")), "||")
    return commands


def _only_assigns(tokens: Sequence[_Token]) -> bool:
    return all(_ASSIGNMENT.fullmatch(token.text) for token in tokens)


def _simple_command(
    tokens: Sequence[_Token], variables: Variables, where: Where, notes: list[str]
) -> tuple[dict[str, str], list[str]]:
    """Return the assignments of a command, and its words, expanded without them (POSIX 2.9.1)."""
    assignments: list[tuple[str, str, int]] = []
    words: list[str] = []
    redirected: list[str] = []
    rest = iter(tokens)
    for token in rest:
        if token.is_redirection:
            if "<<" in token.text:
                raise _needs_a_shell(where(token.at), token.text)
            target = next(rest, None)
            redirected.append(token.text + (target.text if target is not None else ""))
        elif not words and (match := _ASSIGNMENT.fullmatch(token.text)) is not None:
            assignments.append((match[1], match[2], token.at + len(match[1]) + 1))
        else:
            words += _fields(token.text, token.at, variables, where)
    assigned: dict[str, str] = {}
    before = dict(variables.own)
    for name, written, begin in assignments:
        assigned[name] = " ".join(_fields(written, begin, variables, where, splits=False))
        variables.own[name] = assigned[name]
    if words:
        variables.own = before
    if redirected:
        notes.append(f"left out: {' '.join(redirected)}")
    return assigned, words


def _tokens(text: str, where: Where) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        if text[at] in " \t\r" or text.startswith("\\\n", at):
            at += 2 if text[at] == "\\" else 1
        elif text[at] == "#":
            at = len(text) if (end := text.find("\n", at)) < 0 else end
        elif (match := _REDIRECTION.match(text, at)) is not None:
            yield _Token(match[0], at, is_redirection=True)
            at = match.end()
        elif operator := next((one for one in _OPERATORS if text.startswith(one, at)), ""):
            yield _Token(operator, at, is_operator=True)
            at += len(operator)
        else:
            end = _end_of_word(text, at, where)
            yield _Token(text[at:end], at)
            at = end


def _end_of_word(text: str, start: int, where: Where) -> int:
    at = start
    while at < len(text) and text[at] not in " \t\r\n;&|()<>":
        at = _after_piece(text, at, where)
    return at


def _after_piece(text: str, at: int, where: Where) -> int:
    """Return the end offset of the character, quoted text or substitution that begins at *at*."""
    if text[at] == "\\":
        return at + 2
    if text[at] == "'":
        return _after(text.find("'", at + 1), at, "'", where)
    if text[at] == '"':
        end = at + 1
        while end < len(text) and text[end] != '"':
            end = _after_piece(text, end, where) if text[end] in "\\$`" else end + 1
        return _after(end if end < len(text) else -1, at, '"', where)
    if text[at] == "`":
        return _after(text.find("`", at + 1), at, "`", where)
    if text.startswith("${", at):
        end_braces = end_of_braces(text, at)
        return _after(-1 if end_braces is None else end_braces, at, "${", where)
    if text.startswith("$(", at):
        depth, end = 0, at + 1
        while end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if not depth:
                return end + 1
            end += 1
        return _after(-1, at, "$(", where)
    return at + 1


def _after(end: int, start: int, opened: str, where: Where) -> int:
    if end < 0:
        raise ConfigError(f"{where(start)}: {opened} is not closed", hint="Close it, as a shell requires.")
    return end + 1


def _fields(word: str, begin: int, variables: Variables, where: Where, *, splits: bool = True) -> list[str]:
    """Return the words that *word* expands to: variables replaced and split at blanks, quotes removed."""
    fields: list[str] = []
    current: str | None = None
    at = 0
    if splits and re.match(r"~(/|$)", word):
        current, at = str(Path.home()), 1
    while at < len(word):
        end = _after_piece(word, at, lambda offset: where(begin + offset))
        piece = word[at:end]
        if piece.startswith("'"):
            current = (current or "") + piece[1:-1]
        elif piece.startswith('"'):
            current = (current or "") + _in_double_quotes(piece[1:-1], begin + at + 1, variables, where)
        elif piece.startswith("\\"):
            current = (current or "") + ("" if piece == "\\\n" else piece[1:])
        elif piece[0] in "$`":
            name = name_after(word, at + 1) if piece == "$" else None
            end += len(name or "")
            value = _value(piece + (name or ""), word[end : end + 1], begin + at, variables, where)
            if not splits or COMPUTED in value or _WITH_QUOTED_DEFAULT.fullmatch(piece):
                current = (current or "") + value
            else:
                parts = value.split()
                if (parts and not value[0].isspace()) or not parts:
                    current = current if not parts else (current or "") + parts.pop(0)
                for part in parts:
                    if current is not None:
                        fields.append(current)
                    current = part
                if value[-1:].isspace() and current is not None:
                    fields.append(current)
                    current = None
        else:
            current = (current or "") + piece
        at = end
    return [*fields, current] if current is not None else fields


def _in_double_quotes(text: str, begin: int, variables: Variables, where: Where) -> str:
    done: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "\\" and text[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
            done.append("" if text[at + 1] == "\n" else text[at + 1])
            at += 2
        elif text[at] in "$`":
            end = _after_piece(text, at, lambda offset: where(begin + offset))
            name = name_after(text, at + 1) if end == at + 1 and text[at] == "$" else None
            end += len(name or "")
            done.append(_value(text[at:end], text[end : end + 1], begin + at, variables, where))
            at = end
        else:
            done.append(text[at])
            at += 1
    return "".join(done)


def _value(piece: str, following: str, at: int, variables: Variables, where: Where) -> str:
    """Return the value of ``$NAME`` or ``${NAME:-word}``, or a mark where only a shell can compute it."""
    if piece.startswith(("`", "$(")):
        return f"{COMPUTED}{piece}{COMPUTED}"
    if piece.startswith("${"):
        inner = piece[2:-1]
        return value_of_braces(
            inner,
            variables,
            lambda word: "".join(
                _fields(word, at + len(piece) - 1 - len(word), variables, where, splits=False)
            ),
            where(at),
            assigns=True,
        )
    if piece == "$":
        if following and following in _SPECIAL:
            raise _needs_a_shell(where(at), f"${following}")
        return "$"
    return variables.get(piece[1:]) or ""


def _needs_a_shell(where: str, what: str) -> ConfigError:
    return ConfigError(f"{where}: {what!r} needs a shell, and tuner starts programs without one", hint=_HINT)
