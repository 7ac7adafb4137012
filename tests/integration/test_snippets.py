"""Snippets of supervisor and systemd, read and run by these themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.reports.snippets import snippet

from ..rollouts import HOSTILE, rolled_out
from ..supervised import supervisord

pytestmark = pytest.mark.integration
LONG_S = 60.0
#: says in a file of its own what it was started with, and stays until it is told to end
WORKER = """\
import json, os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
names = ("A", "TUNER_PROCESS", "TUNER_PROCESSES", "TUNER_THREADS")
ours = {name: value for name, value in os.environ.items() if name in names}
said = {"words": sys.argv[1:], "environment": ours}
name = os.environ.get("TUNER_PROCESS", "0")
pathlib.Path(f"started-{name}.new").write_text(json.dumps(said))
os.rename(f"started-{name}.new", f"started-{name}")
while True:
    time.sleep(1)
"""


@pytest.fixture(scope="module")
def systemd_analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        reason = "no systemd-analyze: apt-get install systemd"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}; CI must test with it")
        pytest.skip(reason)
    return found


def test_supervisord_starts_the_programs_of_a_layout(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    rollout = rolled_out([sys.executable, "worker.py", "--n", "{process}", "100%"], "3x2")
    rollout = replace(rollout, directory=str(tmp_path))

    with supervisord(tmp_path, snippet("supervisor", rollout)):
        wait_for(lambda: len(started(tmp_path)) == 3, tmp_path)

    for n, (words, environment) in started(tmp_path).items():
        assert words == ["--n", str(n), "100%"]
        assert environment == {"TUNER_PROCESS": str(n), "TUNER_PROCESSES": "3", "TUNER_THREADS": "2"}


def test_supervisord_hands_on_hostile_texts_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    writable = [text for text in HOSTILE if text.isprintable()]
    sections = []
    for n, text in enumerate(writable):
        rollout = rolled_out("work", "1x1")
        rollout = replace(
            rollout,
            service=f"work{n}",
            directory=str(tmp_path),
            command=(sys.executable, "worker.py", text),
            environment={"A": text, "TUNER_PROCESS": str(n)},
        )
        sections.append(snippet("supervisor", rollout))

    with supervisord(tmp_path, "\n".join(sections)):
        wait_for(lambda: len(started(tmp_path)) == len(writable), tmp_path)

    for n, (words, environment) in started(tmp_path).items():
        assert (words, environment["A"]) == ([writable[n]], writable[n])


def test_systemd_has_nothing_to_say_of_a_drop_in(tmp_path: Path, systemd_analyze: str) -> None:
    for n, text in enumerate(HOSTILE):
        rollout = rolled_out(["/bin/sleep", "{process}"], "2x2", limits={"nofile": 1024, "as": 10**9})
        rollout = replace(rollout, command=("/bin/sleep", text), environment={"A": text})
        folder = tmp_path / f"w{n}@.service.d"
        folder.mkdir()
        (tmp_path / f"w{n}@.service").write_text("[Service]\nExecStart=/bin/true\n")
        (folder / "50-tuner.conf").write_text(snippet("systemd", rollout), encoding="utf-8")

    said = verified(systemd_analyze, [tmp_path / f"w{n}@.service" for n in range(len(HOSTILE))])

    assert said == ""


def test_systemd_complains_of_a_drop_in_that_is_wrong(tmp_path: Path, systemd_analyze: str) -> None:
    folder = tmp_path / "w@.service.d"
    folder.mkdir()
    (tmp_path / "w@.service").write_text("[Service]\nExecStart=/bin/true\n")
    text = snippet("systemd", rolled_out("/bin/sleep 1", "2x2")).replace("KillMode=mixed", "KillMode=gently")
    (folder / "50-tuner.conf").write_text(text)

    assert "gently" in verified(systemd_analyze, [tmp_path / "w@.service"])


def verified(systemd_analyze: str, units: list[Path]) -> str:
    done = subprocess.run(
        [systemd_analyze, "verify", "--man=no", *map(str, units)],
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    return done.stderr


def started(folder: Path) -> dict[int, tuple[list[str], dict[str, str]]]:
    """By the number of each program what it was started with."""
    import json

    found = {}
    for path in folder.glob("started-*"):
        if path.suffix != ".new":
            said = json.loads(path.read_text())
            found[int(path.name.partition("-")[2])] = (said["words"], said["environment"])
    return found


def wait_for(condition: object, folder: Path) -> None:
    deadline_s = time.monotonic() + LONG_S
    while not condition():  # type: ignore[operator]
        log = folder / "s.log"
        assert time.monotonic() < deadline_s, log.read_text() if log.exists() else "no log"
        time.sleep(0.05)
