"""Which names are those of secrets, as variables, options, headers and keys of settings are written."""

from __future__ import annotations

import re

HIDDEN = "<hidden>"  #: stands in place of a secret, which no study keeps
_BETWEEN_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_END = r"\d*(?:_|$)"  #: of a word; DB_PASSWORD2 is one, too
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
#: STRIPE_KEY is a secret, SORT_KEY is not
_KEY_OF_SOMEBODY = re.compile(
    r"(?:[A-Z0-9]+_)*(?!(?:CACHE|FOREIGN|GROUP|HASH|INDEX|LIST|LOOKUP|ORDER|PARTITION|PRIMARY|PUBLIC|QUEUE|RANGE"
    r"|REDIS|ROUTING|ROW|SET|SHARD|SORT)_)[A-Z0-9]+_KEYS?\d*"
)


def looks_secret(name: str) -> bool:
    """Whether a variable or option of this name is likely to hold a secret."""
    name = name.lstrip("-")
    spelled = _BETWEEN_WORDS.sub("_", name).lower()
    if _SECRET.search(spelled) is not None or _KEY_OF_SOMEBODY.fullmatch(name) is not None:
        return True
    return _TOKENS.search(spelled) is not None and _COUNTED.search(spelled) is None
