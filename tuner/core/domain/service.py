"""How a worker service is started in a layout."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

from tuner.core.defaults import STOP_WAIT_S
from tuner.core.domain.layout import Layout


def shape_of(layout: Layout, pooled: Collection[str], loops: Collection[str] = ()) -> Layout:
    """Return the number of processes of *layout*, and of threads in each that share a GIL.

    Args:
        layout: of the study.
        pooled: variants that are pools.
        loops: variants whose processes are event loops.
    """
    if layout.variant in pooled:
        return layout.as_processes
    return layout.as_loops if layout.variant in loops and layout.has_threads else layout


# the way to idle a launch that stays started: freeze its processes, pause its feeder, or not at all
Gate = Literal["freeze", "feed", "none"]
Programs = Literal["each", "one"]
OsThreads = Literal["at-start", "on-demand"]
Workers = Literal["programs", "children", "children-if-several", "pools", "threads"]


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """A service in a study: one command for all layouts, with fields for the layout.

    The command starts once for each process of the layout, or once in all if it starts its worker processes
    itself (gunicorn, Celery's prefork pool). Workers are these programs, or their children.

    These fields are replaced in *command* and in the values of *environment*: ``{processes}``,
    ``{threads}``, ``{process}`` (0, 1, ...), ``{variant}``, ``{cores}``, ``{cores_per_process}`` (1 or more).
    ``{{`` and ``}}`` stand for braces. Each worker also has TUNER_PROCESSES, TUNER_THREADS, TUNER_PROCESS
    and TUNER_VARIANT in its environment. A variable that the probe sets for the workers is a field, too, by
    its name: ``{TUNER_STATSD}``.
    """

    name: str  #: name of the service, used for the study, its marks in a runbook and its exports
    command: tuple[str, ...]  #: argument list, which no shell interprets
    #: variables added to tuner's own environment
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str | None = None  #: working directory; None: tuner's
    user: str | None = None  #: user that runs it (tuner must be root); None: tuner's user
    stop_signal: str = "TERM"
    stop_wait_s: float = STOP_WAIT_S  #: seconds from the stop signal to KILL
    #: whether the stop signal goes to the whole process group (shell wrappers); loses work with Celery and
    #: dramatiq
    stop_as_group: bool = False
    #: most OS threads of a process beyond the layout's; None: any number
    max_extra_threads: int | None = None
    #: resource limits by name (nofile, as, core, cpu ...)
    limits: Mapping[str, int] = field(default_factory=dict)
    #: "each": the command starts once for each process; "one": it starts once, and starts the processes
    #: itself
    programs: Programs = "each"
    #: Processes that work on items and have the layout's threads. "programs": the started programs;
    #: "children": their children; "children-if-several": the children, or the program itself if the layout
    #: has one process (uvicorn); "pools": the children of each program, as many as the layout has threads
    #: (several nodes of Celery's prefork pool); "threads": the threads of the one program (granian without a
    #: GIL), so that a layout has one process.
    workers: Workers = "programs"
    #: whether each worker process runs Python in a single event loop, regardless of the layout's threads
    event_loop: bool = False
    probe_fields: tuple[str, ...] = ()  #: variables whose values are set at each launch
    #: whether it is a known service: then a shell that starts it is none of its processes
    is_known: bool = False
    #: pattern of the log line of each worker process that starts, its pid as group 1; empty: unknown
    worker_pid: str = ""
    #: the service in each variant, by name; empty: variants differ only in ``{variant}``
    variants: Mapping[str, Self] = field(default_factory=dict)

    def of(self, layout: Layout) -> Self:
        """Return the service of *layout*'s variant."""
        return self.variants[layout.variant] if self.variants else self

    @property
    def each_variant(self) -> Sequence[Self]:
        """The services that launches start: those of the variants, or this one."""
        return tuple(self.variants.values()) or (self,)

    def n_programs(self, layout: Layout) -> int:
        """Return the number of starts of the command for *layout*."""
        return layout.processes if self.programs == "each" else 1

    def are_workers_children(self, layout: Layout) -> bool:
        """Return whether the children of the programs do the work, instead of the programs."""
        if self.workers == "children-if-several":
            return layout.processes > 1
        return self.workers in ("children", "pools")

    def shape(self, layout: Layout) -> Layout:
        """Return the number of worker processes of *layout*, and of threads in each that work on items."""
        if self.workers == "pools":
            return layout.as_processes
        is_loop = self.event_loop and self.workers != "threads"  # otherwise each thread has its own loop
        return layout.as_loops if is_loop and layout.has_threads else layout

    def command_line(
        self, layout: Layout, process: int, cores: int, data: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """Return the argument list of process *process* (from 0) of *layout*.

        *data*: environment that the launch adds; without it, fields of the probe are not replaced."""
        fields = {**self._fields(layout, process, cores), **self._of_probe(data or {})}
        return tuple(part.format(**fields) for part in self.command)

    def environment_of(
        self, layout: Layout, process: int, cores: int, data: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return the variables added to the environment of process *process* (from 0) of *layout*.

        *data* as for the command line."""
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
    """Return the number of cores for each of *processes* worker processes, at least 1."""
    return max(1, cores // processes)


def connections_of(layout: Layout, per_process: int | Literal["threads"]) -> int:
    """Return the number of connections that *layout* opens in all (to its database).

    *per_process*: the size of a process's pool, or one connection per thread."""
    return layout.processes * (layout.threads if per_process == "threads" else per_process)


def layout_variables(layout: Layout) -> dict[str, str]:
    """Return the variables about *layout* for commands that run during a launch (feeder, probe)."""
    return {
        "TUNER_LAYOUT": str(layout),
        "TUNER_PROCESSES": str(layout.processes),
        "TUNER_THREADS": str(layout.threads),
        "TUNER_VARIANT": layout.variant,
    }
