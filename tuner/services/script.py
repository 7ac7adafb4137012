"""A worker of the user's own: its command, run as it is."""

from __future__ import annotations

from tuner.core.domain.service import ServiceSpec
from tuner.services.running import Running


def script(name: str, command: tuple[str, ...], running: Running) -> ServiceSpec:
    """The service; too many OS threads are noticed only when the user says how many more there may be."""
    return running.spec(name, command)
