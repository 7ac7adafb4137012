"""Numbers and JSON that other programs write, read strictly."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

# One total that only grows, out of counts that begin anew when whoever counts is restarted.


@dataclass(frozen=True, slots=True)
class Fall:
    """A count that began anew."""

    series: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Segments:
    """What was counted since the first look, over all series and all their restarts."""

    total: float = 0
    #: series -> what it showed last; one that is gone is kept, and None stands for: not looked yet
    latest: Mapping[str, float] | None = None
    falls: tuple[Fall, ...] = ()  #: in the order they were seen
    n_falls: Mapping[str, int] = field(default_factory=dict)  #: by series


def join_segments(before: Segments, counts: Mapping[str, float]) -> Segments:
    """*before* with the next look at all series.

    The first look is where counting begins. A series that comes later counts from 0, and so does one that
    fell: who counted it was started anew. What was counted between the last look and the restart is lost.
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


LARGEST_COUNT = 2**53  #: up to it a float tells every whole number; beyond it one item more is not seen


def is_count(number: float) -> bool:
    """Whether *number* can be a total of items: neither negative nor beyond what is told exactly."""
    return math.isfinite(number) and 0 <= number <= LARGEST_COUNT


# JSON that others write, read strictly: what two readers would read differently is refused.


def parse_json(text: str | bytes, *, allow_control_characters: bool = False) -> Any:
    """The value of *text*.

    Args:
        allow_control_characters: a string may hold them as they are, as some writers leave them.

    Raises:
        ValueError: it is no JSON, holds a key twice or NaN, or is nested deeper than any answer is.
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
