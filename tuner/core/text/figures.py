"""Figures as sentences have them: ``2 %``, ``1 core``, ``24 cores``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

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
