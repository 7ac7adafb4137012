"""Launchers of the test worker."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.supervisord.launcher import SupervisordLauncher
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.errors import ConfigError, MeasurementError

WORKER = Path(__file__).with_name("worker.py")
LaunchersOf = Callable[..., SupervisordLauncher]


def failure(launcher: SupervisordLauncher, layout: Layout = Layout(2, 1)) -> MeasurementError | ConfigError:  # noqa: B008 - frozen
    """What *layout* fails with at its start."""
    with pytest.raises((MeasurementError, ConfigError)) as raised, launcher.running(layout, {}):
        pytest.fail("it runs")
    assert "\n" not in raised.value.problem
    return raised.value


@pytest.fixture
def warnings_given() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def launcher_of(warnings_given: list[tuple[str, str]]) -> Iterator[LaunchersOf]:
    """Makes launchers of the test worker: ``launcher_of("die", "3", spec={...})``; they settle quickly."""
    made = []

    def make(*arguments: str, spec: dict[str, Any] | None = None, **settings: Any) -> SupervisordLauncher:
        command = {"command": (sys.executable, str(WORKER), *arguments), **(spec or {})}
        usual = {"cores": 2, "cpus": None, "run_root": None, "keep_logs": None, "settle_s": 0.05}
        how: dict[str, Any] = {**usual, **settings}
        launcher = SupervisordLauncher(
            ServiceSpec("tested", **command),
            clock=SystemClock(),
            marker=f"test-{uuid.uuid4().hex}",
            warn=lambda slug, text: warnings_given.append((slug, text)),
            **how,
        )
        made.append(launcher)
        return launcher

    yield make
    for launcher in made:
        launcher.close()
