"""deploy/ansible: linted, its units read by systemd, a fleet brought up, used and taken away on this box."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ..e2e.sleeping_worker import sleeping_worker
from ..wording import key_of, wording
from .ansible_fleet import BIN, DEPLOY, Ansible, LocalFleet, changed, told, write_inventory
from .measured import LONG_S, wait_for, windows_of

pytestmark = [pytest.mark.integration, pytest.mark.services, pytest.mark.timeout(900)]
ROOT = DEPLOY.parents[1]
#: of systemd-analyze: 0 is as closed as can be, 10 is open
MOST_EXPOSED = {"tuner-scheduler": 2.0, "tuner-fleet-study": 2.5, "tuner-box": 9.2}
UNCHANGED = {"control": 0, "box-1": 0, "box-2": 0}
STUDY = """\
service: {{kind: script, name: sleeper, command: [{python}, {worker}]}}
study: {{strategy: all, layouts: [1x1, 2x2], window: 2s, warmup: 1s, repeats: 2, warm_cache: no,
  foreign_limit: 1000, memory_pressure_limit: 1, max_attempts: 9}}
"""
UNITS = """\
- hosts: control
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: "{{ item }}", tasks_from: nothing, public: true}
      loop: [tuner, tuner_scheduler, tuner_box, tuner_study]
    - ansible.builtin.template:
        src: "roles/{{ item.role }}/templates/{{ item.unit }}.service.j2"
        dest: "{{ playbook_dir }}/{{ item.unit }}.service"
        mode: "0644"
      loop:
        - {role: tuner_scheduler, unit: tuner-scheduler}
        - {role: tuner_box, unit: tuner-box}
        - {role: tuner_study, unit: tuner-fleet-study}
"""


@pytest.fixture
def ansible(services_venv: Path, tmp_path: Path) -> Ansible:
    return Ansible((services_venv / "bin").absolute(), tmp_path / "ansible")


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The folder, to be written into: a linter keeps a cache there."""
    return Path(shutil.copytree(DEPLOY, tmp_path / "deploy" / "ansible"))


@pytest.fixture
def fleet(ansible: Ansible) -> Iterator[LocalFleet]:
    folder = Path(os.environ["TMPDIR"]) / "f"
    folder.mkdir()
    (folder / "worker.py").write_text(sleeping_worker("0.01"))
    (folder / "night.yaml").write_text(STUDY.format(python=sys.executable, worker=folder / "worker.py"))
    one = LocalFleet(ansible, folder)
    yield one
    if one.inventory.exists() and one.files():  # a look at nothing takes 8 s of CPU
        one.attempt("down.yml")  # whatever became of the test; what is left even then, another check finds


def in_a_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def of_tuner(*words: str | Path) -> str:
    return subprocess.run([BIN / "tuner", *words], capture_output=True, text=True, check=True).stdout


def test_the_linter_finds_nothing_to_say(ansible: Ansible, copied: Path) -> None:
    done = ansible("ansible-lint", "--strict", cwd=copied)

    assert done.returncode == 0, told(done)


@pytest.mark.parametrize("playbook", ["up.yml", "study.yml", "down.yml"])
def test_ansible_can_read_each_playbook(playbook: str, ansible: Ansible) -> None:
    done = ansible("ansible-playbook", "--syntax-check", "-i", "inventory.example.yml", playbook)

    assert done.returncode == 0, told(done)


@pytest.fixture(scope="module")
def systemd_analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        reason = "no systemd-analyze: apt-get install systemd"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}; CI must test with it")
        pytest.skip(reason)
    return found


def test_systemd_can_read_the_units_and_finds_them_as_closed_as_they_are_to_be(
    ansible: Ansible, copied: Path, systemd_analyze: str
) -> None:
    for tasks in copied.glob("roles/*/tasks"):
        (tasks / "nothing.yml").write_text("[]\n")
    (copied / "units.yml").write_text(UNITS)
    settings: dict[str, Any] = {
        "ansible_connection": "local",
        "ansible_python_interpreter": str(ansible.programs / "python"),
        "tuner_venv": str(BIN.parent),
        "tuner_study_config": "it's 100%.yaml",
        "tuner_box_writable": ["/srv/a b", "/srv/100%"],
        "tuner_environment": {"ODD": '100% "$x"'},
    }
    write_inventory(copied / "inventory.yml", settings, ["box-1"])

    rendered = ansible("ansible-playbook", "units.yml", cwd=copied)
    assert rendered.returncode == 0, told(rendered)
    units = [copied / f"{name}.service" for name in MOST_EXPOSED]
    verified = subprocess.run([systemd_analyze, "verify", *units], capture_output=True, text=True)
    exposed = {unit.stem: exposure(systemd_analyze, unit) for unit in units}

    assert [line for line in verified.stderr.splitlines() if any(unit.name in line for unit in units)] == []
    assert verified.returncode == 0, verified.stderr
    assert {name: at for name, at in exposed.items() if at > MOST_EXPOSED[name]} == {}


def exposure(systemd_analyze: str, unit: Path) -> float:
    words = [systemd_analyze, "security", "--offline=true", "--no-pager", unit]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = re.search(r"Overall exposure level for .*: ([\d.]+)", done.stdout)
    assert found is not None, told(done)
    return float(found[1])


@pytest.mark.full
def test_a_fleet_is_brought_up_used_and_taken_away_and_nothing_is_left(fleet: LocalFleet) -> None:
    fleet.write()

    fleet.play("up.yml", "--check")
    assert fleet.files() == []

    assert min(changed(fleet.play("up.yml")).values()) > 0
    keys = [fleet.folder / host / "etc" / "certs" / "fleet.key" for host in UNCHANGED]
    assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}
    assert changed(fleet.play("up.yml")) == UNCHANGED
    assert changed(fleet.play("up.yml", "--check")) == UNCHANGED

    assert wording("deploy.answer-is-known") in fleet.play("study.yml")
    results = fleet.folder / "results"
    rows = json.loads(of_tuner("rank", results / "night.tuner.db", "--json"))["layouts"]
    assert {row["layout"] for row in rows} == {"1x1", "2x2"}
    assert "2x2" in (results / "night.txt").read_text()
    assert (results / "night.html").stat().st_size > 10_000
    assert changed(fleet.play("study.yml")) == UNCHANGED

    fleet.play("down.yml")
    assert fleet.files() == []
    assert changed(fleet.play("down.yml")) == UNCHANGED
    assert (results / "night.tuner.db").exists()


@pytest.mark.full
def test_a_study_that_was_stopped_continues(fleet: LocalFleet) -> None:
    fleet.write(1)
    night, study = fleet.folder / "night.yaml", fleet.folder / "control" / "var" / "night.tuner.db"
    night.write_text(night.read_text().replace("repeats: 2", "repeats: 4"))
    fleet.play("up.yml")

    with fleet.started("study.yml") as waiting:
        wait_for(lambda: study.exists() and windows_of(study), "no window is in the file")
        fleet.supervisorctl("control", "stop", "tuner-fleet-study")
        stopped = "".join(waiting.communicate(timeout=LONG_S))
    n_before = len(windows_of(study))
    went_on = fleet.play("study.yml")

    assert wording("deploy.no-answer-it-was-stopped") in in_a_line(stopped)
    assert wording("deploy.answer-is-known") in went_on
    assert 0 < n_before < len(windows_of(study))


@pytest.mark.full
def test_a_box_that_does_not_come_is_named(fleet: LocalFleet) -> None:
    fleet.write()
    fleet.play("up.yml")
    fleet.supervisorctl("box-2", "shutdown")

    done = fleet.attempt("study.yml", "-e", "tuner_study_boxes_wait_s=6")

    assert done.returncode != 0
    assert wording("services.these-missing-box") in in_a_line(told(done))
    assert not (fleet.folder / "control" / "var" / "night.tuner.db").exists()


def test_boxes_that_differ_are_reported_before_anything_is_measured(fleet: LocalFleet) -> None:
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        pytest.skip("this box has one core only: none can have fewer")
    fleet.write()
    python = fleet.folder / "python-on-one-core"
    python.write_text(f'#!/bin/sh\nexec taskset -c {min(cores)} {fleet.ansible.programs}/python "$@"\n')
    python.chmod(0o755)
    inventory = yaml.safe_load(fleet.inventory.read_text())
    inventory["tuner_boxes"]["hosts"]["box-2"] = {"ansible_python_interpreter": str(python)}
    fleet.inventory.write_text(yaml.safe_dump(inventory))

    done = fleet.attempt("study.yml")

    assert done.returncode != 0
    assert f"cores differs: box-1 {len(cores)}, box-2 1" in in_a_line(told(done))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"tuner_package": "/nonexistent/tuner.whl", "tuner_venv": "/nonexistent"},
            wording("deploy.no-file-on-this-box"),
        ),
        ({"tuner_venv": "/nonexistent"}, wording("deploy.does-not-run-here")),
        ({"tuner_init": "runit"}, wording("deploy.init-is-one-of")),
    ],
    ids=key_of,
)
def test_what_cannot_be_set_up_is_said_in_a_line(
    settings: dict[str, str], problem: str, fleet: LocalFleet
) -> None:
    fleet.write(1, settings)

    done = fleet.attempt("up.yml")

    assert done.returncode != 0
    assert problem in in_a_line(told(done))


def test_what_others_made_is_neither_replaced_nor_taken_away(fleet: LocalFleet) -> None:
    others, wheel = fleet.folder / "others", fleet.folder / "proctuner-1-py3-none-any.whl"
    others.mkdir()
    (others / "precious").touch()
    wheel.touch()  # it does not come to be looked into
    fleet.write(1, {"tuner_package": str(wheel), "tuner_venv": str(others)})

    done = fleet.attempt("up.yml", "--limit", "control")
    fleet.attempt("down.yml", "--limit", "control")

    assert done.returncode != 0
    assert wording("deploy.there-and-not-made-by-this-role", others=others) in in_a_line(told(done))
    assert (others / "precious").exists()


@pytest.fixture
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tuner's, made of a copy: a build writes into its tree."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "meson.build", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, source / name)
    for name in ("tuner", "workers"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    words = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([*words, "-w", out, source], env=environment, check=True, capture_output=True)
    (found,) = out.glob("*.whl")
    return found


@pytest.mark.full
def test_a_wheel_is_installed_with_its_locked_packages_once(fleet: LocalFleet, wheel: Path) -> None:
    venv = str(fleet.folder / "{{ inventory_hostname }}" / "venv")
    fleet.write(1, {"tuner_package": str(wheel), "tuner_venv": venv, "tuner_pip_options": []})
    installed = fleet.folder / "control" / "venv" / "bin" / "tuner"

    fleet.play("up.yml", "--limit", "control")
    version = subprocess.run([installed, "--version"], capture_output=True, text=True, check=True).stdout

    assert version == of_tuner("--version")
    assert changed(fleet.play("up.yml", "--limit", "control")) == {"control": 0}
    fleet.play("down.yml", "--limit", "control")
    assert not installed.exists()
