"""Where launches may have cgroups of their own, on trees made up; what stays in one, on a plain folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tuner.adapters.proc import launch_cgroup
from tuner.adapters.proc.cgroup import LaunchCgroups, launch_cgroups, own_cgroup
from tuner.adapters.proc.cpu_accounts import ServiceAccount, ServiceUse
from tuner.adapters.proc.process_tree import TICKS_PER_S
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import VoidReason

from ..wording import wording

BUSY_BOX = Path(__file__).resolve().parents[1] / "proc" / "busy_box" / "before"


class Tree:
    """A box with a hierarchy of version 2, and tuner in a unit."""

    def __init__(self, folder: Path, path: str = "/system.slice/tuner-study.service") -> None:
        self.proc, self.cgroup, self.systemd = folder / "proc", folder / "cgroup", folder / "systemd"
        (self.proc / "self").mkdir(parents=True)
        (self.proc / "self" / "cgroup").write_text(f"9:cpuset:/elsewhere\n0::{path}\n")
        self.own = self.cgroup / path.lstrip("/")
        self.own.mkdir(parents=True)
        for each in {self.cgroup, self.own}:
            (each / "cgroup.procs").write_text("1\n30\n")

    def asked(self) -> LaunchCgroups:
        return launch_cgroups(self.proc, self.cgroup, self.systemd)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_launches_go_below_the_cgroup_of_tuner(tree: Tree) -> None:
    assert tree.asked() == LaunchCgroups(tree.own, "of its own")


def test_what_systemd_has_not_delegated_is_left_to_it(tree: Tree) -> None:
    tree.systemd.mkdir()

    assert tree.asked().parent is None
    assert "Delegate=yes" in tree.asked().sentence


@pytest.mark.parametrize(("value", "ours"), [(b"1", True), (b"0", False)])
def test_what_systemd_delegates_is_ours_to_divide(tree: Tree, value: bytes, ours: bool) -> None:
    tree.systemd.mkdir()
    try:
        os.setxattr(tree.own, "user.delegate", value)
    except OSError as error:
        pytest.skip(f"no extended attributes in {tree.own}: {error.strerror}")

    assert (tree.asked().parent == tree.own) is ours


def test_a_cgroup_that_cannot_be_written_is_reported_as_such(tree: Tree) -> None:
    (tree.own / "cgroup.procs").unlink()  # to root all that is there can be written

    assert tree.asked() == LaunchCgroups(None, wording("doctor.cgroup-cannot-be-written"))


def test_version_1_has_no_cgroup_for_a_launch(tree: Tree) -> None:
    (tree.proc / "self" / "cgroup").write_text("9:cpuset:/elsewhere\n")

    assert tree.asked() == LaunchCgroups(None, wording("doctor.no-cgroups-of-version-2"))


def test_in_a_container_the_root_of_the_mount_is_ours(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    (tree.proc / "self" / "cgroup").write_text("0::/../../kubepods.slice/pod7\n")

    assert own_cgroup(tree.proc, tree.cgroup) == tree.cgroup


def test_beside_version_1_the_hierarchy_is_called_unified(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "/")
    unified = tree.cgroup / "unified"
    unified.mkdir()
    (tree.cgroup / "cgroup.procs").rename(unified / "cgroup.procs")

    assert own_cgroup(tree.proc, tree.cgroup) == unified


def test_who_is_in_a_cgroup_below_belongs_to_it(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "cgroup.procs").write_text("10\n11\n")
    (tmp_path / "a" / "b" / "cgroup.procs").write_text("12\n")

    assert launch_cgroup.members(str(tmp_path / "a")) == {10, 11, 12}
    assert launch_cgroup.members(str(tmp_path / "gone")) == set()


def test_only_what_guardians_left_who_are_no_more_is_taken_away(tmp_path: Path) -> None:
    began = {100: 5000, 200: 7000}
    ours = Path(launch_cgroup.make_cgroup(str(tmp_path), 100, 5000))
    another = Path(launch_cgroup.make_cgroup(str(tmp_path), 200, 6999))  # its pid is somebody else's by now
    gone = Path(launch_cgroup.make_cgroup(str(tmp_path), 300, 4000))
    elsewhere = tmp_path / "tuner-launch-1-300-4000-0badcafe"  # of another pid namespace
    strangers = tmp_path / "tuner-launches"
    for folder in (elsewhere, strangers):
        folder.mkdir()

    removed = launch_cgroup.remove_orphans(str(tmp_path), lambda pid: began.get(pid, 0))

    assert set(removed) == {str(another), str(gone)}
    assert {path for path in tmp_path.iterdir() if path.is_dir()} == {ours, elsewhere, strangers}


class RecordedLaunch:
    """That of tests/proc/busy_box."""

    running_after_s = 0.5
    shape = Layout(2, 64)  # of which all threads work on items

    def worker_pids(self) -> frozenset[int]:
        return frozenset({50, 51})

    def overhead_pids(self) -> frozenset[int]:
        return frozenset({40, 41})

    def problems(self, *, threads: bool = True) -> tuple[VoidReason, ...]:
        return ()


class CgroupOfBusyBox:
    """The launch of tests/proc/busy_box in a cgroup of its own, of which the guardian (41) is not."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.root, name = folder / "proc", folder / "cgroup", "tuner-launch-1-41-5-ab"
        shutil.copytree(BUSY_BOX, self.proc)
        self.cgroup = self.root / name
        self.cgroup.mkdir(parents=True)
        (self.root / "cgroup.procs").touch()
        (self.proc / "40" / "cgroup").write_text(f"0::/{name}\n")

    def guardian_has(self, own_s: float, reaped_s: float) -> None:
        stat = self.proc / "41" / "stat"
        words = stat.read_text().split()
        words[13:17] = [f"{own_s * TICKS_PER_S:.0f}", "0", f"{reaped_s * TICKS_PER_S:.0f}", "0"]
        stat.write_text(" ".join(words) + "\n")

    def has_used(self, cpu_s: float) -> None:
        (self.cgroup / "cpu.stat").write_text(f"usage_usec {cpu_s * 1e6:.0f}\nuser_usec 1\n")

    def account(self) -> ServiceAccount:
        return ServiceAccount(self.proc, RecordedLaunch(), self.root)

    def by_processes(self) -> ServiceUse:
        """What is counted without the cgroup."""
        return ServiceAccount(self.proc, RecordedLaunch(), self.root / "nowhere").use()


@pytest.mark.parametrize(("more_s", "counted_s"), [(5.0, 5.0), (0.05, 0.0), (-3.0, 0.0)])
@pytest.mark.parametrize(
    ("own_s", "earlier_s"),
    [
        pytest.param(0.01, 0.0, id="first launch"),
        pytest.param(0.01, 600.0, id="later launch"),
        pytest.param(30.0, 0.0, id="busy guardian"),
    ],
)
def test_cpu_that_is_in_no_processs_account_is_in_that_of_the_cgroup(
    tmp_path: Path, own_s: float, earlier_s: float, more_s: float, counted_s: float
) -> None:
    """supervisord (40) used 0.1 s itself; what ticks cut off is no CPU. What the guardian used, and what it
    reaped of earlier launches, is not the cgroup's."""
    box = CgroupOfBusyBox(tmp_path)
    box.guardian_has(own_s, earlier_s)
    plain = box.by_processes()
    box.has_used(plain.cpu_s_total - earlier_s + 0.1 + more_s)

    account = box.account()
    first, second = account.use(), account.use()

    assert first.cpu_s_total - plain.cpu_s_total == pytest.approx(counted_s, abs=0.02)
    assert first.child_cpu_s_total - plain.child_cpu_s_total == pytest.approx(counted_s, abs=0.02)
    assert first.worker_cpu_s_total == plain.worker_cpu_s_total
    assert second.cpu_s_total == first.cpu_s_total


def test_what_the_guardian_reaps_while_a_launch_runs_is_no_more_than_the_cgroup_has(tmp_path: Path) -> None:
    """A daemon of the launch, of 3 s, that ended as a child of the guardian."""
    box = CgroupOfBusyBox(tmp_path)
    box.guardian_has(0.01, 600.0)
    used_s = box.by_processes().cpu_s_total - 600.0 + 0.1
    box.has_used(used_s)
    account = box.account()
    before = account.use()
    box.guardian_has(0.01, 603.0)
    box.has_used(used_s + 3.0)
    after = account.use()

    assert after.cpu_s_total - before.cpu_s_total == pytest.approx(3.0, abs=0.02)
