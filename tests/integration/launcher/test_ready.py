"""How long a launch is waited for that runs and is not ready to work yet."""

from __future__ import annotations

import re
import sys

import pytest

from tuner.adapters.ready.log import LogLines
from tuner.adapters.supervisord.startup import Readiness
from tuner.core.domain.layout import Layout
from tuner.core.errors import MeasurementError

from ...wording import start_of, wording
from .conftest import LaunchersOf, failure

pytestmark = pytest.mark.integration
SLOWLY_READY = """\
import time
for n in range(3):
    time.sleep(0.05)
    print("ready", n, flush=True)
time.sleep(60)
"""


def test_a_launch_is_waited_for_until_it_is_ready(launcher_of: LaunchersOf) -> None:
    checks: list[LogLines] = []

    def ready(layout: Layout) -> Readiness:
        checks.append(LogLines(re.compile(b"^ready"), 3 * layout.processes))
        return Readiness(checks[-1], 60.0)

    command = {"command": (sys.executable, "-u", "-c", SLOWLY_READY)}
    with launcher_of(spec=command, ready=ready).running(Layout(2, 1), {}) as launch:
        logged = [path.read_text().count("ready") for path in launch.log_files]

    assert logged == [3, 3]
    assert len(checks) == 1


def test_a_launch_that_is_never_ready_is_reported_with_what_it_lacks_and_its_log(
    launcher_of: LaunchersOf,
) -> None:
    command = {"command": (sys.executable, "-u", "-c", SLOWLY_READY)}
    launcher = launcher_of(
        spec=command, ready=lambda _: Readiness(LogLines(re.compile(b"^finished"), 1), 0.5, "ready.pattern")
    )

    result = failure(launcher, Layout(1, 1))

    assert isinstance(result, MeasurementError)
    assert wording("services.not-ready-after") in start_of(result.problem)
    assert result.problem.endswith("; its log ends: ready 0 | ready 1 | ready 2")


def test_a_launch_that_dies_before_it_is_ready_is_reported_as_dead(launcher_of: LaunchersOf) -> None:
    launcher = launcher_of(
        "late", "0.3", "7", ready=lambda _: Readiness(LogLines(re.compile(b"never"), 1), 60.0)
    )

    assert wording("launch.died-at-start-by-status") in failure(launcher, Layout(1, 1)).problem
