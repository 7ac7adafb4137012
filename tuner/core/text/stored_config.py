"""The settings of a study, as its file keeps them: JSON text that is read here and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

# What differs between the settings a study was begun with and others.

_ABSENT = object()
#: settings of a known service that say what to look at, not what runs: older studies go on without them
_LOOKED_AT = ("os_threads",)


def list_changed_settings(kept: str, given: str) -> list[str]:
    """One line per setting that differs, as ``study.window: 600 in the study, 60 given``; empty: none does.

    Args:
        kept: settings as JSON, as the study file has them.
        given: settings as JSON, as they would be now.
    """
    return list(_differences(json.loads(kept), json.loads(given), ""))


def _differences(kept: Any, given: Any, place: str) -> Iterator[str]:
    if isinstance(kept, Mapping) and isinstance(given, Mapping):
        for name in dict.fromkeys([*kept, *given]):
            below = f"{place}.{name}" if place else name
            if name in _LOOKED_AT and _is_nothing(kept.get(name, _ABSENT)):
                continue
            yield from _differences(kept.get(name, _ABSENT), given.get(name, _ABSENT), below)
    elif kept != given and not (_is_nothing(kept) and _is_nothing(given)):
        yield f"{place}: {_show(kept)} in the study, {_show(given)} given"


def _is_nothing(value: Any) -> bool:
    """Not set, empty, or a setting that the tuner of the time did not have."""
    return value is _ABSENT or value is None or value in ([], {})


def _show(value: Any) -> str:
    return "nothing" if _is_nothing(value) else json.dumps(value, ensure_ascii=False)


def parse_stored_config(text: str) -> dict[str, Any]:
    """Parse the settings in *text*, a study's ``config``; the caller owns the result.

    Returns:
        The sections by name: ``service`` and ``study``, or ``study`` and ``simulate``. Empty where the study
        keeps no settings, or something else than a mapping.

    Raises:
        ValueError: *text* is not JSON.
    """
    found: Any = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}


def parse_stored_service(text: str) -> dict[str, Any]:
    """Parse the service section of a study's ``config``; empty where no service ran.

    Raises:
        ValueError: *text* is not JSON.
    """
    found = parse_stored_config(text).get("service")
    return found if isinstance(found, dict) else {}
