"""A supervisord that cannot be started, or ends at once: what is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from tuner.adapters.supervisord.guardian import Guardian
from tuner.adapters.supervisord.launch import SupervisedLaunch
from tuner.adapters.supervisord.startup import await_running
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.errors import MeasurementError

from ...raising import raises
from ...wording import end_of, wording
from .conftest import LaunchersOf, failure

pytestmark = pytest.mark.integration


def test_a_supervisord_that_cannot_be_executed_is_reported_with_the_reason(
    launcher_of: LaunchersOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    launcher = launcher_of("wait", keep_logs=tmp_path / "logs")
    with launcher:  # its guardian is there
        monkeypatch.setenv("TOO_LONG", "x" * (1 << 20))  # the kernel takes 128 KiB
        error = failure(launcher)

    assert wording("launch.guardian-process-cannot-start") in error.problem
    assert wording("launch.argument-list-too-long") in end_of(error.problem)


def test_a_supervisord_that_ended_before_anybody_looked_is_reported(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()  # collected, as the guardian does
    guardian = Guardian(f"test-{uuid.uuid4().hex}")
    status = os.open(os.devnull, os.O_RDONLY)
    spec = ServiceSpec("tested", ("true",))
    try:
        launch = SupervisedLaunch(Layout(1, 1), spec, tmp_path, tmp_path, guardian, ended.pid, print)
        with raises(MeasurementError, wording("launch.supervisord-ended-at-start")):
            await_running(launch, status, 0.05)
        launch.close()
    finally:
        os.close(status)
        guardian.close()


def test_a_supervisord_that_ends_at_once_is_reported_though_it_wrote_no_log_to_keep(
    launcher_of: LaunchersOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    launcher = launcher_of("wait", keep_logs=tmp_path / "logs")
    with launcher:
        monkeypatch.setattr("sys.executable", shutil.which("false"))  # becomes that instead
        error = failure(launcher)

    assert error.problem == wording("launch.supervisord-ended-at-start")


def test_what_supervisord_s_shim_wrote_before_it_had_a_log_is_reported(
    launcher_of: LaunchersOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An interpreter that cannot even begin: a traceback on stderr, and no log."""
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'AttributeError: type object has no attribute' >&2\nexit 1\n")
    broken.chmod(0o755)
    launcher = launcher_of("wait", keep_logs=tmp_path / "logs")
    with launcher:
        monkeypatch.setattr("sys.executable", str(broken))
        error = failure(launcher)

    assert error.problem == wording("launch.supervisord-ended-at-start-saying")
