"""Several who read one study in one process, as the threads of `tuner serve` do, while another writes it."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tuner.adapters.sqlite.store import SqliteStore
from tuner.adapters.sqlite.study_file import is_held
from tuner.app import model, study_queries
from tuner.core.errors import ConfigError

from ..overviews import recorded
from ..raising import raises
from ..wording import wording

pytestmark = pytest.mark.integration
RACE = "crash-processor-2-cores-busy.tuner.db"
WRITER = """
import sys
from pathlib import Path
from tuner.adapters.sqlite.store import SqliteStore

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
    study_queries.live_now,
    study_queries.overview,
    model.predict,
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


def kept_open(file: Path) -> int:
    """How many descriptors this process has of *file* itself."""
    links = [Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd")]
    return sum(link.is_symlink() and os.readlink(link) == str(file) for link in links)


def test_descriptors_wait_for_the_last_connection_and_are_no_more_than_were_used_at_once(
    tmp_path: Path,
) -> None:
    file = recorded(RACE, tmp_path)
    is_held(file)
    before = kept_open(file)
    with written_elsewhere(file), SqliteStore.open(file, read_only=True):
        opened = kept_open(file)
        for _ in range(50):
            is_held(file)
            read_again(file)
        looked_at = kept_open(file)
    after = kept_open(file)

    assert before == after == 0
    assert 0 < opened <= looked_at <= opened + 2  # SQLite, too, keeps one that it read with the second time


def test_writers_one_after_the_other_leave_no_more_descriptors_than_one_of_them(tmp_path: Path) -> None:
    file = recorded(RACE, tmp_path)
    with written_elsewhere(file):
        reader = SqliteStore.open(file, read_only=True)
    with reader:
        open_now = []
        for _ in range(10):
            SqliteStore.open(file, lasting=False).close()
            open_now.append(kept_open(file))
    after = kept_open(file)

    assert len(set(open_now)) == 1
    assert after == 0


def test_a_file_system_without_locks_is_read_and_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = recorded(RACE, tmp_path)

    def refuses(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuses)

    assert not is_held(file)
    assert read_again(file)
    with raises(ConfigError, wording("study-file.cannot-be-locked")):
        SqliteStore.open(file)


def test_a_writer_waits_for_whoever_just_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = recorded(RACE, tmp_path)
    looker = os.open(file, os.O_RDONLY)
    waited = []

    def looked(seconds: float) -> None:
        waited.append(seconds)
        fcntl.flock(looker, fcntl.LOCK_UN)

    monkeypatch.setattr("tuner.adapters.sqlite.study_file.time.sleep", looked)
    fcntl.flock(looker, fcntl.LOCK_SH)
    with SqliteStore.open(file, lasting=False):
        pass
    os.close(looker)

    assert len(waited) == 1
