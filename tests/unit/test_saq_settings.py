"""The settings that tuner has SAQ import instead of the user's."""

from __future__ import annotations

import asyncio
import os
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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


def settings_made_from(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the settings that SAQ reads, for seven jobs at once and the user's settings in *text*."""
    (folder / "shop_saq.py").write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "shop_saq", raising=False)
    monkeypatch.setenv("TUNER_SAQ_SETTINGS", "shop_saq.settings")
    monkeypatch.setenv("TUNER_THREADS", "7")
    made: dict[str, Any] = runpy.run_path(str(MODULE))["settings"]
    monkeypatch.delitem(sys.modules, "shop_saq")
    return made


@pytest.mark.parametrize(
    ("settings", "grace_s"),
    [
        ("settings = {'functions': [print], 'concurrency': 10}\n", 5),
        ("def settings():\n    return {'functions': [print], 'shutdown_grace_period_s': 30}\n", 30),
        (
            "from types import SimpleNamespace\n"
            "settings = {'functions': [], 'cron_jobs': [SimpleNamespace(function=print)]}\n",
            5,
        ),
    ],
)
def test_the_layouts_threads_are_the_jobs_at_once_and_the_rest_stays(
    settings: str, grace_s: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = settings_made_from(settings, tmp_path, monkeypatch)

    assert made["functions"] == [print]
    assert (made["concurrency"], made["shutdown_grace_period_s"]) == (7, grace_s)
    assert made["cron_jobs"] == []


HOOKS = """
async def first(context):
    context["ran"].append("first")

async def second(context):
    context["ran"].append("second")

"""


@pytest.mark.parametrize(
    ("startup", "ran"), [("[]", []), ("first", ["first"]), ("[first, second]", ["first", "second"])]
)
def test_the_line_that_tuner_waits_for_is_printed_after_the_users_hooks(
    startup: str,
    ran: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = settings_made_from(f"{HOOKS}settings = {{'startup': {startup}}}\n", tmp_path, monkeypatch)
    context: dict[str, list[str]] = {"ran": []}

    asyncio.run(made["startup"](context))

    (form,) = saq.SERVICE.forms
    assert context["ran"] == ran
    assert form.ready == {"kind": "log", "pattern": capsys.readouterr().err.strip()}


@pytest.mark.parametrize(
    ("parameters", "has_grace"), [("shutdown_grace_period_s=0", True), ("concurrency=10", False)]
)
def test_a_version_without_a_grace_period_gets_none(
    parameters: str, has_grace: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before version 0.26, a worker with this setting does not start."""
    names: dict[str, Any] = {}
    exec(f"class Worker:\n    def __init__(self, {parameters}): pass\n", names)
    monkeypatch.setitem(sys.modules, "saq.worker", SimpleNamespace(**names))  # type: ignore[arg-type]

    made = settings_made_from("settings = {}\n", tmp_path, monkeypatch)

    assert ("shutdown_grace_period_s" in made) == has_grace
