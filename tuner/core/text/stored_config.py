"""The settings of a study, as its file keeps them: JSON text that is read here and nowhere else."""

from __future__ import annotations

import json
from typing import Any


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
