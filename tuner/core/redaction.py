"""Settings and texts without their secrets: names are kept, values are not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.core.resuming import HIDDEN

_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)?s?(_|-|$)|secret|token|credential|(^|_|-)(api|private|access|signing|encryption)?_?-?key(_|-|$)"
    r"|(^|_)(auth|dsn|cookie)(_|$)|(^|-)authorization$",
    re.IGNORECASE,
)
_USER_INFO = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s]*@")
_PASSWORD = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s:]*:([^/?#\s]+)@")
_PARAMETER = re.compile(r"(?P<before>[?&](?P<name>[A-Za-z][\w.-]*)=)[^&#\s]+")
_WORD = r"""(?:'[^']*'|"[^"]*"|[^\s,'"]+)"""  #: as a shell has it
_ASSIGNMENT = re.compile(r"(?P<before>(?:^|(?<=[\s,;&|('\"]))(?P<name>[A-Za-z_]\w*)=)" + _WORD)
_TYPED = re.compile(r"(?P<before>(?<![\w-])(?P<name>--?[A-Za-z][\w-]*)(?:=|\s+))" + _WORD)
_HEADER = re.compile(r"(?P<before>(?<![\w-])(?P<name>[A-Za-z][\w-]*):[ \t]+)[^\r\n'\"]+")
_JSON = re.compile(r'(?P<before>"(?P<name>[^"\\]+)"\s*:\s*")(?:[^"\\]|\\.)+')
_SHORTEST_SECRET = 6  #: characters; to hide each "1" of a text because a TOKEN is 1 would spoil it
_OPTION = re.compile(r"(?P<option>--?[A-Za-z][\w-]*)=(?P<value>.*)", re.DOTALL)


def looks_secret(name: str) -> bool:
    """Whether a variable or option of this name is likely to hold a secret."""
    return _SECRET_NAME.search(name.lstrip("-")) is not None


def redacted(value: Any) -> Any:
    """A copy of plain settings, with ``HIDDEN`` for secret values, in commands and URLs too."""
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if isinstance(entry, str) and looks_secret(key) else redacted(entry)
            for key, entry in value.items()
        }
    if isinstance(value, list | tuple):
        return _redacted_words(list(value))
    if isinstance(value, str):
        shown = _USER_INFO.sub(lambda match: f"{match['scheme']}{HIDDEN}@", value)
        for pattern in (_PARAMETER, _JSON, _HEADER, _TYPED, _ASSIGNMENT):
            shown = pattern.sub(_hidden_parameter, shown)
        return shown
    return value


def hidden_in(text: str, environment: Mapping[str, str], command: Sequence[str] = ()) -> str:
    """A *text* that a program wrote, for people: as `redacted`, and without the secrets that it was given."""
    return str(redacted(without(text, secrets_of(environment, command))))


def secrets_of(environment: Mapping[str, str], command: Sequence[str] = ()) -> Sequence[str]:
    """What a program was given that nobody may see, the longest first; of several lines also each line.

    These are the values of variables of its *environment* and of options of its *command* whose names are
    those of secrets, and the passwords of URLs, where they have 6 characters or more.
    """
    secrets = {value for name, value in environment.items() if looks_secret(name)}
    for word, shown in zip(command, _redacted_words(list(command)), strict=True):
        if shown == HIDDEN:
            secrets.add(word)
        elif shown.endswith(f"={HIDDEN}"):
            secrets.add(word.removeprefix(shown.removesuffix(HIDDEN)))
    for value in environment.values():
        secrets.update(_PASSWORD.findall(value))
    secrets |= {line.strip() for secret in secrets for line in secret.splitlines()}
    return sorted((secret for secret in secrets if len(secret) >= _SHORTEST_SECRET), key=len, reverse=True)


def without(text: str, secrets: Sequence[str]) -> str:
    """The *text* with ``HIDDEN`` wherever one of the *secrets* stands."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def _hidden_parameter(match: re.Match[str]) -> str:
    """``?password=X`` of a URL loses X, and so does ``PASSWORD=X``."""
    return f"{match['before']}{HIDDEN}" if looks_secret(match["name"]) else match[0]


def _redacted_words(words: list[Any]) -> list[Any]:
    """The words of a command: ``--password X`` and ``--password=X`` lose X."""
    shown = []
    hides_next = False
    for word in words:
        option = _OPTION.fullmatch(word) if isinstance(word, str) else None
        if hides_next:
            shown.append(HIDDEN)
        elif option is not None and looks_secret(option["option"]):
            shown.append(f"{option['option']}={HIDDEN}")
        else:
            shown.append(redacted(word))
        hides_next = isinstance(word, str) and option is None and word.startswith("-") and looks_secret(word)
    return shown
