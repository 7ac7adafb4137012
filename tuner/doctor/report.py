"""The findings about a host: as a table for people, and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from tuner.core.text.figures import pluralize
from tuner.core.text.safe_text import printable
from tuner.doctor.cores import (
    CoresSeen,
    KernelSeen,
    Neighbours,
    cores_findings,
    kernel_findings,
    neighbours_findings,
)
from tuner.doctor.room import Room, room_findings
from tuner.doctor.service import (
    CounterSeen,
    Finding,
    InterpreterSeen,
    LockSeen,
    QueueSeen,
    ServerSeen,
    ThreadsSeen,
    ToolSeen,
    counter_finding,
    interpreter_findings,
    lock_finding,
    queue_finding,
    server_finding,
    threads_finding,
    tool_finding,
    worst_first,
)

SCHEMA_VERSION = 1  #: version of the JSON; it increases when a field changes its meaning or is removed


def render_findings(findings: Sequence[Finding], *, width: int = 100) -> str:
    """Return a summary, each blocker and warning with effect and remedy, and a line per other finding."""
    column = max(len(finding.check) for finding in findings) + 2
    lines = [_summary(findings), ""]
    for finding in findings:
        if finding.level == "ok":
            lines.append(f"{'ok':<9}{finding.check:<{column}}{printable(finding.found)}")
        else:
            lines += [*_at_length(finding, column, width), ""]
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def render_findings_json(findings: Sequence[Finding]) -> str:
    """Return every finding with its five fields as JSON, in the order of the table."""
    reported = [asdict(finding) for finding in findings]
    return json.dumps({"schema_version": SCHEMA_VERSION, "findings": reported}, indent=2) + "\n"


def _summary(findings: Sequence[Finding]) -> str:
    n_blockers = sum(finding.level == "blocker" for finding in findings)
    n_warnings = sum(finding.level == "warn" for finding in findings)
    found = f"{pluralize(n_warnings, 'warning')}, {len(findings) - n_blockers - n_warnings} in order"
    if n_blockers:
        return f"{pluralize(n_blockers, 'blocker')}: a study should not begin here. {found}."
    return f"Nothing blocks a study here. {found}."


def _at_length(finding: Finding, column: int, width: int) -> Iterator[str]:
    level = "BLOCKER" if finding.level == "blocker" else finding.level
    before = f"{level:<9}{finding.check:<{column}}"
    for label, text in (("", finding.found), ("effect: ", finding.effect), ("cure: ", finding.cure)):
        for line in _wrap(label + printable(text), width - len(before)):
            yield before + line
            before = " " * len(before)


def _wrap(text: str, cells: int) -> list[str]:
    """Break *text* only at blanks, so that paths and commands can be copied; cut nothing off."""
    return textwrap.wrap(text, cells, break_long_words=False, break_on_hyphens=False)


# Findings from all facts about a host and a study planned on it.


@dataclass(frozen=True, slots=True)
class BoxSeen:
    """All facts that `tuner doctor` examines."""

    cores: CoresSeen
    neighbours: Neighbours | None  #: None: not measured
    kernel: KernelSeen
    lock: LockSeen
    tools: tuple[ToolSeen, ...]
    room: Room
    servers: tuple[ServerSeen, ...]
    interpreters: Mapping[str, InterpreterSeen]  #: by variant
    threads: tuple[ThreadsSeen, ...] = ()  #: checks of scripts only
    counters: tuple[CounterSeen, ...] = ()
    queues: tuple[QueueSeen, ...] = ()


def examine(seen: BoxSeen) -> tuple[Finding, ...]:
    """Return all findings, the worst first."""

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
