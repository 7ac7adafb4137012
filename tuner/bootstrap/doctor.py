"""Looks at this box as a study of some settings would find it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.bootstrap.boxes import shared_memory
from tuner.bootstrap.doctor_queue import queue_seen
from tuner.bootstrap.doctor_service import interpreters_seen, ports_seen, servers_seen, tools_seen
from tuner.bootstrap.parts.backends import backends_found
from tuner.bootstrap.parts.commands import counter_seen, threads_seen
from tuner.bootstrap.parts.services import owner, service_of
from tuner.bootstrap.plan_builder import REPEATS, layouts_asked
from tuner.config.surroundings import StudyName
from tuner.core.doctor.examined import BoxSeen, Room, examined, room_findings
from tuner.core.doctor.finding import Finding, blockers
from tuner.core.doctor.room import FolderSeen, Planned, needed, study_bytes
from tuner.core.doctor.service import LockSeen
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.messages.host import unfit
from tuner.core.windows.validity import foreign_limit_cores
from tuner.ports import Warn

if TYPE_CHECKING:
    from tuner.config.service import CrashProcessorSettings, ScriptSettings
    from tuner.config.settings import Settings


_COUNTERS_BYTES_PER_PROCESS = 65_536


def box_examined(settings: Settings, study: Path, seconds: float) -> tuple[Finding, ...]:
    """What of this box a study of *settings*, kept in *study*, would suffer from; the worst first.

    Takes *seconds* to see who else uses the box; 0: nobody looks. Nothing is changed, and nothing started but
    interpreters that tell what they are.

    Raises:
        ConfigError: the settings ask for nothing that could be measured.
    """
    from tuner.adapters.clock import SystemClock
    from tuner.adapters.doctor.box import cores_seen, kernel_seen
    from tuner.adapters.doctor.neighbours import neighbours_seen
    from tuner.adapters.host_lock import holder_of, usual_path
    from tuner.adapters.proc.container import container_here

    cores, layouts = layouts_asked(settings, cores_seen(1).offered)
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
            threads=tuple(threads_seen(settings, spec, layouts)),
            counters=tuple(counter_seen(settings, spec)),
            queues=tuple(queue_seen(settings)),
        )
    )


def tell_what_blocks(
    settings: Settings, layouts: Sequence[Layout], spec: ServiceSpec, study: Path | None, warn: Warn
) -> None:
    """Before a study begins: one line for each thing that it will not fit, as far as that is quick to see."""
    for finding in blockers(room_findings(room_of(settings, layouts, spec, study))):
        warn(*unfit(finding.check, finding.found, finding.effect, finding.cure))


def room_of(settings: Settings, layouts: Sequence[Layout], spec: ServiceSpec, study: Path | None) -> Room:
    """What a study of *layouts*, kept in *study* (None: on another box), needs, and what there is."""
    from tuner.adapters.doctor.limits import limits_seen
    from tuner.adapters.supervisord.config import supervisord_files

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
            of_generator=connections_of_generator(service, layouts),
        ),
        limits=limits_seen(dict(spec.limits), os.geteuid() if user is None else user[0]),
        folders=tuple(_folders(settings, layouts, study)),
        ports=tuple(ports_seen(settings, spec)),
    )


def _spec(settings: Settings, layouts: Sequence[Layout]) -> ServiceSpec:
    scratch = Path("/nowhere")  # named in commands; never made
    spec, _ = service_of(settings, layouts, StudyName("", ""), scratch, lambda _slug, _text: None)
    return spec


def connections_of_generator(
    service: CrashProcessorSettings | ScriptSettings, layouts: Sequence[Layout]
) -> int:
    """Those that the load generator needs; 0 where there is none."""
    return service.feeder.connections_for(layouts) if service.kind == "script" else 0


def _folders(settings: Settings, layouts: Sequence[Layout], study: Path | None) -> Iterator[FolderSeen]:
    from tuner.adapters.doctor.limits import folder_seen, temporary_folder

    asked, service = settings.study, settings.service
    if study is not None:
        planned = Planned(
            n_layouts=len(layouts),
            n_blocks=(asked.repeats or REPEATS) if asked.strategy == "all" else 0,
            windows_per_launch=asked.windows_per_launch or 1,
            window_s=asked.window,
            budget_s=asked.budget,
        )
        yield folder_seen(study.absolute().parent, "the study's file", study_bytes(planned))
    scratch_bytes = 0
    if service.kind == "crash-processor":
        scratch_bytes = _spool_bytes(service, layouts)
        if service.spool is not None:
            yield folder_seen(service.spool, "the spool", scratch_bytes)
            scratch_bytes = 0
    what = "the spool" if scratch_bytes else "files and logs of launches"
    yield folder_seen(temporary_folder(), what, scratch_bytes, has_logs=True)
    if service.probe.kind == "mmap-counter":
        processes = max(layout.processes for layout in layouts)
        size = _COUNTERS_BYTES_PER_PROCESS * processes
        yield folder_seen(shared_memory() or temporary_folder(), "counters of the workers", size)


def _spool_bytes(service: CrashProcessorSettings, layouts: Sequence[Layout]) -> int:
    """What is still to be filled into the spool; 0: it holds items already, and keeps them."""
    from tuner.adapters.feeders.spool import SpoolFeeder
    from tuner.core.doctor.room import LARGEST_SYMBOLS_BYTES, copied_spool_bytes, synthetic_spool_bytes
    from tuner.services.crash_processor import copies_of, dumps_in, items_for

    with suppress(OSError):  # it cannot be looked into: it is told of by itself
        if service.spool is not None and not SpoolFeeder(service.spool, ()).is_dry():
            return 0
    n_items = service.items or items_for(layouts, service.options)
    if service.dumps is None:
        return synthetic_spool_bytes(n_items, service.symbols_bytes or LARGEST_SYMBOLS_BYTES)
    sizes = [path.stat().st_size for path in dumps_in(service.dumps) if path.is_file()]
    return copied_spool_bytes(sizes, copies_of(len(sizes), n_items))
