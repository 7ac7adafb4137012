"""What becomes of a helper of the Celery probe that cannot begin. No Celery is needed for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.probes.celery import CeleryProbe, CeleryQuestion
from tuner.adapters.supervisord.config import Job
from tuner.adapters.supervisord.startup import WorkerJobs
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.errors import ConfigError

from ..wording import end_of, wording

pytestmark = pytest.mark.integration


def no_warning(slug: str, text: str) -> None:
    pytest.fail(f"{slug}: {text}")


def test_what_a_helper_says_is_reported_without_the_secrets_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter20")
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "no login: $API_TOKEN, $DB_PASSWORD, hunter22, hunter23">&2; exit 1\n')
    python.chmod(0o755)
    command = ("sh", "-A", "tasks", "--password", "hunter22")
    spec = ServiceSpec("tasks", command, {"DB_PASSWORD": "hunter21"}, str(tmp_path))

    def jobs(layout: Layout) -> list[Job]:
        return WorkerJobs(spec, 2, None, "test").jobs(layout, {}, logs=Path(), status=Path())

    question = CeleryQuestion("inspect", "redis://:hunter23@127.0.0.1:1/0", str(python))

    with pytest.raises(ConfigError) as caught:
        CeleryProbe(SystemClock(), question, jobs, [Layout(1, 1)], no_warning)

    assert wording("probes.no-login") in end_of(caught.value.problem)
