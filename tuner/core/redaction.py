"""Settings and texts without their secrets: names are kept, values are not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.core.resuming import HIDDEN
from tuner.core.secret_names import looks_secret

_NAME = r"(?P<name>[A-Za-z_][\w.-]*+)"
_ALONE = r"(?<![\w.-])"  #: what follows is no part of a longer name
#: a word as a shell has it; it ends where the quotes do that the name stands in
_WORD = r"""(?:'[^']*+\Z|"[^"]*+\Z|(?:'[^']*'|"[^"]*"|[^\s'"])++)"""
#: whatever a scheme may be: to look for its beginning would take the square of a long word's time
_USER_INFO = re.compile(r"(?P<scheme>(?<=[A-Za-z0-9+.-])://)[^/?#\s]*@")
_PASSWORD = re.compile(r"(?<=[A-Za-z0-9+.-])://[^/?#\s:]*:([^/?#\s]+)@")
_PARAMETER = re.compile(r"(?P<before>[?&](?P<name>[A-Za-z][\w.-]*+)=)[^&#\s]+")
#: "password": "x", 'password': 'x' and password: 'x', up to the closing quote
_QUOTED = re.compile(
    rf"""(?P<before>(?P<quote>['"]|{_ALONE}){_NAME}(?P=quote)\s*+:\s*+(?P<open>['"]))(?:\\.|(?!(?P=open)).)++""",
    re.DOTALL,
)
#: "password": 1
_PLAIN = re.compile(
    rf"""(?P<before>(?P<quote>['"]){_NAME}(?P=quote)\s*+:\s*+)(?:\[[^]]*+\]?|[^\s,}}\]'"]+)"""
)
#: to the line's end, or to that of the quotes that it stands in
_HEADER = re.compile(
    rf"""(?P<before>(?:(?P<quoted>(?<=['"]))|{_ALONE}){_NAME}(?:[ \t]*+:[ \t]++|(?P<close>:)(?![/:\s])))"""
    r"""(?!['"])(?(quoted)[^\r\n'"]+|[^\r\n]+)"""
)
_TYPED = re.compile(
    rf"""(?P<before>(?:(?P<quoted>(?<=['"]))|(?<![\w.-]))(?P<name>--?[A-Za-z][\w.-]*+)(?:=|\s+))"""
    rf"""(?(quoted)[^\s'"]+|{_WORD})"""
)
_ASSIGNMENT = re.compile(
    rf"""(?P<before>(?:(?P<quoted>(?<=['"]))|(?<![\w.?&-])){_NAME}(?:=|[ \t]++=[ \t]*+))"""
    rf"""(?(quoted)[^\s'"]+|{_WORD})"""
)
_ENDS_SECRET = re.compile(
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|key|cookie|dsn|authorization|-auth)\d*$", re.I
)
_SHORTEST_SECRET = 6  #: characters; to hide each "1" of a text because a TOKEN is 1 would spoil it
_OPTION = re.compile(r"(?P<option>--?[A-Za-z][\w.-]*|[A-Za-z_][\w.-]*)=(?P<value>.*)", re.DOTALL)
_SCRIPT_FOLLOWS = re.compile(r"-[a-z]*c")  #: sh -c, bash -lc, python -c


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
        for pattern in (_PARAMETER, _QUOTED, _PLAIN, _HEADER, _TYPED, _ASSIGNMENT):
            shown = pattern.sub(_hidden_value, shown)
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


def _hidden_value(match: re.Match[str]) -> str:
    """``?password=X`` of a URL loses X, and so does ``PASSWORD=X``."""
    is_secret = looks_secret(match["name"])
    if is_secret and match.groupdict().get("close"):  # password:x is one, password_reset.wsgi:app is not
        is_secret = _ENDS_SECRET.search(match["name"]) is not None
    return f"{match['before']}{HIDDEN}" if is_secret else match[0]


def _redacted_words(words: list[Any]) -> list[Any]:
    """The words of a command: ``--password X``, ``--password=X`` and ``PASSWORD=X`` lose all of X.

    Of a script, the word after ``-c``, only the word of the shell that is X goes.
    """
    shown = []
    hides_next = is_script = False
    for word in words:
        option = _OPTION.fullmatch(word) if isinstance(word, str) and not is_script else None
        if hides_next:
            shown.append(HIDDEN)
        elif option is not None and looks_secret(option["option"]):
            shown.append(f"{option['option']}={HIDDEN}")
        else:
            shown.append(redacted(word))
        hides_next = isinstance(word, str) and option is None and word.startswith("-") and looks_secret(word)
        is_script = isinstance(word, str) and _SCRIPT_FOLLOWS.fullmatch(word) is not None
    return shown
