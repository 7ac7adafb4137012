"""deploy/logrotate: what logrotate makes of a log that is written to all the while."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ..programs import needed

pytestmark = pytest.mark.integration
RULES = Path(__file__).resolve().parents[2] / "deploy" / "logrotate" / "tuner"


def rules_for(logs: Path, state: Path) -> str:
    """The rules for other folders, and for whoever runs this."""
    text = RULES.read_text(encoding="utf-8")
    assert "su tuner tuner" in text  # the user of the units, whom this box does not have
    for theirs, ours in (("/var/log/tuner", logs), ("/var/lib/tuner", state), ("    su tuner tuner\n", "")):
        text = text.replace(theirs, str(ours))
    return text


def test_of_the_folder_of_ansible_only_the_studys_log_is_rotated(tmp_path: Path) -> None:
    """Those of supervisord beside it are root's: tuner could not rotate them, and supervisord does."""
    logrotate = needed("logrotate", "logrotate")
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    for name in ("study.log", "supervisord.log", "tuner-study.log"):
        (folder / name).write_text("a line\n")
    rules = tmp_path / "rules"
    rules.write_text(rules_for(tmp_path / "none", folder))
    rules.chmod(0o644)

    words = [logrotate, "--state", tmp_path / "status", "--force", rules]
    subprocess.run(words, check=True, capture_output=True)

    rotated = {path.name for path in folder.iterdir()} - {"study.log", "supervisord.log", "tuner-study.log"}
    assert rotated == {"study.log.1"}
    assert (folder / "supervisord.log").read_text() == "a line\n"


def test_a_log_that_is_held_open_begins_anew_and_the_old_one_is_kept(tmp_path: Path) -> None:
    logrotate = needed("logrotate", "logrotate")
    folder = tmp_path / "log"
    folder.mkdir(mode=0o700)
    rules, state, log = tmp_path / "rules", tmp_path / "state", folder / "night.log"
    rules.write_text(rules_for(folder, tmp_path / "none"))
    rules.chmod(0o644)
    words = [logrotate, "--state", state, "--force", rules]

    with log.open("a") as writer:  # as a shell's >> is: O_APPEND
        for n in range(3):
            writer.write(f"window {n}\n")
            writer.flush()
            subprocess.run(words, check=True, capture_output=True)
        writer.write("the end\n")

    kept = sorted(path.name for path in folder.iterdir())
    assert log.read_text() == "the end\n"
    assert kept == ["night.log", "night.log.1", "night.log.2.gz", "night.log.3.gz"]
    assert (folder / "night.log.1").read_text() == "window 2\n"
