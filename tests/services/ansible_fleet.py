"""Ansible's programs, and an inventory: its hosts are folders of this box, each with its own supervisord."""

from __future__ import annotations

import getpass
import grp
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..ports import free_port

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "ansible"
BIN = Path(sys.executable).parent
_LONG_S = 600.0

Ended = subprocess.CompletedProcess[str]


def told(done: Ended) -> str:
    """All that a program said."""
    return done.stdout + done.stderr


def changed(said: str) -> dict[str, int]:
    """host -> how much a playbook changed there, by its recap."""
    return {host: int(n) for host, n in re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)", said, re.MULTILINE)}


@dataclass(frozen=True, slots=True)
class Ansible:
    """Runs Ansible's programs."""

    programs: Path  #: where they are
    home: Path  #: what they keep, and leave behind

    def __call__(self, program: str, *words: str | Path, cwd: Path = DEPLOY) -> Ended:
        with self.started(program, *words, cwd=cwd) as process:
            out, err = process.communicate(timeout=_LONG_S)
        return Ended(process.args, process.returncode, out, err)

    def started(self, program: str, *words: str | Path, cwd: Path = DEPLOY) -> subprocess.Popen[str]:
        """Start it, for the caller to wait for."""
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        homes = {f"ANSIBLE_{name}": str(self.home) for name in ("HOME", "LOCAL_TEMP", "REMOTE_TEMP")}
        own = {"PATH": path, "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "ANSIBLE_CONFIG": str(cwd / "ansible.cfg")}
        return subprocess.Popen(
            [self.programs / program, *words],
            cwd=cwd,
            env={**os.environ, **homes, **own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@dataclass(frozen=True, slots=True)
class LocalFleet:
    """A scheduler and boxes that are folders below *folder*, which has a short path: sockets live there."""

    ansible: Ansible
    folder: Path

    def write(self, n_boxes: int = 2, settings: Mapping[str, Any] | None = None) -> None:
        """Write the inventory: hosts that have tuner already, that of these tests; *settings* go before."""
        boxes = [f"box-{n + 1}" for n in range(n_boxes)]
        host = self.folder / "{{ inventory_hostname }}"
        usual = {
            "ansible_connection": "local",
            "ansible_python_interpreter": str(self.ansible.programs / "python"),
            "ansible_become": False,
            "tuner_init": "supervisord",
            "tuner_venv": str(BIN.parent),
            "tuner_config_dir": str(host / "etc"),
            "tuner_state_dir": str(host / "var"),
            "tuner_environment": {"TUNER_LOCK": str(host / "var" / "lock")},
            "tuner_user": getpass.getuser(),
            "tuner_group": grp.getgrgid(os.getgid()).gr_name,
            "tuner_create_user": False,
            "tuner_scheduler_host": "127.0.0.1",
            "tuner_scheduler_listen": "127.0.0.1",
            "tuner_scheduler_port": free_port(),
            "tuner_certs_tuner": str(BIN / "tuner"),
            "tuner_study_config": str(self.folder / "night.yaml"),
            "tuner_study_poll_s": 3,  # a look takes half a second of CPU
            "tuner_study_boxes_wait_s": 120,
        }
        for name in ("control", *boxes):
            (self.folder / name).mkdir()
        write_inventory(self.inventory, {**usual, **(settings or {})}, boxes)

    @property
    def inventory(self) -> Path:
        return self.folder / "inventory.yml"

    def attempt(self, playbook: str, *words: str) -> Ended:
        """Run a playbook."""
        return self.ansible("ansible-playbook", "-i", self.inventory, playbook, *words)

    def started(self, playbook: str) -> subprocess.Popen[str]:
        """Start a playbook, for the caller to wait for."""
        return self.ansible.started("ansible-playbook", "-i", self.inventory, playbook)

    def supervisorctl(self, host: str, *words: str) -> None:
        """Tell the supervisord of *host* something."""
        config = self.folder / host / "etc" / "supervisord.conf"
        command = [sys.executable, "-m", "supervisor.supervisorctl", "-c", config, *words]
        subprocess.run(command, check=True, capture_output=True)

    def play(self, playbook: str, *words: str) -> str:
        """Run it to a good end; what it said."""
        done = self.attempt(playbook, *words)
        assert done.returncode == 0, told(done)
        return told(done)

    def files(self) -> list[str]:
        """What there is on the hosts, and of certificates."""
        places = [*self.folder.glob("control"), *self.folder.glob("box-*"), *self.folder.glob("certs")]
        return sorted(str(path.relative_to(self.folder)) for place in places for path in place.rglob("*"))


def write_inventory(file: Path, settings: Mapping[str, Any], boxes: list[str]) -> None:
    """A host called control, *boxes*, and *settings* for all."""
    inventory = {
        "all": {"vars": dict(settings)},
        "tuner_scheduler": {"hosts": {"control": {}}},
        "tuner_boxes": {"hosts": {name: {} for name in boxes}},
    }
    file.write_text(yaml.safe_dump(inventory), encoding="utf-8")
