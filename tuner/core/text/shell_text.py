"""The last command of a shell text, and the text before it (POSIX 2.10, as far as services need it).

``cd /srv && . venv/bin/activate && exec gunicorn app:app`` starts gunicorn after the commands before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_OPERATOR = re.compile(r";;&|;;|;&|&&|\|\||&>>|&>|\|&|<<<|<<-?|>>|>&|<&|>\||<>|[;&|()<>\n]")
_BETWEEN = frozenset({";", "\n", "&&", "||", "&"})  #: operators that end a command
_OPENS = frozenset({"if", "case", "for", "while", "until", "select", "{"})
_CLOSES = frozenset({"fi", "esac", "done", "}"})
#: words after which another command begins
_GOES_ON = frozenset({"then", "else", "elif", "do", "!", "time"})
_NAME = r"[A-Za-z_]\w*"
_VARIABLE = re.compile(rf"\$(?:({_NAME})|\{{({_NAME})(?:(:?-)([^}}$`'\"\\]*))?\}})")
_OWN_ARGUMENTS = re.compile(r"\$[0-9@*#]|\$\{[0-9@*#]|\bBASH_SOURCE\b|(?:^|[\s;&|])shift(?:$|[\s;&|])")
_SOURCED = re.compile(r"(?:^|[\s;&|(])(?:\.|source)\s")
ALL_ARGUMENTS = '"$@"'  #: word that stands for all arguments of a script
_NAMED_AND_ALL = ('"$0"', ALL_ARGUMENTS)


class ObscureError(Exception):
    """A text's last command is not found, or only a shell can start it; the message is a clause."""


@dataclass(frozen=True, slots=True)
class LastCommand:
    """A simple command at the end of a text."""

    before: str  #: text before the command; empty: there is none
    words: tuple[str, ...]  #: words as written, with quotes
    line: int  #: number of its first line, from 1


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    at: int
    is_operator: bool


def last_command(text: str) -> LastCommand:
    """Return the last command of *text*.

    Raises:
        ObscureError: it is not a simple command, or the text is not valid in a shell.
    """
    depth = cases = 0
    begins, current, was_compound = 0, list[_Token](), False
    kept: tuple[int, list[_Token], bool] | None = None
    is_first = True  #: whether the next word is a command's name
    in_background = False
    found = _tokens(text)
    for token in found:
        if not token.is_operator:
            if is_first and depth and token.text in _CLOSES:
                depth -= 1
                cases -= token.text == "esac"
                is_first = False
            elif is_first and token.text in _OPENS:
                depth += 1
                cases += token.text == "case"
                was_compound = True
                is_first = token.text not in ("case", "for", "select")
            else:
                is_first = is_first and token.text in _GOES_ON
        elif token.text in ("(", ")"):  # those of a case enclose its patterns
            depth += 0 if cases else 1 if token.text == "(" else -1
            was_compound, is_first = True, token.text == "(" or bool(cases)
        elif token.text.startswith("<<") and token.text != "<<<":
            raise ObscureError("it has a here-document")
        else:
            is_first = token.text not in ("<", ">", ">>", ">&", "<&", ">|", "<>", "&>", "&>>", "<<<")
        if depth == 0 and token.is_operator and token.text in _BETWEEN:
            if current:
                kept, in_background = (begins, current, was_compound), token.text == "&"
            begins, current, was_compound = token.at + len(token.text), [], False
        else:
            current.append(token)
    if current:
        kept, in_background = (begins, current, was_compound), False
    if depth:
        raise ObscureError("it ends within a loop, a condition or brackets")
    if kept is None:
        raise ObscureError("it has no command")
    begins, current, was_compound = kept
    if was_compound:
        raise ObscureError("it stands in a loop, a condition, a function or brackets")
    if in_background:
        raise ObscureError("it runs in the background")
    if operators := [token.text for token in current if token.is_operator]:
        raise ObscureError(
            "it is part of a pipe" if operators[0].startswith("|") else "its output is redirected"
        )
    first = current[0].at
    is_alone = next(token for token in found if token.text != "\n").at == first  # except comments
    return LastCommand(
        "" if is_alone else text[:first].strip(" \t"),
        tuple(token.text for token in current),
        text.count("\n", 0, first) + 1,
    )


def plain_words(words: Sequence[str], environment: Mapping[str, str] | None) -> list[str]:
    """Return *words* without their quotes, with the variables replaced by values of *environment*.

    Args:
        environment: None: variables are not replaced.

    Raises:
        ObscureError: the value of a word depends on the shell, on a command for example.
    """
    return [plain for word in words for plain in _plain(word, environment)]


def variables_set_before(last: LastCommand, environment: Mapping[str, str]) -> list[str]:
    """Return the command's variables that the text before it sets, or may set by a file that it reads."""
    names = [match[1] or match[2] for word in last.words for match in _VARIABLE.finditer(word)]
    reads_files = _SOURCED.search(last.before) is not None
    return [
        name
        for name in names
        if re.search(rf"\b{name}:?=", last.before) or (reads_files and name not in environment)
    ]


def uses_own_arguments(text: str) -> bool:
    """Return whether *text* uses its own name or arguments (``$0``, ``$1``)."""
    return _OWN_ARGUMENTS.search(text) is not None


def passes_arguments_on(words: Sequence[str]) -> bool:
    """Return whether *words* are ``"$0" "$@"``, or ``"$@"``: the arguments of a shell after its text."""
    return tuple(words) in (_NAMED_AND_ALL, _NAMED_AND_ALL[1:])


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while at < len(text):
        if text[at] in " \t\r":
            at += 1
        elif text.startswith("\\\n", at):
            at += 2
        elif text[at] == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif (operator := _OPERATOR.match(text, at)) is not None:
            found.append(_Token(operator[0], at, True))
            at = operator.end()
        else:
            end = _word_end(text, at)
            is_redirected = text[at:end].isdigit() and text[end : end + 1] in ("<", ">")
            if not is_redirected:  # otherwise it is a file descriptor: 2>&1
                found.append(_Token(text[at:end].replace("\\\n", ""), at, False))
            at = end
    return found


def _word_end(text: str, at: int) -> int:
    while at < len(text) and text[at] not in " \t\r\n;&|()<>":
        at = _piece_end(text, at)
    return at


def _piece_end(text: str, at: int) -> int:
    """Return the end of the letter, the quoted text or the substitution at *at*."""
    if text[at] == "\\":
        return min(at + 2, len(text))
    if text[at] in "'`":
        end = text.find(text[at], at + 1)
        if end < 0:
            raise ObscureError("a quote is not closed")
        return end + 1
    if text[at] == '"':
        at += 1
        while at < len(text) and text[at] != '"':
            at = at + 2 if text[at] == "\\" else _piece_end(text, at) if text[at] in "$`" else at + 1
        if at >= len(text):
            raise ObscureError("a quote is not closed")
        return at + 1
    for opening, closing in (("$(", ")"), ("${", "}")):
        if text.startswith(opening, at):
            at += 2
            while at < len(text) and text[at] != closing:
                at = _piece_end(text, at) if text[at] not in "()" else _bracket_end(text, at)
            if at >= len(text):
                raise ObscureError("a bracket is not closed")
            return at + 1
    return at + 1


def _bracket_end(text: str, at: int) -> int:
    if text[at] == ")":
        return at + 1
    at += 1
    while at < len(text) and text[at] != ")":
        at = _piece_end(text, at) if text[at] != "(" else _bracket_end(text, at)
    return at + 1


def _plain(word: str, environment: Mapping[str, str] | None) -> list[str]:
    """Return the words from *word*: none for an unset variable, several if a value has blanks."""
    if word.startswith("~"):
        raise ObscureError(f"{word} is expanded by the shell")
    parts, at, is_quoted = [""], 0, False
    while at < len(word):
        end = _piece_end(word, at)
        piece = word[at:end]
        if piece[0] == "\\":
            parts[-1] += piece[1:]
        elif piece[0] == "'":
            parts[-1] += piece[1:-1]
            is_quoted = True
        elif piece[0] == '"':
            parts[-1] += _in_quotes(piece[1:-1], environment)
            is_quoted = True
        elif piece[0] in "$`":
            value, end = _value(word, at, environment)
            first, *others = re.split(r"[ \t\n]+", value) if environment is not None else [value]
            parts[-1] += first
            parts += others
        else:
            parts[-1] += piece
        at = end
    return [part for part in parts if part or is_quoted]


def _in_quotes(text: str, environment: Mapping[str, str] | None) -> str:
    done, at = "", 0
    while at < len(text):
        if text[at] == "\\" and text[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
            done, at = done + text[at + 1].removesuffix("\n"), at + 2
        elif text[at] in "$`":
            value, at = _value(text, at, environment)
            done += value
        else:
            done, at = done + text[at], at + 1
    return done


def _value(text: str, at: int, environment: Mapping[str, str] | None) -> tuple[str, int]:
    """Return the value of the ``$`` expression at *at*, and its end."""
    match = _VARIABLE.match(text, at)
    if match is None:
        following = text[at + 1 : at + 2]
        if text[at] == "$" and not (following.isalnum() or (following and following in "_{(@*#?$!'\"")):
            return "$", at + 1
        raise ObscureError(f"{text[at : _piece_end(text, at)][:40]} is worked out by the shell")
    if environment is None:
        return match[0], match.end()
    name, operator, otherwise = match[1] or match[2], match[3], match[4]
    value = environment.get(name)
    if operator is not None and (value is None or (operator == ":-" and not value)):
        value = otherwise
    return value or "", match.end()
