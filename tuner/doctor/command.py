"""What a script's command says and its files mention, and what its queue holds."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.core.domain.layout import Layout
from tuner.doctor.finding import Finding, blocking, doubtful, fine


@dataclass(frozen=True, slots=True)
class ThreadsSeen:
    """Whether the command of a script gets the number of threads."""

    command: Sequence[str]
    alike: tuple[Layout, Layout] | None  #: two layouts that it is started alike in; None: it is told

    @property
    def problem(self) -> str:
        """Empty: there is none."""
        if self.alike is None:
            return ""
        first, second = self.alike
        return (
            f"{shlex.join(self.command)} has no {{threads}}, and no file that it names reads TUNER_THREADS:"
            f" {first} and {second} would run alike"
        )

    @property
    def cure(self) -> str:
        """What to type."""
        return (
            "Write {threads} where the program gets the number (as --threads {threads}), or add --set"
            " threads=no. If it does read TUNER_THREADS: env TUNER_THREADS={threads} COMMAND."
        )


@dataclass(frozen=True, slots=True)
class CounterSeen:
    """Whether a script that should count its own items seems to."""

    command: Sequence[str]
    is_mentioned: bool  #: a file of the command mentions the counter


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """The queue that is to be fed."""

    where: str
    problem: str  #: why it cannot be fed; empty: it can
    cure: str


def threads_finding(seen: ThreadsSeen) -> Finding:
    """Whether layouts differ in what is started."""
    if not seen.problem:
        return fine("placeholders", "the command gets the number of threads of a layout")
    return blocking("placeholders", seen.problem, "a study is refused", seen.cure)


def counter_finding(seen: CounterSeen) -> Finding:
    """Whether items are going to be counted."""
    if seen.is_mentioned:
        return fine("counter", "the command's files mention tuner.probe, which counts items")
    return doubtful(
        "counter",
        f"no file that {shlex.join(seen.command)} names mentions tuner.probe",
        "unless something that it imports counts, no item is counted, so no window counts",
        "Add the two lines that count (docs/services/script.md), or name another probe (docs/probes.md).",
    )


def queue_finding(seen: QueueSeen) -> Finding:
    """Whether the queue can be fed."""
    if not seen.problem:
        return fine("queue", f"{seen.where} is empty, and nobody else feeds it")
    return blocking("queue", seen.problem, "a study is refused", seen.cure)
