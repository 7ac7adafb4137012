"""What tuner makes of a gnocchi-metricd command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.bootstrap.configs import settings_of
from tuner.config.load import Given
from tuner.config.settings import ScriptSettings
from tuner.services import gnocchi

FEEDER = str(Path(gnocchi.__file__).parent / "gnocchi_feeder" / "feed.py")


@pytest.fixture(autouse=True)
def _nothing_is_said_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OS_INCOMING__REDIS_URL", "OS_STORAGE__REDIS_URL"):
        monkeypatch.delenv(name, raising=False)


def typed(command: str, **more: str) -> ScriptSettings:
    options = {("service", "command"): Given("--", command)}
    options |= {("service", name): Given(f"--set {name}", value) for name, value in more.items()}
    service = settings_of(None, options).service
    assert isinstance(service, ScriptSettings)
    return service


def test_its_environment_says_the_layout_and_the_command_stays() -> None:
    service = typed("gnocchi-metricd --config-file gnocchi.conf")

    assert service.command == ("gnocchi-metricd", "--config-file", "gnocchi.conf")
    assert service.environment["OS_METRICD__WORKERS"] == "{processes}"
    assert service.environment["OS_DEFAULT__PARALLEL_OPERATIONS"] == "{threads}"
    assert (service.programs, service.workers) == ("one", "children")


def test_the_feeder_is_run_by_the_python_beside_it_with_its_configuration() -> None:
    command = "/srv/v/bin/gnocchi-metricd -d --config-file a.conf --config-dir=b.d"
    feeder = typed(command, metrics="64").feeder

    assert feeder.kind == "command"
    assert feeder.command == (
        *("/srv/v/bin/python3", FEEDER, "--config-file", "a.conf", "--config-dir=b.d"),
        *("--metrics", "64", "--policy", "low"),
    )


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ({"OS_INCOMING__REDIS_URL": "redis://10.0.0.1:6379/2"}, "redis://10.0.0.1:6379/2"),
        ({"OS_STORAGE__REDIS_URL": "redis:///run/redis.sock"}, "unix:///run/redis.sock"),
        ({"OS_INCOMING__REDIS_URL": "redis:///run/redis.sock?db=3"}, "unix:///run/redis.sock?db=3"),
        ({}, "redis://127.0.0.1:6379/0"),
    ],
)
def test_counts_are_read_where_measures_wait(
    said: dict[str, str], read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, url in said.items():
        monkeypatch.setenv(name, url)
    probe = typed("gnocchi-metricd").probe

    assert probe.kind == "redis"
    assert probe.url == read
