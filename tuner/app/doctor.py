"""The use case of `tuner doctor`: examine this host for a study with given settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.app.plan_builder import requested_layouts
from tuner.bootstrap.parts.services import backend_finder, service_of
from tuner.bootstrap.room import room_of
from tuner.bootstrap.seen_through import check_counter, check_threads
from tuner.config.kinds import StudyName
from tuner.core.domain.layout import Layout, whole_cores
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.service import ServiceSpec
from tuner.core.windows.validity import foreign_limit_cores, free_cores
from tuner.doctor.report import BoxSeen, examine
from tuner.doctor.service import Finding, LockSeen
from tuner.doctor.surroundings import check_tools, query_queue, query_servers, read_interpreters

if TYPE_CHECKING:
    from tuner.config.settings import Settings


def examine_host(settings: Settings, study: Path, seconds: float) -> tuple[Finding, ...]:
    """Return the problems of this host for a study of *settings* in the file *study*, the worst first.

    It samples other processes on the host for *seconds*; 0: it does not sample them. It changes nothing, and
    starts only interpreters, to read their versions.

    Raises:
        ConfigError: the settings describe no layout that can be measured.
    """
    from tuner.adapters.clock import SystemClock
    from tuner.adapters.host_lock import holder_of, usual_path
    from tuner.adapters.proc.cgroup import find_container
    from tuner.adapters.proc.cores import cpus_elsewhere, describe_host
    from tuner.doctor.box import measure_neighbours, read_cores, read_kernel

    cores, layouts = requested_layouts(settings, read_cores(1).offered)
    seen = read_cores(cores)
    spec = spec_of(settings, layouts)
    limit = foreign_limit_cores(seen.offered, settings.study.foreign_limit)
    neighbours, container = None, find_container()
    if seconds:
        found = backend_finder(settings, spec, lambda _slug, _text: None)()
        named = settings.backends or ()
        host = Provenance.from_mapping(describe_host())
        is_alone = container is not None and cores >= whole_cores(seen.offered)
        room_cores = free_cores(host.usable_physical_cores, seen.offered) if is_alone else 0.0
        neighbours = measure_neighbours(
            SystemClock(),
            seconds,
            limit,
            backends=named,
            found=found,
            container=container,
            room_cores=room_cores,
            elsewhere=cpus_elsewhere(),
        )
    return examine(
        BoxSeen(
            cores=seen,
            neighbours=neighbours,
            kernel=read_kernel(container=container),
            lock=LockSeen(str(usual_path()), holder_of(usual_path())),
            tools=tuple(check_tools(settings, spec, cores)),
            room=room_of(settings, layouts, spec, study),
            servers=tuple(query_servers(settings, spec)),
            interpreters=dict(read_interpreters(settings, spec, layouts)),
            threads=tuple(check_threads(settings, spec, layouts)),
            counters=tuple(check_counter(settings, spec)),
            queues=tuple(query_queue(settings)),
        )
    )


def spec_of(settings: Settings, layouts: Sequence[Layout]) -> ServiceSpec:
    """Return the specification with which a study of *layouts* would start the service."""
    scratch = Path("/nowhere")  # named in commands; never made
    spec, _ = service_of(settings, layouts, StudyName("", ""), scratch, lambda _slug, _text: None)
    return spec
