"""Several who read one study in one process, as the threads of `tuner serve` do, while another writes it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tuner import bootstrap
from tuner.adapters.sqlite import SqliteStore
from tuner.adapters.study_file import is_held

from ..overviews import recorded

pytestmark = pytest.mark.integration
RACE = "crash-processor-2-cores-busy.tuner.db"
WRITER = """
import sys
from pathlib import Path
from tuner.adapters.sqlite import SqliteStore

with SqliteStore.open(Path(sys.argv[1]), lasting=False):
    print("open", flush=True)
    sys.stdin.read()
"""


@contextmanager
def written_elsewhere(file: Path) -> Iterator[None]:
    """Another process has *file* open to write."""
    command = [sys.executable, "-c", WRITER, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdin is not None
        try:
            assert writer.stdout.readline() == b"open\n"
            yield
        finally:
            writer.stdin.close()
            assert writer.wait(60) == 0


def own_locks(file: Path) -> list[str]:
    """SQLite's (fcntl) locks of this process on *file* itself."""
    inode = str(file.stat().st_ino)
    found = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return [
        " ".join(words[3:])
        for words in found
        if words[1:2] == ["POSIX"] and words[4] == str(os.getpid()) and words[5].split(":")[2] == inode
    ]


def read_again(file: Path) -> object:
    with SqliteStore.open(file, read_only=True) as store:
        return store.windows()


LOOKS: list[Callable[[Path], object]] = [
    is_held,
    bootstrap.live_now,
    bootstrap.overview,
    bootstrap.foretold,
    read_again,
]


@pytest.mark.parametrize("look", LOOKS, ids=lambda one: getattr(one, "__name__", ""))
def test_whoever_looks_at_a_study_leaves_others_their_locks(
    look: Callable[[Path], object], tmp_path: Path
) -> None:
    """Without them SQLite's writer, as it ends, removes the -wal that a reader still reads."""
    file = recorded(RACE, tmp_path)
    with written_elsewhere(file), SqliteStore.open(file, read_only=True) as store:
        n_windows, before = len(store.windows()), own_locks(file)
        look(file)

        assert before
        assert own_locks(file) == before
        assert len(store.windows()) == n_windows


def test_it_is_known_who_holds_a_study_however_often_it_is_asked(tmp_path: Path) -> None:
    file = recorded(RACE, tmp_path)
    held = [is_held(file)]
    with written_elsewhere(file):
        held += [is_held(file), is_held(file)]
    held.append(is_held(file))

    assert held == [False, True, True, False]


def test_another_file_of_the_same_name_is_looked_at_anew(tmp_path: Path) -> None:
    file = recorded(RACE, tmp_path)
    with written_elsewhere(file):
        assert is_held(file)
        file.rename(tmp_path / "moved.tuner.db")
        assert not is_held(recorded(RACE, tmp_path))


def test_descriptors_of_studies_that_are_gone_are_not_kept(tmp_path: Path) -> None:
    files = [tmp_path / f"{n}.tuner.db" for n in range(100)]
    for file in files:
        file.write_bytes(b"")
        is_held(file)
    links = [Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd")]
    n_kept = sum(os.readlink(link).startswith(str(tmp_path)) for link in links if link.is_symlink())
    for file in files[:99]:
        file.unlink()
    is_held(files[99])
    links = [Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd")]
    left = [os.readlink(link) for link in links if link.is_symlink()]

    assert 1 < n_kept < 100
    assert [name for name in left if name.startswith(str(tmp_path))] == [str(files[99])]
