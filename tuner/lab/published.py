"""The published figures that come with tuner."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import yaml


def read_published() -> dict[str, Any]:
    """What ``published.yaml`` has: a block for each publication."""
    text = files("tuner.lab").joinpath("published.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found
