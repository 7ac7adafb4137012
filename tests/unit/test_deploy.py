from __future__ import annotations

from pathlib import Path

from tuner.adapters.supervisord_config import open_files_needed, render_config
from tuner.core.service import ServiceSpec

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def test_the_explained_supervisord_configuration_is_the_one_that_is_written() -> None:
    spec = ServiceSpec(name="crash-processor", command=("crash-processor", "run"))

    written = render_config(spec, 4, minfds=open_files_needed(4), as_root=False)

    assert (DEPLOY / "supervisord.conf").read_text(encoding="utf-8") == written


def test_the_unit_shares_the_box_lock_with_everybody_and_knows_the_secrets_of_its_config() -> None:
    lines = (DEPLOY / "systemd" / "tuner-study.service").read_text(encoding="utf-8").splitlines()
    settings = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))

    assert {"-/run/lock", "/tmp"} <= set(settings["ReadWritePaths"].split())
    assert settings["PrivateTmp"] == "no"
    assert 'grid "$CONFIG" --resume "$STUDY"' in settings["ExecStart"]
