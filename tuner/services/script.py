"""Service specification of a user's own command, which tuner runs unchanged."""

from __future__ import annotations

from tuner.core.domain.service import Gate, ServiceSpec
from tuner.services.running import Running

GATE: Gate = "none"
GATE_REASON = "Whether its processes can be frozen is not known; if they can, set gate: freeze."


def script(name: str, command: tuple[str, ...], running: Running) -> ServiceSpec:
    """Return the service; too many OS threads are detected only if the user limits the extra ones."""
    return running.spec(name, command)
