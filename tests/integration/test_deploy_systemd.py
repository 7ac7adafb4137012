"""deploy/systemd: read by systemd, as closed as the page says, and what its commands come to."""

from __future__ import annotations

import errno
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..e2e.sleeping_worker import sleeping_worker
from ..programs import needed
from ..wording import key_of, start_of, wording

pytestmark = pytest.mark.integration
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
UNITS = DEPLOY / "systemd"
SEALED = Path("tuner-study.service.d") / "sealed.conf"
SEALED_PROGRAM = Path(__file__).with_name("sealed_program.py")
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def systemd_analyze() -> str:
    return needed("systemd-analyze", "systemd")


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The folder as it is installed, with tuner where it is here."""
    folder = Path(shutil.copytree(UNITS, tmp_path / "units"))
    for unit in folder.glob("*.service"):
        unit.write_text(unit.read_text().replace("/opt/tuner/bin", str(BIN)))
    return folder


def exposure(systemd_analyze: str, unit: Path) -> str:
    words = [systemd_analyze, "security", "--offline=true", "--no-pager", unit]
    said = subprocess.run(words, capture_output=True, text=True).stdout
    found = re.search(r"Overall exposure level for .*: ([\d.]+)", said)
    assert found is not None, said
    return found[1]


def test_systemd_has_nothing_to_say_about_any_unit(systemd_analyze: str, units: Path) -> None:
    words = [systemd_analyze, "verify", *units.glob("tuner-*.service"), *units.glob("tuner-*.timer")]
    done = subprocess.run(words, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


def test_the_scores_on_the_page_are_those_that_systemd_gives(systemd_analyze: str, units: Path) -> None:
    page = (DEPLOY / "README.md").read_text(encoding="utf-8")
    data = dict(re.findall(r"^\| `(tuner-[\w.-]+)`[^|]*\|[^|]*\| (\d+\.\d) \|", page, re.MULTILINE))
    sealed = exposure(systemd_analyze, units / "tuner-study.service")
    shutil.rmtree(units / SEALED.parent)
    found = {
        name: exposure(systemd_analyze, units / name) for name in data if name != "tuner-study.service.d"
    }

    found["tuner-study.service.d"] = sealed
    at = {name: float(score) for name, score in found.items()}

    assert found.keys() == data.keys() == {"tuner-study.service", "tuner-check.service", SEALED.parts[0]}
    # a later systemd looks at a little more, or less
    assert {name for name in at if abs(at[name] - float(data[name])) > 0.3} == set(), found
    assert at["tuner-study.service"] == at["tuner-check.service"]


def test_the_timer_means_every_week(systemd_analyze: str) -> None:
    timer = (UNITS / "tuner-check.timer").read_text(encoding="utf-8")
    (when,) = re.findall(r"^OnCalendar=(.*)$", timer, re.MULTILINE)
    words = [systemd_analyze, "calendar", "--iterations=2", "--base-time=2026-11-23", when]
    said = subprocess.run(
        words, capture_output=True, text=True, check=True, env={"TZ": "UTC", "LC_ALL": "C"}
    ).stdout

    assert "2026-11-29 03:00:00" in said
    assert "2026-12-06 03:00:00" in said
    assert {"Persistent=yes", "FixedRandomDelay=yes"} <= set(timer.splitlines())


def shell_of(unit: str, setting: str) -> str:
    """What the unit gives sh -c for *setting*, after systemd has read it."""
    text = (UNITS / unit).read_text(encoding="utf-8").replace("\\\n", " ")
    (script,) = re.findall(rf"^{setting}=/bin/sh -c '(.*)'$", text, re.MULTILINE)
    return str(script).replace("$$", "$")


def typed(script: str, tmp_path: Path, **environment: str) -> list[str]:
    """The words that tuner gets from *script*."""
    program = tmp_path / "tuner"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    words = ["/bin/sh", "-c", script.replace("/opt/tuner/bin/tuner", str(program))]
    return subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout.split(
        "\n"
    )[:-1]


def test_a_study_begins_and_the_next_time_continues(tmp_path: Path) -> None:
    script, study = shell_of("tuner-study.service", "ExecStart"), tmp_path / "a b.db"
    asked = {"STUDY": str(study), "CONFIG": "/etc/tuner/it is.yaml", "BUDGET": "9h"}

    started = typed(script, tmp_path, **asked)
    study.touch()
    resumed = typed(script, tmp_path, **asked)

    assert started == ["grid", asked["CONFIG"], "--study", str(study), "--budget", "9h"]
    assert resumed == ["grid", asked["CONFIG"], "--resume", str(study)]


def test_a_check_names_config_and_layout_only_where_they_are_set(tmp_path: Path) -> None:
    script = shell_of("tuner-check.service", "ExecStart")
    unset = {"STUDY": "/var/lib/a b.db", "BUDGET": "2h", "CURRENT": "", "CONFIG": ""}

    plain = typed(script, tmp_path, **unset)
    named = typed(script, tmp_path, **{**unset, "CURRENT": "1x24", "CONFIG": "/etc/a b.yaml"})

    assert plain == ["check", "/var/lib/a b.db", "--budget", "2h"]
    assert named == ["check", "/var/lib/a b.db", "/etc/a b.yaml", "--current", "1x24", "--budget", "2h"]


@pytest.mark.parametrize(
    ("status", "said"),
    [("4", "<3>stale"), ("5", wording("deploy.whether-it-still-holds")), ("0", ""), ("2", "")],
    ids=key_of,
)
def test_a_stale_answer_stands_in_the_journal_as_an_error(status: str, said: str) -> None:
    script = shell_of("tuner-check.service", "ExecStopPost")
    environment = {"EXIT_STATUS": status, "STUDY": "x.db", "BUDGET": "2h"}
    done = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, text=True, check=True, env=environment
    )

    assert said in start_of(done.stdout)
    assert bool(done.stdout) == bool(said)


def test_a_stale_answer_fails_the_unit_and_an_open_one_does_not() -> None:
    text = (UNITS / "tuner-check.service").read_text(encoding="utf-8")
    (fine,) = re.findall(r"^SuccessExitStatus=(.*)$", text, re.MULTILINE)

    assert set(fine.split()) == {"5", "130"}
    assert "Type=oneshot" in text.splitlines()


def calls_allowed(systemd_analyze: str) -> set[str]:
    """What the filter of `sealed.conf` lets through, as systemd adds its lines up."""
    words = [systemd_analyze, "--no-pager", "syscall-filter"]
    said = subprocess.run(
        words, capture_output=True, text=True, check=True, env={"SYSTEMD_COLORS": "0"}
    ).stdout
    groups: dict[str, set[str]] = {}
    for line in said.splitlines():
        if line.startswith("@"):
            found = groups[line.strip()] = set()
        elif line.startswith("    ") and not line.strip().startswith("#"):
            found.add(line.strip())

    def members(name: str) -> set[str]:
        return {name} if name[0] != "@" else set().union(*map(members, groups[name]))

    allowed: set[str] = members("@default")
    text = (UNITS / SEALED).read_text(encoding="utf-8")
    for line in re.findall(r"^SystemCallFilter=(.*)$", text, re.MULTILINE):
        named = set().union(*map(members, line.lstrip("~").split()))
        allowed = allowed - named if line.startswith("~") else allowed | named
    return allowed


@pytest.mark.full
def test_a_study_runs_behind_the_filter_of_system_calls(systemd_analyze: str, tmp_path: Path) -> None:
    calls = calls_allowed(systemd_analyze)
    (tmp_path / "worker.py").write_text(sleeping_worker("0.01"))
    behind = [sys.executable, SEALED_PROGRAM, str(errno.EPERM), ",".join(sorted(calls))]
    quick = "--layouts 2x2 --window 2s --warmup 1s --repeats 1 --strategy all --foreign-limit 1000"
    study = tmp_path / "s.tuner.db"
    words = [
        BIN / "tuner",
        "grid",
        *quick.split(),
        "--study",
        study,
        "--",
        sys.executable,
        tmp_path / "worker.py",
    ]

    refused = subprocess.run(
        [*behind, sys.executable, "-c", "import socket; socket.sethostname('x')"], capture_output=True
    )
    done = subprocess.run([*behind, *words], capture_output=True, text=True, cwd=tmp_path)

    assert b"PermissionError" in refused.stderr
    assert done.returncode == 0, done.stderr
    assert "2x2" in done.stdout.split()
