"""Whatever is killed, nothing of a launch is left within ten seconds: as root, and as an ordinary user.

The workers are as bad as can be: deaf to every signal, each with a child in a process group of its own,
one in a session of its own, and a daemon that threw away its environment.
An account's drivers run at the same time.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import supervisor

import tuner

pytestmark = pytest.mark.integration
DRIVER = Path(__file__).with_name("driver.py")
WORKER = Path(__file__).with_name("worker.py")
PROMISE_S = 10.0
STARTED_WITHIN_S = 60.0
FAMILY_SIZE = 4  #: a worker and its three relatives


@dataclass(frozen=True)
class Fault:
    """What is done to a running launch, and who may go on living afterwards."""

    kill: tuple[str, ...] = ()  #: "tuner", "supervisord", "guardian"
    number: int = signal.SIGKILL
    how: str = "sleep"  #: what the driver does by itself
    survivors: tuple[str, ...] = ()


FAULTS = {
    "kill -9 of tuner": Fault(("tuner",)),
    "kill -9 of supervisord": Fault(("supervisord",), survivors=("tuner", "guardian")),
    "kill -9 of tuner and supervisord": Fault(("tuner", "supervisord")),
    "kill -9 of supervisord and tuner": Fault(("supervisord", "tuner")),
    "Ctrl-C": Fault(("tuner",), signal.SIGINT),
    "SIGTERM": Fault(("tuner",), signal.SIGTERM),
    "SIGHUP": Fault(("tuner",), signal.SIGHUP),
    "an exception": Fault(how="raise"),
}


@dataclass
class Driven:
    """A driver and what became of it."""

    fault: Fault
    process: subprocess.Popen[str]
    mark: str
    temporary: Path
    pids: dict[str, Any] = field(default_factory=dict)
    held_after_fault: bool = False  #: whether the box lock was still taken just after it
    gone_after_s: float | None = None

    def alive(self) -> set[int]:
        """Every living process that came of the driver, survivors left out."""
        spared = {self.pids[name] for name in self.fault.survivors}
        return carrying(self.mark) - spared

    def sockets(self) -> list[str]:
        return [path.name for path in self.temporary.rglob("*") if path.is_socket()]

    def run_folders(self) -> list[str]:
        return [path.name for path in self.temporary.glob("tuner-*")]


@dataclass(frozen=True)
class Account:
    """Somebody who runs tuner: an interpreter, a folder, what Popen needs to become them."""

    python: str
    folder: Path
    become: dict[str, Any]


def carrying(mark: str) -> set[int]:
    wanted = f"TUNER_DRIVEN={mark}".encode()
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.add(int(entry.name))
            except OSError:
                continue  # ended meanwhile, or of somebody else
    return found


def environment(account: Account, mark: str, temporary: Path) -> dict[str, str]:
    homes = dict.fromkeys(str(Path(str(module.__file__)).parent.parent) for module in (tuner, supervisor))
    return {
        **os.environ,
        "PYTHONPATH": ":".join(homes),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TUNER_DRIVEN": mark,
        "TUNER_LOCK": str(temporary / "lock"),
        "TMPDIR": str(temporary),
    }


@pytest.fixture(scope="module", params=["current user", pytest.param("nobody", marks=pytest.mark.full)])
def account(request: pytest.FixtureRequest) -> Iterator[Account]:
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as name:
        folder = Path(name)
        if request.param == "current user":
            yield Account(sys.executable, folder, {})
            return
        if os.geteuid() != 0:
            pytest.skip("only root can become nobody; these tests ran as an ordinary user already")
        shutil.chown(folder, "nobody", "nogroup")
        become = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        for python in (sys.executable, "/usr/bin/python3"):
            candidate = Account(python, folder, become)
            probe = "import sys, tuner, supervisor; assert sys.version_info >= (3, 11)"
            try:
                environ = environment(candidate, "probe", folder)
                subprocess.run([python, "-c", probe], check=True, env=environ, capture_output=True, **become)
            except (OSError, subprocess.CalledProcessError):
                continue
            yield candidate
            return
        pytest.skip("nobody can run neither this interpreter nor a /usr/bin/python3 of 3.11 or later")


@pytest.fixture(scope="module")
def driven(account: Account) -> Iterator[dict[str, Driven]]:
    """Every fault's driver, after its fault and ten seconds, or less when all is gone."""
    drivers = {name: start(account, name, fault) for name, fault in FAULTS.items()}
    try:
        for one in drivers.values():
            await_started(one)
        started = time.monotonic()
        for one in drivers.values():
            for name in one.fault.kill:
                os.kill(one.pids[name], one.fault.number)
        for one in drivers.values():
            one.held_after_fault = is_held(one.temporary / "lock")
        waiting = dict(drivers)
        while waiting and time.monotonic() < started + PROMISE_S:
            for name, one in list(waiting.items()):
                one.process.poll()
                if not one.alive():
                    one.gone_after_s = time.monotonic() - started
                    del waiting[name]
            time.sleep(0.05)
        yield drivers
    finally:
        for one in drivers.values():
            end(one)


def is_held(lock: Path) -> bool:
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def start(account: Account, name: str, fault: Fault) -> Driven:
    mark = f"{name.replace(' ', '-')}-{os.getpid()}"
    temporary = Path(tempfile.mkdtemp(prefix="d-", dir=account.folder))
    if account.become:
        shutil.chown(temporary, account.become["user"], account.become["group"])
    worker = (account.python, str(WORKER), "family", str(temporary))
    with (temporary / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            [account.python, str(DRIVER), fault.how, "2x1", *worker],
            env=environment(account, mark, temporary),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
            **account.become,
        )
    return Driven(fault, process, mark, temporary)


def await_started(one: Driven) -> None:
    """Until the whole families of both workers have noted their pids."""
    assert one.process.stdout is not None
    line = one.process.stdout.readline()
    assert line, (one.temporary / "stderr").read_text()
    one.pids = {**json.loads(line), "tuner": one.process.pid}
    if one.fault.how == "raise":
        return
    deadline = time.monotonic() + STARTED_WITHIN_S
    while len(list(one.temporary.glob("*.[0-9]*"))) < 2 * FAMILY_SIZE:
        assert time.monotonic() < deadline, sorted(one.temporary.iterdir())
        time.sleep(0.05)


def end(one: Driven) -> None:
    """Kill what a failed test left, by pid."""
    for pid in carrying(one.mark):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    one.process.wait()
    if one.process.stdout is not None:
        one.process.stdout.close()


@pytest.mark.parametrize("name", FAULTS)
def test_nothing_of_a_launch_survives(driven: dict[str, Driven], name: str) -> None:
    one = driven[name]

    assert one.gone_after_s is not None, {
        pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in one.alive()
    }
    assert one.sockets() == []
    if "tuner" not in one.fault.survivors:
        assert one.run_folders() == []


@pytest.mark.parametrize("name", FAULTS)
def test_scratch_folders_go_only_with_a_tuner_that_cannot_remove_them(
    driven: dict[str, Driven], name: str
) -> None:
    killed = {"tuner"} <= set(FAULTS[name].kill) and FAULTS[name].number != signal.SIGINT

    assert len(list(driven[name].temporary.glob("scratch-*"))) == (0 if killed else 1)


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if "tuner" in fault.kill])
def test_the_box_stays_taken_until_all_is_cleaned_up(driven: dict[str, Driven], name: str) -> None:
    assert driven[name].held_after_fault
    assert not is_held(driven[name].temporary / "lock")
