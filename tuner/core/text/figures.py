"""Figures as sentences have them: ``2 %``, ``1 core``, ``24 cores``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from tuner.core.errors import ConfigError

T = TypeVar("T")

_ROUNDING_PERCENT = 1e-9  #: of a share that is nothing, sums of floats leave less than that


def percent(ratio: float) -> str:
    """A share as people read it: ``2 %``; small ones keep two digits."""
    shown = 100 * ratio
    if abs(shown) < _ROUNDING_PERCENT:
        return "0 %"
    if shown >= 100:
        return f"{shown:.0f} %"
    return f"{shown:.3g} %" if shown >= 1 else f"{shown:.2g} %"


def per_second(value: float) -> str:
    """A rate of items, in digits: ``70.25/s``, ``12346/s``."""
    return f"{value:.0f}/s" if value >= 1000 else f"{value:.4g}/s"


def pluralize(count: float, thing: str, digits: str = "g") -> str:
    """So many of a *thing*: ``1 core``, ``1.5 cores``, ``3 launches``; *digits* is the format of a float."""
    shown = f"{count}" if isinstance(count, int) else f"{count:{digits}}"
    return f"{shown} {thing if shown == '1' else _plural(thing)}"


def busy_cores(count: float) -> str:
    """How many cores are in use, on average: ``0.15 core``, ``2.00 cores``."""
    return f"{count:.2f} {'core' if round(count, 2) <= 1 else 'cores'}"


def format_block(block: int) -> str:
    """A block by its number from 0: ``block 1``; ``before block 1`` for what is not counted."""
    return f"block {block + 1}" if block >= 0 else "before block 1"


def list_names(names: Sequence[object], most: int = 10) -> str:
    """A list for a sentence: *most* of them and how many more there are, or one more than *most*."""
    first = first_of(names, most)
    shown = ", ".join(map(str, first))
    return shown if len(first) == len(names) else f"{shown} and {len(names) - most} more"


def first_of(things: Sequence[T], most: int) -> Sequence[T]:
    """Those that are shown of many: the first *most*, or one more where that is all: no "1 more" is told."""
    return things if len(things) <= most + 1 else things[:most]


def _plural(thing: str) -> str:
    return f"{thing}es" if thing.endswith(("s", "ch", "x")) else f"{thing}s"


# Amounts of memory as people write them: ``8G``, ``512M``, ``1.5GiB``, ``8GB``.


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


def render_size(size: float) -> str:
    """The same bytes as text with three figures, in powers of 1000: ``8 GB``, ``7.98 GB``, ``82 kB``."""
    power = 1 if size < 1e6 else 2 if size < 1e9 else 3 if size < 1e12 else 4
    scaled = size / 1000**power
    whole = f"{scaled:.0f}"
    return f"{whole if len(whole) >= 3 else f'{scaled:.3g}'} {_UNITS[power - 1]}"


def format_kept_size(kept: str) -> str:
    """A size that a study keeps among its facts in GiB, as it is printed; other texts are as they are."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) GiB", kept)
    return kept if match is None else render_size(float(match[1]) * 1024**3)
