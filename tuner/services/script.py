"""A worker of the user's own: its command, run as it is."""

from __future__ import annotations

from tuner.core.domain.service import Gate, ServiceSpec
from tuner.services.running import Running

GATE: Gate = "none"
GATE_REASON = "Whether its processes can be frozen is not known; if they can, set gate: freeze."


def script(name: str, command: tuple[str, ...], running: Running) -> ServiceSpec:
    """The service; too many OS threads are noticed only when the user says how many more there may be."""
    return running.spec(name, command)
