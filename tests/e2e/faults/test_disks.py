"""Disks that are full, out of inodes, read-only or slow in the middle of a study, for an ordinary user.

The disk is a small tmpfs. Once it works again the study goes on, and its exports are those of a study that
nothing disturbed, to the byte.
"""

from __future__ import annotations

import os
import pwd
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tuner.adapters.sqlite.store import SqliteStore

from ...permitted import mount_tmpfs
from ...wording import wording
from ..sleeping_worker import sleeping_worker
from ..typed import Typed
from .simulated import ASKED, SIMULATE, STUDY, exports, started_anew, whole_study

pytestmark = pytest.mark.integration


class Disk:
    """A file system of its own in *folder*."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        owner = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else os.getuid()
        options = f"size=64m,mode=755,uid={owner}"
        mount_tmpfs(folder, options)

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
    started_anew(whole, path)
    status = disk.folder.stat()
    os.chown(path, status.st_uid, status.st_gid)
    return path


def n_windows(path: Path) -> int:
    with SqliteStore.open(path, read_only=True) as store:
        return len(store.windows())


def test_a_disk_that_fills_and_then_is_read_only_costs_no_window(ordinary, disk: Disk, whole: Path) -> None:
    path = begin(disk, whole)
    tuner = replace(ordinary, folder=disk.folder)
    disk.becomes(f"size={(disk.used_bytes() + (400 << 10)) >> 10}k")

    full = tuner(*SIMULATE, "--resume", STUDY)
    n_kept = n_windows(path)
    disk.becomes("size=64m,ro")
    refused = tuner(*SIMULATE, "--resume", STUDY)
    readable = tuner("rank", STUDY)
    disk.becomes("size=64m,rw")
    resumed = tuner(*SIMULATE, "--resume", STUDY)

    assert (full.returncode, refused.returncode) == (2, 2)
    assert "Error: " + wording("study-file.full-disk", file=STUDY) in full.stderr
    assert "Traceback" not in full.stderr + refused.stderr
    assert 0 < n_kept < 180
    assert wording("study-file.read-only-file-system", study=STUDY) in refused.stderr
    assert readable.returncode == 0, readable.stderr
    assert resumed.returncode == 0, resumed.stderr
    assert exports(path) == exports(whole)


def test_a_disk_without_inodes_is_reported(ordinary, disk: Disk) -> None:
    """A new file is refused though there is room for its bytes: of a study, and of a launch."""
    used = os.statvfs(disk.folder)
    disk.becomes(f"size=64m,nr_inodes={used.f_files - used.f_ffree}")
    tuner = replace(ordinary, folder=disk.folder)

    refused = tuner(*SIMULATE, *ASKED, "--study", STUDY)

    assert refused.returncode == 2
    assert wording("study-file.cannot-create", study=STUDY) in refused.stderr
    assert disk.free_bytes() > 1 << 20
    assert list(disk.folder.iterdir()) == []


def test_a_disk_on_which_every_write_waits_costs_no_window(whole: Path, tmp_path: Path) -> None:
    """Another program's write lock stands for the disk: to tuner both are a commit that comes back late."""
    path = tmp_path / STUDY
    started_anew(whole, path)
    over, n_held = threading.Event(), 0

    def hold() -> None:
        nonlocal n_held
        with closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as other:
            while not over.is_set():
                other.execute("BEGIN IMMEDIATE")
                n_held += 1
                over.wait(0.05)
                other.execute("ROLLBACK")
                over.wait(0.05)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        done = Typed(tmp_path)(*SIMULATE, "--resume", STUDY)
    finally:
        over.set()
        holder.join()

    assert done.returncode == 0, done.stderr
    assert n_held > 1
    assert exports(path) == exports(whole)


def held_back(
    strace: str, calls: str, how: str, program: Sequence[str], folder: Path
) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run *program* with the kernel's answers to *calls* held back, and tell how many were."""
    log = folder / "trace"
    words = [strace, "-f", "--seccomp-bpf", "-qq", "-e", f"trace={calls}", "-e", f"inject={calls}:{how}"]
    done = subprocess.run(
        [*words, "-o", str(log), *program],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    return done, log.read_text(encoding="utf-8").count("(DELAYED)")


@pytest.mark.full
def test_a_disk_whose_writes_return_late_costs_no_window(whole: Path, tmp_path: Path, strace: str) -> None:
    path = tmp_path / STUDY
    started_anew(whole, path)
    typed = [sys.executable, "-c", "from tuner.cli import main; main()"]
    asked = [*typed, *map(str, SIMULATE), "--resume", STUDY]
    done, n_late = held_back(strace, "pwrite64", "delay_exit=100000:when=1+40", asked, tmp_path)

    assert done.returncode == 0, done.stderr
    assert n_late > 10
    assert exports(path) == exports(whole)


def test_a_real_study_whose_commits_come_back_a_second_late_keeps_every_window(tuner, strace: str) -> None:
    (tuner.folder / "worker.py").write_text(sleeping_worker(), encoding="utf-8")
    config = {
        "service": {"kind": "script", "name": "naps", "command": [sys.executable, "worker.py"]},
        "study": {
            "strategy": "all", "layouts": ["1x1", "1x2"], "repeats": 2, "window": "2s", "warmup": "1s",
            "warm_cache": "no", "foreign_limit": 64, "max_attempts": 9,
        },
    }  # fmt: skip
    (tuner.folder / "s.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    asked = [*tuner.program, "grid", "s.yaml", "--study", STUDY]
    done, n_late = held_back(strace, "fsync,fdatasync", "delay_exit=1000000", asked, tuner.folder)

    assert done.returncode in (0, 5), done.stderr  # 5: too few windows for an answer
    assert n_late > 10
    with SqliteStore.open(tuner.folder / STUDY, read_only=True) as store:
        kept = [str(window.layout) for window in store.windows() if not window.void]
    assert sorted(kept) == ["1x1", "1x1", "1x2", "1x2"]
