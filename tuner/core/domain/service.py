"""How a worker service is started in a layout."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from tuner.core.defaults import STOP_WAIT_S
from tuner.core.domain.layout import Layout
from tuner.core.text.stored_config import parse_stored_service

# Layouts whose second number is not threads that share a GIL.
#
# A pool's is processes: 2x4 is two programs that have four workers each. An event loop's is threads that run
# no Python: granian's 2x4 is two processes, each with one loop, and four threads of its part in Rust. Where
# the workers of a server are threads (granian without a GIL), it has one process: 1x4 is four workers.


def pooled_variants(config: str) -> frozenset[str]:
    """The variants of a study's service that are such pools, by its settings as JSON; "" is it as it is."""
    return _variants_with("pools", config)


def one_process_variants(config: str) -> frozenset[str]:
    """The same of those whose workers are threads of one process."""
    return _variants_with("threads", config)


def event_loop_variants(config: str) -> frozenset[str]:
    """Return the variants whose workers are event loops; *config* is as for `pooled_variants`."""
    service = parse_stored_service(config)
    own = service.get("event_loop") is True
    data = {"": own}
    for name, variant in (service.get("variants") or {}).items():
        asked = variant.get("event_loop")
        data[name] = own if asked is None else asked is True
    return frozenset(name for name, is_one in data.items() if is_one)


def shape_of(layout: Layout, pooled: Collection[str], loops: Collection[str] = ()) -> Layout:
    """Return how many processes *layout* has, and threads in each that share a GIL.

    Args:
        layout: of the study.
        pooled: variants that are pools.
        loops: variants whose processes are event loops.
    """
    if layout.variant in pooled:
        return layout.as_processes
    return layout.as_loops if layout.variant in loops and layout.has_threads else layout


def _variants_with(asked: str, config: str) -> frozenset[str]:
    service = parse_stored_service(config)
    own = service.get("workers")
    variants = service.get("variants") or {}
    data = {"": own, **{name: variant.get("workers") or own for name, variant in variants.items()}}
    return frozenset(name for name, workers in data.items() if workers == asked)


# Services whose workers are started by a master: gunicorn's arbiter, the main process of Celery's pool.


def has_master(config: str, layout: Layout) -> bool:
    """Whether a program that is no worker runs beside those of *layout*, by a study's settings as JSON."""
    service = parse_stored_service(config)
    if not service:
        return False
    asked: dict[str, Any] = (service.get("variants") or {}).get(layout.variant) or {}
    programs = asked.get("programs") or service.get("programs")
    workers = asked.get("workers") or service.get("workers")
    if workers is None:
        return bool(programs == "one")
    return workers in ("children", "pools") or (workers == "children-if-several" and layout.processes > 1)


#: how a launch that stays resident is made idle: its processes are frozen, its feeder pauses, or not at all
Gate = Literal["freeze", "feed", "none"]
Programs = Literal["each", "one"]
OsThreads = Literal["at-start", "on-demand"]
Workers = Literal["programs", "children", "children-if-several", "pools", "threads"]


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """A service as a study runs it: one command, the same for every layout but for its fields.

    It is started once for each process of the layout, or once in all, where it starts its worker processes
    itself (gunicorn, Celery's prefork pool). Workers are these programs, or their children.

    In *command* and in the values of *environment* these fields are filled in: ``{processes}``,
    ``{threads}``, ``{process}`` (0, 1, ...), ``{variant}``, ``{cores}``, ``{cores_per_process}`` (1 or more).
    ``{{`` and ``}}`` stand for braces. Besides, each worker finds TUNER_PROCESSES, TUNER_THREADS,
    TUNER_PROCESS and TUNER_VARIANT in its environment. What the probe tells the workers is a field too, by
    its variable's name: ``{TUNER_STATSD}``.
    """

    name: str  #: names the study, its marks in a runbook, its exports
    command: tuple[str, ...]  #: an argument list; never through a shell
    environment: Mapping[str, str] = field(default_factory=dict)  #: added to tuner's own
    directory: str | None = None  #: where it runs; None: tuner's current folder
    user: str | None = None  #: run as this user (tuner must be root)
    stop_signal: str = "TERM"
    stop_wait_s: float = STOP_WAIT_S  #: then KILL
    #: signal the whole process group (shell wrappers); loses work with Celery and dramatiq
    stop_as_group: bool = False
    #: OS threads a process may have beyond the layout's; None: any number
    max_extra_threads: int | None = None
    #: resource limits by name (nofile, as, core, cpu ...)
    limits: Mapping[str, int] = field(default_factory=dict)
    programs: Programs = "each"  #: "each": the command once for each process; "one": once, it starts them
    #: who works on items, and has the layout's threads; "children-if-several": a master that does the work
    #: itself when it is told to start one process only (uvicorn); "pools": the children of each program, of
    #: which each has as many as the layout has threads (several nodes of Celery's prefork pool); "threads":
    #: the one program, whose threads are its workers (granian without a GIL): a layout has one process then
    workers: Workers = "programs"
    event_loop: bool = False  #: each worker process runs Python in one loop, whatever threads the layout has
    probe_fields: tuple[str, ...] = ()  #: variables that only a launch gives a value
    is_known: bool = False  #: it is a known service: a shell that starts it is none of its processes
    #: the service in each of its variants, by name; empty: they differ in nothing but ``{variant}``
    variants: Mapping[str, Self] = field(default_factory=dict)

    def of(self, layout: Layout) -> Self:
        """The service as it is started in *layout*: that of its variant."""
        return self.variants[layout.variant] if self.variants else self

    @property
    def each_variant(self) -> Sequence[Self]:
        """The services that launches start: those of the variants, or this one."""
        return tuple(self.variants.values()) or (self,)

    def n_programs(self, layout: Layout) -> int:
        """How often the command is started for *layout*."""
        return layout.processes if self.programs == "each" else 1

    def are_workers_children(self, layout: Layout) -> bool:
        """Whether the programs' children do the work, not these themselves."""
        if self.workers == "children-if-several":
            return layout.processes > 1
        return self.workers in ("children", "pools")

    def shape(self, layout: Layout) -> Layout:
        """How many worker processes *layout* has, and threads in each that work on items."""
        if self.workers == "pools":
            return layout.as_processes
        is_loop = self.event_loop and self.workers != "threads"  # else each of these threads has a loop
        return layout.as_loops if is_loop and layout.has_threads else layout

    def command_line(
        self, layout: Layout, process: int, cores: int, data: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """The argument list of process number *process* (from 0) of *layout*; *data* is what its launch adds
        to the environment. Without it fields of the probe stay as they are written."""
        fields = {**self._fields(layout, process, cores), **self._of_probe(data or {})}
        return tuple(part.format(**fields) for part in self.command)

    def environment_of(
        self, layout: Layout, process: int, cores: int, data: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """What is added to the environment of process number *process* (from 0) of *layout*; *data* as for
        the command line."""
        fields = self._fields(layout, process, cores)
        own = {f"TUNER_{name.upper()}": str(value) for name, value in fields.items()}
        fields |= self._of_probe(data or {})
        return {**own, **{name: value.format(**fields) for name, value in self.environment.items()}}

    def _fields(self, layout: Layout, process: int, cores: int) -> dict[str, int | str]:
        return {
            "processes": layout.processes,
            "threads": layout.threads,
            "process": process,
            "variant": layout.variant,
            "cores": cores,
            "cores_per_process": cores_per_process(cores, self.shape(layout).processes),
        }

    def _of_probe(self, data: Mapping[str, str]) -> dict[str, str]:
        return {name: data.get(name, f"{{{name}}}") for name in self.probe_fields}


def cores_per_process(cores: int, processes: int) -> int:
    """How many of the *cores* each of so many worker *processes* has for itself, 1 at least."""
    return max(1, cores // processes)


def connections_of(layout: Layout, per_process: int | Literal["threads"]) -> int:
    """How many connections *layout* opens in all (to its database): a pool of a size in each process, or one
    for each thread."""
    return layout.processes * (layout.threads if per_process == "threads" else per_process)


def layout_variables(layout: Layout) -> dict[str, str]:
    """What commands that run beside a launch (feeder, probe) find of *layout* in their environment."""
    return {
        "TUNER_LAYOUT": str(layout),
        "TUNER_PROCESSES": str(layout.processes),
        "TUNER_THREADS": str(layout.threads),
        "TUNER_VARIANT": layout.variant,
    }
