"""What `tuner doctor` says of a script's command and of the queue that is to be fed."""

from __future__ import annotations

from tuner.core.domain.layout import Layout
from tuner.doctor.service import (
    CounterSeen,
    QueueSeen,
    ThreadsSeen,
    counter_finding,
    queue_finding,
    threads_finding,
)

COMMAND = ("python3", "my worker.py")


def test_a_command_that_is_not_told_its_threads_blocks_a_study() -> None:
    fine = threads_finding(ThreadsSeen(COMMAND, None))
    found = threads_finding(ThreadsSeen(COMMAND, (Layout(1, 1), Layout(1, 4))))

    assert (fine.check, fine.level) == ("placeholders", "ok")
    assert (found.check, found.level) == ("placeholders", "blocker")
    assert "python3 'my worker.py' has no {threads}" in found.found
    assert "{threads}" in found.cure


def test_a_script_that_nothing_seems_to_count_is_doubtful() -> None:
    fine = counter_finding(CounterSeen(COMMAND, is_mentioned=True))
    found = counter_finding(CounterSeen(COMMAND, is_mentioned=False))

    assert (fine.check, fine.level) == ("counter", "ok")
    assert (found.check, found.level) == ("counter", "warn")  # what it imports may count
    assert "docs/services/script.md" in found.cure


def test_a_queue_that_cannot_be_fed_blocks_a_study() -> None:
    fine = queue_finding(QueueSeen("the queue jobs of redis://h", "", ""))
    found = queue_finding(QueueSeen("the queue jobs of redis://h", "it holds 3 messages", "Name another."))

    assert (fine.check, fine.level) == ("queue", "ok")
    assert (found.level, found.found, found.cure) == ("blocker", "it holds 3 messages", "Name another.")
