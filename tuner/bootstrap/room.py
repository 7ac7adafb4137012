"""Whether a layout that a grid would grow by has room on this box."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tuner.core.doctor.room import needed, too_large
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec

if TYPE_CHECKING:
    from tuner.config.settings import Settings
    from tuner.ports import Feeder


def refusing(
    settings: Settings, spec: ServiceSpec, asked: Sequence[Layout], feeder: Feeder
) -> Callable[[Layout], str | None]:
    """Gives why a layout does not fit this box or what feeds it, as part of a sentence; None: it does.

    *asked* are the layouts of the study before its grid grows: its spool was filled for these, and the
    clients of its *feeder* were found for these.
    """
    from tuner.adapters.doctor.limits import limits_seen
    from tuner.adapters.feeders.http import HttpFeeder
    from tuner.adapters.supervisord.config import supervisord_files
    from tuner.bootstrap.doctor import connections_of_generator
    from tuner.bootstrap.parts.services import owner

    service, user = settings.service, owner(settings)
    seen = limits_seen(dict(spec.limits), os.geteuid() if user is None else user[0])
    extra = max((one.max_extra_threads or 0 for one in spec.each_variant), default=0)

    def refuses(layout: Layout) -> str | None:
        own = spec.of(layout)
        clients = feeder.clients_of(layout) if isinstance(feeder, HttpFeeder) else None
        need = needed(
            [own.shape(layout)],
            extra_threads=extra,
            has_children=service.kind == "crash-processor",
            of_supervisord=supervisord_files(own.n_programs(layout)),
            of_generator=clients or connections_of_generator(service, [layout]),
        )
        return _not_fed(settings, layout, asked, feeder) or too_large(need, seen)

    return refuses


def _not_fed(settings: Settings, layout: Layout, asked: Sequence[Layout], feeder: Feeder) -> str | None:
    from tuner.adapters.feeders.http import HttpFeeder
    from tuner.core.settings.clients import MOST_CLIENTS, first_clients

    service = settings.service
    if service.kind == "crash-processor":
        from tuner.services.crash_processor import items_for

        filled = service.items or items_for(asked, service.options)
        return (
            None
            if items_for([layout], service.options) <= filled
            else f"{layout} needs a larger spool than the one of this study (service.items)"
        )
    if not isinstance(feeder, HttpFeeder) or (clients := feeder.clients_of(layout)) is None:
        return None
    if clients < (least := first_clients([layout])):
        return f"{layout} needs {least} clients of the load generator, which has {clients} (--clients)"
    if feeder.found is not None and clients > MOST_CLIENTS:
        return f"{layout} needs {clients} clients of the load generator, and {MOST_CLIENTS} is the most"
    return None
