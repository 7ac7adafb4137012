"""What counts the items of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.config.surroundings import Surroundings
from tuner.ports import CrossCheck, Probe

if TYPE_CHECKING:
    from tuner.config.probes import ProbeSettings
    from tuner.config.settings import Settings

CROSS_CHECK_WITHIN = 0.02  #: of a window's items, unless told otherwise


def cross_check_of(settings: Settings, around: Surroundings) -> CrossCheck | None:
    """The second probe that *settings* ask for, if any; ConfigError as for ``probe_of``."""
    service = settings.service
    if service.cross_check is None:
        return None
    within = CROSS_CHECK_WITHIN if service.cross_check_within is None else service.cross_check_within
    names = f"probe {service.probe.kind}", f"cross_check {service.cross_check.kind}"
    return CrossCheck(probe_of(service.cross_check, settings, around), within, names)


def probe_of(asked: ProbeSettings, settings: Settings, around: Surroundings) -> Probe:
    """The probe that is *asked* for, of the service of *settings*.

    Raises:
        ConfigError: it could never count here.
    """
    return asked.build(settings, around)
