from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tuner.adapters.supervisord.config import open_files_needed, render_config
from tuner.core.domain.service import ServiceSpec

from ..wording import wording

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


@pytest.mark.parametrize(
    "script", sorted(DEPLOY.rglob("*.sh")), ids=lambda script: str(script.relative_to(DEPLOY))
)
def test_every_script_can_be_read_by_its_shell(script: Path) -> None:
    shell = "bash" if script.is_relative_to(DEPLOY / "trial") else _shell_of(script)

    read = subprocess.run([shell, "-n", script], capture_output=True, text=True)

    assert (read.returncode, read.stderr) == (0, "")


def _shell_of(script: Path) -> str:
    """As its first line names it."""
    return script.read_text(encoding="utf-8").splitlines()[0].rpartition("/")[2].removeprefix("env ")


def test_a_trial_that_does_not_exist_is_refused_with_those_that_do() -> None:
    script = DEPLOY / "trial.sh"

    refused = subprocess.run(["bash", script, "suspned"], capture_output=True, text=True)

    assert refused.returncode == 2
    assert refused.stderr.splitlines() == [
        wording("deploy.no-such-trial"),
        wording("deploy.known-trials"),
    ]
