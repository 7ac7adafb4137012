"""Numbers and durations: parsed strictly, and printed in sentences (``2 %``, ``24 cores``, ``1h30m``)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, NoReturn, TypeVar

from tuner.core.errors import ConfigError

T = TypeVar("T")

_ROUNDING_PERCENT = 1e-9  #: sums of floats leave a smaller rest, which counts as 0


def percent(ratio: float) -> str:
    """Format a share: ``2 %``; small ones keep two digits."""
    shown = 100 * ratio
    if abs(shown) < _ROUNDING_PERCENT:
        return "0 %"
    if shown >= 100:
        return f"{shown:.0f} %"
    return f"{shown:.3g} %" if shown >= 1 else f"{shown:.2g} %"


def per_second(value: float) -> str:
    """Format a rate of items: ``70.25/s``, ``12346/s``."""
    return f"{value:.0f}/s" if value >= 1000 else f"{value:.4g}/s"


def pluralize(count: float, thing: str, digits: str = "g") -> str:
    """Format a count of *thing*: ``1 core``, ``1.5 cores``, ``3 launches``; *digits* formats a float."""
    shown = f"{count}" if isinstance(count, int) else f"{count:{digits}}"
    return f"{shown} {thing if shown == '1' else _plural(thing)}"


def busy_cores(count: float) -> str:
    """Format a mean number of busy cores: ``0.15 core``, ``2.00 cores``."""
    return f"{count:.2f} {'core' if round(count, 2) <= 1 else 'cores'}"


def format_block(block: int) -> str:
    """Format a block by its number from 0: ``block 1``; ``before block 1`` if it does not count."""
    return f"block {block + 1}" if block >= 0 else "before block 1"


def list_names(names: Sequence[object], most: int = 10) -> str:
    """Format a list for a sentence: *most* names and the number of the rest, or *most* + 1 names."""
    first = first_of(names, most)
    shown = ", ".join(map(str, first))
    return shown if len(first) == len(names) else f"{shown} and {len(names) - most} more"


def first_of(things: Sequence[T], most: int) -> Sequence[T]:
    """Return the first *most* things, or all if there is only one more (so no text says "1 more")."""
    return things if len(things) <= most + 1 else things[:most]


def _plural(thing: str) -> str:
    return f"{thing}es" if thing.endswith(("s", "ch", "x")) else f"{thing}s"


# Amounts of memory: ``8G``, ``512M``, ``1.5GiB``, ``8GB``.


_EXAMPLE = "Write a number with its unit, as 512M, 8G or 1.5GiB (powers of 1024), or 8GB (of 1000)."
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt])(i?b)?", re.ASCII)
_PREFIXES = "kmgt"
_UNITS = ("kB", "MB", "GB", "TB")  #: units of all printed figures: docs/words.md
_LARGEST = 1024.0**5


def parse_size(text: str) -> float:
    """Read an amount of memory in bytes.

    ``8G`` and ``8GiB`` are 8 x 1024^3, as in systemd and Docker; ``8GB`` is 8 x 1000^3.

    Raises:
        ConfigError: no unit, an unknown one, nothing at all, or too much.
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
    """Format bytes with three figures, in powers of 1000: ``8 GB``, ``7.98 GB``, ``82 kB``."""
    power = 1 if size < 1e6 else 2 if size < 1e9 else 3 if size < 1e12 else 4
    scaled = size / 1000**power
    whole = f"{scaled:.0f}"
    return f"{whole if len(whole) >= 3 else f'{scaled:.3g}'} {_UNITS[power - 1]}"


def format_kept_size(kept: str) -> str:
    """Format a size that a study stores in GiB; other texts are returned unchanged."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) GiB", kept)
    return kept if match is None else render_size(float(match[1]) * 1024**3)


# Durations: ``10m``, ``30s``, ``1h30m``.


_DURATION_EXAMPLE = "Write a number with its unit, as 30s, 10m, 1h30m or 8h."
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_UNITS = "|".join(_SECONDS)
_PART = re.compile(rf"(\d+(?:\.\d+)?)({_DURATION_UNITS})", re.ASCII)
_WHOLE = re.compile(rf"(?:\d+(?:\.\d+)?(?:{_DURATION_UNITS}))+", re.ASCII)
_ORDER = list(_SECONDS)
_DAY_S = 86400.0
_LONGEST_S = 366 * _DAY_S
_FORESEEN_S = 10 * _LONGEST_S


def parse_duration(text: str) -> float:
    """Read a duration in seconds, 0 or more.

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
        raise ConfigError(f"{text!r} is not a duration", hint=_DURATION_EXAMPLE)
    parts = _PART.findall(compact)
    ranks = [_ORDER.index(unit) for _, unit in parts]
    if any(left <= right for left, right in pairwise(ranks)):
        raise ConfigError(
            f"{text!r} is not a duration: longer units come first, each once", hint=_DURATION_EXAMPLE
        )
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds > _LONGEST_S:
        raise ConfigError(f"{text!r} is longer than a year", hint=_DURATION_EXAMPLE)
    return seconds


def render_duration(seconds: float) -> str:
    """Format seconds, to the millisecond, in the form that ``parse_duration`` reads."""
    milliseconds = round(seconds * 1000)
    parts = []
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def render_exact_duration(seconds: float) -> str:
    """Format seconds so that ``parse_duration`` reads back the exact value, for resumed studies."""
    text = render_duration(seconds)
    return text if parse_duration(text) == seconds else f"{Decimal(repr(seconds)):f}s"


def render_rest(seconds: float) -> str:
    """Format a remaining time approximately, in two units at most: ``2 h 05 min``, ``40 s``."""
    whole = max(0, round(seconds))
    if whole < 90:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def until(end_wall_s: float, now_wall_s: float) -> str:
    """Format the end of a sentence: ``, until 16:53``, with the date if that is a day or more ahead.

    Empty beyond ten years. Times are in the host's time zone.
    """
    ahead_s = end_wall_s - now_wall_s
    if ahead_s > _FORESEEN_S:
        return ""
    end = datetime.fromtimestamp(end_wall_s)
    return f", until {end:%H:%M}" if ahead_s < _DAY_S else f", until {end:%Y-%m-%d %H:%M}"


def _clock_hint(compact: str) -> str:
    head, tail = compact.split(":")[:2]
    return f"Write {int(head)}h{int(tail)}m or {int(head)}m{int(tail)}s."


# Numbers and JSON that other programs write, read strictly.


# A growing total from counts that restart at 0 when their program is restarted.


@dataclass(frozen=True, slots=True)
class Fall:
    """A count that restarted."""

    series: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Segments:
    """The sum of all counts since the first reading, over all series and their restarts."""

    total: float = 0
    #: last value of each series, including series that have disappeared; None: not read yet
    latest: Mapping[str, float] | None = None
    falls: tuple[Fall, ...] = ()  #: falls in the order of their detection
    n_falls: Mapping[str, int] = field(default_factory=dict)  #: number of falls per series


def join_segments(before: Segments, counts: Mapping[str, float]) -> Segments:
    """Add the next reading of all series to *before*.

    Counting begins at the first reading. A later series counts from 0, and so does one that fell, because its
    program was restarted. Counts between the last reading and the restart are lost.
    """
    if before.latest is None:
        return Segments(latest=dict(counts))
    falls = [
        Fall(series, before.latest[series], count)
        for series, count in counts.items()
        if count < before.latest.get(series, 0)
    ]
    fallen = {fall.series for fall in falls}
    grown = sum(
        count - (0 if series in fallen else before.latest.get(series, 0)) for series, count in counts.items()
    )
    return Segments(
        total=before.total + grown,
        latest={**before.latest, **counts},
        falls=(*before.falls, *falls),
        n_falls={**before.n_falls, **{series: before.n_falls.get(series, 0) + 1 for series in fallen}},
    )


LARGEST_COUNT = 2**53  #: largest number up to which a float represents every whole number


def is_count(number: float) -> bool:
    """Return whether *number* can be a total of items: not negative, and exact as a float."""
    return math.isfinite(number) and 0 <= number <= LARGEST_COUNT


# JSON of other programs, read strictly: text that parsers may read in different ways is refused.


def parse_json(text: str | bytes, *, allow_control_characters: bool = False) -> Any:
    """Parse *text* as JSON.

    Args:
        allow_control_characters: strings may contain them unescaped, as some programs write them.

    Raises:
        ValueError: it is not JSON, has a key twice or NaN, or is nested too deeply.
    """
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_refuse,
            strict=not allow_control_characters,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice[:80]!r} stands twice in an object")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")
