"""Files of threads that are sampled: kept open, or opened each time if half of all files are open."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tuner.adapters.proc.sampled_file import SampledFile
from tuner.adapters.proc.task_states import ActiveTasks

from ..file_limit import few_files, open_files

PID = 50


def with_threads(proc: Path, n: int) -> None:
    """Add one process of *n* threads in R."""
    proc.mkdir()
    (proc / "stat").write_text("procs_blocked 0\n")
    for thread in range(PID, PID + n):
        folder = proc / str(PID) / "task" / str(thread)
        folder.mkdir(parents=True)
        (folder / "stat").write_text(f"{thread} (python) R 1 {' 0' * 40}\n")
        (folder / "children").write_text("")


def test_the_threads_of_four_launches_are_counted_with_few_files(tmp_path: Path) -> None:
    """Their threads are more than the limit of open files."""
    with few_files(40) as limit:
        n = limit // 3
        with_threads(tmp_path / "proc", n)
        launches = [ActiveTasks(tmp_path / "proc", "x86_64") for _ in range(4)]
        for tasks in launches:
            tasks.follow([PID])
        n_open = len(open_files())
        found = [tasks.n_own() for tasks in launches]
        for tasks in launches:
            tasks.close()

    assert found == [n] * 4
    assert n_open <= limit // 2 + 5


def test_a_thread_whose_file_cannot_be_kept_open_for_lack_of_files_is_read_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host has too many open files while the launch is followed, and no longer when it is sampled."""
    with_threads(tmp_path / "proc", 3)
    tasks = ActiveTasks(tmp_path / "proc", "x86_64")
    plain = os.open

    def no_more(path: str, flags: int, *more: int) -> int:
        if path.endswith("/stat"):
            raise OSError(errno.ENFILE, os.strerror(errno.ENFILE), path)
        return plain(path, flags, *more)

    monkeypatch.setattr(os, "open", no_more)
    tasks.follow([PID])
    monkeypatch.undo()
    found = tasks.n_own()
    tasks.close()

    assert found == 3


def test_a_file_is_read_from_its_beginning_each_time_whether_it_is_kept_open_or_not(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    path.write_text("first")
    files = [SampledFile(str(path)), SampledFile(str(path), keep=False)]
    kept, before = [file.is_kept for file in files], [file.read(4) for file in files]
    path.write_text("second")
    after = [file.read(100) for file in files]
    for file in files:
        file.close()

    assert kept == [True, False]
    assert (before, after) == ([b"firs"] * 2, [b"second"] * 2)
