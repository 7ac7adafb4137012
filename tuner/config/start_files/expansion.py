"""``$NAME`` and ``${NAME:-word}`` in a text, as compose files, Dockerfiles and shells have them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from tuner.config.start_files.started import Variables, Where, fixed
from tuner.core.errors import ConfigError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:(?P<operator>:?[-=?+])(?P<word>.*))?", re.DOTALL)
_ASSIGN = "Set the variable before the command: {name}=... tuner init --from ..."


def end_of_braces(text: str, start: int) -> int | None:
    """Where the ``}`` stands that belongs to the ``${`` at *start*; None: nowhere."""
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
    """The value of ``${inner}``.

    Args:
        inner: what stands between the braces.
        variables: of the text.
        expand: for the word after the operator.
        where: of the braces.
        assigns: whether ``:=`` is known.

    Raises:
        ConfigError: it is no form that is known, or a variable that is required is not set.
    """
    match = _BRACED.fullmatch(inner)
    if match is None or ("=" in (match["operator"] or "") and not assigns):
        shown = re.match(r"\w*\W{0,2}", inner)[0]  # type: ignore[index]  # what follows may be a secret
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
    variables.used.pop(name, None)  # it needs nobody to set it
    value = expand(word)
    if operator.endswith("="):
        variables.own[name] = value
    return value


def name_after(text: str, at: int) -> str | None:
    """The name of a variable that begins there."""
    match = _NAME.match(text, at)
    return None if match is None else match[0]


def interpolate(text: str, variables: Variables, where: Where) -> str:
    """*text* as compose has it: ``$$`` is a dollar sign, ``$NAME`` and ``${NAME:-word}`` are expanded.

    Raises:
        ConfigError: a form that compose does not know either, or a variable that is required is not set.
    """
    return _expand(text, variables, where, escape=None)


def replace_variables(text: str, variables: Variables, where: Where, escape: str = "\\") -> str:
    """*text* as a Dockerfile has it: as `interpolated`, but *escape* quotes a dollar sign."""
    return _expand(text, variables, where, escape=escape)


def _word(word: str, variables: Variables, at: str, escape: str | None) -> str:
    return _expand(word, variables, fixed(at), escape=escape)


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
