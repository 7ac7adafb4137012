"""JSON that others write, read strictly: what two readers would read differently is refused."""

from __future__ import annotations

import json
from typing import Any, NoReturn


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
