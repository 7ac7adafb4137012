"""Disks that are full, out of inodes, read-only or slow in the middle of a study, for an ordinary user.

The disk is a small tmpfs. Once it works again the study goes on, and its exports are those of a study that
nothing disturbed, to the byte.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.adapters.sqlite import SqliteStore

from .simulated import ASKED, SIMULATE, STUDY, begun_anew, exports, whole_study

pytestmark = pytest.mark.integration


class Disk:
    """A file system of its own in *folder*."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        owner = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else os.getuid()
        options = f"size=64m,mode=755,uid={owner}"
        command = ["mount", "-t", "tmpfs", "-o", options, "tuner-test", str(folder)]
        if subprocess.run(command, check=False, capture_output=True).returncode != 0:
            pytest.skip("cannot mount a small tmpfs here (needs root)")

    def becomes(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.folder)], check=True)

    def free_bytes(self) -> int:
        room = os.statvfs(self.folder)
        return room.f_bavail * room.f_bsize

    def used_bytes(self) -> int:
        room = os.statvfs(self.folder)
        return (room.f_blocks - room.f_bfree) * room.f_bsize

    def close(self) -> None:
        subprocess.run(["umount", str(self.folder)], check=True)


@pytest.fixture
def disk(ordinary) -> Iterator[Disk]:
    one = Disk(ordinary.folder / "disk")
    yield one
    one.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_study(tmp_path_factory.mktemp("whole"))


def begin(disk: Disk, whole: Path) -> Path:
    """The study before its first launch, on *disk*, its user's own."""
    path = disk.folder / STUDY
    begun_anew(whole, path)
    status = disk.folder.stat()
    os.chown(path, status.st_uid, status.st_gid)
    return path


def n_windows(path: Path) -> int:
    with SqliteStore.open(path, read_only=True) as store:
        return len(store.windows())


def test_a_disk_that_fills_in_the_middle_costs_no_window(ordinary, disk: Disk, whole: Path) -> None:
    path = begin(disk, whole)
    tuner = replace(ordinary, folder=disk.folder)
    disk.becomes(f"size={(disk.used_bytes() + (400 << 10)) >> 10}k")

    full = tuner(*SIMULATE, "--resume", STUDY)

    assert full.returncode == 2
    assert f"Error: the disk of {STUDY} is full" in full.stderr
    assert "Traceback" not in full.stderr
    assert 0 < n_windows(path) < 180
    disk.becomes("size=64m")
    resumed = tuner(*SIMULATE, "--resume", STUDY)
    assert resumed.returncode == 0, resumed.stderr
    assert exports(path) == exports(whole)


def test_a_disk_that_becomes_read_only_is_told_and_costs_no_window(ordinary, disk: Disk, whole: Path) -> None:
    path = begin(disk, whole)
    tuner = replace(ordinary, folder=disk.folder)
    disk.becomes(f"size={(disk.used_bytes() + (400 << 10)) >> 10}k")
    tuner(*SIMULATE, "--resume", STUDY)  # half of it
    n_before = n_windows(path)
    disk.becomes("size=64m,ro")

    refused = tuner(*SIMULATE, "--resume", STUDY)

    assert refused.returncode == 2
    assert f"Error: cannot write {STUDY}: Read-only file system" in refused.stderr
    assert tuner("rank", STUDY).returncode == 0  # what is there can be read
    disk.becomes("size=64m,rw")
    assert n_windows(path) == n_before > 0
    assert tuner(*SIMULATE, "--resume", STUDY).returncode == 0
    assert exports(path) == exports(whole)


def test_a_disk_without_inodes_is_told(ordinary, disk: Disk) -> None:
    """A new file is refused though there is room for its bytes: of a study, and of a launch."""
    used = os.statvfs(disk.folder)
    disk.becomes(f"size=64m,nr_inodes={used.f_files - used.f_ffree}")
    tuner = replace(ordinary, folder=disk.folder)

    refused = tuner(*SIMULATE, *ASKED, "--study", STUDY)

    assert refused.returncode == 2
    assert f"Error: cannot create {STUDY}: No space left on device" in refused.stderr
    assert disk.free_bytes() > 1 << 20
    assert list(disk.folder.iterdir()) == []
