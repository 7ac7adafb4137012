"""The wiring of a service: its command, feeder, probe and safety limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.config.kinds import FeederSurroundings, StudyName, Surroundings
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.service import ServiceSpec
from tuner.core.text.address import bound_ports
from tuner.ports import Clock, CrossCheck, Feeder, Probe, Warn

if TYPE_CHECKING:
    from tuner.adapters.feeders.http import HttpFeeder
    from tuner.adapters.safety_limits import LimitsBrake
    from tuner.adapters.supervisord.startup import Readiness
    from tuner.config.kinds import ProbeSettings
    from tuner.config.service import CrashProcessorSettings, ScriptSettings
    from tuner.config.settings import BrakeSettings, Settings
    from tuner.services.running import Running

# Any web server as a service: with ``--service web`` tuner sends requests and counts the answers.

WEB = "web"
_FEEDER_KEYS = ("url", "clients")


def web_script(asked: Mapping[str, Any], words: tuple[str, ...]) -> dict[str, Any]:
    """Return the script section for a web server that tuner does not know, from the section *asked*."""
    environment = asked.get("environment")
    values = [*words, *map(str, environment.values() if isinstance(environment, Mapping) else ())]
    given = {key: asked[key] for key in _FEEDER_KEYS if key in asked}
    feeder: dict[str, Any] = {"kind": "http", "url": url_of(words), **given}
    if "url" not in given:
        feeder["find_address"] = "yes"
    return {
        "programs": "one" if any("{processes}" in value for value in values) else "each",
        "threads": "yes" if any("{threads}" in value for value in values) else "no",
        "probe": {"kind": "generator"},
        "feeder": feeder,
        **{key: value for key, value in asked.items() if key not in _FEEDER_KEYS},
        "kind": "script",
    }


def url_of(words: tuple[str, ...]) -> str:
    """Return the URL at which a server with this command may listen; it is checked once it runs."""
    ports = sorted(bound_ports(words))
    return f"http://127.0.0.1:{ports[0] if ports else 8000}/"


# Backends on the host of the service: its brokers and databases.


def backend_finder(settings: Settings, spec: ServiceSpec, warn: Warn) -> Callable[[], frozenset[int]]:
    """Return a function that finds the pids of servers named by URL in *settings*.

    It reads URLs of the probes, the feeder, and the command and environment of *spec*. It finds none if the
    setting `backends` names the servers.
    """
    if settings.backends is not None:
        return frozenset
    from tuner.core.text.address import backend_addresses

    addresses = backend_addresses(_words(settings, spec))
    if not addresses:
        return frozenset
    from tuner.adapters.proc.listeners import Listeners

    return Listeners(addresses, warn).pids


def _words(settings: Settings, spec: ServiceSpec) -> list[str]:
    words = [word for one in spec.each_variant for word in (*one.command, *one.environment.values())]
    service = settings.service
    if service.kind == "script":
        words += service.feeder.servers.values()
        for probe in service.probes.values():
            words += probe.servers.values()
    return words


def service_of(
    settings: Settings, layouts: Sequence[Layout], study: StudyName, scratch: Path, warn: Warn
) -> tuple[ServiceSpec, Feeder]:
    """Return the service and its feeder; *scratch* is a temporary folder of the study."""
    if settings.service.kind == "crash-processor":
        return _crash_processor(settings.service, layouts, scratch)
    return _script(settings.service, layouts, study, scratch, warn)


def with_separate_source(settings: Settings, number: int) -> Settings:
    """Return *settings* for a further launch on this host that has its own port, or its own queue of that
    *number*; gates.py checks that this is possible."""
    service = settings.service
    if service.kind == "script" and service.feeder.kind == "queue":
        from tuner.bootstrap.parts.own_sources import with_separate_queue

        return with_separate_queue(settings, number)
    from tuner.bootstrap.parts.own_sources import at_free_port

    return at_free_port(settings)


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
    specs = {
        name: _spec_of_crash_processor(asked.of(name), spool, scratch, one.environment)
        for name, one in asked.variants.items()
    }
    spec = replace(_spec_of_crash_processor(asked, spool, scratch), variants=specs)
    return spec, SpoolFeeder(spool, service.fill_command(spool, content), asked.user)


def _spec_of_crash_processor(
    asked: CrashProcessorSettings, spool: Path, scratch: Path, of_variant: Mapping[str, str] | None = None
) -> ServiceSpec:
    from tuner.services import crash_processor as service

    started = service.started_by(asked.interpreter or (), scratch)
    spec = _running(asked, of_variant).spec(
        asked.name,
        (*asked.prepend, *service.run_command(started, spool, asked.options)),
        max_extra_threads=service.MAX_EXTRA_THREADS,
    )
    return replace(spec, environment={**started.environment, **spec.environment})


def prepare_service(settings: Settings, scratch: Path) -> None:
    """Create the files in *scratch*, which must exist, that the service needs to start."""
    if settings.service.kind != "crash-processor":
        return
    service = settings.service
    if service.interpreter or any(one.interpreter for one in service.variants.values()):
        from tuner.services.crash_processor import link_packages

        link_packages(scratch)


def _script(
    asked: ScriptSettings, layouts: Sequence[Layout], study: StudyName, scratch: Path, warn: Warn
) -> tuple[ServiceSpec, Feeder]:
    variants = {name: _spec_of(asked.of(name), one.environment) for name, one in asked.variants.items()}
    return replace(_spec_of(asked), variants=variants), feeder_of(asked, layouts, study, scratch, warn)


def _spec_of(asked: ScriptSettings, of_variant: Mapping[str, str] | None = None) -> ServiceSpec:
    from tuner.services.running import script

    return script(asked.name, asked.command, _running(asked, of_variant))


def _running(
    asked: CrashProcessorSettings | ScriptSettings, of_variant: Mapping[str, str] | None = None
) -> Running:
    """Return how the service runs. Values of the environment file override the config's, and are used
    literally; with a known service the config's override, because they carry the layout. Values of a variant
    override all."""
    from tuner.services.running import Running, escape_fields

    file: Mapping[str, str] = {}
    if asked.environment_file is not None:
        from tuner.config.environment_file import read_environment_file

        file = read_environment_file(asked.environment_file)
    of_file = {name: escape_fields(value) for name, value in file.items()}
    data = {**of_file, **asked.environment} if asked.record else {**asked.environment, **of_file}
    return Running(
        user=asked.user,
        directory=None if asked.directory is None else str(asked.directory),
        environment={**data, **(of_variant or {})},
        stop_signal=asked.stop.signal,
        stop_wait_s=asked.stop.wait,
        stop_as_group=asked.stop.as_group,
        max_extra_threads=asked.max_extra_threads,
        limits=asked.limits,
        programs=asked.programs,
        workers=asked.workers or ("children" if asked.programs == "one" else "programs"),
        event_loop=asked.kind == "script" and asked.event_loop,
        probe_fields=asked.probe_fields,
        is_known=asked.record is not None,
        worker_pid=_worker_pid(asked.record),
    )


def _worker_pid(record: str | None) -> str:
    """Return the log pattern with which a known service reports its worker processes, or ""."""
    if record is None:
        return ""
    from tuner.services.catalogue import known_services

    service = known_services().get(record)
    return "" if service is None else service.worker_pid


def owner(settings: Settings) -> tuple[int, int] | None:
    """Return the user and group id that the service runs as; None: those of tuner."""
    return settings.service.owner


# The readiness check of a launch, as configured.


def ready_of(settings: Settings) -> Callable[[Layout], Readiness | None]:
    """Return a function that gives the readiness check of a layout, or None: it is ready once it runs."""
    from tuner.adapters.supervisord.startup import Readiness

    def readiness(layout: Layout) -> Readiness | None:
        service = settings.service_in(layout.variant)
        if service.ready is None:
            return None
        check = service.ready.build(layout, service.directory)
        return Readiness(check, service.ready.within, f"ready.{service.ready.condition}")

    return readiness


# The probes, which count the items of a service.


CROSS_CHECK_WITHIN = 0.02  #: default tolerance, as a share of a window's items


def cross_check_of(settings: Settings, around: Surroundings) -> CrossCheck | None:
    """Return the second probe of *settings*; None: not configured. Raises ConfigError like `probe_of`."""
    service = settings.service
    if service.cross_check is None:
        return None
    within = CROSS_CHECK_WITHIN if service.cross_check_within is None else service.cross_check_within
    names = f"probe {service.probe.kind}", f"cross_check {service.cross_check.kind}"
    return CrossCheck(probe_of(service.cross_check, settings, around), within, names)


def probe_of(asked: ProbeSettings, settings: Settings, around: Surroundings) -> Probe:
    """Return the probe that *asked* describes, for the service of *settings*.

    Raises:
        ConfigError: it can never count on this host.
    """
    return asked.build(settings, around)


# The feeder of a script, as configured.


def study_name(record: StudyRecord, file: str, place: int = 1) -> StudyName:
    """Return the name of the study *record*, kept in *file*, at one of its places on this host.

    The time of its creation makes it unique. Messages fed at different places get different ids.
    """
    own = f"{record.service}/{record.created_wall_s!r}/{record.seed}"
    return StudyName(own if place == 1 else f"{own}/{place}", file)


def feeder_of(
    asked: ScriptSettings, layouts: Sequence[Layout], study: StudyName, scratch: Path, warn: Warn
) -> Feeder:
    """Return the feeder of the service; *scratch* is a temporary folder of the study."""
    return asked.feeder.build(asked, layouts, FeederSurroundings(study, scratch, warn))


def http_feeder_of(feeder: Feeder, settings: Settings) -> HttpFeeder | None:
    """Return *feeder* if it sends HTTP requests, else None."""
    service = settings.service
    if service.kind != "script" or service.feeder.kind != "http":
        return None
    from tuner.adapters.feeders.http import HttpFeeder

    return feeder if isinstance(feeder, HttpFeeder) else None


def in_turns(feeder: Feeder, settings: Settings) -> Feeder | None:
    """Return the feeder that replaces *feeder* in a launch that is paused often; None: *feeder* itself."""
    service = settings.service
    if service.kind != "script" or service.feeder.kind != "queue":
        return None
    from tuner.adapters.feeders.queue import QueueFeeder

    return feeder.in_turns() if isinstance(feeder, QueueFeeder) else None


def warn_saturation(settings: Settings, record: StudyRecord, warn: Warn) -> None:
    """Warn of a latency limit in a closed loop, where latency is only connections / throughput."""
    service = settings.service
    if "p95_s" not in record.limits or service.kind != "script":
        return
    if service.feeder.has_closed_loop:
        from tuner.core.messages.service import latency_at_saturation

        warn(*latency_at_saturation())


def use_clients_of(found: Feeder, settings: Settings, feeder: Feeder, own: Settings) -> None:
    """Set the number of clients of *feeder* to that found for another place of the host."""
    first, sender = http_feeder_of(found, settings), http_feeder_of(feeder, own)
    if first is not None and sender is not None and first.found is not None:
        sender.use_found(first.found)


# The safety limits of a config.


EVERY_S = TIMEOUT_S = 10.0  #: defaults for the command of a safety limit: interval, and time limit of a run


def brake_of(asked: BrakeSettings | None, clock: Clock, warn: Warn) -> LimitsBrake | None:
    """Return the safety limits that *asked* describes; None: there are none.

    Raises:
        ConfigError: the command is missing, or the load and memory of this host cannot be read.
    """
    if asked is None:
        return None
    from tuner.adapters.processes.repeated_command import RepeatedCommand
    from tuner.adapters.safety_limits import LimitsBrake, read_box
    from tuner.config.settings import memory_limit
    from tuner.core.domain.safety_limits import BrakeLimits

    ratio, size = (None, None) if asked.memory is None else memory_limit(asked.memory)
    command = None
    if asked.command is not None:
        command = RepeatedCommand(clock, asked.command, asked.every or EVERY_S, asked.timeout or TIMEOUT_S)
    proc = Path("/proc")
    read_box(proc)
    return LimitsBrake(
        clock,
        BrakeLimits(asked.load, ratio, size, asked.errors, asked.holds),
        leaves_out=asked.then == "leave-out",
        look=lambda: read_box(proc),
        warn=warn,
        command=command,
    )
