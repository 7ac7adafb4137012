"""The study in one SQLite file. What stands where, and in which unit: schema.sql."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from tuner.adapters import sqlite_rows as rows
from tuner.adapters import sqlite_schema, study_file
from tuner.core.fleet import BoxFacts, record_of_box
from tuner.core.records import BoxRecord, LaunchRecord, StudyRecord, WindowRecord
from tuner.core.summary import record_of
from tuner.core.window import Reading, Sample, Usage, VoidReason, Window


class SqliteStore:
    """A Store in one file; ``create`` or ``open`` it, and use it as a context manager."""

    def __init__(self, path: Path, connection: sqlite3.Connection, closing: contextlib.ExitStack) -> None:
        self.path = path
        self._connection = connection
        self._closing = closing
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
                if not read_only and (copy := sqlite_schema.upgrade(path, connection)):
                    told(f"{path} is of an older tuner and was upgraded; as it was: {copy}")
                return cls(path, connection, stack.pop_all())
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
            return rows.insert_launch(connection, launch)

    def finish_launch(self, launch_id: int, launch: LaunchRecord) -> None:  # noqa: D102
        with self._committed() as connection:
            rows.end_launch(connection, launch_id, launch)

    def add_warmup(self, launch_id: int, samples: Sequence[Sample]) -> None:  # noqa: D102
        with self._committed() as connection:
            rows.insert_warmup(connection, launch_id, samples)

    def add_window(self, launch_id: int, window: Window) -> None:  # noqa: D102
        with self._committed() as connection:
            launch = self._launch(launch_id)
            record = record_of(window, launch_id=launch_id, block=launch.block, box=launch.box)
            rows.insert_window(connection, record, window)

    def add_box(self, facts: BoxFacts, joined_wall_s: float) -> None:  # noqa: D102
        with self._committed() as connection:
            rows.insert_box(connection, record_of_box(facts, joined_wall_s))

    def end_box(self, name: str, left_wall_s: float, why: str) -> None:  # noqa: D102
        with self._committed() as connection:
            rows.end_box(connection, name, left_wall_s, why)

    def boxes(self) -> Sequence[BoxRecord]:  # noqa: D102
        with study_file.translated(self.path):
            return rows.select_boxes(self._connection)

    def launches(self) -> Sequence[tuple[int, LaunchRecord]]:  # noqa: D102
        with study_file.translated(self.path):
            return rows.select_launches(self._connection)

    def windows(self) -> Sequence[WindowRecord]:  # noqa: D102
        layout, record = cache(rows.layout_of), cast(Callable[..., WindowRecord], WindowRecord)
        with study_file.translated(self.path):
            self._connection.execute("BEGIN")  # both queries read one state of the file, though it may grow
            try:
                void = self._void_reasons()
                return [
                    record(
                        *row[:2],
                        layout(*row[2:5]),
                        *row[5:21],
                        void.get(row[21], ()),
                        *row[22 : -rows.N_REQUESTS],
                        rows.requests_of(*row[-rows.N_REQUESTS :]),
                    )
                    for row in self._connection.execute(rows.windows_query(self._connection))
                ]
            finally:
                self._connection.execute("ROLLBACK")

    def samples(self, launch_id: int, index: int, attempt: int) -> Sequence[Sample]:  # noqa: D102
        with study_file.translated(self.path):
            window_id, began_s = self._find(launch_id, index, attempt)
            return rows.select_samples(self._connection, window_id, began_s)

    def warmup_samples(self, launch_id: int) -> Sequence[Sample]:  # noqa: D102
        with study_file.translated(self.path):
            return rows.select_warmup(self._connection, launch_id)

    def window(self, launch_id: int, index: int, attempt: int) -> Window:  # noqa: D102
        with study_file.translated(self.path):
            window_id, began_s = self._find(launch_id, index, attempt)
            started_wall_s, length_s, n_done, n_failed = self._connection.execute(
                "SELECT started_wall_s, length_s, n_done, n_failed FROM window WHERE id = ?", (window_id,)
            ).fetchone()
            begin, end = (Reading(*row[2:]) for row in self._details("reading", "edge", window_id))
            return Window(
                layout=self._launch(launch_id).layout,
                index=index,
                attempt=attempt,
                started_wall_s=started_wall_s,
                length_s=length_s,
                n_done=n_done,
                n_failed=n_failed,
                samples=rows.select_samples(self._connection, window_id, began_s),
                usage=tuple(Usage(*row[2:]) for row in self._details("usage", "n", window_id)),
                readings=(begin, end),
                void=tuple(VoidReason(*row[2:]) for row in self._details("void_reason", "n", window_id)),
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

    def _launch(self, launch_id: int) -> LaunchRecord:
        found = rows.select_launches(self._connection, "WHERE id = ?", launch_id)
        if not found:
            raise ValueError(f"no launch {launch_id} in {self.path}")
        return found[0][1]

    def _find(self, launch_id: int, index: int, attempt: int) -> tuple[int, float]:
        found = self._connection.execute(
            "SELECT id, began_s FROM window WHERE launch_id = ? AND window_index = ? AND attempt = ?",
            (launch_id, index, attempt),
        ).fetchone()
        if found is None:
            raise ValueError(f"no window {index}, attempt {attempt}, of launch {launch_id} in {self.path}")
        return found[0], found[1]

    def _details(self, table: str, order: str, window_id: int) -> list[tuple[Any, ...]]:
        query = f"SELECT * FROM {table} WHERE window_id = ? ORDER BY {order}"
        return self._connection.execute(query, (window_id,)).fetchall()

    def _void_reasons(self) -> dict[int, tuple[VoidReason, ...]]:
        found: dict[int, tuple[VoidReason, ...]] = {}
        reasons = self._connection.execute(
            "SELECT window_id, slug, detail FROM void_reason ORDER BY window_id, n"
        )
        for window_id, slug, detail in reasons:
            found[window_id] = (*found.get(window_id, ()), VoidReason(slug, detail))
        return found
