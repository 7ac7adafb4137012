"""The brake as a config says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.config.load import canonical_json, load_settings, settings_of_study
from tuner.config.settings import Settings, memory_limit
from tuner.core.errors import ConfigError

from ..wording import key_of, wording


def load(tmp_path: Path, text: str) -> Settings:
    (tmp_path / "s.yaml").write_text(text)
    return load_settings(tmp_path / "s.yaml", {})


def test_no_brake_is_the_default(tmp_path: Path) -> None:
    assert load(tmp_path, "study: {window: 1m}").brake is None


def test_all_of_it_and_what_a_study_keeps_of_it(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "brake: {load: 40, memory: 90%, errors: 5%, command: [./ok, now], every: 30s, timeout: 5s, holds: 0s,"
        " then: leave-out}",
    )

    brake = settings.brake
    assert brake is not None
    assert (brake.load, brake.memory, brake.errors, brake.holds) == (40.0, "90%", 0.05, 0.0)
    assert (brake.command, brake.every, brake.timeout, brake.then) == (
        ("./ok", "now"),
        30.0,
        5.0,
        "leave-out",
    )
    assert settings_of_study(canonical_json(settings), "s.tuner.db") == settings


@pytest.mark.parametrize("text", ["{load: 40}", "{command: ./ok}", "{memory: 28G}"])
def test_what_a_study_keeps_of_part_of_it(tmp_path: Path, text: str) -> None:
    settings = load(tmp_path, f"brake: {text}")

    assert settings_of_study(canonical_json(settings), "s.tuner.db") == settings


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "s.yaml:1:8: brake: " + wording("config.brake-without-limit")),
        ("{holds: 1s}", wording("config.brake-without-limit")),
        ("{load: 0}", wording("config.load-cannot-be-kept", value=0)),
        ("{memory: 8}", wording("config.no-unit", text=8)),
        ("{memory: 100%}", wording("config.share-never-passed")),
        ("{errors: 5}", wording("config.no-share")),
        ("{errors: 0%}", wording("config.above", least=0)),
        ("{load: 4, every: 5s}", "s.yaml:1:25: brake.every: " + wording("config.without-command")),
        ("{load: 4, timeout: 5s}", "brake.timeout: " + wording("config.without-command")),
        (
            "{load: 4, then: leave}",
            wording("config.none-of-these", text="leave", known="stop or leave-out", meant="leave-out"),
        ),
        ("{load: 4, hold: 5s}", wording("config.did-you-mean", meant="holds")),
        ("{command: []}", wording("config.names-no-program")),
    ],
    ids=key_of,
)
def test_what_is_no_brake_is_reported_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"brake: {text}")

    assert said in caught.value.problem


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        ("{kind: command, command: count}", wording("config.probe-cannot-count-failed", probe="command")),
        ("{kind: statsd, name: done}", wording("config.probe-not-told-to-count-failed", probe="statsd")),
        ("{kind: statsd, name: done, failed: bad}", None),
        (
            "{kind: prometheus, url: 'http://127.0.0.1:1/', metric: done}",
            wording("config.probe-not-told-to-count-failed", probe="prometheus"),
        ),
        ("{kind: mmap-counter}", None),
        ("{kind: uwsgi, stats: '127.0.0.1:1717'}", None),
    ],
    ids=key_of,
)
def test_a_share_of_errors_needs_a_probe_that_counts_them(
    tmp_path: Path, probe: str, said: str | None
) -> None:
    text = f"service: {{kind: script, name: w, command: w, probe: {probe}}}\nbrake: {{errors: 5%}}"
    if said is None:
        assert load(tmp_path, text).brake is not None
        return
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)

    assert said in caught.value.problem
    assert "s.yaml:2:17: brake.errors:" in caught.value.problem


def test_memory_is_a_share_or_an_amount() -> None:
    assert memory_limit("90%") == (0.9, None)
    assert memory_limit("92.5 %") == (0.925, None)
    assert memory_limit("2G") == (None, 2 * 1024**3)
