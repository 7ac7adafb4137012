"""Looks at this box as a study of some settings would find it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.bootstrap.asked import REPEATS, whole_cores
from tuner.bootstrap.backends import backends_found
from tuner.bootstrap.boxes import counter_root
from tuner.bootstrap.doctor_service import interpreters_seen, ports_seen, servers_seen, tools_seen
from tuner.bootstrap.feeders import StudyName
from tuner.bootstrap.services import owner, service_of
from tuner.core.doctor.examined import BoxSeen, Room, examined, room_findings
from tuner.core.doctor.finding import Finding, blockers
from tuner.core.doctor.room import FolderSeen, Planned, needed, spool_bytes, study_bytes
from tuner.core.doctor.service import LockSeen
from tuner.core.errors import ConfigError
from tuner.core.layout import Layout
from tuner.core.service import ServiceSpec
from tuner.core.validity import foreign_limit_cores

if TYPE_CHECKING:
    from tuner.config.service import CrashProcessorSettings, ScriptSettings
    from tuner.config.settings import Settings

Warn = Callable[[str, str], None]  #: gets a slug of docs/messages.md and a text

_OUTSTANDING = 1000  #: requests at once, of a rate
_COUNTERS_BYTES_PER_PROCESS = 65_536


def box_examined(settings: Settings, study: Path, seconds: float) -> tuple[Finding, ...]:
    """What of this box a study of *settings*, kept in *study*, would suffer from; the worst first.

    Takes *seconds* to see who else uses the box; 0: nobody looks. Nothing is changed, and nothing started but
    interpreters that tell what they are.

    Raises:
        ConfigError: the settings ask for nothing that could be measured.
    """
    from tuner.adapters.box_lock import holder_of, usual_path
    from tuner.adapters.clock import SystemClock
    from tuner.adapters.container import container_here
    from tuner.adapters.doctor.box import cores_seen, kernel_seen
    from tuner.adapters.doctor.neighbours import neighbours_seen

    cores = settings.study.cores or whole_cores(cores_seen(1).offered)
    layouts = settings.layouts_for(cores)
    if not layouts:
        raise ConfigError(
            f"every layout opens more than {settings.study.max_connections} connections",
            hint="Raise --max-connections, or say what a process opens: service.connections.",
        )
    seen = cores_seen(cores)
    spec = _spec(settings, layouts)
    limit = foreign_limit_cores(seen.offered, settings.study.foreign_limit)
    neighbours, container = None, container_here()
    if seconds:
        found = backends_found(settings, spec, lambda _slug, _text: None)()
        named = settings.backends or ()
        neighbours = neighbours_seen(
            SystemClock(), seconds, limit, backends=named, found=found, container=container
        )
    return examined(
        BoxSeen(
            cores=seen,
            neighbours=neighbours,
            kernel=kernel_seen(container=container),
            lock=LockSeen(str(usual_path()), holder_of(usual_path())),
            tools=tuple(tools_seen(settings, spec, cores)),
            room=room_of(settings, layouts, spec, study),
            servers=tuple(servers_seen(settings, spec)),
            interpreters=dict(interpreters_seen(settings, spec, layouts)),
        )
    )


def tell_what_blocks(
    settings: Settings, layouts: Sequence[Layout], spec: ServiceSpec, study: Path, warn: Warn
) -> None:
    """Before a study begins: one line for each thing that it will not fit, as far as that is quick to see."""
    for finding in blockers(room_findings(room_of(settings, layouts, spec, study))):
        warn("unfit", f"{finding.check}: {finding.found}: {finding.effect}; {finding.cure}")


def room_of(settings: Settings, layouts: Sequence[Layout], spec: ServiceSpec, study: Path) -> Room:
    """What a study of *layouts*, kept in *study*, needs, and what there is."""
    from tuner.adapters.doctor.limits import limits_seen
    from tuner.adapters.supervisord_config import supervisord_files

    service = settings.service
    shapes = [spec.of(layout).shape(layout) for layout in layouts]
    extra = max((one.max_extra_threads or 0 for one in spec.each_variant), default=0)
    user = owner(settings)
    return Room(
        need=needed(
            shapes,
            extra_threads=extra,
            has_children=service.kind == "crash-processor",
            of_supervisord=supervisord_files(max(spec.of(layout).n_programs(layout) for layout in layouts)),
            of_generator=_connections(service, layouts),
        ),
        limits=limits_seen(dict(spec.limits), os.geteuid() if user is None else user[0]),
        folders=tuple(_folders(settings, layouts, study)),
        ports=tuple(ports_seen(settings, spec)),
    )


def _spec(settings: Settings, layouts: Sequence[Layout]) -> ServiceSpec:
    scratch = Path("/nowhere")  # named in commands; never made
    spec, _ = service_of(settings, layouts, StudyName("", ""), scratch, lambda _slug, _text: None)
    return spec


def _connections(service: CrashProcessorSettings | ScriptSettings, layouts: Sequence[Layout]) -> int:
    """Of the load generator; 0 where there is none."""
    if service.kind != "script" or service.feeder.kind != "http":
        return 0
    fed = service.feeder
    if fed.rate is not None:
        return fed.max_outstanding or _OUTSTANDING
    return fed.connections or 2 * max(layout.total_threads for layout in layouts)


def _folders(settings: Settings, layouts: Sequence[Layout], study: Path) -> Iterator[FolderSeen]:
    from tuner.adapters.doctor.limits import folder_seen, temporary_folder

    asked, service = settings.study, settings.service
    n_items = 0
    if service.kind == "crash-processor":
        from tuner.services.crash_processor import items_for

        n_items = service.items or items_for(layouts, service.options)
    planned = Planned(
        n_layouts=len(layouts),
        n_blocks=(asked.repeats or REPEATS) if asked.strategy == "all" else 0,
        windows_per_launch=asked.windows_per_launch or 1,
        window_s=asked.window,
        budget_s=asked.budget,
        n_items=n_items,
    )
    yield folder_seen(study.absolute().parent, "the study's file", study_bytes(planned))
    own = service.spool if service.kind == "crash-processor" else None
    if own is not None:
        yield folder_seen(own if own.is_dir() else own.parent, "the spool", spool_bytes(planned))
    scratch = 0 if own is not None else spool_bytes(planned)
    what = "the spool" if scratch else "what launches write and log"
    yield folder_seen(temporary_folder(), what, scratch)
    if service.probe.kind == "mmap-counter":
        processes = max(layout.processes for layout in layouts)
        size = _COUNTERS_BYTES_PER_PROCESS * processes
        yield folder_seen(counter_root(), "what workers count in", size)
