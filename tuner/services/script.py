"""Service specification of a user's own command, which tuner runs unchanged."""

from __future__ import annotations

from tuner.core.domain.service import Gate, ServiceSpec
from tuner.services.running import Running

GATE: Gate = "none"
GATE_REASON = "Whether its processes can be frozen is not known; if they can, set gate: freeze."


def script(name: str, command: tuple[str, ...], running: Running) -> ServiceSpec:
    """The service; too many OS threads are noticed only when the user says how many more there may be."""
    return running.spec(name, command)
