"""When a campaign of kills says of a launch that its error names the cause."""

from __future__ import annotations

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord

from ..e2e.faults.killed_service import is_named

KILLED = "process 1 of 1 (pid 7) ended: terminated by SIGKILL; it logged nothing"
EXITED = "process 1 of 1 (pid 7) ended: exit status 1; its log ends: KeyError"
REFUSED = "process 1 of 1 (pid 7) ended: exit status 1; its log ends: redis.exceptions.ConnectionError"
FAILED = "the feeder failed with exit code 3: redis: ConnectionError"
ENDED = "the feeder was killed by signal 9: it printed nothing"


@pytest.mark.parametrize(
    ("error", "killed", "named"),
    [
        (KILLED, [(110.0, "worker")], True),
        (KILLED, [(110.0, "redis")], False),  # somebody else's death
        (KILLED, [(50.0, "worker"), (110.0, "redis")], False),  # of another launch
        (EXITED, [(110.0, "redis")], False),  # it says how, and not why
        (REFUSED, [(110.0, "redis")], True),
        (REFUSED, [(95.0, "redis")], True),  # away when the launch began
        (KILLED, [(95.0, "worker")], False),  # of the launch before
        (FAILED, [(110.0, "feeder")], False),  # it ended by itself
        (ENDED, [(110.0, "feeder")], True),
        (KILLED, [(130.0, "worker")], False),  # after its end
    ],
)
def test_a_cause_is_named_by_words_of_who_was_killed_while_the_launch_ran(
    error: str, killed: list[tuple[float, str]], named: bool
) -> None:
    launch = LaunchRecord(0, 0, 1, Layout(1, 1), "box", 100.0, None, None, None, error, ended_wall_s=120.0)

    assert is_named(launch, killed) is named
