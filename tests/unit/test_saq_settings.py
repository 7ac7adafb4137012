"""The settings that tuner has SAQ import instead of the user's."""

from __future__ import annotations

import asyncio
import os
import runpy
import sys
from pathlib import Path

import pytest

from tuner.bootstrap.configs import settings_of
from tuner.config.load import Given
from tuner.core.errors import ConfigError
from tuner.services import saq

from ..raising import raises
from ..wording import wording

MODULE = Path(saq.__file__).parent / "saq_settings" / "tuner_saq.py"


def started(command: str) -> tuple[str, ...]:
    options = {("service", "command"): Given("--", command)}
    return settings_of(None, options).service.command


@pytest.mark.parametrize(
    ("command", "before", "after"),
    [
        ("saq app.settings", ["saq"], []),
        ("/srv/bin/saq -v app.settings", ["/srv/bin/saq", "-v"], []),
        ("python -m saq app.settings --workers 4 -v", ["python", "-m", "saq"], ["-v"]),
        ("saq --workers=4 app.settings", ["saq"], []),
        ("saq --port 9000 app.settings", ["saq", "--port", "9000"], []),
    ],
)
def test_the_command_names_tuners_settings_which_find_the_users_and_starts_one_process(
    command: str, before: list[str], after: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/srv/lib")

    env, path, own, *words = started(command)

    assert (env, own) == ("env", "TUNER_SAQ_SETTINGS=app.settings")
    assert path == f"PYTHONPATH={MODULE.parent}{os.pathsep}/srv/lib"
    assert words == [*before, "tuner_saq.settings", *after]


def test_a_command_without_settings_is_refused() -> None:
    with raises(ConfigError, wording("services.cannot-started-jobs")):
        started("saq -v")


@pytest.mark.parametrize(
    ("settings", "grace_s", "n_hooks"),
    [
        ("settings = {'functions': [print], 'concurrency': 10}\n", 5, 1),
        ("def settings():\n    return {'functions': [print], 'shutdown_grace_period_s': 30}\n", 30, 1),
        ("settings = {'functions': [print], 'startup': print}\n", 5, 2),
        ("settings = {'functions': [print], 'startup': [print, print]}\n", 5, 3),
        (
            "from types import SimpleNamespace\n"
            "settings = {'functions': [], 'cron_jobs': [SimpleNamespace(function=print)]}\n",
            5,
            1,
        ),
    ],
)
def test_the_layouts_threads_are_the_jobs_at_once_and_the_rest_stays(
    settings: str, grace_s: int, n_hooks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_saq.py").write_text(settings)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "shop_saq", raising=False)
    monkeypatch.setenv("TUNER_SAQ_SETTINGS", "shop_saq.settings")
    monkeypatch.setenv("TUNER_THREADS", "7")

    made = runpy.run_path(str(MODULE))["settings"]

    assert made["functions"] == [print]
    assert (made["concurrency"], made["shutdown_grace_period_s"]) == (7, grace_s)
    assert len(made["startup"]) == n_hooks
    assert made["cron_jobs"] == []
    monkeypatch.delitem(sys.modules, "shop_saq")


def test_the_line_that_a_worker_prints_when_it_has_started_is_the_one_that_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop_saq.py").write_text("settings = {}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "shop_saq", raising=False)
    monkeypatch.setenv("TUNER_SAQ_SETTINGS", "shop_saq.settings")
    monkeypatch.setenv("TUNER_THREADS", "7")

    asyncio.run(runpy.run_path(str(MODULE))["settings"]["startup"][-1]({}))

    (form,) = saq.SERVICE.forms
    assert form.ready == {"kind": "log", "pattern": capsys.readouterr().err.strip()}
    monkeypatch.delitem(sys.modules, "shop_saq")
