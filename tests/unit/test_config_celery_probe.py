"""How items are counted, as a config says it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tuner.adapters.probes.celery import CeleryProbeSettings
from tuner.config.load import canonical_json, load_settings, settings_of_study
from tuner.config.settings import ScriptSettings, Settings
from tuner.core.errors import ConfigError

from ..wording import key_of, wording


def load(folder: Path, probe: str) -> Settings:
    path = folder / "s.yaml"
    path.write_text(f"service:\n  kind: script\n  name: tasks\n  command: [run]\n  probe: {probe}\n")
    return load_settings(path, {})


def celery_of(settings: Settings) -> CeleryProbeSettings:
    assert isinstance(settings.service, ScriptSettings)
    assert isinstance(settings.service.probe, CeleryProbeSettings)
    return settings.service.probe


def test_the_celery_probe_needs_nothing_but_its_name(tmp_path: Path) -> None:
    settings = load(tmp_path, "{kind: celery}")
    probe = celery_of(settings)

    assert (probe.via, probe.broker, probe.python, probe.nodes, probe.timeout) == (
        "inspect",
        None,
        None,
        None,
        2.0,
    )
    assert settings_of_study(canonical_json(settings), "study") == settings


def test_a_python_is_looked_for_beside_the_config_and_a_link_to_it_stays_one(tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to(sys.executable)

    assert celery_of(load(tmp_path, "{kind: celery, python: python}")).python == tmp_path / "python"


def test_a_study_does_not_keep_the_password_of_a_broker(tmp_path: Path) -> None:
    settings = load(tmp_path, "{kind: celery, broker: 'amqp://me:hunter2@h/v;amqp://me:hunter2@g/v'}")

    assert celery_of(settings).broker == "amqp://me:hunter2@h/v;amqp://me:hunter2@g/v"
    assert "hunter2" not in canonical_json(settings)


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        (
            "{kind: celery, broker: 'redis:/:hunter2@h'}",
            wording("config.broker-url"),
        ),
        ("{kind: celery, broker: ''}", wording("config.broker-url")),
        ("{kind: celery, python: no-such-python}", wording("config.no-such-file")),
        ("{kind: celery, nodes: 0}", wording("config.at-least", least=1)),
        ("{kind: celery, via: rumour}", "'inspect' or 'events'"),
        ("{kind: celery, timeout: 0s}", wording("config.longer-than")),
    ],
    ids=key_of,
)
def test_what_cannot_be_is_said_without_secrets(tmp_path: Path, probe: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, probe)

    assert said in caught.value.problem
    assert "hunter2" not in caught.value.problem
