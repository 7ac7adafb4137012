"""Free memory, files, processes and ports that a study needs on this host, and the free amounts."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.bootstrap.parts.services import http_feeder_of, owner
from tuner.core.defaults import REPEATS
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.messages.host import unfit
from tuner.doctor.limits import check_ports
from tuner.doctor.room import FolderSeen, Planned, Room, room_findings, study_bytes, sum_needs, too_large
from tuner.doctor.service import blockers
from tuner.ports import Warn

if TYPE_CHECKING:
    from tuner.adapters.feeders.http import HttpFeeder
    from tuner.config.service import CrashProcessorSettings, ScriptSettings
    from tuner.config.settings import Settings
    from tuner.ports import Feeder

_COUNTERS_BYTES_PER_PROCESS = 65_536


def warn_blockers(
    settings: Settings, layouts: Sequence[Layout], spec: ServiceSpec, study: Path | None, warn: Warn
) -> None:
    """Warn, before a study begins, of each resource of this host that is too small; quick checks only."""
    for finding in blockers(room_findings(room_of(settings, layouts, spec, study))):
        warn(*unfit(finding.check, finding.found, finding.effect, finding.cure))


def room_of(settings: Settings, layouts: Sequence[Layout], spec: ServiceSpec, study: Path | None) -> Room:
    """Return the needs of a study of *layouts* and the resources of this host. *study* is its file; None: the
    file is on another host."""
    from tuner.adapters.supervisord.config import supervisord_files
    from tuner.doctor.limits import read_limits

    service = settings.service
    shapes = [spec.of(layout).shape(layout) for layout in layouts]
    extra = max((one.max_extra_threads or 0 for one in spec.each_variant), default=0)
    user = owner(settings)
    return Room(
        need=sum_needs(
            shapes,
            extra_threads=extra,
            has_children=service.kind == "crash-processor",
            of_supervisord=supervisord_files(max(spec.of(layout).n_programs(layout) for layout in layouts)),
            of_generator=connections_of_generator(service, layouts),
        ),
        limits=read_limits(dict(spec.limits), os.geteuid() if user is None else user[0]),
        folders=tuple(_folders(settings, layouts, study)),
        ports=tuple(check_ports(settings, spec)),
    )


def connections_of_generator(
    service: CrashProcessorSettings | ScriptSettings, layouts: Sequence[Layout]
) -> int:
    """Return the number of connections that the load generator needs; 0: there is none."""
    return service.feeder.connections_for(layouts) if service.kind == "script" else 0


def _folders(settings: Settings, layouts: Sequence[Layout], study: Path | None) -> Iterator[FolderSeen]:
    from tuner.doctor.limits import read_folder, temporary_folder

    asked, service = settings.study, settings.service
    if study is not None:
        planned = Planned(
            n_layouts=len(layouts),
            n_blocks=(asked.repeats or REPEATS) if asked.strategy == "all" else 0,
            windows_per_launch=asked.windows_per_launch or 1,
            window_s=asked.window,
            budget_s=asked.budget,
        )
        yield read_folder(study.absolute().parent, "the study's file", study_bytes(planned))
    scratch_bytes = 0
    if service.kind == "crash-processor":
        scratch_bytes = _spool_bytes(service, layouts)
        if service.spool is not None:
            yield read_folder(service.spool, "the spool", scratch_bytes)
            scratch_bytes = 0
    what = "the spool" if scratch_bytes else "files and logs of launches"
    yield read_folder(temporary_folder(), what, scratch_bytes, has_logs=True)
    if service.probe.kind == "mmap-counter":
        processes = max(layout.processes for layout in layouts)
        size = _COUNTERS_BYTES_PER_PROCESS * processes
        yield read_folder(shared_memory() or temporary_folder(), "counters of the workers", size)


def _spool_bytes(service: CrashProcessorSettings, layouts: Sequence[Layout]) -> int:
    """Return the bytes still to be written to the spool; 0: it holds items already, and keeps them."""
    from tuner.adapters.feeders.spool import SpoolFeeder
    from tuner.doctor.room import LARGEST_SYMBOLS_BYTES, copied_spool_bytes, synthetic_spool_bytes
    from tuner.services.crash_processor import copies_of, dumps_in, items_for

    with suppress(OSError):  # another check reports an unreadable spool
        if service.spool is not None and not SpoolFeeder(service.spool, ()).is_dry():
            return 0
    n_items = service.items or items_for(layouts, service.options)
    if service.dumps is None:
        return synthetic_spool_bytes(n_items, service.symbols_bytes or LARGEST_SYMBOLS_BYTES)
    sizes = [path.stat().st_size for path in dumps_in(service.dumps) if path.is_file()]
    return copied_spool_bytes(sizes, copies_of(len(sizes), n_items))


def refusing(
    settings: Settings, spec: ServiceSpec, asked: Sequence[Layout], feeder: Feeder
) -> Callable[[Layout], str | None]:
    """Return a function that gives the reason, as part of a sentence, why this host or the feeder has no room
    for a layout; None: it fits.

    *asked* are the layouts of the study before its grid grows: the size of its spool and the number of
    clients of its *feeder* were chosen for these.
    """
    from tuner.adapters.supervisord.config import supervisord_files
    from tuner.doctor.limits import read_limits

    service, user = settings.service, owner(settings)
    seen = read_limits(dict(spec.limits), os.geteuid() if user is None else user[0])
    extra = max((one.max_extra_threads or 0 for one in spec.each_variant), default=0)

    sender = http_feeder_of(feeder, settings)

    def refuses(layout: Layout) -> str | None:
        own = spec.of(layout)
        clients = None if sender is None else sender.clients_of(layout)
        need = sum_needs(
            [own.shape(layout)],
            extra_threads=extra,
            has_children=service.kind == "crash-processor",
            of_supervisord=supervisord_files(own.n_programs(layout)),
            of_generator=clients or connections_of_generator(service, [layout]),
        )
        return _why_not_fed(settings, layout, asked, sender) or too_large(need, seen)

    return refuses


def _why_not_fed(
    settings: Settings, layout: Layout, asked: Sequence[Layout], feeder: HttpFeeder | None
) -> str | None:
    from tuner.core.domain.load import MOST_CLIENTS, first_clients

    service = settings.service
    if service.kind == "crash-processor":
        from tuner.services.crash_processor import items_for

        filled = service.items or items_for(asked, service.options)
        return (
            None
            if items_for([layout], service.options) <= filled
            else f"{layout} needs a larger spool than the one of this study (service.items)"
        )
    if feeder is None or (clients := feeder.clients_of(layout)) is None:
        return None
    if clients < (least := first_clients([layout])):
        return f"{layout} needs {least} clients of the load generator, which has {clients} (--clients)"
    if feeder.found is not None and clients > MOST_CLIENTS:
        return f"{layout} needs {clients} clients of the load generator, and {MOST_CLIENTS} is the most"
    return None


# Folders of this host that are in memory.


def counter_root() -> Path:
    """Return the folder for the workers' counters: in memory if possible, because disk writes cost time."""
    return shared_memory() or Path(tempfile.gettempdir())


def shared_memory() -> Path | None:
    """Return a writable folder in memory; None: there is none."""
    folder = Path("/dev/shm")
    return folder if os.access(folder, os.W_OK | os.X_OK) else None
