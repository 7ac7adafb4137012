"""A frozen launch uses no CPU and loses no item; after a kill of any process nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tuner.adapters.proc import launch_cgroup
from tuner.adapters.proc.cgroup import launch_cgroups, own_freezer
from tuner.adapters.proc.process_tree import ProcessTable
from tuner.adapters.supervisord.guardian import Guardian
from tuner.core.domain.layout import Layout

from ...permitted import not_permitted
from ...processes import is_running
from .conftest import WORKER, LaunchersOf

pytestmark = pytest.mark.integration
MARK = "TUNER_DRIVEN"
DRIVER = Path(__file__).with_name("driver.py")
PATIENCE_S = 60.0
PROMISE_S = 10.0
FAMILY_SIZE = 4  #: a worker and its relatives in a group, in a session, and without its environment


@dataclass(frozen=True)
class Way:
    """One way to freeze: which parameters a launcher gets, and where its cgroups are made."""

    name: str
    cgroups: Path | None = None
    freezers: Path | None = None

    @property
    def parameters(self) -> dict[str, Path]:
        found = {"cgroups": self.cgroups, "freezers": self.freezers}
        return {name: folder for name, folder in found.items() if folder is not None}

    def left(self) -> list[str]:
        """Cgroups that launches have not removed."""
        parents = self.parameters.values()
        return [one.name for parent in parents for one in parent.iterdir() if one.is_dir()]


@pytest.fixture(params=["version 2", "version 1", "signals"])
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    """Each way that this host permits, in a cgroup of the test's own."""
    name = request.param
    if name == "signals":
        yield Way(name)
        return
    found = launch_cgroups()
    parent = found.parent if name == "version 2" else own_freezer()
    if parent is None:
        not_permitted(f"cgroups of {name}", found.sentence if name == "version 2" else "there is no freezer")
    folder = parent / f"tuner-test-{uuid.uuid4().hex[:8]}"
    try:
        folder.mkdir()
    except OSError as error:
        not_permitted(f"cgroups of {name}", error)
    if not launch_cgroup.can_freeze(str(folder)):
        folder.rmdir()
        not_permitted(f"to freeze cgroups of {name}", "they have no freezer")
    yield Way(name, cgroups=folder) if name == "version 2" else Way(name, freezers=folder)
    left = launch_cgroup.members(str(folder))
    launch_cgroup.thaw(str(folder))
    launch_cgroup.kill(str(folder))
    assert launch_cgroup.remove(str(folder))
    assert left == set()


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def items(folder: Path) -> dict[str, list[str]]:
    return {path.name: path.read_text().split() for path in folder.glob("items.*")}


def n_done(folder: Path) -> int:
    return sum(map(len, items(folder).values()))


def cpu_ns(pids: set[int]) -> int:
    """What all threads of *pids* have used up to now."""
    total = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    return total


def of_service(launch) -> set[int]:
    """The workers, and the children in flight."""
    return set(ProcessTable(Path("/proc")).trees(launch.worker_pids()).members)


def test_a_frozen_launch_uses_no_cpu_and_goes_on_without_losing_an_item(
    launcher_of: LaunchersOf, way: Way, tmp_path: Path, warnings_given: list[tuple[str, str]]
) -> None:
    launcher = launcher_of("works", str(tmp_path), "{threads}", **way.parameters)
    with launcher.running(Layout(3, 4), {}) as launch:
        wait_for(lambda: len(items(tmp_path)) == 12 and all(map(len, items(tmp_path).values())), "all work")
        workers = launch.worker_pids()
        for _ in range(5):
            launch.freeze()
            before, pids = n_done(tmp_path), of_service(launch)
            used_ns = cpu_ns(pids)
            time.sleep(0.3)
            assert of_service(launch) == pids
            assert (n_done(tmp_path), cpu_ns(pids) - used_ns) == (before, pytest.approx(0, abs=2e6))
            assert launch.worker_pids() == workers
            assert launch.problems() == ()

            launch.thaw()
            wait_for(lambda: n_done(tmp_path) > before + 12, "it goes on")  # noqa: B023  # called at once

    assert len(items(tmp_path)) == 12
    for done in items(tmp_path).values():
        assert done == [*map(str, range(len(done) - 1)), "end"]
    assert warnings_given == []
    assert way.left() == []


def test_a_launch_that_is_frozen_is_stopped_as_any_other(
    launcher_of: LaunchersOf, way: Way, tmp_path: Path, warnings_given: list[tuple[str, str]]
) -> None:
    launcher = launcher_of("works", str(tmp_path), "2", **way.parameters)
    with launcher.running(Layout(2, 2), {}) as launch:
        wait_for(lambda: len(items(tmp_path)) == 4, "all work")
        launch.thaw()  # nothing is frozen
        launch.freeze()
        launch.freeze()

    assert [done[-1] for done in items(tmp_path).values()] == ["end"] * 4
    assert warnings_given == []
    assert way.left() == []


def test_relatives_in_other_groups_and_sessions_are_frozen_too(
    launcher_of: LaunchersOf, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, "x")
    launcher = launcher_of("family", str(tmp_path), spec={"stop_wait_s": 0.5}, **way.parameters)
    with launcher.running(Layout(2, 1), {}) as launch:
        wait_for(lambda: len(list(tmp_path.glob("*.[0-9]*"))) == 2 * FAMILY_SIZE, "the families are complete")
        family = {int(path.suffix[1:]) for path in tmp_path.glob("*.[0-9]*")}
        supervisord = launch.overhead_pids() - {launcher.guardian_pid}
        launch.freeze()
        (folder,) = list(map(str, way.parameters.values())) or [""]
        if folder:
            frozen = {
                pid
                for one, _, _ in os.walk(folder)
                if one != folder and launch_cgroup.is_frozen(one)
                for pid in launch_cgroup.own_members(one)
            }
        else:
            table = ProcessTable(Path("/proc"))
            frozen = {pid for pid in family | supervisord if (stat := table.stat(pid)) and stat.state == "T"}

    assert frozen == family
    assert not any(map(is_running, family))


def test_supervisord_stays_awake_and_collects_a_frozen_worker_that_is_killed(
    launcher_of: LaunchersOf, way: Way
) -> None:
    if way.name == "version 1":
        pytest.skip("the freezer of version 1 holds killed processes until they are continued")
    launcher = launcher_of("wait", **way.parameters)
    with launcher.running(Layout(2, 1), {}) as launch:
        launch.freeze()
        killed = min(launch.worker_pids())
        os.kill(killed, signal.SIGKILL)
        wait_for(launch.problems, "its end is noticed")
        (problem,) = launch.problems()

    assert problem.slug == "worker-died"
    assert "SIGKILL" in str(problem)


FAULTS = ("tuner", "supervisord", "guardian", "an exception")


@dataclass
class Driven:
    """A driver whose launch is frozen, and the processes of it."""

    process: subprocess.Popen[str]
    pids: dict[str, int]
    family: set[int]

    def left(self, fault: str) -> list[int]:
        spared = (
            {"tuner", "guardian"} if fault == "supervisord" else {"tuner"} if fault == "guardian" else set()
        )
        own = {name: pid for name, pid in self.pids.items() if name not in spared}
        self.process.poll()
        return [pid for pid in {*own.values(), *self.family} if is_running(pid)]


def driven(way: Way, folder: Path, fault: str) -> Driven:
    """It is there once its launch is frozen."""
    folder.mkdir()
    environment = {
        **os.environ,
        MARK: "x",
        **{f"DRIVER_{name.upper()}": str(path) for name, path in way.parameters.items()},
        "DRIVER_FREEZES": str(folder),
        "DRIVER_NOTES": str(2 * FAMILY_SIZE),
        "TUNER_LOCK": str(folder / "lock"),
    }
    how = "raise" if fault == "an exception" else "sleep"
    words = [sys.executable, DRIVER, how, "2x1", sys.executable, WORKER, "family", folder]
    tuner = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    assert tuner.stdout is not None
    said = json.loads(tuner.stdout.readline())
    pids = {"tuner": tuner.pid, "guardian": said["guardian"], "supervisord": said["supervisord"]}
    return Driven(tuner, pids, {int(path.suffix[1:]) for path in folder.glob("*.[0-9]*")})


def test_nothing_of_a_frozen_launch_is_left_whoever_is_killed(way: Way, tmp_path: Path) -> None:
    faults = [fault for fault in FAULTS if fault != "guardian" or way.parameters]  # who else knows daemons?
    drivers = {fault: driven(way, tmp_path / f"{n}", fault) for n, fault in enumerate(faults)}
    try:
        assert all(len(one.family) == 2 * FAMILY_SIZE for one in drivers.values())
        for fault, one in drivers.items():
            if fault in one.pids:
                os.kill(one.pids[fault], signal.SIGKILL)
            if fault == "guardian":  # tuner notices it, and ends the launch
                one.process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + PROMISE_S
        while time.monotonic() < deadline and any(one.left(fault) for fault, one in drivers.items()):
            time.sleep(0.05)
        left = {fault: one.left(fault) for fault, one in drivers.items() if one.left(fault)}
    finally:
        for one in drivers.values():
            one.process.kill()
            one.process.wait()
            assert one.process.stdout is not None
            one.process.stdout.close()
            wait_for(lambda: not is_running(one.pids["guardian"]), "a guardian stays")  # noqa: B023

    assert left == {}
    for socket in Path(os.environ["TMPDIR"]).rglob("tuner-*/s"):  # of the one whose guardian was killed
        socket.unlink()
    for parent in way.parameters.values():
        Guardian("the-next-one", **dict.fromkeys(way.parameters, parent)).close()
    assert way.left() == []
