"""Whether layouts can take turns in slices, and how a started layout is kept idle meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.domain.service import Gate
from tuner.core.text.address import bound_ports
from tuner.services.catalogue import known_services

if TYPE_CHECKING:
    from tuner.config.service import ScriptSettings
    from tuner.config.settings import Settings

_RATE_REASON = (
    "At a fixed rate, requests may wait for longer than a slice, so latencies in slices would be too short."
)
_LIMIT_REASON = "A safety limit would count the load and memory of all started layouts together."


def gate_of(settings: Settings) -> tuple[Gate, str]:
    """Return the gate of the service of *settings*, and the reason for it in a sentence."""
    service = settings.service
    if service.kind == "script" and service.record not in (None, *known_services()):
        return "none", f"The record of {service.record} is not installed on this host."
    if service.kind == "script" and service.feeder.kind == "http" and not service.feeder.has_closed_loop:
        return "none", _RATE_REASON
    if service.gate is not None:
        return service.gate, f"The config sets gate: {service.gate}."
    if service.kind == "crash-processor":
        from tuner.services.crash_processor import GATE, GATE_REASON

        return GATE, GATE_REASON
    return _gate_of_script(settings, service)


def shared_by_layouts(settings: Settings) -> str:
    """Return a sentence on a resource that several started layouts cannot share; empty: none."""
    service = settings.service
    if service.kind == "crash-processor":
        return "All layouts would use the same spool." if service.spool is not None else ""
    if gate_of(settings)[0] == "feed":
        if service.feeder.kind == "queue":
            from tuner.bootstrap.parts.own_sources import why_no_separate_queue

            return why_no_separate_queue(settings)
        from tuner.bootstrap.parts.own_sources import port_of

        known = port_of(settings) is not None
        return "" if known else "The command names no single port that tuner can replace for each layout."
    if service.feeder.kind != "none":
        return f"All layouts would be fed from the same source, {service.feeder.kind}."
    if ports := bound_ports(service.command):
        return f"All layouts would listen at port {min(ports)}."
    return ""


def _gate_of_script(settings: Settings, service: ScriptSettings) -> tuple[Gate, str]:
    if service.record is None:
        if service.feeder.kind == "http":
            from tuner.services.http_address import GATE_REASON as BY_REQUESTS

            return "feed", BY_REQUESTS
        from tuner.services.running import GATE, GATE_REASON

        return GATE, GATE_REASON
    record = known_services()[service.record]
    if record.gate != "feed":
        return record.gate, record.gate_reason
    if not service.feeder.can_pause:
        return "none", f"{record.gate_reason} This study has no feeder that can pause."
    if service.feeder.kind == "queue":
        from tuner.bootstrap.parts.own_sources import why_no_separate_queue

        if why := why_no_separate_queue(settings):
            return "none", why
    return record.gate, record.gate_reason


def takes_turns(settings: Settings, *, is_simulated: bool, on_fleet: bool = False) -> tuple[int, str]:
    """Return the most layouts that take turns, 1 for none, and the reason in a sentence."""
    from tuner.core.windows.slices import MOST_RESIDENT

    if on_fleet:
        return 1, "On a fleet each host runs one launch at a time."
    if is_simulated:
        return MOST_RESIDENT, ""
    gate, reason = gate_of(settings)
    if gate == "none":
        return 1, reason
    if shared := shared_by_layouts(settings):
        return 1, shared
    brake = settings.brake
    if brake is not None and (brake.load, brake.memory, brake.command) != (None, None, None):
        return 1, _LIMIT_REASON
    return MOST_RESIDENT, reason


def poll_interval_s(settings: Settings) -> float:
    """Return the seconds after which an idle worker of the service polls for items again; 0: at once."""
    service = settings.service
    if service.kind != "script" or service.record is None:
        return 0.0
    return known_services()[service.record].poll_interval_s
