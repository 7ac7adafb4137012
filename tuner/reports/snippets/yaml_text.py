"""YAML writer that always double-quotes strings, so that no parser reads one as a number or a date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def quote_yaml(text: str) -> str:
    """*text* as a string of YAML, whatever is in it; no reader takes it for a number or a date."""
    return f'"{"".join(map(_character, text))}"'


def flow(words: Sequence[str]) -> str:
    """A list of texts, in one line."""
    return f"[{', '.join(map(quote_yaml, words))}]"


def block(mapping: Mapping[str, str], indent: int) -> str:
    """A mapping of texts, a line each."""
    return "".join(
        f"{' ' * indent}{quote_key(name)}: {quote_yaml(value)}\n" for name, value in mapping.items()
    )


def quote_key(name: str) -> str:
    """A key: names of variables stay as they are, but for words that YAML has a meaning for."""
    is_plain = name.isascii() and name.isidentifier() and name.lower() not in _WORDS
    return name if is_plain else quote_yaml(name)


_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def _character(character: str) -> str:
    if character in '\\"':
        return f"\\{character}"
    if character.isprintable():
        return character
    number = ord(character)
    if number <= 0xFF:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"
