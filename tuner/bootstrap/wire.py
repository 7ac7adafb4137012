"""The wiring of one study and its parts, on this host, on a simulated one and on a fleet.

::

    run_study ─┬─ strategy               tuner/core/search, as the study's record names it
               ├─ store                  the study file: tuner/adapters/sqlite
               ├─ progress ─┬─ view      a live view on a terminal, else lines: progress_ui.py
               │            ├─ live file read by `tuner watch`
               │            └─ metrics   --metrics, --metrics-file: parts/metrics.py
               └─ box ──────┬─ launcher  guardian, supervisord, exec shim: tuner/adapters/supervisord
                            │    ├─ service      its commands: parts/services.py
                            │    └─ ready check  parts/services.py
                            ├─ probe, cross check  parts/services.py
                            ├─ feeder              parts/services.py
                            ├─ sampler             CPU, memory, load, GIL: tuner/adapters/proc
                            ├─ safety limits       parts/services.py
                            └─ hooks               the user's commands

A simulated study has the same shape: its `Box` simulates a profile (tuner/adapters/virtual) and its progress
is lines. On a fleet, `run_fleet` replaces `run_study`, and each host builds a separate `Box`.
"""

from __future__ import annotations

import platform
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tuner.bootstrap import progress_ui
from tuner.bootstrap.parts.services import (
    backend_finder,
    brake_of,
    cross_check_of,
    http_feeder_of,
    in_turns,
    owner,
    prepare_service,
    probe_of,
    ready_of,
    service_of,
    study_name,
    use_clients_of,
    warn_saturation,
    with_separate_source,
)
from tuner.bootstrap.stores import new_store, open_store
from tuner.config.kinds import Surroundings
from tuner.core.domain.load import parse_client_search
from tuner.core.domain.records import StudyRecord, is_simulated
from tuner.ports import Box, Fleet, FleetProgress, Hooks, Progress, Stop, Store, Warn, WhileStarting

if TYPE_CHECKING:
    from tuner.adapters.sqlite.store import SqliteStore
    from tuner.bootstrap.parts.metrics import MetricsAsked
    from tuner.config.settings import Settings
    from tuner.core.domain.layout import Layout
    from tuner.core.domain.service import ServiceSpec
    from tuner.core.search.strategies.of_study import Followed, FollowedOnFleet

Say = Callable[[str], object]  #: prints a line for the user


@dataclass(frozen=True, slots=True)
class Session:
    """A study to measure: its settings, record and file."""

    settings: Settings
    record: StudyRecord
    file: Path
    is_new: bool


@dataclass(frozen=True, slots=True)
class FleetAddress:
    """The scheduler address of a fleet."""

    address: str  #: address of the scheduler
    certs: Path | None
    is_forced: bool


class KnowsLayouts(Protocol):
    """A display of the layouts of a study, whose grid may grow."""

    def grew(self, study: StudyRecord) -> None:
        """Show the layouts of *study* from now on."""


class Parts(NamedTuple):
    """The arguments of `run_study`, and the views of its progress."""

    box: Box
    store: Store
    progress: Progress
    say: Say  #: prints a line between the progress lines
    know_layouts: Sequence[KnowsLayouts]  #: receive the new layouts when the grid grows


class FleetParts(NamedTuple):
    """The arguments of `run_fleet`."""

    fleet: Fleet
    store: Store
    progress: FleetProgress
    hooks: Hooks


@contextmanager
def open_study(
    session: Session,
    strategy: Followed,
    stop: Stop,
    metrics: MetricsAsked | None,
    say: Say,
    settle: Callable[[Box, Warn, Say], StudyRecord],
) -> Iterator[Parts]:
    """Open a study on this host; its file is created last, so a study that cannot start leaves none.

    Args:
        session: the study and its file.
        strategy: the strategy of the study.
        stop: the user's request to end the study.
        metrics: where to serve metrics; None: nowhere.
        settle: returns the record to store once the host is ready; its arguments are the host, a function
            that warns, and one that prints among the lines of the view.
    """
    record, file = session.record, session.file
    with ExitStack() as stack:
        shown = None
        if metrics is not None:  # a used port is reported before anything starts
            from tuner.bootstrap.parts.metrics import serve_metrics

            shown = stack.enter_context(
                serve_metrics(metrics, record, file, strategy, lambda *reported: progress.warning(*reported))
            )
            if shown.url is not None:
                say(f"Metrics at {shown.url}")
        view = stack.enter_context(progress_ui.showing(record, strategy, stop.requested))
        live = progress_ui.live_file(file, view)
        progress = progress_ui.to_several([view, live, *(() if shown is None else shown.observers)])
        box = stack.enter_context(this_box(session.settings, record, str(file), progress.warning))
        store = stack.enter_context(_study_file(session, settle(box, progress.warning, view.say), say))
        stack.enter_context(progress_ui.attach(store, view, live))
        if shown is not None:
            shown.recall(store.windows())
        yield Parts(box, store, progress, view.say, [view] if shown is None else [view, shown])


@contextmanager
def open_simulated_study(session: Session, say: Say) -> Iterator[Parts]:
    """Open a study on a simulated host, which simulates the profile in the study's record."""
    from tuner.adapters.virtual.profile import simulated_box

    with _study_file(session, session.record, say) as store:
        box, elapsed_s = simulated_box(session.record, store, session.file)
        yield Parts(box, store, progress_ui.simulated_lines(elapsed_s), say, ())


@contextmanager
def study_on_fleet(
    session: Session,
    on: FleetAddress,
    strategy: FollowedOnFleet,
    stop: Stop,
    say: Say,
    began_wall_s: float | None,
) -> Iterator[FleetParts]:
    """Open a study on the hosts of a fleet, real or simulated; if the scheduler is away, no file is left.

    *began_wall_s* is the wall time at which a simulated study continues; None: its time of creation.
    """
    from tuner.bootstrap.fleet import fleet_of

    record, settings, file = session.record, session.settings, session.file
    joined = fleet_of(
        on.address,
        on.certs,
        record,
        settings,
        file.name,
        is_forced=on.is_forced,
        began_wall_s=began_wall_s,
    )
    with joined as fleet, _study_file(session, record, say) as store, ExitStack() as stack:
        if is_simulated(record):
            progress: FleetProgress = progress_ui.simulated_fleet_lines(record, fleet.clock)
        else:
            shown = progress_ui.showing_fleet(record, file, store, strategy, stop.requested)
            progress = stack.enter_context(shown)
        hooks = hooks_of(settings, progress.warning, runs=not is_simulated(record))
        yield FleetParts(fleet, store, progress, hooks)


def _study_file(session: Session, record: StudyRecord, say: Say) -> SqliteStore:
    """Open the file of *session*: a new one for *record*, or the one to continue."""
    lasting = not is_simulated(record)  # data lost in a power cut is simulated again
    if session.is_new:
        return new_store(session.file, record, lasting=lasting)
    return open_store(session.file, lasting=lasting, warn=say)


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
    """Open this host for *record*: wire and check all parts, and lock it for *study*.

    If another tuner holds the lock, wait up to *waits_s* for it. Not *keeps_file*: a fleet's coordinator has
    the study's file, so its room on this host is not checked.

    Raises:
        ConfigError: another tuner measures here, or the service could never run.
    """
    from tuner.adapters.host_lock import hold_host
    from tuner.bootstrap.room import warn_blockers

    with hold_host(study, waits_s=waits_s) as held, ExitStack() as stack:
        kept = Path(study) if keeps_file else None

        def first_looks(spec: ServiceSpec) -> None:
            warn_blockers(settings, record.layouts, spec, kept, warn)
            for slug, text in settings.service.cautions.items():
                warn(slug, text)

        warned: set[tuple[str, str]] = set()

        def warn_once(slug: str, text: str) -> None:
            if (slug, text) not in warned:
                warned.add((slug, text))
                warn(slug, text)

        if record.n_resident == 1:
            yield stack.enter_context(_place(settings, record, study, held, warn_once, first_looks))
            return
        from tuner.bootstrap.parts.gates import gate_of, poll_interval_s
        from tuner.bootstrap.parts.own_sources import keeping_connections

        gate, _ = gate_of(settings)
        settings = keeping_connections(settings)
        first = stack.enter_context(_place(settings, record, study, held, warn_once, first_looks))
        numbers = count(2)

        @contextmanager
        def another() -> Iterator[Box]:
            number = next(numbers)
            own = with_separate_source(settings, number) if gate == "feed" else settings
            with _place(own, record, study, held, warn_once, lambda _spec: None, number) as place:
                use_clients_of(first.feeder, settings, place.feeder, own)
                yield replace(place, gate=gate, poll_interval_s=first.poll_interval_s)

        yield replace(first, another=another, gate=gate, poll_interval_s=poll_interval_s(settings))


@contextmanager
def _place(
    settings: Settings,
    record: StudyRecord,
    study: str,
    held: int,
    warn: Warn,
    look: Callable[[ServiceSpec], None],
    number: int = 1,
) -> Iterator[Box]:
    """Open one place for a launch on this host, with a separate guardian, files and source of items.

    *held* is the lock of the host; *look* warns of obstacles for the service before anything starts. Places
    that exist at the same time have different *number*s.
    """
    from tuner.adapters.clock import SystemClock
    from tuner.adapters.proc.cgroup import launch_cgroups, own_freezer
    from tuner.adapters.proc.cores import cpus_elsewhere, first_cores, free_memory_bytes
    from tuner.adapters.proc.gil_waits import LOOKS_PER_S
    from tuner.adapters.proc.procfs import ProcSampler
    from tuner.adapters.supervisord.guardian import children_marked, new_scratch_path, scratch_folder
    from tuner.adapters.supervisord.launcher import SupervisordLauncher
    from tuner.bootstrap.room import counter_root, refusing
    from tuner.bootstrap.seen_through import check_thread_options, known_service_of

    clock = SystemClock()
    brake = brake_of(settings.brake, clock, warn)
    while_starting = WhileStarting()

    def looked_at_while_starting() -> None:
        if brake is not None:
            brake.check()
        while_starting.check()

    with ExitStack() as stack:
        marker = uuid.uuid4().hex
        scratch, counters = new_scratch_path(Path(tempfile.gettempdir())), new_scratch_path(counter_root())
        known = study_name(record, study, number)
        spec, feeder = service_of(settings, record.layouts, known, scratch, warn)
        launcher = SupervisordLauncher(
            spec,
            cores=record.cores,
            cpus=first_cores(record.cores) if record.is_held else None,
            run_root=None,
            clock=clock,
            marker=marker,
            keep_logs=None,
            warn=warn,
            held=[held],
            scratch=[scratch, counters],
            cgroups=launch_cgroups().parent,
            freezers=own_freezer(),
            ready=ready_of(settings),
            while_starting=looked_at_while_starting,
            known=known_service_of,
        )
        launcher.check()
        check_thread_options(settings, spec, record.layouts)
        look(spec)
        around = Surroundings(spec, record, clock, counters, scratch, launcher.log_files, known, warn)
        probe = probe_of(settings.service.probe, settings, around)
        cross_check = cross_check_of(settings, around)
        stack.enter_context(children_marked(marker))
        stack.enter_context(launcher)  # its guardian learns the folders before they exist
        stack.enter_context(scratch_folder(scratch, 0o700, owner(settings)))
        prepare_service(settings, scratch)
        # workers of another user need access to their launch's folder in it
        stack.enter_context(scratch_folder(counters, 0o711))
        warn_saturation(settings, record, warn)
        if (sender := http_feeder_of(feeder, settings)) is not None:
            found = parse_client_search(record.provenance.clients_found, sender.clients_of(record.layouts[0]))
            if found is not None:
                sender.use_found(found)
        feeder.prepare()  # its errors come before the study file is created
        yield Box(
            name=platform.node(),
            clock=clock,
            launcher=launcher,
            probe=probe,
            feeder=feeder,
            feeder_in_turns=in_turns(feeder, settings),
            sampler=ProcSampler(
                clock,
                backends=settings.backends or (),
                found=backend_finder(settings, spec, warn),
                warn=warn,
                gil_looks_per_s=LOOKS_PER_S,
                takes_turns=record.n_resident > 1,
                # a resumed study of an older version, whose file lacks this fact, keeps its rule
                elsewhere=cpus_elsewhere() if record.provenance.cpus_elsewhere else frozenset(),
            ),
            hooks=hooks_of(settings, warn),
            cross_check=cross_check,
            brake=brake,
            refuses=refusing(settings, spec, _initial_layouts(record), feeder),
            free_bytes=free_memory_bytes,
            while_starting=while_starting,
        )


def _initial_layouts(record: StudyRecord) -> tuple[Layout, ...]:
    if record.provenance.grid_grew is None:
        return record.layouts
    from tuner.core.search.growth import initial_layouts

    return initial_layouts(record)


def hooks_of(settings: Settings, warn: Warn, *, runs: bool = True) -> Hooks:
    """Return the user's hook commands; not *runs*: no commands, for a simulated study."""
    from tuner.adapters.processes.repeated_command import CommandHooks

    asked = settings.hooks
    commands = asked.model_dump(exclude={"timeout"}) if runs else {}
    return CommandHooks(commands, asked.timeout, warn)
