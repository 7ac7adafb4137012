"""Any web server as a service: ``--service web`` has tuner send requests and count the answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.core.doctor.bound_ports import bound_ports

WEB = "web"
_FEEDER_KEYS = ("url", "clients")


def web_script(asked: Mapping[str, Any], words: tuple[str, ...]) -> dict[str, Any]:
    """The section of a script for a web server that tuner does not know, made of the one that was *asked*."""
    environment = asked.get("environment")
    values = [*words, *map(str, environment.values() if isinstance(environment, Mapping) else ())]
    given = {key: asked[key] for key in _FEEDER_KEYS if key in asked}
    feeder: dict[str, Any] = {"kind": "http", "url": url_of(words), **given}
    if "url" not in given:
        feeder["find_address"] = "yes"
    return {
        "programs": "one" if any("{processes}" in value for value in values) else "each",
        "threads": "yes" if any("{threads}" in value for value in values) else "no",
        "probe": {"kind": "generator"},
        "feeder": feeder,
        **{key: value for key, value in asked.items() if key not in _FEEDER_KEYS},
        "kind": "script",
    }


def url_of(words: tuple[str, ...]) -> str:
    """Where a server with this command may listen: found out once it runs."""
    ports = sorted(bound_ports(words))
    return f"http://127.0.0.1:{ports[0] if ports else 8000}/"
