"""The settings that tuner has arq import instead of the user's."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import pytest

from tuner.bootstrap.configs import settings_of
from tuner.config.load import Given
from tuner.core.errors import ConfigError
from tuner.services import arq

from ..raising import raises
from ..wording import wording

MODULE = Path(arq.__file__).parent / "arq_settings" / "tuner_arq.py"


def started(command: str) -> tuple[str, ...]:
    options = {("service", "command"): Given("--", command)}
    return settings_of(None, options).service.command


@pytest.mark.parametrize(
    ("command", "before", "after"),
    [
        ("arq app.WorkerSettings", ["arq"], []),
        ("/srv/bin/arq -v app.WorkerSettings", ["/srv/bin/arq", "-v"], []),
        ("python -m arq app.WorkerSettings -v", ["python", "-m", "arq"], ["-v"]),
        ("arq --custom-log-dict app.LOG app.WorkerSettings", ["arq", "--custom-log-dict", "app.LOG"], []),
    ],
)
def test_the_command_names_tuners_settings_which_find_the_users(
    command: str, before: list[str], after: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/srv/lib")

    env, path, own, *words = started(command)

    assert (env, own) == ("env", "TUNER_ARQ_SETTINGS=app.WorkerSettings")
    assert path == f"PYTHONPATH={MODULE.parent}{os.pathsep}/srv/lib"
    assert words == [*before, "tuner_arq.WorkerSettings", *after]


def test_a_command_without_settings_is_refused() -> None:
    with raises(ConfigError, wording("services.cannot-started-jobs")):
        started("arq -v")


@pytest.mark.parametrize(
    ("settings", "wait"),
    [
        ("class WorkerSettings:\n    functions, max_jobs = [print], 10\n", 5),
        ("WorkerSettings = {'functions': [print]}\n", 5),
        ("class WorkerSettings:\n    functions, job_completion_wait = [print], 30\n", 30),
    ],
)
def test_the_layouts_threads_are_the_jobs_at_once_and_the_rest_stays(
    settings: str, wait: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_jobs.py").write_text(settings)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "shop_jobs", raising=False)
    monkeypatch.setenv("TUNER_ARQ_SETTINGS", "shop_jobs.WorkerSettings")
    monkeypatch.setenv("TUNER_THREADS", "7")

    made = runpy.run_path(str(MODULE))["WorkerSettings"]

    assert made["functions"] == [print]
    assert (made["max_jobs"], made["job_completion_wait"], made["cron_jobs"]) == (7, wait, None)
    monkeypatch.delitem(sys.modules, "shop_jobs")
