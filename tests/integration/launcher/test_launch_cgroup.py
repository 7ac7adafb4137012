"""Launches in cgroups of their own: nobody gets out of one, and none is left, whoever is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tuner.adapters.proc import launch_cgroup
from tuner.adapters.proc.cgroup import launch_cgroups
from tuner.adapters.proc.cpu_accounts import ServiceAccount
from tuner.adapters.supervisord.guardian import Guardian
from tuner.core.domain.layout import Layout

from ...permitted import not_permitted
from ...processes import is_running
from ...wording import wording
from .conftest import WORKER, LaunchersOf

pytestmark = pytest.mark.integration
DRIVER = Path(__file__).with_name("driver.py")
MARK = "TUNER_DRIVEN"
PATIENCE_S = 60.0
FAMILY = ("worker", "group", "session", "daemon")


@pytest.fixture
def cgroups() -> Iterator[Path]:
    """A cgroup of the test's own, below ours, for the launches' cgroups."""
    found = launch_cgroups()
    if found.parent is None:
        not_permitted("cgroups of launches", found.sentence)
    folder = found.parent / f"tuner-test-{uuid.uuid4().hex[:8]}"
    try:
        folder.mkdir()
    except OSError as error:
        not_permitted("cgroups of launches", error)
    yield folder
    left = launch_cgroup.members(str(folder))
    launch_cgroup.kill(str(folder))
    assert launch_cgroup.remove(str(folder))
    assert left == set()


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def members_by_name(folder: Path) -> dict[str, int]:
    """A family that has noted its pids."""
    wait_for(lambda: len(list(folder.glob("*.[0-9]*"))) == len(FAMILY), "the family is not complete")
    return {name: int(pid) for name, pid in (path.name.split(".") for path in folder.glob("*.[0-9]*"))}


def test_all_of_a_launch_is_in_its_cgroup_and_nothing_of_tuner(
    launcher_of: LaunchersOf, cgroups: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, "x")
    launcher = launcher_of("family", str(tmp_path), cgroups=cgroups, spec={"stop_wait_s": 0.5})
    with launcher.running(Layout(1, 1), {}) as launch:
        family = members_by_name(tmp_path)
        (folder,) = (path for path in cgroups.iterdir() if path.is_dir())
        within = launch_cgroup.members(str(folder))
        supervisord = launch.overhead_pids() - {launcher.guardian_pid}

    assert set(family) == set(FAMILY)
    assert within == {*family.values(), *supervisord}
    assert not folder.exists()
    assert not any(map(is_running, family.values()))


def test_who_threw_his_environment_away_is_ended_though_the_guardian_was_killed(
    launcher_of: LaunchersOf,
    cgroups: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    warnings_given: list[tuple[str, str]],
) -> None:
    monkeypatch.setenv(MARK, "x")
    launcher = launcher_of("family", str(tmp_path), cgroups=cgroups, spec={"stop_wait_s": 0.5})
    with launcher.running(Layout(1, 1), {}):
        family = members_by_name(tmp_path)
        assert launcher.guardian_pid is not None
        os.kill(launcher.guardian_pid, signal.SIGKILL)
        wait_for(lambda: not is_running(launcher.guardian_pid or 0), "the guardian does not end")

    assert not any(map(is_running, family.values()))
    assert [path for path in cgroups.iterdir() if path.is_dir()] == []
    assert f"{family['daemon']} " in " ".join(
        text for slug, text in warnings_given if slug == "leftover-processes"
    )


def test_children_that_nobody_waits_for_are_counted_when_they_have_ended(
    launcher_of: LaunchersOf, cgroups: Path, tmp_path: Path
) -> None:
    """Ten children of 0.1 s of CPU each, whose parent ignores SIGCHLD; it notes when the last one is gone.

    Launch by launch: the guardian keeps the CPU of those before.
    """
    launcher = launcher_of("forgets", str(tmp_path), "10", "0.1", cgroups=cgroups)
    for _ in range(3):
        with launcher.running(Layout(1, 1), {}) as launch:
            account = ServiceAccount(Path("/proc"), launch)
            without = ServiceAccount(Path("/proc"), launch, tmp_path / "nowhere")
            before, before_without = account.use(), without.use()
            (tmp_path / "go").touch()
            wait_for(lambda: list(tmp_path.glob("forgotten.*")), "the children do not end")
            used, used_without = account.use(), without.use()
        for result in tmp_path.iterdir():
            result.unlink()

        assert used_without.child_cpu_s_total - before_without.child_cpu_s_total < 0.2
        assert used.child_cpu_s_total - before.child_cpu_s_total >= 0.8 * 10 * 0.1
        assert used.cpu_s_total - before.cpu_s_total >= 0.8 * 10 * 0.1


def test_before_linux_5_14_all_in_a_cgroup_are_killed_one_by_one(tmp_path: Path) -> None:
    """A folder without cgroup.kill, whose second member ended before; 0 is of another pid namespace."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    with subprocess.Popen(["sleep", "600"]) as member, subprocess.Popen(["sleep", "600"]) as other:
        try:
            (tmp_path / "cgroup.procs").write_text(f"0\n{ended.pid}\n{member.pid}\n")
            launch_cgroup.kill(str(tmp_path))
            wait_for(lambda: not is_running(member.pid), "the member still runs")
            lives = other.poll() is None
        finally:
            member.kill()
            other.kill()

    assert lives


def test_a_chain_of_forks_does_not_outrun_those_that_are_killed_one_by_one(
    cgroups: Path, tmp_path: Path
) -> None:
    join = f'echo $$ > {cgroups}/cgroup.procs && exec "$@"'
    with subprocess.Popen(["sh", "-c", join, "sh", sys.executable, WORKER, "forks", tmp_path]):
        wait_for(lambda: list(tmp_path.iterdir()), "the chain does not begin")
        launch_cgroup.kill_each(str(cgroups))
        left = launch_cgroup.members(str(cgroups))

    assert left == set()


def driven(cgroups: Path, folder: Path) -> tuple[subprocess.Popen[str], dict[str, int]]:
    """A tuner with one launch: its process, and the pids of all that came of it."""
    environment = {**os.environ, MARK: "x", "DRIVER_CGROUPS": str(cgroups)}
    words = [sys.executable, DRIVER, "sleep", "1x1", sys.executable, WORKER, "family", folder]
    tuner = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    assert tuner.stdout is not None
    data = json.loads(tuner.stdout.readline())
    return tuner, {
        **members_by_name(folder),
        "guardian": data["guardian"],
        "supervisord": data["supervisord"],
    }


def test_a_tuner_that_is_killed_leaves_no_cgroup(cgroups: Path, tmp_path: Path) -> None:
    tuner, pids = driven(cgroups, tmp_path)
    with tuner:
        tuner.kill()
    wait_for(lambda: not is_running(pids["guardian"]), "the guardian does not end")

    assert not any(map(is_running, pids.values()))
    assert [path for path in cgroups.iterdir() if path.is_dir()] == []


def test_what_a_tuner_and_its_guardian_leave_when_both_are_killed_the_next_one_ends(
    cgroups: Path, tmp_path: Path
) -> None:
    tuner, pids = driven(cgroups, tmp_path)
    with tuner:
        tuner.send_signal(signal.SIGSTOP)  # it would clean up
        os.kill(pids["guardian"], signal.SIGKILL)
        tuner.kill()
    wait_for(lambda: not is_running(pids["guardian"]), "the guardian does not end")
    outlived = is_running(pids["daemon"])

    Guardian("the-next-one", cgroups=cgroups).close()

    for socket in Path(os.environ["TMPDIR"]).rglob("tuner-*/s"):  # nobody is left who knew of its folder
        socket.unlink()
    assert outlived
    wait_for(lambda: not is_running(pids["daemon"]), "the daemon is still there")
    assert [path for path in cgroups.iterdir() if path.is_dir()] == []


def test_a_launch_that_is_refused_a_cgroup_runs_without_and_says_so(
    launcher_of: LaunchersOf, tmp_path: Path, warnings_given: list[tuple[str, str]]
) -> None:
    launcher = launcher_of("wait", cgroups=tmp_path / "nowhere")
    with launcher.running(Layout(1, 1), {}) as launch:
        n_workers = len(launch.worker_pids())

    assert n_workers == 1
    ((slug, text),) = warnings_given
    assert (slug, wording("launch.no-such-file-or-directory") in text) == ("no-launch-cgroup", True)
