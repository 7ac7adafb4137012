"""The wiring: which adapters serve which settings. The one place that knows them all.

Adapters are imported where they are wired, so that a command pays for its own only.
"""

from __future__ import annotations

import json
import os
import platform
import pwd
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import __version__
from tuner.core.errors import ConfigError
from tuner.core.layout import Layout, parse_layout
from tuner.core.records import StudyRecord, WindowRecord
from tuner.core.simulated import SIMULATED, is_simulated, simulated_name
from tuner.ports import Box, Feeder, Store

if TYPE_CHECKING:
    from tuner.adapters.sqlite import SqliteStore
    from tuner.config.settings import CrashProcessorSettings, ScriptSettings, Settings
    from tuner.core.model.calibration.calibrated import Calibrated
    from tuner.core.model.diagnosis.explanation import Explanation
    from tuner.core.model.diagnosis.sizing import Rule
    from tuner.core.model.machine import Machine
    from tuner.core.model.prediction.whatif import WhatIf
    from tuner.core.model.profile import Profile
    from tuner.core.model.simulation.layouts import SimulatedLayouts
    from tuner.core.question import Question
    from tuner.core.ranking import Ranking
    from tuner.core.service import ServiceSpec
    from tuner.services.running import Running
    from tuner.study import Recalled

_ANOTHER_QUESTION = (
    "The race was asked for another objective or other limits: its launches are ranked as they are, and were"
    " not chosen to answer this."
)

Warn = Callable[[str, str], None]  #: gets a slug of docs/messages.md and a text

QUICK_LAYOUTS = 5
WITHIN = 0.02  #: the margin of an answer, when nobody says otherwise
REPEATS = 3  #: of a full grid, likewise
_SIMULATED_HOST = "a simulated box"
_STREAM = "simulated_stream"  #: in the provenance: names random streams, beside the seed


def planned(settings: Settings, *, quick: bool = False, profile: Profile | None = None) -> StudyRecord:
    """The study that *settings* ask for, on this box and now; *quick* takes a few layouts for all.

    With a *profile* the service is the profile's, and the box a simulated one of as many cores as asked for.

    Raises:
        ConfigError: a variant is to be simulated.
    """
    from tuner.adapters.cores import usable_cores
    from tuner.config.load import canonical_json
    from tuner.core.spread import well_spread

    asked = settings.study
    box_cores = usable_cores().count if profile is None else float(asked.cores or int(profile.machine.cores))
    cores = asked.cores or max(1, int(box_cores))
    layouts = asked.layouts_for(cores)
    if profile is not None and (variants := [str(layout) for layout in layouts if layout.variant]):
        raise ConfigError(
            f"{', '.join(variants)}: a profile knows of no variants",
            hint="Simulate each with its own profile.",
        )
    return StudyRecord(
        service=settings.service.name if profile is None else simulated_name(profile.name),
        strategy=asked.strategy,
        layouts=tuple(well_spread(layouts, QUICK_LAYOUTS)) if quick else layouts,
        cores=cores,
        box_cores=box_cores,
        window_s=asked.window,
        warmup_s=None if asked.warmup == "auto" else asked.warmup,
        n_blocks=(asked.repeats or REPEATS) if asked.strategy == "all" else 0,
        windows_per_launch=asked.windows_per_launch or 1,
        seed=asked.seed,
        budget_s=asked.budget,
        created_wall_s=time.time(),
        config=canonical_json(settings) if profile is None else _simulated_config(settings, profile),
        max_attempts=asked.max_attempts,
        warmup_cap_s=asked.warmup_cap,
        foreign_limit_cores=asked.foreign_limit,
        memory_pressure_limit_ratio=asked.memory_pressure_limit,
        warms_cache=asked.warm_cache,
        within_ratio=WITHIN if asked.within is None else asked.within,
        confidence=asked.confidence,
        objective=asked.objective,
        limits=asked.limits,
        kind="none" if asked.strategy == "all" else asked.kind or "strict",
        min_window_s=None if asked.strategy == "all" else asked.shortest_window,
        provenance={
            **(_provenance(settings) if profile is None else _simulated_provenance(profile, cores)),
            **({"quick": "true"} if quick else {}),
        },
    )


def check_same_box(record: StudyRecord, file: Path, warn: Callable[[str], None]) -> None:
    """Before a study goes on: it must offer the cores it was begun on; another host is only worth a word.

    Raises:
        ConfigError: this box offers other cores.
    """
    from tuner.adapters.cores import usable_cores

    began, here = record.provenance.get("host", "another host"), platform.node()
    cores = usable_cores().count
    if abs(cores - record.box_cores) > 0.01:
        raise ConfigError(
            f"{file} was begun with {record.box_cores:g} usable cores on {began}; {here} offers {cores:g}",
            hint="Go on where it was begun, or begin another study with --study.",
        )
    if began != here:
        warn(f"{file} was begun on {began}, this is {here}: launches of different hosts are not paired.")


def settings_kept(record: StudyRecord, file: Path) -> Settings:
    """What the study in *file* was asked for; of a simulated one its study section, it has no other.

    Raises:
        ConfigError: they hold secrets, which are not kept, or they do not hold here.
    """
    from tuner.config.load import settings_of_study

    kept = json.loads(record.config)
    kept.pop("simulate", None)
    return settings_of_study(json.dumps(kept), str(file))


def profile_kept(record: StudyRecord, file: Path) -> Profile:
    """The profile that the simulated study in *file* plays."""
    from tuner.config.profile import parse_profile

    return parse_profile(json.loads(record.config)["simulate"], str(file))


def check_same_profile(record: StudyRecord, file: Path, profile: Profile) -> None:
    """Before a simulated study goes on: with *profile* as it was begun.

    Raises:
        ConfigError: the profile has changed since.
    """
    from tuner.config.profile import profile_texts
    from tuner.core.changes import changed_settings

    kept, given = json.loads(record.config)["simulate"], profile_texts(profile)
    if changes := changed_settings(json.dumps(kept), json.dumps(given)):
        raise ConfigError(
            f"{file} was begun with another profile: {'; '.join(changes)}",
            hint="Go on with that one, or begin another study with --study.",
        )


def open_store(file: Path, *, read_only: bool = False, lasting: bool = True) -> SqliteStore:
    """The study kept in *file*; *lasting*: what is written withstands a power cut at once."""
    from tuner.adapters.sqlite import SqliteStore

    return SqliteStore.open(file, read_only=read_only, lasting=lasting)


def new_store(file: Path, record: StudyRecord, *, lasting: bool = True) -> SqliteStore:
    """A new study in *file*, which must not exist; *lasting* as above."""
    from tuner.adapters.sqlite import SqliteStore

    return SqliteStore.create(file, record, lasting=lasting)


@contextmanager
def this_box(settings: Settings, record: StudyRecord, study: str, warn: Warn) -> Iterator[Box]:
    """The box we run on, wired for *record*, held for *study* against other tuners, all checked.

    Raises:
        ConfigError: another tuner measures here, or the service could never run.
    """
    from tuner.adapters.box_lock import box_held
    from tuner.adapters.clock import SystemClock
    from tuner.adapters.cores import first_cores
    from tuner.adapters.guardian import children_marked
    from tuner.adapters.hooks import CommandHooks
    from tuner.adapters.probes.mmap_counter import CounterProbe
    from tuner.adapters.procfs import ProcSampler
    from tuner.adapters.run_folder import new_scratch_path, scratch_folder
    from tuner.adapters.supervisord import SupervisordLauncher

    clock = SystemClock()
    hooks = settings.hooks
    with ExitStack() as stack:
        held = stack.enter_context(box_held(study))
        marker = uuid.uuid4().hex
        scratch, counters = new_scratch_path(Path(tempfile.gettempdir())), new_scratch_path(_counter_root())
        spec, feeder = _service(settings, record.layouts, scratch)
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
        )
        launcher.check()
        stack.enter_context(children_marked(marker))
        stack.enter_context(launcher)  # its guardian knows the folders before they are there
        stack.enter_context(scratch_folder(scratch, 0o700, _owner(settings)))
        # workers of another user find their launch's folder in it
        stack.enter_context(scratch_folder(counters, 0o711))
        feeder.prepare()  # what can go wrong with it goes wrong before there is a study file
        yield Box(
            name=platform.node(),
            clock=clock,
            launcher=launcher,
            probe=CounterProbe(clock, counters, _owner(settings)),
            feeder=feeder,
            sampler=ProcSampler(clock, backends=settings.backends, warn=warn),
            hooks=CommandHooks(hooks.model_dump(exclude={"timeout"}), hooks.timeout, warn),
        )


def simulated_box(record: StudyRecord, store: Store, file: Path) -> tuple[Box, Callable[[], float]]:
    """The box that the simulated study *record*, kept in *store*, is made on, and the time of the simulation.

    The same study meets the same windows whenever it goes on: what they give follows from its seed, from
    which command made it, and from the profile that its *file* keeps.
    """
    from tuner.adapters.virtual_clock import VirtualClock
    from tuner.adapters.virtual_profile import profile_box

    profile, provenance = profile_kept(record, file), record.provenance
    clock = VirtualClock.resumed(store, profile.stop_s)
    stream = (str(record.seed), provenance.get("made_by", ""), provenance.get(_STREAM, ""))
    virtual = profile_box(
        profile,
        cores=int(record.box_cores),
        n_layouts=len(record.layouts),
        seed="/".join(stream),
        name=_SIMULATED_HOST,
        clock=clock,
    )
    return virtual.box(), lambda: clock.wall_s() - record.created_wall_s


def another_stream(record: StudyRecord, name: str) -> StudyRecord:
    """*record*, which if it is simulated meets other windows than studies of another *name*."""
    if not is_simulated(record):
        return record
    return replace(record, provenance={**record.provenance, _STREAM: name})


def _simulated_config(settings: Settings, profile: Profile) -> str:
    """As a study keeps it: what was asked, and the whole profile, so that it goes on without its file."""
    from tuner.config.load import canonical_json
    from tuner.config.profile import profile_texts

    asked = json.loads(canonical_json(settings))
    kept = {"study": asked["study"], "simulate": profile_texts(profile)}
    return json.dumps(kept, sort_keys=True, separators=(",", ":"))


def _simulated_provenance(profile: Profile, cores: int) -> dict[str, str]:
    """What is known of a box that is none; its kind as the same facts of a real one tell it."""
    machine = profile.machine_of(cores)
    siblings = machine.cores / (machine.physical_cores or machine.cores)
    return {
        SIMULATED: profile.name,
        "host": _SIMULATED_HOST,
        "tuner": __version__,
        "physical_cores": f"{machine.physical_cores or machine.cores:g}",
        "worker_gil": "on" if machine.has_gil else "off",
        **({"threads_per_core": f"{siblings:.0f}"} if siblings == round(siblings) else {}),
    }


def ranked(
    file: Path,
    *,
    current: str | None = None,
    confidence: float | None = None,
    question: Question | None = None,
) -> tuple[StudyRecord, Ranking]:
    """The study in *file* and its ranking; *current* is the layout that every row is compared with.

    *confidence* is the study's own where none is given; *question* (objective, limits, costs) likewise.
    A race has an answer to its own question only: to another one its launches are ranked as they are.

    Raises:
        ConfigError: a race was asked for its answer at another confidence, which it has none for.
    """
    from tuner.core.claim import by_claim
    from tuner.core.question import Question
    from tuner.core.ranking import rank

    question = question or Question()

    with open_store(file, read_only=True) as store:
        record = store.study()
        layout = _measured_layout(current, record, file) if current is not None else None
        is_race = record.strategy == "race"
        if is_race and confidence not in (None, record.confidence):
            raise ConfigError(
                f"{file} is a race for an answer at {record.confidence:g}; it says nothing at {confidence:g}",
                hint="Leave --confidence out.",
            )
        windows = store.windows()
        ranking = rank(
            record,
            windows,
            current=layout,
            confidence=confidence or record.confidence,
            launches=[launch for _, launch in store.launches()],
            objective=question.objective_of(record),
            limits=question.limits_of(record),
            costs=question.costs,
            within=question.within_of(record),
        )
        ranking = _with_bound_by(record, windows, ranking)
        if not is_race:
            return record, ranking
        if not question.is_of(record):
            return record, replace(ranking, notes=(_ANOTHER_QUESTION, *ranking.notes))
        known = recalled(store)
        return record, by_claim(ranking, known.claim(), known.strategy.estimates())


def recalled(store: Store) -> Recalled:
    """The strategy of the study in *store*, shown all that it holds, and what there is to know beside it."""
    from tuner.core.strategies.of_study import strategy_of
    from tuner.study import recalled

    return recalled(store, strategy_of(store.study()))


def _measured_layout(text: str, record: StudyRecord, file: Path) -> Layout:
    layout = parse_layout(text)
    if layout not in record.layouts:
        raise ConfigError(
            f"{layout} is not among the layouts of {file}",
            hint=f"Those are {', '.join(map(str, record.layouts))}.",
        )
    return layout


def _service(settings: Settings, layouts: Sequence[Layout], scratch: Path) -> tuple[ServiceSpec, Feeder]:
    """The service and what feeds it; *scratch* is a folder of the study's own."""
    if settings.service.kind == "crash-processor":
        return _crash_processor(settings.service, layouts, scratch)
    return _script(settings.service, scratch)


def _crash_processor(
    asked: CrashProcessorSettings, layouts: Sequence[Layout], scratch: Path
) -> tuple[ServiceSpec, Feeder]:
    from tuner.adapters.feeders.spool import SpoolFeeder
    from tuner.services import crash_processor as service

    spool = asked.spool or scratch
    content = service.CrashInput(
        items=asked.items or service.items_for(layouts, asked.options),
        seed=asked.seed,
        symbols_bytes=asked.symbols_bytes,
        dumps=asked.dumps,
        symbols=asked.symbols,
    )
    spec = _running(asked).spec(
        asked.name,
        service.run_command(spool, asked.options),
        max_extra_threads=service.MAX_EXTRA_THREADS,
    )
    return spec, SpoolFeeder(spool, service.fill_command(spool, content), asked.user)


def _script(asked: ScriptSettings, scratch: Path) -> tuple[ServiceSpec, Feeder]:
    from tuner.adapters.feeders.command import CommandFeeder
    from tuner.adapters.feeders.none import NoFeeder
    from tuner.services.script import script

    spec = script(asked.name, asked.command, _running(asked))
    if asked.feeder.kind == "command":
        return spec, CommandFeeder(asked.feeder.command, asked.directory, scratch)
    return spec, NoFeeder()


def _running(asked: CrashProcessorSettings | ScriptSettings) -> Running:
    """How it runs; the environment file's values go before the config's, and are not filled in."""
    from tuner.config.environment_file import read_environment_file
    from tuner.services.running import Running, escaped

    file = read_environment_file(asked.environment_file) if asked.environment_file is not None else {}
    return Running(
        user=asked.user,
        directory=None if asked.directory is None else str(asked.directory),
        environment={**asked.environment, **{name: escaped(value) for name, value in file.items()}},
        stop_signal=asked.stop.signal,
        stop_wait_s=asked.stop.wait,
        stop_as_group=asked.stop.as_group,
        max_extra_threads=asked.max_extra_threads,
        limits=asked.limits,
    )


def _provenance(settings: Settings) -> dict[str, str]:
    from tuner.adapters.provenance import provenance

    alone = Layout(1, 1)
    spec, _ = _service(settings, [alone], Path(tempfile.gettempdir()))
    return provenance(
        _spawn_path_command(settings),
        spec.command_line(alone, 0, 1),
        spec.environment_of(alone, 0, 1),
        spec.directory,
    )


def _spawn_path_command(settings: Settings) -> Sequence[str] | None:
    if settings.service.kind != "crash-processor":
        return None
    from tuner.services.crash_processor import program

    return [program(), "spawn-path", "--json"]


def _owner(settings: Settings) -> tuple[int, int] | None:
    return None if settings.service.user is None else _ids(settings.service.user)


def _ids(user: str) -> tuple[int, int]:
    entry = pwd.getpwnam(user)
    return entry.pw_uid, entry.pw_gid


def _counter_root() -> Path:
    """Memory where there is some to write to: a page written back to a disk would cost the workers time."""
    shared_memory = Path("/dev/shm")
    return shared_memory if os.access(shared_memory, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


# What binds a layout


def explained(
    file: Path, *, question: Question | None = None, cores: float | None = None
) -> tuple[StudyRecord, Explanation | str, Sequence[Rule]]:
    """The study in *file*, what binds its layouts (or why that is not known), and rules to size it by.

    The rules are for *cores* (None: for what the study ran on) and for the variant of the fastest layout;
    *question* may limit memory.
    """
    from tuner.core.model.diagnosis.evidence import why_unknown
    from tuner.core.question import Question
    from tuner.core.ranking import rank

    question = question or Question()
    with open_store(file, read_only=True) as store:
        record, windows = store.study(), store.windows()
    ranking = rank(record, windows, confidence=record.confidence, limits=question.limits_of(record))
    found = _explanation(record, windows, ranking)
    if found is None:
        return record, why_unknown(windows), ()
    best = found.diagnoses[0].layout.variant
    if best not in found.references:
        return record, found, ()
    from tuner.core.model.diagnosis.sizing import resized, sizing_rules
    from tuner.core.model.prediction.extrapolation import Seen

    seen = Seen(found.machine, tuple(layout for layout in found.evidence if layout.variant == best))
    wanted = found.machine if cores is None else resized(found.machine, cores)
    return record, found, sizing_rules(found.references[best].demands, wanted, seen)


def _with_bound_by(record: StudyRecord, windows: Sequence[WindowRecord], ranking: Ranking) -> Ranking:
    """*ranking*, saying what binds its layouts, or why that is not known."""
    from tuner.core.model.diagnosis.evidence import NO_CLOCKS, why_unknown

    found = _explanation(record, windows, ranking)
    if found is not None:
        return ranking.with_bound_by(found.bound_by, None)
    why = why_unknown(windows)
    return ranking.with_bound_by({}, why if why == NO_CLOCKS else None)  # nothing measured is told already


def _explanation(
    record: StudyRecord, windows: Sequence[WindowRecord], ranking: Ranking
) -> Explanation | None:
    """What binds the layouts of *ranking*; None: no window has the clocks for it."""
    from tuner.core.model.diagnosis.evidence import evidence_of

    seen = evidence_of(record, windows, {row.layout: row.verdict for row in ranking.rows})
    if not seen:
        return None
    from tuner.core.model.diagnosis.explanation import explain, machine_of

    return explain(seen, machine_of(record))


# What an item asks for, and what layouts would give


def calibrated(file: Path) -> Calibrated:
    """The service in *file*: a study, of which every window is used, or a profile in YAML.

    Raises:
        ConfigError: it is neither, or has nothing to calibrate on.
    """
    if file.suffix.lower() in (".yaml", ".yml"):
        from tuner.config.profile import read_profile
        from tuner.core.model.calibration.calibrated import of_profile

        return of_profile(read_profile(file))
    from tuner.study.calibrating import read_calibration

    with open_store(file, read_only=True) as store:
        return read_calibration(store, str(file))


def write_profile(file: Path, calibrated: Calibrated) -> None:
    """Write what *calibrated* found as a profile that `tuner grid --simulate` and `tuner predict` read."""
    from tuner.adapters.text_file import replace_text
    from tuner.config.profile import render_profile

    replace_text(file, render_profile(calibrated.calibration.profile))


def simulated_layouts(
    profile: Profile, machine: Machine, layouts: Sequence[Layout], what_if: WhatIf
) -> SimulatedLayouts:
    """What *layouts* give on *machine*, event by event, with the changes of *what_if* made."""
    from tuner.adapters.simulator import simulate_all
    from tuner.core.model.simulation.layouts import scenarios, simulated_layouts

    return simulated_layouts(layouts, simulate_all(scenarios(profile, machine, layouts, what_if)))
