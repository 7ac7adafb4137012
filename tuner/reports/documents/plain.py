"""Shell quoting of commands that a user can copy."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", "'": "\\'"}


def shell_word(word: str) -> str:
    """Return *word* quoted for bash, with non-printable characters as escapes (``$'a\nb'``)."""
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_spelt, word)) + "'"


def shell_line(words: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Return a command to type, with variables before it."""
    assigned = [f"{name}={shell_word(value)}" for name, value in (environment or {}).items()]
    return " ".join([*assigned, *map(shell_word, words)])


def file_word(file: str) -> str:
    """Return a file name as an argument that cannot be taken for an option."""
    return f"./{file}" if file.startswith("-") else file


def _spelt(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    if char.isprintable():
        return char
    code = ord(char)
    if 0xD800 <= code < 0xE000:
        return "?"  # a lone surrogate: no file can hold it
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
