"""Boxes to measure on: this one, and a simulated one."""

from __future__ import annotations

import os
import platform
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.bootstrap.parts.backends import backends_found
from tuner.bootstrap.parts.feeders import study_name, tell_of_saturation
from tuner.bootstrap.parts.probes import cross_check_of, probe_of
from tuner.bootstrap.parts.ready import ready_of
from tuner.bootstrap.parts.safety_limits import brake_of
from tuner.bootstrap.parts.services import owner, prepare_service, service_of
from tuner.bootstrap.plan_builder import SIMULATED_HOST, STREAM, profile_kept
from tuner.config.surroundings import Surroundings
from tuner.core.domain.records import StudyRecord
from tuner.core.search.growth import layouts_asked_of
from tuner.core.settings.clients import found_in
from tuner.ports import Box, Feeder, Hooks, Store, Warn, WhileStarting

if TYPE_CHECKING:
    from tuner.adapters.virtual.clock import VirtualClock
    from tuner.config.settings import Settings
    from tuner.core.model.profile import Profile


@contextmanager
def this_box(
    settings: Settings,
    record: StudyRecord,
    study: str,
    warn: Warn,
    *,
    waits_s: float = 0.0,
    keeps_file: bool = True,
) -> Iterator[Box]:
    """The box we run on, wired for *record*, held for *study* against other tuners, all checked.

    Where another one has it, it is waited for as long as *waits_s*. Not *keeps_file*: the study's file is
    kept by a fleet's coordinator, so no room is looked for here.

    Raises:
        ConfigError: another tuner measures here, or the service could never run.
    """
    from tuner.adapters.clock import SystemClock
    from tuner.adapters.host_lock import box_held
    from tuner.adapters.proc.cgroup import launch_cgroups
    from tuner.adapters.proc.cores import first_cores
    from tuner.adapters.proc.free_memory import free_memory_bytes
    from tuner.adapters.proc.gil_waits import LOOKS_PER_S
    from tuner.adapters.proc.procfs import ProcSampler
    from tuner.adapters.supervisord.guardian import children_marked
    from tuner.adapters.supervisord.launcher import SupervisordLauncher
    from tuner.adapters.supervisord.run_folder import new_scratch_path, scratch_folder
    from tuner.bootstrap.configs.seen_through import known_service_of
    from tuner.bootstrap.doctor import tell_what_blocks
    from tuner.bootstrap.parts.commands import check_told_threads
    from tuner.bootstrap.room import refusing

    clock = SystemClock()
    brake = brake_of(settings.brake, clock, warn)
    while_starting = WhileStarting()

    def looked_at_while_starting() -> None:
        if brake is not None:
            brake.check()
        while_starting.check()

    with ExitStack() as stack:
        held = stack.enter_context(box_held(study, waits_s=waits_s))
        marker = uuid.uuid4().hex
        scratch, counters = new_scratch_path(Path(tempfile.gettempdir())), new_scratch_path(counter_root())
        known = study_name(record, study)
        spec, feeder = service_of(settings, record.layouts, known, scratch, warn)
        launcher = SupervisordLauncher(
            spec,
            cores=record.cores,
            cpus=first_cores(record.cores) if record.cores < record.box_cores else None,
            run_root=None,
            clock=clock,
            marker=marker,
            keep_logs=None,
            warn=warn,
            held=[held],
            scratch=[scratch, counters],
            cgroups=launch_cgroups().parent,
            ready=ready_of(settings),
            while_starting=looked_at_while_starting,
            known=known_service_of,
        )
        launcher.check()
        check_told_threads(settings, spec, record.layouts)
        tell_what_blocks(settings, record.layouts, spec, Path(study) if keeps_file else None, warn)
        for slug, text in settings.service.cautions.items():
            warn(slug, text)
        around = Surroundings(spec, record, clock, counters, scratch, launcher.log_files, known, warn)
        probe = probe_of(settings.service.probe, settings, around)
        cross_check = cross_check_of(settings, around)
        stack.enter_context(children_marked(marker))
        stack.enter_context(launcher)  # its guardian knows the folders before they are there
        stack.enter_context(scratch_folder(scratch, 0o700, owner(settings)))
        prepare_service(settings, scratch)
        # workers of another user find their launch's folder in it
        stack.enter_context(scratch_folder(counters, 0o711))
        tell_of_saturation(settings, record, warn)
        _use_found_clients(feeder, record)
        feeder.prepare()  # what can go wrong with it goes wrong before there is a study file
        yield Box(
            name=platform.node(),
            clock=clock,
            launcher=launcher,
            probe=probe,
            feeder=feeder,
            sampler=ProcSampler(
                clock,
                backends=settings.backends or (),
                found=backends_found(settings, spec, warn),
                warn=warn,
                gil_looks_per_s=LOOKS_PER_S,
            ),
            hooks=hooks_of(settings, warn),
            cross_check=cross_check,
            brake=brake,
            refuses=refusing(settings, spec, layouts_asked_of(record), feeder),
            free_bytes=free_memory_bytes,
            while_starting=while_starting,
        )


def _use_found_clients(feeder: Feeder, record: StudyRecord) -> None:
    """Give *feeder* the clients that were found for *record*, unless the settings give another number."""
    from tuner.adapters.feeders.http import HttpFeeder

    if not isinstance(feeder, HttpFeeder):
        return
    found = found_in(record.provenance, feeder.clients_of(record.layouts[0]))
    if found is not None:
        feeder.use_found(found)


def hooks_of(settings: Settings, warn: Warn, *, runs: bool = True) -> Hooks:
    """The user's commands; not *runs*: none of them, as of a simulated study."""
    from tuner.adapters.processes.hooks import CommandHooks

    asked = settings.hooks
    commands = asked.model_dump(exclude={"timeout"}) if runs else {}
    return CommandHooks(commands, asked.timeout, warn)


def simulated_box(record: StudyRecord, store: Store, file: Path) -> tuple[Box, Callable[[], float]]:
    """The box that the simulated study *record*, kept in *store*, is made on, and the time of the simulation.

    The same study meets the same windows whenever it goes on: what they give follows from its seed, from
    which command made it, and from the profile that its *file* keeps.
    """
    from tuner.adapters.virtual.clock import VirtualClock

    profile = profile_kept(record, file)
    clock = VirtualClock.resumed(store, profile.stop_s)
    box = _virtual(record, profile, SIMULATED_HOST, clock)
    return box, lambda: clock.wall_s() - record.created_wall_s


def virtual_box_of(record: StudyRecord, name: str, wall_s: float) -> Box:
    """One of several boxes that the simulated study *record* is made on, *name*, at that time.

    It gives the same windows for the same places, whenever and wherever they are asked for.
    """
    from tuner.adapters.virtual.clock import VirtualClock

    return _virtual(record, profile_kept(record, Path(name)), name, VirtualClock(wall_s))


def _virtual(record: StudyRecord, profile: Profile, name: str, clock: VirtualClock) -> Box:
    from tuner.adapters.virtual.profile import profile_box

    provenance = record.provenance
    stream = (str(record.seed), provenance.get("made_by", ""), provenance.get(STREAM, ""))
    virtual = profile_box(
        profile,
        cores=int(record.box_cores),
        n_layouts=len(layouts_asked_of(record)),  # streams are as they were before the grid grew
        seed="/".join(stream),
        name=name,
        clock=clock,
    )
    return virtual.box()


def counter_root() -> Path:
    """Where workers count: memory where there is some, for a page written back to a disk costs them time."""
    return shared_memory() or Path(tempfile.gettempdir())


def shared_memory() -> Path | None:
    """A folder that is kept in memory; None: there is none to write to."""
    folder = Path("/dev/shm")
    return folder if os.access(folder, os.W_OK | os.X_OK) else None
