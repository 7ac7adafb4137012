"""A study file that was at rest when a reader opened it, and is written before the reader is done."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tuner.adapters.sqlite.store import SqliteStore
from tuner.adapters.sqlite.study_file import SCHEMA_VERSION
from tuner.adapters.virtual.box import VirtualBox, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError
from tuner.core.search.strategies.of_study import strategy_of
from tuner.study.run import run_study

from ..raising import raises
from ..wording import wording

SERVICE = VirtualService({Layout(1, 2): 10.0, Layout(2, 1): 20.0})
VERSION_8 = Path(__file__).parents[1] / "golden" / "study_version_8.db"
N_MORE = 30


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of 40 windows."""
    path = tmp_path_factory.mktemp("study") / "intact.tuner.db"
    study = virtual_study(SERVICE, window_s=5.0, warmup_s=2.0, n_blocks=20)
    with SqliteStore.create(path, study, lasting=False) as store:
        run_study(
            VirtualBox(SERVICE).box(), store, MemoryProgress(), PlannedStop(), strategy_of(store.study())
        )
    return path


@pytest.fixture
def file(intact: Path, tmp_path: Path) -> Path:
    """A copy of it, at rest."""
    return Path(shutil.copyfile(intact, tmp_path / "s.tuner.db"))


def write_more(writer: SqliteStore) -> None:
    """Launches and windows beside which old pages make no sense."""
    launch_id, launch = writer.launches()[-1]
    window = writer.window(launch_id, 0, 1)
    for _ in range(N_MORE):
        new = writer.add_launch(launch)
        writer.add_window(new, window)
        writer.finish_launch(new, launch)


def forget_pages(reader: SqliteStore) -> None:
    """As SQLite does by itself when a file is larger than its 2 MB of pages."""
    reader._connection.execute("PRAGMA shrink_memory")


def test_a_reader_is_not_told_of_damage_where_a_writer_came_and_went(file: Path) -> None:
    with SqliteStore.open(file, read_only=True) as reader:
        n_before = len(reader.launches()), len(reader.windows())
        with SqliteStore.open(file, lasting=False) as writer:
            write_more(writer)
        forget_pages(reader)

        assert (len(reader.launches()), len(reader.windows())) == tuple(n + N_MORE for n in n_before)


def test_a_reader_does_not_continue_with_pages_of_before_and_after(file: Path) -> None:
    """SQLite keeps pages that it has read: old launches stood beside new windows, in silence."""
    with SqliteStore.open(file, read_only=True) as reader:
        n_before = len(reader.launches())
        with SqliteStore.open(file, lasting=False) as writer:
            write_more(writer)

        assert len(reader.launches()) == n_before + N_MORE


def test_a_reader_continues_by_locks_once_a_writer_began(file: Path) -> None:
    with SqliteStore.open(file, read_only=True) as reader:
        n_before = len(reader.windows())
        with SqliteStore.open(file, lasting=False) as writer:
            write_more(writer)

            assert len(reader.windows()) == n_before + N_MORE
            write_more(writer)
            assert len(reader.windows()) == n_before + 2 * N_MORE


def test_a_reader_of_an_older_file_continues_with_what_it_was_upgraded_to(tmp_path: Path) -> None:
    path = Path(shutil.copyfile(VERSION_8, tmp_path / "old.tuner.db"))
    with SqliteStore.open(path, read_only=True) as reader:
        windows = list(reader.windows())
        SqliteStore.open(path).close()
        forget_pages(reader)

        assert reader.windows() == windows
        assert reader.study().schema_version == SCHEMA_VERSION


def test_a_file_that_is_damaged_stays_damaged_when_it_was_written_meanwhile(file: Path) -> None:
    with SqliteStore.open(file, read_only=True) as reader:
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("UPDATE window SET n_done = n_done + 8 WHERE id = 2")

        with raises(ConfigError, wording("study-file.is-damaged-not-as-written", what="window 2")):
            reader.windows()


def test_a_file_that_is_written_without_end_is_reported_in_one_line(file: Path) -> None:
    def written(_: sqlite3.Connection) -> int:
        n_tries.append(1)
        before_ns = file.stat().st_mtime_ns
        while file.stat().st_mtime_ns == before_ns:  # until the file system's clock went on
            with closing(sqlite3.connect(file, isolation_level=None)) as other:
                other.executescript("CREATE TABLE IF NOT EXISTS note (n); INSERT INTO note VALUES (1)")
        return 0

    n_tries: list[int] = []
    with (
        SqliteStore.open(file, read_only=True) as reader,
        raises(ConfigError, wording("study-file.written-meanwhile")),
    ):
        reader._read_consistently(written)

    assert len(n_tries) == 5


def test_a_reader_stays_with_its_study_when_another_one_takes_the_name(file: Path, tmp_path: Path) -> None:
    other = Path(shutil.copyfile(VERSION_8, tmp_path / "other.tuner.db"))
    with SqliteStore.open(file, read_only=True) as reader:
        windows = list(reader.windows())
        other.replace(file)
        forget_pages(reader)

        assert reader.windows() == windows
        assert len(reader.launches()) > len(windows)
