"""Amounts of memory as people write them: ``8G``, ``512M``, ``1.5GiB``, ``8GB``."""

from __future__ import annotations

import re

from tuner.core.errors import ConfigError

_EXAMPLE = "Write a number with its unit, as 512M, 8G or 1.5GiB (powers of 1024), or 8GB (of 1000)."
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt])(i?b)?", re.ASCII)
_PREFIXES = "kmgt"
_UNITS = ("kB", "MB", "GB", "TB")  #: of all figures that are printed: docs/words.md
_LARGEST = 1024.0**5


def parse_size(text: str) -> float:
    """Read an amount of memory; gives bytes.

    ``8G`` and ``8GiB`` are 8 x 1024^3, as systemd and Docker have it; ``8GB`` is 8 x 1000^3.

    Raises:
        ConfigError: no unit, an unknown one, nothing at all, or more than there is.
    """
    compact = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", compact):
        raise ConfigError(
            f"{text!r} has no unit", hint=f"Write {compact}M for megabytes, {compact}G for gigabytes."
        )
    match = _SIZE.fullmatch(compact)
    if match is None:
        raise ConfigError(f"{text!r} is not an amount of memory", hint=_EXAMPLE)
    number, prefix, unit = match.groups()
    base = 1000.0 if unit == "b" else 1024.0
    size = float(number) * base ** (1 + _PREFIXES.index(prefix))
    if not 0 < size < _LARGEST:
        raise ConfigError(f"{text!r} of memory is {'nothing' if not size else 'too much'}", hint=_EXAMPLE)
    return size


def render_size(size: float, digits: int = 3) -> str:
    """The same bytes as text with *digits* figures, in powers of 1000: ``8 GB``, ``7.98 GB``, ``82 kB``."""
    power = 1 if size < 1e6 else 2 if size < 1e9 else 3 if size < 1e12 else 4
    scaled = size / 1000**power
    whole = f"{scaled:.0f}"
    return f"{whole if len(whole) >= digits else f'{scaled:.{digits}g}'} {_UNITS[power - 1]}"


def format_kept_size(kept: str) -> str:
    """A size that a study keeps among its facts in GiB, as it is printed; other texts are as they are."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) GiB", kept)
    return kept if match is None else render_size(float(match[1]) * 1024**3)
