"""All that was seen of a box and of a study planned on it, as findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tuner.doctor.command import (
    CounterSeen,
    QueueSeen,
    ThreadsSeen,
    counter_finding,
    queue_finding,
    threads_finding,
)
from tuner.doctor.cores import CoresSeen, Neighbours, cores_findings, neighbours_findings
from tuner.doctor.finding import Finding, worst_first
from tuner.doctor.kernel import KernelSeen, kernel_findings
from tuner.doctor.room import Room, room_findings
from tuner.doctor.service import (
    InterpreterSeen,
    LockSeen,
    ServerSeen,
    ToolSeen,
    interpreter_findings,
    lock_finding,
    server_finding,
    tool_finding,
)


@dataclass(frozen=True, slots=True)
class BoxSeen:
    """Everything that `tuner doctor` looks at."""

    cores: CoresSeen
    neighbours: Neighbours | None  #: None: nobody looked
    kernel: KernelSeen
    lock: LockSeen
    tools: tuple[ToolSeen, ...]
    room: Room
    servers: tuple[ServerSeen, ...]
    interpreters: Mapping[str, InterpreterSeen]  #: by variant
    threads: tuple[ThreadsSeen, ...] = ()  #: of a script
    counters: tuple[CounterSeen, ...] = ()
    queues: tuple[QueueSeen, ...] = ()


def examine(seen: BoxSeen) -> tuple[Finding, ...]:
    """Every finding, the worst first."""

    def found() -> Iterator[Finding]:
        yield from cores_findings(seen.cores)
        if seen.neighbours is not None:
            yield from neighbours_findings(seen.neighbours)
        yield from kernel_findings(seen.kernel)
        yield lock_finding(seen.lock)
        yield from map(tool_finding, seen.tools)
        yield from map(threads_finding, seen.threads)
        yield from map(counter_finding, seen.counters)
        yield from interpreter_findings(seen.interpreters, len(seen.cores.cpus))
        yield from room_findings(seen.room)
        yield from map(server_finding, seen.servers)
        yield from map(queue_finding, seen.queues)

    return worst_first(found())
