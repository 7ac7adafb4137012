"""Building the record of a new study from settings, and the settings that its file keeps."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import __version__
from tuner.core.defaults import REPEATS, WINDOW_S, WITHIN
from tuner.core.domain.layout import Layout, whole_cores
from tuner.core.domain.provenance import GIL, Provenance, WorkerFacts
from tuner.core.domain.records import SIMULATED_HOST, StudyRecord, is_simulated, simulated_name
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.errors import ConfigError
from tuner.core.text.figures import pluralize

if TYPE_CHECKING:
    from tuner.app.session import Options
    from tuner.bootstrap.wire import Say
    from tuner.config.service import CrashProcessorSettings, ScriptSettings
    from tuner.config.settings import Settings
    from tuner.core.domain.fleet import BoxFacts
    from tuner.core.model.profile import Profile

QUICK_LAYOUTS = 5
_NAMED = 12  #: largest number of layouts named in a line
#: total threads of a layout, such as 512x64: the model needs 2 s for 1x32768 and 6 s for 1x100000
MOST_MODELLED_THREADS = 32_768


def plan_record(
    settings: Settings,
    *,
    quick: bool = False,
    profile: Profile | None = None,
    on: tuple[BoxFacts, int] | None = None,
    options: Options | None = None,
    config: Path | None = None,
) -> StudyRecord:
    """Return the record of the study that *settings* describe, on this host and now.

    Args:
        settings: the settings of the study.
        quick: whether to measure only a few of the layouts.
        profile: the profile of a simulated study, which gives the service; the simulated host has the
            requested number of cores. None: a real service runs.
        on: the representative host of a fleet (its provenance has the facts of the workers), and the number
            of hosts: a grid without a number of repeats keeps all of them busy. None: this host.
        options: the command-line options behind the settings, in addition to a config; None: unknown.
        config: the config whose name the study stores; None: it stores none.

    Raises:
        ConfigError: the profile or a layout cannot be simulated, or a layout has an unknown variant.
    """
    from tuner.adapters.proc.cores import usable_cores
    from tuner.bootstrap.parts.provenance import collect_provenance
    from tuner.config.load import canonical_json
    from tuner.core.domain.layout import spread_subset

    asked = settings.study
    if profile is not None:
        box_cores = float(asked.cores or _simulated_cores(profile))
    else:
        box_cores = usable_cores().count if on is None else on[0].cores
    n_boxes = 1 if on is None else on[1]
    cores, layouts = requested_layouts(settings, box_cores, is_simulated=profile is not None)
    is_plain = profile is None and on is None and not quick
    return StudyRecord(
        service=settings.service.name if profile is None else simulated_name(profile.name),
        strategy=asked.strategy,
        layouts=tuple(spread_subset(layouts, QUICK_LAYOUTS)) if quick else layouts,
        cores=cores,
        box_cores=box_cores,
        window_s=asked.window,
        warmup_s=None if asked.warmup == "auto" else asked.warmup,
        n_blocks=(asked.repeats or max(REPEATS, n_boxes)) if asked.strategy == "all" else 0,
        windows_per_launch=asked.windows_per_launch or 1,
        seed=asked.seed,
        budget_s=asked.budget,
        created_wall_s=time.time(),
        config=StoredConfig(canonical_json(settings))
        if profile is None
        else _simulated_config(settings, profile),
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
        provenance=replace(
            _simulated_provenance(profile, cores)
            if profile is not None
            else collect_provenance(settings, layouts, cores)
            if on is None
            else on[0].provenance,
            is_quick=quick,
            has_first_look=is_plain and _looks_first(settings),
            may_grow=on is None and not quick and _may_grow(settings),
            is_fleet=on is not None,
            is_command_typed=("service", "command") in (options or {}),
            study_typed=None if options is None else _typed_for_study(options),
            config_file=None if config is None else str(config),
        ),
    )


def build_plan(
    settings: Settings,
    profile: Profile | None,
    options: Options | None,
    say: Say,
    *,
    quick: bool = False,
    on: tuple[BoxFacts, int] | None = None,
    config: Path | None = None,
) -> StudyRecord:
    """Build the record of a new study, and print omitted layouts and a changed number of cores.

    The arguments are those of `plan_record`.

    Raises:
        ConfigError: see `plan_record`.
    """
    record = plan_record(settings, quick=quick, profile=profile, on=on, options=options, config=config)
    if left_out := settings.left_out(record.cores):
        most = settings.study.max_connections
        text = ", ".join(map(str, left_out[:_NAMED])) + (" ..." if len(left_out) > _NAMED else "")
        say(f"Not measured because they open more than {most} connections: {text}.")
    if profile is not None and settings.study.cores is None and profile.machine.cores != record.box_cores:
        say(
            f"The profile's host has {pluralize(profile.machine.cores, 'core')}, but a simulated host has "
            f"whole cores only: {record.box_cores:g}. Use --cores N for another number."
        )
    return record


def _typed_for_study(options: Options) -> str:
    """Return the typed options of the study section, as a JSON object of name to text."""
    typed = {place[1]: given.text for place, given in options.items() if place[0] == "study"}
    return json.dumps(typed, sort_keys=True)


def _looks_first(settings: Settings) -> bool:
    """Return whether a study begins with a first look: a race with no layouts, budget or short window set."""
    asked = settings.study
    return (
        asked.strategy == "race"
        and asked.layouts is None
        and asked.budget is None
        and asked.min_window is None
        and asked.window >= WINDOW_S
    )


def _may_grow(settings: Settings) -> bool:
    """Return whether the grid may grow: no layouts were chosen, and throughput can rise with more threads.

    At a fixed rate, throughput is the rate. Other objectives do not grow with the number of threads.
    """
    service = settings.service
    is_at_a_rate = (
        service.kind == "script" and service.feeder.kind == "http" and service.feeder.rate_per_s is not None
    )
    return settings.study.layouts is None and settings.study.objective == "throughput" and not is_at_a_rate


def requested_layouts(
    settings: Settings, box_cores: float, *, is_simulated: bool = False
) -> tuple[int, tuple[Layout, ...]]:
    """Return the number of cores to plan for, and the checked layouts, on a host with *box_cores*.

    Raises:
        ConfigError: no layout is left, or one cannot run on the service or the simulated profile.
    """
    cores = settings.study.cores or whole_cores(box_cores)
    layouts = settings.layouts_for(cores)
    if not layouts:
        raise ConfigError(
            f"every layout opens more than {settings.study.max_connections} connections",
            hint="Raise --max-connections, or set the number of connections per process:"
            " service.connections.",
        )
    if is_simulated:
        check_simulated(layouts)
    else:
        _check_variants(settings.service, layouts)
    return cores, layouts


def _simulated_cores(profile: Profile) -> int:
    from tuner.config.study import MOST_CORES

    cores = profile.machine.cores
    if cores > MOST_CORES:
        raise ConfigError(
            f"the profile's host has {pluralize(cores, 'core')}; tuner simulates at most {MOST_CORES}",
            hint="Set the number to simulate with --cores.",
        )
    return whole_cores(cores)


def check_simulated(layouts: Sequence[Layout]) -> None:
    """Check that a profile can simulate *layouts*.

    Raises:
        ConfigError: one has a variant, or is too large.
    """
    if variants := [str(layout) for layout in layouts if layout.variant]:
        raise ConfigError(
            f"cannot simulate {', '.join(variants)}: a profile has no variants",
            hint="Simulate each with its own profile.",
        )
    check_modelled(layouts)


def _check_variants(service: CrashProcessorSettings | ScriptSettings, layouts: Sequence[Layout]) -> None:
    """Check that no layout names a variant if the service has none; else its name would be ignored.

    A command or environment with ``{variant}`` is accepted.
    """
    of_variants = [str(layout) for layout in layouts if layout.variant]
    reported = [*service.command, *service.environment.values()] if service.kind == "script" else []
    if of_variants and not service.variants and not any("{variant}" in text for text in reported):
        raise ConfigError(
            f"{', '.join(of_variants)}: {service.name} has no variants",
            hint="Name a config whose service has some (service.variants), or leave out the @ and its name.",
        )


def check_modelled(layouts: Sequence[Layout]) -> None:
    """Check that the model can compute *layouts* within seconds.

    Raises:
        ConfigError: one has too many threads.
    """
    for layout in layouts:
        if layout.total_threads > MOST_MODELLED_THREADS:
            raise ConfigError(
                f"layout {layout} has {layout.total_threads} threads in all:"
                f" more than {MOST_MODELLED_THREADS} are not modelled",
                hint="Name smaller ones.",
            )


def another_stream(record: StudyRecord, name: str) -> StudyRecord:
    """Return *record*; a simulated one gets a random stream of windows that depends on *name*."""
    if not is_simulated(record):
        return record
    return replace(record, provenance=replace(record.provenance, simulated_stream=name))


def stored_settings(record: StudyRecord, file: Path, command: str) -> Settings:
    """Return the settings of the study in *file*; a simulated study has only the study section.

    A simulated study keeps the cores of its host, requested or from the profile. *command* is the
    replacement, with a config, that the hint of the error names.

    Raises:
        ConfigError: the settings need secrets, which the file does not store, or are invalid here.
    """
    from tuner.config.load import settings_of_study

    kept = record.config.copy_sections()
    if kept.pop("simulate", None) is not None:
        kept["study"]["cores"] = record.cores
    try:
        return settings_of_study(json.dumps(kept), str(file))
    except ConfigError as error:
        raise ConfigError(error.problem, hint=f"Name {_source(record)}: {command}") from error


def _source(record: StudyRecord) -> str:
    """Return a description of the source of a study's settings."""
    return "the command and its settings, as before" if record.provenance.is_command_typed else "the config"


def check_same_box(record: StudyRecord, file: Path, warn: Callable[[str], object]) -> None:
    """Check that this host offers the cores of a study to resume; *warn* if it is another host.

    Raises:
        ConfigError: this host offers another number of cores.
    """
    from tuner.adapters.proc.cores import usable_cores

    began, here = record.provenance.host, platform.node()
    if began is None:
        began = "another host"
    cores = usable_cores().count
    if abs(cores - record.box_cores) > 0.01:
        raise ConfigError(
            f"{file} was begun with {record.box_cores:g} usable cores on {began}; {here} offers {cores:g}",
            hint="Continue where it was started, or begin another study.",
        )
    if began != here:
        warn(f"{file} was begun on {began}, this is {here}: launches of different hosts are not paired.")


def check_same_profile(record: StudyRecord, file: Path, profile: Profile) -> None:
    """Check that a simulated study is resumed with an unchanged *profile*.

    Raises:
        ConfigError: the profile has changed since.
    """
    from tuner.config.profile import profile_texts
    from tuner.core.domain.stored_config import list_changed_settings

    kept, given = record.config.sections["simulate"], profile_texts(profile)
    if changes := list_changed_settings(kept, given):
        raise ConfigError(
            f"{file} was begun with another profile: {'; '.join(changes)}",
            hint="Continue that one, or start anew without --resume.",
        )


def _simulated_config(settings: Settings, profile: Profile) -> StoredConfig:
    """Return the stored config: settings and the whole profile, so that resuming needs no profile file."""
    from tuner.config.load import canonical_json
    from tuner.config.profile import profile_texts

    asked = StoredConfig(canonical_json(settings)).study
    return StoredConfig.of_sections({"study": asked, "simulate": profile_texts(profile)})


def _simulated_provenance(profile: Profile, cores: int) -> Provenance:
    """Return the facts of a simulated host, under the same names as those of a real host."""
    machine = profile.machine_of(cores)
    siblings = machine.cores / (machine.physical_cores or machine.cores)
    return Provenance(
        simulated=profile.name,
        host=SIMULATED_HOST,
        tuner=__version__,
        physical_cores=f"{machine.physical_cores or machine.cores:g}",
        threads_per_core=f"{siblings:g}",
        workers=WorkerFacts({GIL: "on" if machine.has_gil else "off"}),
    )
