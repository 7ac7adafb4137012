"""The study in one SQLite file. What stands where, and in which unit: schema.sql."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tuner.adapters import sqlite_checks, sqlite_digests, sqlite_schema, study_file
from tuner.adapters import sqlite_rows as rows
from tuner.adapters.sqlite_windows import kept_windows, listed_windows
from tuner.core.fleet import BoxFacts, record_of_box
from tuner.core.records import BoxRecord, LaunchRecord, StudyRecord, WindowRecord
from tuner.core.summary import record_of
from tuner.core.window import Reading, Sample, Usage, VoidReason, Window

Record = TypeVar("Record")


class SqliteStore:
    """A Store in one file; ``create`` or ``open`` it, and use it as a context manager."""

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        *,
        is_read_only: bool,
    ) -> None:
        self.path = path
        self._connection = connection
        self._closing = contextlib.ExitStack()
        if sqlite_digests.has_digests(connection):
            sqlite_digests.check(connection, "study", 1, sqlite_digests.of_study(connection))
        self._is_read_only = is_read_only
        self._read: dict[str, tuple[int, Any]] = {}  #: lists, each as of a version of the file's content
        self._study = rows.read_study(connection)

    @classmethod
    def create(cls, path: Path, study: StudyRecord, *, lasting: bool = True) -> SqliteStore:
        """Begin a study in the new file *path*, ready to be written; ConfigError when it is there already."""
        study_file.make(path, sqlite_schema.new_database(study))
        return cls.open(path, lasting=lasting)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        read_only: bool = False,
        lasting: bool = True,
        told: Callable[[str], object] = lambda _text: None,
    ) -> SqliteStore:
        """Open the study in *path* to go on with it (one tuner at a time), or *read_only*, as it grows too.

        *lasting*: each commit is on the disk when it returns, so that a power cut costs no finished window.
        To go on with a file of an older version is to upgrade it: a copy of it as it was is kept beside it
        before, and *told* of.

        Raises:
            ConfigError: it is no study file, of a newer version, damaged, not to be read or written, or
                another tuner is writing it.
        """
        with contextlib.ExitStack() as stack:
            opened = study_file.read_only(path) if read_only else study_file.written(path, lasting=lasting)
            connection = stack.enter_context(opened)
            with study_file.translated(path):
                sqlite_checks.check(connection, wholly=not read_only)
                if not read_only and (copy := sqlite_schema.upgrade(path, connection)):
                    told(f"{path} is of an older tuner and was upgraded; as it was: {copy}")
                store = cls(path, connection, is_read_only=read_only)
                store._closing = stack.pop_all()  # only now: what cannot be read is closed here
                return store
        raise AssertionError  # pragma: no cover  (mypy cannot see that the stack swallows nothing)

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; what was committed stays."""
        self._closing.close()

    def study(self) -> StudyRecord:  # noqa: D102  (ports.Store says it; so for the others)
        return self._study

    def add_launch(self, launch: LaunchRecord) -> int:  # noqa: D102
        with self._committed() as connection:
            launch_id = rows.insert_launch(connection, launch)
            sqlite_digests.check(connection, "launch", launch_id, None)
            self._keep_digest_of_launch(launch_id)
            return launch_id

    def finish_launch(self, launch_id: int, launch: LaunchRecord) -> None:  # noqa: D102
        with self._committed() as connection:
            self._check_launch(launch_id)  # else its new digest would stand for what changed on the disk
            rows.end_launch(connection, launch_id, launch)
            self._keep_digest_of_launch(launch_id)

    def add_warmup(self, launch_id: int, samples: Sequence[Sample]) -> None:  # noqa: D102
        with self._committed() as connection:
            n_before = rows.insert_warmup(connection, launch_id, samples)
            before = sqlite_digests.kept_digest(connection, "warmup", launch_id) or 0
            added = sqlite_digests.of_warmup(connection, launch_id, n_before, before)
            if added is not None:
                sqlite_digests.keep(connection, "warmup", launch_id, added)

    def add_window(self, launch_id: int, window: Window) -> None:  # noqa: D102
        with self._committed() as connection:
            launch = self._launch(launch_id)
            record = record_of(window, launch_id=launch_id, block=launch.block, box=launch.box)
            sqlite_digests.keep_window(connection, rows.insert_window(connection, record, window))

    def add_box(self, facts: BoxFacts, joined_wall_s: float) -> None:  # noqa: D102
        with self._committed() as connection:
            box_id = rows.insert_box(connection, record_of_box(facts, joined_wall_s))
            sqlite_digests.check(connection, "box", box_id, None)
            self._keep_digest_of_box(box_id)

    def end_box(self, name: str, left_wall_s: float, why: str) -> None:  # noqa: D102
        with self._committed() as connection:
            box_id = rows.box_there(connection, name)
            if box_id is not None:
                self._check_box(box_id)
                rows.end_box(connection, box_id, left_wall_s, why)
                self._keep_digest_of_box(box_id)

    def boxes(self) -> Sequence[BoxRecord]:  # noqa: D102
        with self._one_state() as connection:
            if sqlite_digests.has_digests(connection):
                sqlite_digests.check_all(connection, "box", sqlite_digests.of_boxes(connection))
            return rows.select_boxes(connection)

    def launches(self) -> Sequence[tuple[int, LaunchRecord]]:  # noqa: D102
        return self._listed("launches", self._list_launches)

    def windows(self) -> Sequence[WindowRecord]:  # noqa: D102
        return self._listed("windows", self._list_windows)

    def samples(self, launch_id: int, index: int, attempt: int) -> Sequence[Sample]:  # noqa: D102
        with study_file.translated(self.path):
            window_id, began_s = self._find(launch_id, index, attempt)
            self._check_details(window_id, "sample_packed")
            return rows.select_samples(self._connection, window_id, began_s)

    def warmup_samples(self, launch_id: int) -> Sequence[Sample]:  # noqa: D102
        with self._one_state() as connection:
            if sqlite_digests.has_digests(connection):
                found = sqlite_digests.of_warmup(connection, launch_id)
                sqlite_digests.check(connection, "warmup", launch_id, found)
            if rows.columns_of(connection, "warmup_sample_packed"):
                sqlite_checks.check_details(connection, "warmup_sample_packed", "launch_id", launch_id)
            return rows.select_warmup(connection, launch_id)

    def window(self, launch_id: int, index: int, attempt: int) -> Window:  # noqa: D102
        with study_file.translated(self.path):
            window_id, began_s = self._find(launch_id, index, attempt)
            self._check_window(window_id)
            self._check_details(window_id, "reading", "usage", "sample_packed")
            started_wall_s, length_s, n_done, n_failed = self._connection.execute(
                "SELECT started_wall_s, length_s, n_done, n_failed FROM window WHERE id = ?", (window_id,)
            ).fetchone()
            samples = rows.select_samples(self._connection, window_id, began_s)
            usage = rows.select_details(self._connection, Usage, window_id)
            readings = rows.select_details(self._connection, Reading, window_id)
            if not samples or not usage or len(readings) != 2:
                raise study_file.Damaged(f"what window {window_id} is made of is not all there")
            return Window(
                layout=self._launch(launch_id).layout,
                index=index,
                attempt=attempt,
                started_wall_s=started_wall_s,
                length_s=length_s,
                n_done=n_done,
                n_failed=n_failed,
                samples=samples,
                usage=usage,
                readings=(readings[0], readings[1]),
                void=rows.select_details(self._connection, VoidReason, window_id),
                requests=rows.select_requests(self._connection, window_id),
            )

    @contextlib.contextmanager
    def _committed(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it in the file afterwards, or, on any error, nothing."""
        with study_file.translated(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def _one_state(self) -> Iterator[sqlite3.Connection]:
        """All queries of the block read one state of the file, though it may grow."""
        with study_file.translated(self.path):
            self._connection.execute("BEGIN")
            try:
                yield self._connection
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _listed(self, what: str, read: Callable[[sqlite3.Connection], list[Record]]) -> list[Record]:
        """What *read* gives; a reader's is kept until the file's content is another one."""
        with self._one_state() as connection:
            if not self._is_read_only:  # its own writing does not show in the version
                return read(connection)
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            kept = self._read.get(what)
            if kept is None or kept[0] != version:
                kept = self._read[what] = version, read(connection)
            found: list[Record] = kept[1]
            return found

    def _list_launches(self, connection: sqlite3.Connection) -> list[tuple[int, LaunchRecord]]:
        if sqlite_digests.has_digests(connection):
            sqlite_digests.check_all(connection, "launch", sqlite_digests.of_launches(connection))
        return rows.select_launches(connection)

    def _list_windows(self, connection: sqlite3.Connection) -> list[WindowRecord]:
        kept = kept_windows(connection)
        if not sqlite_digests.has_digests(connection):
            return listed_windows(kept)
        found: dict[int, int] = {}
        listed = listed_windows(sqlite_digests.noted(kept, found))
        sqlite_digests.check_all(connection, "window", found)
        return listed

    def _keep_digest_of_launch(self, launch_id: int) -> None:
        for id, value in sqlite_digests.of_launches(self._connection, "WHERE id = ?", launch_id).items():
            sqlite_digests.keep(self._connection, "launch", id, value)

    def _keep_digest_of_box(self, box_id: int) -> None:
        for id, value in sqlite_digests.of_boxes(self._connection, "WHERE id = ?", box_id).items():
            sqlite_digests.keep(self._connection, "box", id, value)

    def _check_launch(self, launch_id: int) -> None:
        if sqlite_digests.has_digests(self._connection):
            found = sqlite_digests.of_launches(self._connection, "WHERE id = ?", launch_id).get(launch_id)
            sqlite_digests.check(self._connection, "launch", launch_id, found)

    def _check_box(self, box_id: int) -> None:
        found = sqlite_digests.of_boxes(self._connection, "WHERE id = ?", box_id).get(box_id)
        sqlite_digests.check(self._connection, "box", box_id, found)

    def _check_window(self, window_id: int) -> None:
        """As the ranking reads it, with what made it void."""
        if sqlite_digests.has_digests(self._connection):
            found = sqlite_digests.of_windows(kept_windows(self._connection, window_id)).get(window_id)
            sqlite_digests.check(self._connection, "window", window_id, found)

    def _check_details(self, window_id: int, *tables: str) -> None:
        found = sqlite_digests.of_details(self._connection, window_id)
        sqlite_digests.check(self._connection, "details", window_id, found)
        for table in tables:
            sqlite_checks.check_details(self._connection, table, "window_id", window_id)

    def _launch(self, launch_id: int) -> LaunchRecord:
        found = rows.select_launches(self._connection, "WHERE id = ?", launch_id)
        if not found:
            raise ValueError(f"no launch {launch_id} in {self.path}")
        self._check_launch(launch_id)
        return found[0][1]

    def _find(self, launch_id: int, index: int, attempt: int) -> tuple[int, float]:
        found = self._connection.execute(
            "SELECT id, began_s FROM window WHERE launch_id = ? AND window_index = ? AND attempt = ?",
            (launch_id, index, attempt),
        ).fetchone()
        if found is None:
            raise ValueError(f"no window {index}, attempt {attempt}, of launch {launch_id} in {self.path}")
        return found[0], found[1]
