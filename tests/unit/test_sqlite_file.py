"""The study file: what is refused, in which words; who may read and write at once; what a kill leaves."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tuner.adapters.sqlite import study_file
from tuner.adapters.sqlite.store import SqliteStore
from tuner.adapters.sqlite.study_file import SCHEMA_VERSION
from tuner.adapters.virtual.box import VirtualBox, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord, StudyRecord
from tuner.core.domain.requests import N_BUCKETS, ConnectionSpread, Latencies, Requests, bucket_of
from tuner.core.errors import ConfigError
from tuner.core.search.strategies.of_study import strategy_of
from tuner.core.windows.launch_sums import tally
from tuner.study.run import run_study

from ..raising import raises
from ..wording import start_of, wording

pytestmark = pytest.mark.pythons

SERVICE = VirtualService({Layout(1, 2): 10.0, Layout(2, 1): 20.0})
STUDY: StudyRecord = virtual_study(SERVICE, window_s=5.0, warmup_s=2.0, n_blocks=1)
NOBODY = 65534
GOLDEN = Path(__file__).parents[1] / "golden"
VERSION_1 = GOLDEN / "study_version_1.db"  #: kept: cut off after 3 windows of 4
VERSION_2 = GOLDEN / "study_version_2.db"  #: likewise, while the launch of the fourth window warmed up
VERSION_3 = GOLDEN / "study_version_3.db"  #: likewise
VERSION_4 = GOLDEN / "study_version_4.db"  #: likewise
VERSION_5 = GOLDEN / "study_version_5.db"  #: likewise
VERSION_6 = GOLDEN / "study_version_6.db"  #: likewise
VERSION_7 = GOLDEN / "study_version_7.db"  #: likewise
VERSION_8 = GOLDEN / "study_version_8.db"  #: likewise
VERSION_9 = GOLDEN / "study_version_9.db"  #: likewise
VERSION_10 = GOLDEN / "study_version_10.db"  #: likewise
VERSION_11 = GOLDEN / "study_version_11.db"  #: likewise
VERSION_12 = GOLDEN / "study_version_12.db"  #: likewise
VERSION_13 = GOLDEN / "study_version_13.db"  #: likewise
VERSION_14 = GOLDEN / "study_version_14.db"  #: the same, written by version 14
VERSION_15 = GOLDEN / "study_version_15.db"  #: likewise
VERSION_16 = GOLDEN / "study_version_16.db"  #: likewise
VERSION_17 = GOLDEN / "study_version_17.db"  #: likewise
OLD = [
    *(VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5),
    *(VERSION_6, VERSION_7, VERSION_8, VERSION_9, VERSION_10, VERSION_11, VERSION_12),
    *(VERSION_13, VERSION_14, VERSION_15, VERSION_16, VERSION_17),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A finished study."""
    path = tmp_path / "s.tuner.db"
    with SqliteStore.create(path, STUDY) as store:
        run_study(
            VirtualBox(SERVICE).box(), store, MemoryProgress(), PlannedStop(), strategy_of(store.study())
        )
    return path


@pytest.fixture
def killed(file: Path, tmp_path: Path) -> Path:
    """A study whose writer was killed: its last windows are in the -wal file still."""
    path = tmp_path / "killed" / "s.tuner.db"
    path.parent.mkdir()
    with SqliteStore.open(file) as store:
        store.add_launch(store.launches()[0][1])
        for suffix in ("", "-wal", "-shm"):
            shutil.copyfile(f"{file}{suffix}", f"{path}{suffix}")
    assert Path(f"{path}-wal").stat().st_size > 0
    return path


def refused(path: Path, *, read_only: bool = False) -> str:
    """The one line that opening *path* gives."""
    with pytest.raises(ConfigError) as caught:
        SqliteStore.open(path, read_only=read_only)
    assert "\n" not in caught.value.problem
    return caught.value.problem


@pytest.fixture
def as_nobody(tmp_path: Path) -> Callable[[Callable[[], object]], str]:
    """Run something as an ordinary user in a child; gives what it returned or raised, as text."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == "root" and folder != Path("/") and os.getuid() == 0:
            with contextlib.suppress(PermissionError):
                folder.chmod(folder.stat().st_mode | 0o011)

    def run(what: Callable[[], object]) -> str:
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the child does not need
            child = os.fork()
        if child == 0:
            try:
                if os.getuid() == 0:
                    os.setgroups([])
                    os.setgid(NOBODY)
                    os.setuid(NOBODY)
                said = str(what())
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            os.write(writing, said.encode())
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as pipe:
            said = pipe.read().decode()
        os.waitpid(child, 0)
        return said

    return run


def n_launches(path: Path) -> int:
    with SqliteStore.open(path, read_only=True) as store:
        return len(store.launches())


def test_an_existing_file_is_never_overwritten(file: Path) -> None:
    before = file.read_bytes()

    with raises(ConfigError, wording("study-file.exists-already-never-overwritten")) as caught:
        SqliteStore.create(file, STUDY)
    assert f"--resume {file}" in (caught.value.hint or "")
    assert file.read_bytes() == before


@pytest.mark.parametrize("there", ["text", "", "folder", "dangling link"])
def test_whatever_exists_is_not_overwritten(tmp_path: Path, there: str) -> None:
    path = tmp_path / "x"
    if there == "folder":
        path.mkdir()
    elif there == "dangling link":
        path.symlink_to(tmp_path / "nowhere")
    else:
        path.write_text(there)

    with raises(ConfigError, wording("study-file.exists-already")):
        SqliteStore.create(path, STUDY)
    assert not (tmp_path / "nowhere").exists()


def test_a_study_cannot_be_created_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot create .*: No such file or directory"):
        SqliteStore.create(tmp_path / "none" / "s.tuner.db", STUDY)


@pytest.mark.parametrize("read_only", [False, True])
def test_what_is_no_study_file_is_named_as_what_it_is(tmp_path: Path, read_only: bool) -> None:
    text, other, empty = tmp_path / "notes.txt", tmp_path / "other.db", tmp_path / "empty"
    text.write_text("hello, this is no database\n" * 20)
    with contextlib.closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE study (id)")
    empty.touch()

    assert refused(text, read_only=read_only) == wording("study-file.not-of-tuner", file=text)
    assert refused(other, read_only=read_only) == wording("study-file.not-of-tuner", file=other)
    assert refused(empty, read_only=read_only).startswith(f"{empty} is empty")
    assert refused(tmp_path, read_only=read_only) == wording("study-file.is-a-folder", tmp_path=tmp_path)
    assert refused(tmp_path / "none", read_only=read_only) == wording(
        "study-file.no-study-file", file=tmp_path / "none"
    )
    assert wording("study-file.cannot-read", text=text) in start_of(refused(text / "x", read_only=read_only))


def test_a_file_of_a_newer_tuner_is_refused_with_both_versions(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 19")

    assert refused(file) == wording("study-file.newer-version", file=file)


def test_a_file_of_version_1_is_read_without_being_touched(tmp_path: Path) -> None:
    path = tmp_path / "old.tuner.db"
    shutil.copyfile(VERSION_1, path)
    with SqliteStore.open(path, read_only=True) as store:
        asked, launches, windows = store.study(), store.launches(), store.windows()
        warmup = store.warmup_samples(2)

    assert asked == virtual_study(SERVICE, window_s=5.0, n_blocks=2, schema_version=1)
    assert [(launch.warmup_s, launch.settled) for _, launch in launches] == [
        (19.0, True),
        (18.0, True),
        (20.0, True),
        (16.0, True),
    ]
    assert {(launch.window_s, launch.unsettled) for _, launch in launches} == {(None, None)}
    assert [window.n_done for window in windows] == [89, 55, 94]
    assert list(warmup) == []
    assert path.read_bytes() == VERSION_1.read_bytes()


def test_a_file_of_version_2_is_read_without_being_touched(tmp_path: Path) -> None:
    path = tmp_path / "old.tuner.db"
    shutil.copyfile(VERSION_2, path)
    with SqliteStore.open(path, read_only=True) as store:
        asked, launches, windows = store.study(), store.launches(), store.windows()
        seen, warmup = store.window(2, 0, 1), store.warmup_samples(2)

    assert asked == virtual_study(SERVICE, window_s=5.0, n_blocks=2, schema_version=2)
    assert [launch.warmup_s for _, launch in launches] == [20.0, 40.0, 30.0, 20.0, None]
    assert [window.n_done for window in windows] == [95, 45, 100]
    assert len(warmup) == 41
    assert {window.worker_cpu_s for window in windows} == {moment.run_delay_s_total for moment in seen.usage}
    assert windows[0].worker_cpu_s is None
    assert path.read_bytes() == VERSION_2.read_bytes()


def test_a_file_of_version_3_is_read_without_being_touched(tmp_path: Path) -> None:
    path = tmp_path / "old.tuner.db"
    shutil.copyfile(VERSION_3, path)
    with SqliteStore.open(path, read_only=True) as store:
        asked, windows, seen = store.study(), store.windows(), store.window(2, 0, 1)

    assert asked == virtual_study(SERVICE, window_s=5.0, n_blocks=2, schema_version=3)
    assert [window.n_done for window in windows] == [95, 45, 100]
    assert [window.worker_cpu_s for window in windows] == [10.0, 5.0, 10.0]
    assert [window.probe_python_cpu_s for window in windows] == [10.0, 5.0, 10.0]
    assert [window.blocked_s for window in windows] == [0.0, 0.0, 0.0]
    assert {moment.blocked_s_total for moment in seen.usage} == {0.0}
    assert path.read_bytes() == VERSION_3.read_bytes()


def test_a_file_of_version_4_is_read_without_being_touched(tmp_path: Path) -> None:
    path = tmp_path / "old.tuner.db"
    shutil.copyfile(VERSION_4, path)
    with SqliteStore.open(path, read_only=True) as store:
        asked, windows, sums = store.study(), store.windows(), store.sums()

    assert (sums.launches, sums.void) == (tally(windows).launches, tally(windows).void)
    assert asked == virtual_study(SERVICE, window_s=5.0, n_blocks=2, schema_version=4)
    assert [(window.n_done, window.spawning_s) for window in windows] == [(95, 0.0), (45, 0.0), (100, 0.0)]
    assert path.read_bytes() == VERSION_4.read_bytes()


def test_a_file_of_version_5_is_read_without_being_touched(tmp_path: Path) -> None:
    path = tmp_path / "old.tuner.db"
    shutil.copyfile(VERSION_5, path)
    with SqliteStore.open(path, read_only=True) as store:
        asked, windows, seen = store.study(), store.windows(), store.window(2, 0, 1)

    assert asked == virtual_study(SERVICE, window_s=5.0, n_blocks=2, schema_version=5)
    assert [(window.n_done, window.spawning_s) for window in windows] == [(95, 0.0), (45, 0.0), (100, 0.0)]
    assert [window.requests for window in windows] == [None, None, None]
    assert seen.requests is None
    assert path.read_bytes() == VERSION_5.read_bytes()


def test_a_file_of_version_7_is_read_without_being_touched_and_knows_of_no_fleet(tmp_path: Path) -> None:
    path = tmp_path / "old.tuner.db"
    shutil.copyfile(VERSION_7, path)
    with SqliteStore.open(path, read_only=True) as store:
        asked, windows, boxes = store.study(), store.windows(), store.boxes()

    assert asked == virtual_study(SERVICE, window_s=5.0, n_blocks=2, schema_version=7)
    assert [window.n_done for window in windows] == [95, 45, 100]
    assert list(boxes) == []
    assert path.read_bytes() == VERSION_7.read_bytes()


def test_anybody_can_read_latency_with_sql(file: Path) -> None:
    """20 of 25 requests took between 98 and 98.1 ms, 1 longer than an hour, and 4 failed."""
    requests = Requests(Latencies({bucket_of(98_000_000): 20, N_BUCKETS - 1: 1}), 4, rate_per_s=7.5)
    with SqliteStore.open(file) as store:
        (last, _) = store.launches()[-1]
        store.add_window(last, replace(store.window(last, 0, 1), index=1, requests=requests))
    columns = "n_requests, n_requests_failed, latency_p50_s, latency_p95_s, latency_p99_s, rate_per_s"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        *others, result = connection.execute(f"SELECT {columns} FROM window ORDER BY id").fetchall()

    assert result == (25, 4, pytest.approx(0.098, rel=1e-3), 3600.0, None, 7.5)
    assert set(others) == {(None,) * 6}


@pytest.mark.parametrize(
    ("old", "clock"),
    [
        *((old, "spawning_s") for old in (VERSION_1, VERSION_2, VERSION_3)),
        *((old, "gil_waiting_s") for old in (VERSION_1, VERSION_2, VERSION_3, VERSION_4)),
        *((old, "gil_waking_s") for old in (VERSION_1, VERSION_2, VERSION_3, VERSION_4)),
        *((old, "interrupt_s") for old in OLD),
    ],
)
def test_what_nobody_looked_for_in_an_older_version_is_not_known(
    tmp_path: Path, old: Path, clock: str
) -> None:
    """The start of children before version 4, waits for the GIL before 5, interrupts before 18; also once it
    is upgraded.
    """
    path = tmp_path / "old.tuner.db"
    shutil.copyfile(old, path)
    reported = []
    for read_only in (True, False):
        with SqliteStore.open(path, read_only=read_only) as store:
            reported += [
                getattr(store.windows()[0], clock),
                getattr(store.window(2, 0, 1).usage[0], f"{clock}_total"),
            ]

    assert reported == [None] * 4


@pytest.mark.parametrize("version", [VERSION_1, VERSION_2])
def test_what_the_items_counted_of_their_cpu_is_read_from_a_file_older_than_the_kernels_clocks(
    version: Path,
) -> None:
    """The virtual box tells its probe all the CPU it uses: 0.1 s an item."""
    with SqliteStore.open(version, read_only=True) as store:
        windows = store.windows()

    assert [window.probe_python_cpu_s for window in windows] == pytest.approx(
        [0.1 * window.n_done for window in windows], abs=0.1
    )
    assert [window.probe_child_cpu_s for window in windows] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("old", OLD)
def test_a_study_of_an_older_version_continues_as_one_of_today_with_its_windows_unchanged(
    tmp_path: Path, old: Path
) -> None:
    path = tmp_path / "old.tuner.db"
    shutil.copyfile(old, path)
    with SqliteStore.open(old, read_only=True) as store:
        before = store.windows()
    with SqliteStore.open(path) as store:
        run_study(
            VirtualBox(SERVICE).box(), store, MemoryProgress(), PlannedStop(), strategy_of(store.study())
        )
        asked, windows, sums = store.study(), store.windows(), store.sums()

    assert (sums.launches, sums.void) == (tally(windows).launches, tally(windows).void)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        kept = connection.execute("SELECT launch_id FROM launch_sum").fetchall()
        ended = connection.execute("SELECT id FROM launch WHERE ended_wall_s IS NOT NULL").fetchall()
    assert kept == ended
    assert asked == virtual_study(SERVICE, window_s=5.0, n_blocks=2)
    assert windows[:3] == before
    assert len(windows) == 4


@pytest.mark.parametrize("old", OLD)
def test_the_windows_of_an_older_version_add_up_before_it_is_upgraded(old: Path) -> None:
    with SqliteStore.open(old, read_only=True) as store:
        sums, windows = store.sums(), store.windows()

    assert (sums.launches, sums.void) == (tally(windows).launches, tally(windows).void)
    assert len(sums.launches) == 3


@pytest.mark.parametrize("old", OLD)
def test_an_upgraded_file_has_the_columns_of_a_new_one(file: Path, tmp_path: Path, old: Path) -> None:
    path = tmp_path / "old.tuner.db"
    shutil.copyfile(old, path)
    SqliteStore.open(path).close()
    reported = []
    for each in (path, file):
        with contextlib.closing(sqlite3.connect(each)) as connection:
            columns = connection.execute(
                'SELECT t.type, t.name, strict, wr, c.name, c.type, "notnull", pk'
                " FROM pragma_table_list AS t, pragma_table_info(t.name) AS c"
                " WHERE t.schema = 'main' AND t.name NOT LIKE 'sqlite%' ORDER BY t.name, c.name"
            ).fetchall()
            version = connection.execute("PRAGMA user_version").fetchone()
        reported.append((columns, version))

    assert reported[0] == reported[1]


def test_a_file_of_every_older_version_is_kept_for_these_tests() -> None:
    versions = [int.from_bytes(old.read_bytes()[60:64], "big") for old in OLD]

    assert versions == list(range(1, SCHEMA_VERSION))


@pytest.mark.parametrize("old", OLD, ids=lambda old: old.stem)
def test_an_older_study_is_kept_as_it_was_before_it_is_upgraded(tmp_path: Path, old: Path) -> None:
    path, said = tmp_path / "old.tuner.db", list[str]()
    shutil.copyfile(old, path)
    path.chmod(0o640)
    SqliteStore.open(path, warn=said.append).close()
    SqliteStore.open(path, warn=said.append).close()  # of this version by now

    kept = tmp_path / f"old.tuner.db.schema-{old.stem.rpartition('_')[2]}"
    assert said == [wording("study-file.upgraded", path=path, kept=kept)]
    assert sorted(found.name for found in tmp_path.iterdir()) == ["old.tuner.db", kept.name]
    assert kept.stat().st_mode & 0o777 == 0o640
    with SqliteStore.open(kept, read_only=True) as copy, SqliteStore.open(old, read_only=True) as original:
        assert copy.windows() == original.windows()
        assert copy.study() == original.study()
    with (
        contextlib.closing(sqlite3.connect(kept)) as copy,
        contextlib.closing(sqlite3.connect(old)) as before,
    ):
        assert list(copy.iterdump()) == list(before.iterdump())


def test_what_a_killed_older_tuner_had_not_put_into_its_file_is_in_the_copy(tmp_path: Path) -> None:
    path, held = tmp_path / "old.tuner.db", tmp_path / "held.db"
    shutil.copyfile(VERSION_7, held)
    with contextlib.closing(sqlite3.connect(held)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("UPDATE study SET service = 'changed-at-last'")
        writer.commit()
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{held}{suffix}", f"{path}{suffix}")
    SqliteStore.open(path).close()

    with SqliteStore.open(tmp_path / "old.tuner.db.schema-7", read_only=True) as copy:
        assert copy.study().service == "changed-at-last"


def test_no_copy_takes_the_place_of_another_file(tmp_path: Path) -> None:
    path, taken = tmp_path / "old.tuner.db", tmp_path / "old.tuner.db.schema-7"
    shutil.copyfile(VERSION_7, path)
    taken.write_text("somebody's")
    said: list[str] = []
    SqliteStore.open(path, warn=said.append).close()

    assert taken.read_text() == "somebody's"
    assert said[0].endswith(f"{taken}-2")


class Looking(sqlite3.Connection):
    """A connection that looks at what its copy is like, before the first byte is in it and afterwards."""

    seen: ClassVar[list[int]] = []

    def backup(self, target: sqlite3.Connection, **options: Any) -> None:
        made = Path(target.execute("PRAGMA database_list").fetchone()[2])
        self.seen.append(made.stat().st_mode & 0o777)
        super().backup(target, **options)
        self.seen.append(made.stat().st_mode & 0o777)


def test_nobody_else_reads_a_private_study_while_it_is_copied(tmp_path: Path) -> None:
    path = Path(shutil.copyfile(VERSION_7, tmp_path / "old.tuner.db"))
    path.chmod(0o600)
    Looking.seen.clear()
    with contextlib.closing(sqlite3.connect(path, factory=Looking)) as connection:
        kept = study_file.keep_copy(path, connection, 7)

    assert Looking.seen == [0o600, 0o600]
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_file_system_without_hard_links_gets_a_copy_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(*_names: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    path, taken = tmp_path / "old.tuner.db", tmp_path / "old.tuner.db.schema-7"
    shutil.copyfile(VERSION_7, path)
    taken.write_text("somebody's")
    monkeypatch.setattr(os, "link", without)
    SqliteStore.open(path).close()

    assert taken.read_text() == "somebody's"
    assert sorted(found.name for found in tmp_path.iterdir()) == [path.name, taken.name, f"{taken.name}-2"]
    with SqliteStore.open(Path(f"{taken}-2"), read_only=True) as copy:
        assert copy.study().schema_version == 7


def test_a_study_that_cannot_be_copied_is_not_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "old.tuner.db"
    shutil.copyfile(VERSION_7, path)
    (tmp_path / "old.tuner.db.copying").mkdir()  # in its way

    assert wording("study-file.cannot-be-copied-before-upgrade") in refused(path)
    assert n_launches(path) > 0
    assert int.from_bytes(path.read_bytes()[60:64], "big") == 7


def test_an_upgrade_that_is_cut_short_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "old.tuner.db"
    shutil.copyfile(VERSION_1, path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE INDEX warmup_sample_packed ON launch (block)")  # in its way
    with raises(ConfigError, wording("study-file.index-there-already")):
        SqliteStore.open(path)

    with contextlib.closing(sqlite3.connect(path)) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(study)")]
        version = connection.execute("PRAGMA user_version").fetchone()
    assert "within_ratio" not in columns
    assert version == (1,)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_damaged_file_is_called_damaged(file: Path, read_only: bool) -> None:
    with file.open("r+b") as damaged:
        damaged.seek(200)
        damaged.write(os.urandom(file.stat().st_size - 200))

    assert refused(file, read_only=read_only).startswith(f"{file} is damaged")


@pytest.mark.parametrize("read_only", [False, True])
def test_a_truncated_file_is_called_damaged(file: Path, read_only: bool) -> None:
    os.truncate(file, 4096)

    assert refused(file, read_only=read_only).startswith(f"{file} is damaged")


def test_only_one_tuner_writes_and_the_other_learns_which(file: Path) -> None:
    with SqliteStore.open(file):
        said = refused(file)

    assert said == f"another tuner (process {os.getpid()}) is writing {file}"
    with SqliteStore.open(file) as store:
        assert store.windows()


def test_readers_read_while_a_study_is_written(file: Path) -> None:
    with SqliteStore.open(file) as writer, SqliteStore.open(file, read_only=True) as reader:
        before = len(reader.launches())
        writer.add_launch(writer.launches()[0][1])

        assert len(reader.launches()) == before + 1
        assert n_launches(file) == before + 1


def test_a_reader_that_comes_and_goes_does_not_take_the_writers_lock_away(file: Path) -> None:
    with SqliteStore.open(file) as writer:
        n_launches(file)
        writer.add_launch(writer.launches()[0][1])

        assert "another tuner" in refused(file)


def test_a_reader_cannot_write(file: Path) -> None:
    with SqliteStore.open(file, read_only=True) as store:
        launch = store.launches()[0][1]
        with raises(ConfigError, wording("study-file.cannot-be-written")):
            store.add_launch(launch)


def test_a_closed_study_is_one_file(file: Path) -> None:
    assert [path.name for path in file.parent.iterdir() if path.is_file()] == [file.name]


def test_what_a_killed_writer_left_is_read_and_written_on(killed: Path) -> None:
    assert n_launches(killed) == 4
    with SqliteStore.open(killed) as store:
        store.add_launch(store.launches()[0][1])
    assert n_launches(killed) == 5


def test_an_ordinary_user_reads_a_study_in_a_folder_that_cannot_be_written(file: Path, as_nobody) -> None:
    file.parent.chmod(0o755)

    assert as_nobody(lambda: n_launches(file)) == "3"


@pytest.mark.parametrize("with_shm", [True, False])
def test_an_ordinary_user_reads_all_that_a_killed_writer_left(
    killed: Path, as_nobody, with_shm: bool
) -> None:
    killed.parent.chmod(0o755)
    if not with_shm:
        Path(f"{killed}-shm").unlink()
    before = sorted(path.name for path in killed.parent.iterdir())

    assert as_nobody(lambda: n_launches(killed)) == "4"
    assert sorted(path.name for path in killed.parent.iterdir()) == before


def test_an_ordinary_user_is_reported_where_there_is_no_room_to_read_what_a_killed_writer_left(
    killed: Path, as_nobody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed.parent.chmod(0o755)
    Path(f"{killed}-shm").unlink()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))

    said = as_nobody(lambda: n_launches(killed))

    assert wording("study-file.cannot-copy-to-read", killed=killed) in start_of(said)


def test_an_ordinary_user_is_reported_what_cannot_be_written_or_read(file: Path, as_nobody) -> None:
    file.parent.chmod(0o755)
    file.chmod(0o444)

    assert as_nobody(lambda: SqliteStore.open(file)) == f"ConfigError: cannot write {file}: Permission denied"
    file.chmod(0o666)
    if os.getuid() == 0:  # else the file and its folder are one's own
        said = as_nobody(lambda: SqliteStore.open(file))
        assert said == wording("study-file.folder-cannot-be-written", file=file)
    file.chmod(0o600)
    if os.getuid() == 0:
        said = as_nobody(lambda: SqliteStore.open(file, read_only=True))
        assert said == f"ConfigError: cannot read {file}: Permission denied"
    said = as_nobody(lambda: SqliteStore.create(file.parent / "new.tuner.db", STUDY))
    if os.getuid() == 0:
        assert said == f"ConfigError: cannot create {file.parent}/new.tuner.db: Permission denied"


def test_a_full_disk_keeps_what_is_finished_and_says_so_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "s.tuner.db"
    with SqliteStore.create(path, virtual_study(SERVICE, window_s=600.0, warmup_s=2.0)) as store:
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages + 20}")  # what SQLite does on ENOSPC
        with raises(ConfigError, wording("study-file.full-disk", file=path)) as caught:
            run_study(
                VirtualBox(SERVICE).box(), store, MemoryProgress(), PlannedStop(), strategy_of(store.study())
            )
        n_kept = len(store.windows())
        assert "--resume" in (caught.value.hint or "")

    assert n_kept >= 1
    with SqliteStore.open(path) as store:
        run_study(
            VirtualBox(SERVICE).box(), store, MemoryProgress(), PlannedStop(), strategy_of(store.study())
        )
        assert len(store.windows()) == 6


def test_a_failed_creation_leaves_no_file(tmp_path: Path) -> None:
    code = """
import resource, sys
from pathlib import Path
from tuner.adapters.sqlite.store import SqliteStore
from tuner.adapters.virtual.box import VirtualService, virtual_study
from tuner.core.domain.requests import ConnectionSpread
from tuner.core.errors import ConfigError
from tuner.core.domain.layout import Layout
from tuner.core.search.strategies.of_study import strategy_of
from tuner.core.windows.launch_sums import tally
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
try:
    SqliteStore.create(Path(sys.argv[1]), virtual_study(VirtualService({Layout(1, 1): 1.0})))
except ConfigError as error:
    print(error.problem)
"""
    path = tmp_path / "s.tuner.db"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)

    assert done.stdout == wording("study-file.file-too-large", path=path)
    assert not path.exists()


def test_a_disk_that_does_not_come_back_ends_the_study_with_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program's write lock stands for the disk."""
    monkeypatch.setattr(study_file, "_BUSY_S", 0.2)
    path = tmp_path / "s.tuner.db"
    with SqliteStore.create(path, STUDY) as store:
        launch = LaunchRecord(0, 0, 1, Layout(1, 1), "box", 1e9, None, None, None, window_s=5.0, n_windows=1)
        launch_id = store.add_launch(launch)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with raises(ConfigError, wording("study-file.another-program-locks", file=path)) as caught:
                store.finish_launch(launch_id, launch)

        assert "--resume" in (caught.value.hint or "")
        assert [kept for _, kept in store.launches()] == [launch]


def test_a_kill_in_the_middle_of_a_creation_leaves_no_half_a_file(tmp_path: Path) -> None:
    """SIGXFSZ kills as SIGKILL does, at a byte that is known."""
    code = """
import resource, signal, sys
from pathlib import Path
from tuner.adapters.sqlite import study_file
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
study_file.make(Path(sys.argv[1]), bytes(16384))
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "s.tuner.db"], check=False)

    assert done.returncode == -signal.SIGXFSZ
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_nameless_files_gets_a_study_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = os.open

    def without(path: Path, flags: int, *mode: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return usual(path, flags, *mode)

    monkeypatch.setattr(os, "open", without)
    study_file.make(tmp_path / "s.tuner.db", b"all of it")

    assert (tmp_path / "s.tuner.db").read_bytes() == b"all of it"
    with raises(ConfigError, wording("study-file.exists-already")):
        study_file.make(tmp_path / "s.tuner.db", b"more")


def test_people_read_samples_with_plain_sql(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        rows = connection.execute(
            "SELECT at_s, n_done_total - min(n_done_total) OVER (), load1 FROM sample WHERE window_id = 1"
        ).fetchall()

    with SqliteStore.open(file, read_only=True) as store:
        first = store.windows()[0]
        samples = store.samples(first.launch_id, first.index, first.attempt)
    assert [at_s for at_s, _, _ in rows] == pytest.approx([0, 1, 2, 3, 4, 5])
    assert rows[-1][1] == first.n_done
    assert [load1 for _, _, load1 in rows] == [sample.load1 for sample in samples]


def test_every_column_of_the_schema_has_a_comment() -> None:
    schema = files("tuner.adapters.sqlite").joinpath("schema.sql").read_text("utf-8")
    columns = [line for line in schema.splitlines() if re.match(r"  [a-z]\w+ +(INTEGER|REAL|TEXT)", line)]
    alike = ("id ", "load5_x100", "load15_x100", "key ", "value")  # as the line or table above says

    bare = [line.strip() for line in columns if "--" not in line and "REFERENCES" not in line]
    assert len(columns) > 70
    assert [line for line in bare if not line.startswith(alike)] == []


def test_the_file_says_what_it_is(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        facts = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version", "journal_mode", "integrity_check")
        }
        strict = connection.execute("SELECT count(*) FROM pragma_table_list WHERE strict").fetchone()[0]

    assert facts == {
        "application_id": 0x74756E72,
        "user_version": 18,
        "journal_mode": "wal",
        "integrity_check": "ok",
    }
    assert strict == 13


def test_reading_a_finished_study_leaves_nothing_beside_it(file: Path) -> None:
    with SqliteStore.open(file, read_only=True) as store:
        assert store.windows()

    assert os.listdir(file.parent) == [file.name]


def test_a_study_that_is_being_written_is_read_as_it_grows(file: Path) -> None:
    with SqliteStore.open(file) as writer, SqliteStore.open(file, read_only=True) as reader:
        before = len(reader.launches())
        writer.add_launch(writer.launches()[0][1])

        assert len(reader.launches()) == before + 1


def test_windows_are_listed_again_only_when_the_file_has_changed(file: Path) -> None:
    with SqliteStore.open(file) as writer, SqliteStore.open(file, read_only=True) as reader:
        before = reader.windows()
        last = before[-1]
        assert reader.windows() is before

        kept = writer.window(last.launch_id, last.index, last.attempt)
        writer.add_window(last.launch_id, replace(kept, index=last.index + 1))

        assert len(reader.windows()) == len(before) + 1
        assert reader.windows() == writer.windows()
        assert writer.windows() is not writer.windows()  # its own writing is never missed


def test_how_connections_spread_is_kept_with_its_window_and_added_up_for_its_launch(file: Path) -> None:
    early = Requests(Latencies({7: 20}), spread=ConnectionSpread(10.0, 20.0, (80.0, 0.0), 1.0))
    late = Requests(Latencies({7: 20}), spread=ConnectionSpread(30.0, 0.0, (120.0, 120.0), 0.0))
    with SqliteStore.open(file) as store:
        (last, launch) = store.launches()[-1]
        for index, requests in ((1, early), (2, late)):
            store.add_window(last, replace(store.window(last, 0, 1), index=index, requests=requests))
        store.finish_launch(last, launch)
    with SqliteStore.open(file, read_only=True) as store:
        kept = [window.requests.spread for window in store.windows() if window.requests is not None]
        (summed,) = (one for one in store.sums().launches if one.launch == last)
        seen = store.window(last, 1, 1)

    assert kept == [early.spread, late.spread]
    assert seen.requests == early
    assert summed.requests.spread == ConnectionSpread(40.0, 20.0, (200.0, 120.0), 1.0)


def test_a_spread_that_is_none_is_damage_and_not_taken_for_unknown(file: Path) -> None:
    requests = Requests(Latencies({7: 20}), spread=ConnectionSpread(10.0, 20.0, (80.0, 0.0), 1.0))
    with SqliteStore.open(file) as store:
        (last, _) = store.launches()[-1]
        store.add_window(last, replace(store.window(last, 0, 1), index=1, requests=requests))
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE window SET spread = '[1]' WHERE spread IS NOT NULL")

    with SqliteStore.open(file, read_only=True) as store, pytest.raises(ConfigError):
        store.windows()
