"""The check whether a launch is ready to work, as its config asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout

if TYPE_CHECKING:
    from tuner.adapters.supervisord.ready import Readiness
    from tuner.config.settings import Settings


def ready_of(settings: Settings) -> Callable[[Layout], Readiness | None]:
    """Tells how a launch of a layout shows that it is ready; None: what runs is ready."""
    from tuner.adapters.supervisord.ready import Readiness

    def readiness(layout: Layout) -> Readiness | None:
        service = settings.service_in(layout.variant)
        if service.ready is None:
            return None
        return Readiness(service.ready.build(layout, service.directory), service.ready.within)

    return readiness
