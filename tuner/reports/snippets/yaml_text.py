"""YAML writer that always double-quotes strings, so that no parser reads one as a number or a date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def quote_yaml(text: str) -> str:
    """Return *text* as a YAML string, which no parser reads as a number or a date."""
    return f'"{"".join(map(_character, text))}"'


def flow(words: Sequence[str]) -> str:
    """Return a list of texts in one line."""
    return f"[{', '.join(map(quote_yaml, words))}]"


def block(mapping: Mapping[str, str], indent: int) -> str:
    """Return a mapping of texts, a line each."""
    return "".join(
        f"{' ' * indent}{quote_key(name)}: {quote_yaml(value)}\n" for name, value in mapping.items()
    )


def quote_key(name: str) -> str:
    """Return a key, quoted unless it is an identifier without a meaning in YAML."""
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
