"""Findings about a service: its command, interpreter, ports and servers."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tuner.core.domain.layout import VARIABLES, Layout


@dataclass(frozen=True, slots=True)
class ToolSeen:
    """A program, package or input that every launch needs."""

    check: str
    found: str  #: version or path; empty: it is missing or cannot be used
    problem: str  #: reason why it cannot be used
    cure: str


@dataclass(frozen=True, slots=True)
class PortSeen:
    """A port of this host to which requests are sent, or that a ready check tests."""

    address: str
    named_by: str  #: config key that names the port
    #: whether the service's command names the port, so that the service listens there
    is_bound_by_command: bool
    #: whether the command names another port, so that this one belongs to a proxy in front of the service
    is_elsewhere: bool
    listener: str  #: process that listens there now; empty: none


@dataclass(frozen=True, slots=True)
class ServerSeen:
    """A server that the config names, with the result of one request."""

    where: str  #: address without user and password
    named_by: str
    problem: str  #: empty: the server answered
    answer: str  #: its answer, or that it accepts connections
    may_be_started: bool  #: whether a hook of the study may start it later
    needed_by_tuner: bool  #: whether the probe or feeder uses it; otherwise only the service does
    cure: str = ""  #: remedy if the server runs but refuses the request; empty: it does not run


@dataclass(frozen=True, slots=True)
class InterpreterSeen:
    """The Python interpreter of the workers, as it reports itself; empty: unknown."""

    version: str = ""  #: such as CPython 3.13.1
    gil: str = ""  #: on or off
    is_debug: bool = False
    spawn_path: str = ""  #: vfork+exec, fork+exec or posix_spawn
    starts_children: bool = False  #: whether the service starts a child for each item, as far as known
    numeric_packages: tuple[str, ...] = ()  #: importable packages that start threads
    #: those of `VARIABLES` that set the number of these threads
    set_variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LockSeen:
    """The lock that allows one tuner at a time on a host."""

    path: str
    holder: str  #: process that holds the lock; empty: none


def tool_finding(seen: ToolSeen) -> Finding:
    """Return the finding whether a required tool can be used."""
    if seen.found:
        return fine(seen.check, seen.found)
    return blocking(seen.check, seen.problem, "no layout can be launched", seen.cure)


def lock_finding(seen: LockSeen) -> Finding:
    """Return the finding whether another tuner uses the host."""
    if not seen.holder:
        return fine("other-tuner", "none measures here")
    return blocking(
        "other-tuner",
        f"another tuner uses this host: {seen.holder} ({seen.path})",
        "two studies would disturb each other, so tuner refuses the second one",
        "Wait for it, or stop it.",
    )


def port_finding(seen: PortSeen) -> Finding:
    """Return the finding whether the port of the service is free."""
    place = f"{seen.address} ({seen.named_by})"
    if not seen.listener:
        if seen.is_elsewhere:
            return doubtful(
                "ports",
                f"nothing listens at {place}, and the service's command names another port",
                "requests fail, unless the service or a hook starts a listener there",
                "Name the service's own port there, or start the proxy in front of it.",
            )
        return fine("ports", f"{place} is free")
    if seen.is_elsewhere:
        return fine("ports", f"{seen.listener} listens at {place}, in front of the service")
    effect = "the service cannot listen there: tuner would measure the other process"
    if seen.is_bound_by_command:
        return blocking(
            "ports",
            f"{seen.listener} listens at {place}, which the service's command names",
            effect,
            f"Stop {seen.listener}, or give the service another port.",
        )
    return doubtful(
        "ports",
        f"{seen.listener} listens at {place} before any layout runs",
        f"unless it passes requests on to the service, {effect}",
        f"Stop {seen.listener} if it is not meant to be there.",
    )


def server_finding(seen: ServerSeen) -> Finding:
    """Return the finding whether a server answers."""
    place = f"{seen.where} ({seen.named_by})"
    if not seen.problem:
        return fine("servers", f"{place} {seen.answer}")
    effect = "tuner cannot feed or count items, so no window is valid"
    if not seen.needed_by_tuner:
        effect = "if the service needs it, all layouts wait or fail"
    if seen.may_be_started and not seen.cure:
        return doubtful(
            "servers", f"{place}: {seen.problem}", effect, "Nothing, if a hook of the study starts it."
        )
    if not seen.needed_by_tuner:
        return doubtful("servers", f"{place}: {seen.problem}", effect, "Start it, or correct its address.")
    cure = seen.cure or "Start it, or correct its address."
    return blocking("servers", f"{place}: {seen.problem}", effect, cure)


def interpreter_findings(seen: Mapping[str, InterpreterSeen], n_cores: int = 1) -> Iterator[Finding]:
    """Yield the findings about the interpreter of each variant ("": no variants) on *n_cores* cores."""
    for variant, one in seen.items():
        place = f" (variant {variant})" if variant else ""
        yield _interpreter(one, place)
        yield _spawn_path(one, place)
        if one.numeric_packages and n_cores > 1:
            yield _numeric_threads(one, place, n_cores)


def _interpreter(seen: InterpreterSeen, place: str) -> Finding:
    if not seen.version:
        return fine(
            "interpreter",
            f"unknown: the command names no Python, or it gives no answer{place}",
            "no record contains the version of the interpreter that was measured",
        )
    found = f"{seen.version}, GIL {seen.gil}{place}"
    if seen.is_debug:
        return doubtful(
            "interpreter",
            f"{found}, a debug build",
            "Python code runs slower, so an item holds the GIL longer than in production",
            "Run the service with the build of production.",
        )
    return fine("interpreter", found)


def _numeric_threads(seen: InterpreterSeen, place: str, n_cores: int) -> Finding:
    """Return the finding about threads of installed numeric libraries; items may or may not use them."""
    known = f"{', '.join(seen.numeric_packages)} can be imported{place}"
    if seen.set_variables:
        text = ", ".join(f"{name} is {value}" for name, value in seen.set_variables.items())
        return fine("numeric-threads", f"{known}; {text}")
    return fine(
        "numeric-threads",
        f"{known}; {', '.join(VARIABLES)} are not set: by default they compute in {n_cores} threads",
        "if items use them, each process has these threads in addition to those of the layout. tuner grid"
        " --axis omp=1,auto compares fewer threads",
    )


def _spawn_path(seen: InterpreterSeen, place: str) -> Finding:
    if not seen.spawn_path:
        return fine("spawn-path", f"unknown{place}: {UNKNOWN.replace('kernel', 'service')}")
    found = f"{seen.spawn_path}{place}"
    holds = "all threads of a process stop until a child of one of them has started its program"
    copies = "a child is started by fork: the larger the process, the longer its threads wait"
    effect = {"posix_spawn": holds, "fork+exec": copies}.get(seen.spawn_path, "")
    if effect and seen.gil == "off" and seen.spawn_path == "posix_spawn":
        effect = ""
    if not effect:
        return fine("spawn-path", found)
    if not seen.starts_children:
        return fine("spawn-path", found, f"if items start children, {effect}")
    return doubtful(
        "spawn-path",
        found,
        f"{effect}: threads gain less than processes",
        "Leave it if production has it, too. Otherwise call Popen with process_group (the built-in worker:"
        " spawn_path: vfork).",
    )


# Placeholders in the command of a script, its item counter, and its queue.


@dataclass(frozen=True, slots=True)
class ThreadsSeen:
    """Whether the command of a script receives the number of threads."""

    command: Sequence[str]
    #: two layouts with the same command line; None: the command gets the number of threads
    alike: tuple[Layout, Layout] | None

    @property
    def problem(self) -> str:
        """The problem in a sentence; empty: none."""
        if self.alike is None:
            return ""
        first, second = self.alike
        return (
            f"{shlex.join(self.command)} has no {{threads}}, and no file that it names reads TUNER_THREADS:"
            f" {first} and {second} would run alike"
        )

    @property
    def cure(self) -> str:
        """The remedy: options or a command to type."""
        return (
            "Write {threads} where the program gets the number (as --threads {threads}), or add --set"
            " threads=no. If it does read TUNER_THREADS: env TUNER_THREADS={threads} COMMAND."
        )


@dataclass(frozen=True, slots=True)
class CounterSeen:
    """Whether a script that should count its own items mentions the counter."""

    command: Sequence[str]
    is_mentioned: bool  #: whether a file of the command mentions the counter


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """The queue that the study would feed."""

    where: str
    problem: str  #: reason why it cannot be fed; empty: none
    cure: str


def threads_finding(seen: ThreadsSeen) -> Finding:
    """Return the finding whether the command receives the number of threads."""
    if not seen.problem:
        return fine("placeholders", "the command gets the number of threads of a layout")
    return blocking("placeholders", seen.problem, "a study is refused", seen.cure)


def counter_finding(seen: CounterSeen) -> Finding:
    """Return the finding whether the script seems to count its items."""
    if seen.is_mentioned:
        return fine("counter", "the command's files mention tuner.probe, which counts items")
    return doubtful(
        "counter",
        f"no file that {shlex.join(seen.command)} names mentions tuner.probe",
        "unless something that it imports counts, no item is counted, so no window counts",
        "Add the two lines that count (docs/services/script.md), or name another probe (docs/probes.md).",
    )


def queue_finding(seen: QueueSeen) -> Finding:
    """Return the finding whether the queue can be fed."""
    if not seen.problem:
        return fine("queue", f"{seen.where} is empty, and nobody else feeds it")
    return blocking("queue", seen.problem, "a study is refused", seen.cure)


# A finding: a checked fact, its effect on the answer, and the remedy.


Level = Literal["ok", "warn", "blocker"]

UNKNOWN = "not reported by this kernel"
_ORDER = ("blocker", "warn", "ok")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check of `tuner doctor`; its fields are those of the JSON."""

    check: str  #: name of the check, the same for every result
    level: Level  #: blocker: a study would fail or measure something else
    found: str  #: the fact found
    effect: str  #: effect on the answer; empty: none
    cure: str  #: remedy; empty: none needed


def fine(check: str, found: str, effect: str = "") -> Finding:
    """Make a finding that needs no action."""
    return Finding(check, "ok", found, effect, "")


def doubtful(check: str, found: str, effect: str, cure: str) -> Finding:
    """Make a warning: the study runs, but its answer is weaker or may be misunderstood."""
    return Finding(check, "warn", found, effect, cure)


def blocking(check: str, found: str, effect: str, cure: str) -> Finding:
    """Make a blocker: the study would fail, or measure something else."""
    return Finding(check, "blocker", found, effect, cure)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings: blockers, then warnings, then the rest; equal levels keep their order."""
    return tuple(sorted(findings, key=lambda finding: _ORDER.index(finding.level)))


def blockers(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings that prevent a study."""
    return tuple(finding for finding in findings if finding.level == "blocker")
