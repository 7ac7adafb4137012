"""Durations as people write them: ``10m``, ``30s``, ``1h30m``."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from itertools import pairwise

from tuner.core.errors import ConfigError

_EXAMPLE = "Write a number with its unit, as 30s, 10m, 1h30m or 8h."
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNITS = "|".join(_SECONDS)
_PART = re.compile(rf"(\d+(?:\.\d+)?)({_UNITS})", re.ASCII)
_WHOLE = re.compile(rf"(?:\d+(?:\.\d+)?(?:{_UNITS}))+", re.ASCII)
_ORDER = list(_SECONDS)
_DAY_S = 86400.0
_LONGEST_S = 366 * _DAY_S
_FORESEEN_S = 10 * _LONGEST_S


def parse_duration(text: str) -> float:
    """Read a duration; gives seconds, 0 or more.

    Raises:
        ConfigError: no unit, an unknown one, units out of order or named twice, or more than a year.
    """
    compact = text.strip().lower().replace(" ", "")
    if re.fullmatch(r"\d+(\.\d+)?", compact):
        raise ConfigError(
            f"{text!r} has no unit", hint=f"Write {compact}s for seconds, {compact}m for minutes."
        )
    if re.fullmatch(r"\d{1,9}(:\d{1,9})+", compact):
        raise ConfigError(f"{text!r} is a time of day, not a duration", hint=_clock_hint(compact))
    if _WHOLE.fullmatch(compact) is None:
        raise ConfigError(f"{text!r} is not a duration", hint=_EXAMPLE)
    parts = _PART.findall(compact)
    ranks = [_ORDER.index(unit) for _, unit in parts]
    if any(left <= right for left, right in pairwise(ranks)):
        raise ConfigError(f"{text!r} is not a duration: longer units come first, each once", hint=_EXAMPLE)
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds > _LONGEST_S:
        raise ConfigError(f"{text!r} is longer than a year", hint=_EXAMPLE)
    return seconds


def render_duration(seconds: float) -> str:
    """The same seconds for people, to the millisecond, as ``parse_duration`` reads them."""
    milliseconds = round(seconds * 1000)
    parts = []
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def render_exact_duration(seconds: float) -> str:
    """The same seconds as text that ``parse_duration`` reads back, exactly: a study goes on with them."""
    text = render_duration(seconds)
    return text if parse_duration(text) == seconds else f"{Decimal(repr(seconds)):f}s"


def render_rest(seconds: float) -> str:
    """About how long something still takes, in two units at most: ``2 h 05 min``, ``40 s``."""
    whole = max(0, round(seconds))
    if whole < 90:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def until(end_wall_s: float, now_wall_s: float) -> str:
    """The end of a sentence: ``, until 16:53``, with the day where that is a day or more ahead.

    Empty beyond ten years. Times are of the box's own zone.
    """
    ahead_s = end_wall_s - now_wall_s
    if ahead_s > _FORESEEN_S:
        return ""
    end = datetime.fromtimestamp(end_wall_s)
    return f", until {end:%H:%M}" if ahead_s < _DAY_S else f", until {end:%Y-%m-%d %H:%M}"


def _clock_hint(compact: str) -> str:
    head, tail = compact.split(":")[:2]
    return f"Write {int(head)}h{int(tail)}m or {int(head)}m{int(tail)}s."
