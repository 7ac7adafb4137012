"""Files of variables: Compose's ``env_file`` and ``.env``, and systemd's ``EnvironmentFile=``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tuner.config.environment_file import LARGEST_BYTES
from tuner.config.start_files.started import Variables, Where, fixed_place
from tuner.core.errors import ConfigError

# Expansion of ``$NAME`` and ``${NAME:-word}``, as in compose files, Dockerfiles and shells.

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:(?P<operator>:?[-=?+])(?P<word>.*))?", re.DOTALL)
_ASSIGN = "Set the variable before the command: {name}=... tuner init --from ..."


def end_of_braces(text: str, start: int) -> int | None:
    """Return the offset of the ``}`` that closes the ``${`` at *start*, or None."""
    depth, at = 0, start
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text.startswith("${", at):
            depth += 1
            at += 1
        elif text[at] == "}":
            depth -= 1
            if not depth:
                return at
        at += 1
    return None


def value_of_braces(
    inner: str, variables: Variables, expand: Callable[[str], str], where: str, *, assigns: bool = False
) -> str:
    """Return the value of ``${inner}``.

    Args:
        inner: Text between the braces.
        variables: Variables to expand with.
        expand: Expands the word after the operator.
        where: Place of the braces, for errors.
        assigns: Whether ``:=`` is supported.

    Raises:
        ConfigError: the form is not supported, or a required variable is not set.
    """
    match = _BRACED.fullmatch(inner)
    if match is None or ("=" in (match["operator"] or "") and not assigns):
        shown = re.match(r"\w*\W{0,2}", inner)[0]  # type: ignore[index]  # the rest may be a secret
        raise ConfigError(
            f"{where}: tuner cannot expand ${{{shown}...}}", hint="Write the value, or ${NAME:-default}."
        )
    name, operator, word = match["name"], match["operator"] or "", match["word"] or ""
    value = variables.get(name)
    is_set = value is not None and (value != "" or ":" not in operator)
    if operator.endswith("+"):
        return expand(word) if is_set else ""
    if is_set or not operator:
        return value or ""
    if operator.endswith("?"):
        raise ConfigError(
            f"{where}: {name} is required, and is not set{f': {expand(word)}' if word else ''}",
            hint=_ASSIGN.format(name=name),
        )
    variables.used.pop(name, None)  # a default applies, so the user need not set it
    value = expand(word)
    if operator.endswith("="):
        variables.own[name] = value
    return value


def name_after(text: str, at: int) -> str | None:
    """Return the name of a variable that begins at offset *at* of *text*, or None."""
    match = _NAME.match(text, at)
    return None if match is None else match[0]


def interpolate(text: str, variables: Variables, where: Where) -> str:
    """Expand *text* like compose: ``$$`` is a dollar sign, ``$NAME`` and ``${NAME:-word}`` are replaced.

    Raises:
        ConfigError: a form that compose does not support either, or a required variable is not set.
    """
    return _expand(text, variables, where, escape=None)


def replace_variables(text: str, variables: Variables, where: Where, escape: str = "\\") -> str:
    """Expand *text* like a Dockerfile: as `interpolate`, but *escape* quotes a dollar sign."""
    return _expand(text, variables, where, escape=escape)


def _word(word: str, variables: Variables, at: str, escape: str | None) -> str:
    return _expand(word, variables, fixed_place(at), escape=escape)


def _expand(text: str, variables: Variables, where: Where, *, escape: str | None) -> str:
    done: list[str] = []
    at = 0
    while at < len(text):
        if (escape is not None and text.startswith(f"{escape}$", at)) or (
            escape is None and text.startswith("$$", at)
        ):
            done.append("$")
            at += 2
        elif text.startswith("${", at):
            end = end_of_braces(text, at)
            if end is None:
                raise ConfigError(f"{where(at)}: ${{ is not closed", hint="Close it with }.")
            inner = text[at + 2 : end]
            value = value_of_braces(
                inner,
                variables,
                partial(_word, variables=variables, at=where(at), escape=escape),
                where(at),
            )
            done.append(value)
            at = end + 1
        elif text[at] == "$" and (name := name_after(text, at + 1)) is not None:
            done.append(variables.get(name) or "")
            at += 1 + len(name)
        else:
            done.append(text[at])
            at += 1
    return "".join(done)


_LINE = re.compile(
    r"(?:export[ \t]+)?(?P<name>[A-Za-z_][\w.]*)[ \t]*(?P<sign>[=:]?)[ \t]*(?P<value>.*)", re.ASCII
)
_QUOTED = re.compile(
    r"""(?P<quote>['"])(?P<inside>(?:\\.|(?!(?P=quote)).)*)(?P=quote)[ \t]*(?:#.*)?""", re.DOTALL
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$$"}
_HINT = "Write NAME=VALUE lines; put a value with a line end into quotes, and close them."


def read_text(path: Path, name: str) -> str:
    """Return the text of a file of variables; errors call the file *name*.

    Raises:
        ConfigError: the file is unreadable, too large, or not UTF-8.
    """
    try:
        if not path.is_file():
            raise ConfigError(f"{name} is no file", hint="Name a file of NAME=VALUE lines.")
        with path.open("rb") as file:
            raw = file.read(LARGEST_BYTES + 1)
        if len(raw) > LARGEST_BYTES:
            raise ConfigError(f"{name} is larger than {LARGEST_BYTES // 1024} KiB", hint="Name another file.")
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is not UTF-8", hint="Save the file as UTF-8.") from error
    except OSError as error:
        raise ConfigError(
            f"cannot read {name}: {error.strerror}", hint="Name a file that can be read."
        ) from error


def parse_dotenv(text: str, name: str, variables: Variables, *, expands: bool = True) -> dict[str, str]:
    """Return the variables of a ``.env`` file, as compose reads it.

    ``$NAME`` is expanded if *expands*, except in single quotes; variables of the file override *variables*.
    Quoted values may have several lines. A name without a value gets the value in tuner's environment.

    Raises:
        ConfigError: a line is not a variable; with its place. Values are not shown.
    """
    found: dict[str, str] = {}
    lines = iter(enumerate(text.split("\n"), start=1))
    for number, written in lines:
        line = written.strip(" \t\r")
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None or (match["value"] and not match["sign"]):
            raise ConfigError(f"{name}:{number}:1: expected NAME=VALUE", hint=_HINT)
        if not match["sign"]:
            if match["name"] in variables.outside:
                found[match["name"]] = variables.outside[match["name"]]
            continue
        place = f"{name}:{number}:{written.index(match['name']) + 1}"
        value = _unquote(_whole(match["value"], lines, place))
        if value.startswith("'") or not expands:
            found[match["name"]] = (
                value[1:] if value.startswith("'") else value.removeprefix("=").replace("$$", "$")
            )
            continue
        of_line = Variables({**variables.own, **found}, variables.outside)
        found[match["name"]] = interpolate(value.removeprefix("="), of_line, fixed_place(place))
    return found


def _whole(value: str, lines: Iterator[tuple[int, str]], place: str) -> str:
    """Return a value including the following lines that its quotes span."""
    if value[:1] in ("'", '"'):
        while _QUOTED.fullmatch(value) is None:
            if re.match(r"""(['"])(?:\\.|(?!\1).)*\1""", value, re.DOTALL):
                raise ConfigError(f"{place}: something follows the closing quote", hint=_HINT)
            following = next(lines, None)
            if following is None:
                raise ConfigError(f"{place}: the quote is not closed", hint=_HINT)
            value += "\n" + following[1]
    return value


def _unquote(raw: str) -> str:
    """Return the unquoted value, after a ``'`` (was in single quotes) or a ``=`` (in double quotes)."""
    quoted = _QUOTED.fullmatch(raw)
    if quoted is None:
        return re.sub(r"(?:^|[ \t]+)#.*", "", raw).strip(" \t")
    if quoted["quote"] == "'":
        return "'" + quoted["inside"].replace("\\'", "'")
    inside = re.sub(
        r"\\(.)", lambda one: _ESCAPES.get(one[1], f"\\{one[1]}"), quoted["inside"], flags=re.DOTALL
    )
    return "=" + inside


def parse_environment_file(text: str, name: str) -> dict[str, str]:
    """Return the variables of systemd's ``EnvironmentFile=``, without expansion (systemd.exec(5)).

    Raises:
        ConfigError: a quote is not closed.
    """
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        end = len(text) if (line_end := text.find("\n", at)) < 0 else line_end
        equals = text.find("=", at, end)
        line = text[at:end].strip()
        if not line or line[0] in "#;" or equals < 0:
            at = _after_comment(text, at, end) if line[:1] in ("#", ";") else end + 1
            continue
        key = text[at:equals].strip()
        value, at = _value(text, equals + 1, f"{name}:{text.count(chr(10), 0, at) + 1}:1")
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
            found[key] = value
    return found


def _after_comment(text: str, at: int, end: int) -> int:
    """Return the offset after a comment; a backslash at a line end continues the comment."""
    while text[at:end].endswith("\\") and end < len(text):
        at, end = end + 1, len(text) if (line_end := text.find("\n", end + 1)) < 0 else line_end
    return end + 1


def _value(text: str, at: int, place: str) -> tuple[str, int]:
    """Return a value (quoted pieces, then unquoted text) and the offset of the next line."""
    done: list[str] = []
    while at < len(text):
        if text[at] in " \t\r":
            at += 1
        elif text[at] in "'\"":
            piece, at = _quoted_piece(text, at, place)
            done.append(piece)
        else:
            break
    n_kept = len(done)  #: what is not stripped at the end
    while at < len(text) and text[at] != "\n":
        if text[at] == "\\" and at + 1 < len(text):
            done.append("" if text[at + 1] == "\n" else text[at + 1])
            n_kept = len(done)
            at += 2
        else:
            done.append(text[at])
            at += 1
    return "".join(done[:n_kept]) + "".join(done[n_kept:]).rstrip(" \t\r"), at + 1


def _quoted_piece(text: str, at: int, place: str) -> tuple[str, int]:
    """Return the text in the quotes that begin at *at*, and the offset after them."""
    quote, done = text[at], []
    at += 1
    while at < len(text) and text[at] != quote:
        following = text[at + 1 : at + 2]
        if text[at] == "\\" and quote == '"' and following:
            kept = following if following in '"\\`$' else "" if following == "\n" else f"\\{following}"
            done.append(kept)
            at += 2
        else:
            done.append(text[at])
            at += 1
    if at >= len(text):
        raise ConfigError(f"{place}: the quote is not closed", hint=_HINT)
    return "".join(done), at + 1
