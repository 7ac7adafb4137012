"""The largest numbers that a study may be asked for: its file can be read again, or none is made."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tuner.app import plan_builder
from tuner.bootstrap import stores
from tuner.bootstrap.configs import settings_of
from tuner.cli import EXIT_INPUT, run
from tuner.config.load import Given
from tuner.config.profile import read_profile
from tuner.core.errors import ConfigError

PROFILE = Path(__file__).resolve().parents[2] / "configs" / "profiles" / "gil-bound.yaml"


@pytest.mark.parametrize(
    "asked",
    [
        {"seed": str(2**63 - 1)},
        {"strategy": "all", "repeats": "1000000", "windows_per_launch": "1000000"},
        {"max_attempts": "1000000"},
        {"foreign_limit": "1e15"},
        {"max_load": "1e15", "max_memory": "900T"},
        {"max_connections": str(2**63 - 1)},
    ],
    ids=lambda asked: " ".join(asked),
)
def test_the_largest_settings_make_a_file_that_can_be_read_again(
    tmp_path: Path, asked: dict[str, str]
) -> None:
    options = {("study", name): Given(f"--{name}", text) for name, text in asked.items()}
    record = plan_builder.plan_record(settings_of(None, options), profile=read_profile(PROFILE))
    stores.new_store(tmp_path / "a.tuner.db", record, lasting=False).close()

    with stores.open_store(tmp_path / "a.tuner.db", read_only=True) as store:
        assert store.study() == record


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("seed", str(2**63)),
        ("max_attempts", "1000001"),
        ("foreign_limit", "1.1e15"),
        ("max_load", "1e300"),
        ("max_memory", "1000T"),
        ("max_connections", str(2**63)),
    ],
)
def test_a_setting_that_no_study_s_file_holds_is_refused_before_anything_is_measured(
    key: str, text: str
) -> None:
    with pytest.raises(ConfigError, match=f"^--{key}: should be less than or equal to "):
        settings_of(None, {("study", key): Given(f"--{key}", text)})


@pytest.mark.parametrize(
    "line",
    [
        "aa --layout 1x1 --repeats 1000001",
        "aa --layout 1x1 --windows-per-launch 1000001",
        "calibrate --launches 1000001",
        "calibrate --windows 1000001",
        "check STUDY --foreign-limit 1.1e15",
    ],
)
def test_an_option_that_no_study_s_file_holds_is_refused_before_anything_is_measured(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run(shlex.split(f"{line} --simulate {shlex.quote(str(PROFILE))}")) == EXIT_INPUT
    assert line.split()[-2] in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
