"""Text made safe to print and store: no secrets, no control characters, no terminal escapes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Names of secrets, in the spelling of variables, options, headers and keys of settings.

HIDDEN = "<hidden>"  #: replacement for a secret, which no study stores
_BETWEEN_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_END = r"\d*(?:_|$)"  #: end of a word; digits may follow it, as in DB_PASSWORD2
_SECRET = re.compile(
    rf"(?:pass(?:word|wd|phrase)?|secret|credential)s?{_END}|token{_END}"
    rf"|(?:^|_)(?:auth|basicauth|dsn|cookies?){_END}|(?:^|_)authorization$"
    rf"|(?<=[a-z0-9_])(?<!^old)pwd{_END}"  # PWD and OLDPWD are folders
    r"|(?:^|_)(?:access|account|admin|api|app|auth|aws|client|consumer|crypt|deploy|encrypt|encryption|fernet"
    r"|hmac|host|jwt|license|master|private|root|rsa|secret|server|service|session|shared|signing|ssh|ssl"
    rf"|storage|subscription|tls)_?keys?{_END}"
)
_TOKENS = re.compile(rf"tokens{_END}")
_COUNTED = re.compile(
    r"(?:^|_)(?:batched|completion|count|limit|max|min|n|num|number|per|prompt|total)(?:_|$)"
)
#: for example, STRIPE_KEY is a secret, but SORT_KEY is not
_KEY_OF_SOMEBODY = re.compile(
    r"(?:[A-Z0-9]+_)*(?!(?:CACHE|FOREIGN|GROUP|HASH|INDEX|LIST|LOOKUP|ORDER|PARTITION|PRIMARY|PUBLIC|QUEUE|RANGE"
    r"|REDIS|ROUTING|ROW|SET|SHARD|SORT)_)[A-Z0-9]+_KEYS?\d*"
)


def looks_secret(name: str) -> bool:
    """Return whether a variable or option of this name is likely to hold a secret."""
    name = name.lstrip("-")
    spelled = _BETWEEN_WORDS.sub("_", name).lower()
    if _SECRET.search(spelled) is not None or _KEY_OF_SOMEBODY.fullmatch(name) is not None:
        return True
    return _TOKENS.search(spelled) is not None and _COUNTED.search(spelled) is None


_NAME = r"(?P<name>[A-Za-z_][\w.-]*+)"
_OPTION_NAME = r"(?P<name>--?[A-Za-z][\w.-]*+)"
_ALONE = r"""(?<![\w.'"-])"""  #: matches unless a longer name precedes
_IN_QUOTES = r"""(?<=['"])"""  #: matches after a quote, with which the following part ends
_COLON = r"(?:[ \t]*+:[ \t]++|(?P<close>:)(?![/:\s]))"
_EQUALS = r"(?:=|[ \t]++=[ \t]*+)"
#: one word of a shell command
_WORD = r"""'[^']*+\Z|"[^"]*+\Z|(?:'[^']*'|"[^"]*"|[^\s'"])++"""
#: matches any scheme, because a search for its beginning takes quadratic time in a long word
_USER_INFO = re.compile(r"(?P<scheme>(?<=[A-Za-z0-9+.-])://)[^/?#\s]*@")
_PASSWORD = re.compile(r"(?<=[A-Za-z0-9+.-])://[^/?#\s:]*:([^/?#\s]+)@")
#: pairs of patterns: the text before a value, with its name, and the value
_FORMS = tuple(
    (re.compile(before), re.compile(value, re.DOTALL))
    for before, value in (
        (rf"[?&]{_NAME}=", r"[^&#\s]+"),  # of a URL
        # "password": "x", 'password': 'x' and password: 'x', up to the closing quote
        (rf"""(?P<quote>['"]|(?<![\w.-])){_NAME}(?P=quote)\s*+:\s*+'""", r"(?:\\.|[^'\\])++"),
        (rf"""(?P<quote>['"]|(?<![\w.-])){_NAME}(?P=quote)\s*+:\s*+\"""", r'(?:\\.|[^"\\])++'),
        (rf"""(?P<quote>['"]){_NAME}(?P=quote)\s*+:\s*+""", r"""\[[^]]*+\]?|[^\s,}\]'"]+"""),  # "password": 1
        (_IN_QUOTES + _NAME + _COLON, r"""[^\r\n'"]+"""),  # headers
        (_ALONE + _NAME + _COLON, r"""(?!['"])[^\r\n]+"""),
        (rf"{_IN_QUOTES}{_OPTION_NAME}(?:=|\s+)", r"""[^\s'"]+"""),
        (rf"{_ALONE}{_OPTION_NAME}(?:=|\s+)", _WORD),
        (_IN_QUOTES + _NAME + _EQUALS, r"""[^\s'"]+"""),
        (rf"(?<![?&]){_ALONE}{_NAME}{_EQUALS}", _WORD),
    )
)
_ENDS_SECRET = re.compile(
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|key|cookie|dsn|authorization|-auth)\d*$", re.I
)
_SHORTEST_SECRET = 6  #: characters; hiding each "1" of a text because a TOKEN is 1 would make it unreadable
_OPTION = re.compile(r"(?P<option>--?[A-Za-z][\w.-]*|[A-Za-z_][\w.-]*)=(?P<value>.*)", re.DOTALL)
_SCRIPT_FOLLOWS = re.compile(r"-[a-z]*c")  #: sh -c, bash -lc, python -c


def redact(value: Any) -> Any:
    """Return a copy of plain settings with ``HIDDEN`` for secret values, also in commands and URLs."""
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if isinstance(entry, str) and looks_secret(key) else redact(entry)
            for key, entry in value.items()
        }
    if isinstance(value, list | tuple):
        return _redact_words(list(value))
    if isinstance(value, str):
        shown = _USER_INFO.sub(lambda match: f"{match['scheme']}{HIDDEN}@", value)
        for before, hidden in _FORMS:
            shown = _without_values(shown, before, hidden)
        return shown
    return value


def hidden_in(text: str, environment: Mapping[str, str], command: Sequence[str] = ()) -> str:
    """Redact a *text* that a program wrote, and hide the secrets that the program was given."""
    return str(redact(without(text, secrets_of(environment, command))))


def secrets_of(environment: Mapping[str, str], command: Sequence[str] = ()) -> Sequence[str]:
    """Return the secrets that a program was given, the longest first; of several lines also each line.

    These are the values of variables of its *environment* and of options of its *command* whose names look
    secret, and the passwords of URLs, if they have 6 characters or more.
    """
    secrets = {value for name, value in environment.items() if looks_secret(name)}
    for word, shown in zip(command, _redact_words(list(command)), strict=True):
        if shown == HIDDEN:
            secrets.add(word)
        elif shown.endswith(f"={HIDDEN}"):
            secrets.add(word.removeprefix(shown.removesuffix(HIDDEN)))
    for value in environment.values():
        secrets.update(_PASSWORD.findall(value))
    secrets |= {line.strip() for secret in secrets for line in secret.splitlines()}
    return sorted((secret for secret in secrets if len(secret) >= _SHORTEST_SECRET), key=len, reverse=True)


def without(text: str, secrets: Sequence[str]) -> str:
    """Replace each of the *secrets* in *text* by ``HIDDEN``."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def _without_values(text: str, before: re.Pattern[str], hidden: re.Pattern[str]) -> str:
    """Hide X in ``?password=X`` of a URL, in ``PASSWORD=X``, and in ``error: password: X``."""
    parts = []
    kept = at = 0
    while found := before.search(text, at):
        at = found.end()
        if _names_secret(found) and (value := hidden.match(text, at)):
            parts += [text[kept:at], HIDDEN]
            kept = at = value.end()
    return "".join((*parts, text[kept:]))


def _names_secret(found: re.Match[str]) -> bool:
    is_secret = looks_secret(found["name"])
    if is_secret and found.groupdict().get("close"):  # password:x is one, password_reset.wsgi:app is not
        return _ENDS_SECRET.search(found["name"]) is not None
    return is_secret


def _redact_words(words: list[Any]) -> list[Any]:
    """Redact the words of a command: all of X in ``--password X``, ``--password=X`` and ``PASSWORD=X``.

    In a script (the word after ``-c``), only the shell's word X is hidden.
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
            shown.append(redact(word))
        hides_next = isinstance(word, str) and option is None and word.startswith("-") and looks_secret(word)
        is_script = isinstance(word, str) and _SCRIPT_FOLLOWS.fullmatch(word) is not None
    return shown


# Texts of other programs and users, without control characters, terminal escapes and direction marks.


_LONGEST = 300  #: longest output of one_line, characters
_ESCAPE = r"\x1b\[[0-9;]*[A-Za-z]"
_IN_TABLE = re.compile(rf"{_ESCAPE}|[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
#: control characters, line separators, lone surrogates, and characters that XML does not allow
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_BROKEN = re.compile(r"[\ud800-\udfff\ufffe\uffff]")
#: characters that change the direction of text, have no width, or hide the following text
_HIDDEN = re.compile(
    r"[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]|[\U000e0000-\U000e007f]"
)


def replace_unprintable(text: str, mark: str | Callable[[str], str]) -> str:
    """Replace each character that cannot be printed, line ends included, with *mark* or its result."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else mark if isinstance(mark, str) else mark(c) for c in text)


def printable(text: str) -> str:
    """Return *text* on one line of a terminal, with a ``?`` for each character that cannot be printed."""
    return replace_unprintable(" ".join(text.split()), "?")


def escape_unprintable(text: str) -> str:
    """Return *text* on one line, with Python's escapes for characters that cannot be printed: ``\\n``."""
    return replace_unprintable(text, lambda c: c.encode("unicode_escape").decode())


def number_unprintable(text: str) -> str:
    """Return *text* on one line, with the numbers of characters that cannot be printed: ``\\x0a``."""
    return replace_unprintable(text, lambda c: f"\\x{ord(c):02x}")


def one_line(text: str) -> str:
    """Return *text* on one line, cut if it is long, because other programs may print anything."""
    line = replace_unprintable(text[: 4 * _LONGEST], " ")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def page_line(text: str) -> str:
    """Return *text* on one line of a page, with blanks for characters that cannot be printed."""
    shown = replace_unprintable(text, " ")
    return " ".join(shown.split()) if shown != text else text.strip()


def table_cell(text: str) -> str:
    """Return *text* for a cell of a table: no line ends, no terminal escapes, nothing invisible."""
    return escape_invisible(_IN_TABLE.sub(" ", text))


def visible(text: object, most: int | None = None) -> str:
    """Return *text* without control characters, with invisible ones as ``\\u202e``, cut to *most* characters.

    Line ends and tabs are kept.
    """
    plain = _BROKEN.sub("\ufffd", _CONTROL.sub(" ", str(text)))
    plain = escape_invisible(plain)
    return plain if most is None or len(plain) <= most else f"{plain[: most - 1]}…"


def escape_invisible(text: str) -> str:
    """Write invisible characters and direction marks of *text* as ``\\u202e``."""
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
