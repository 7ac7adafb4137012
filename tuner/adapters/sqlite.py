"""The study in one SQLite file. What stands where, and in which unit: schema.sql."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, fields
from functools import cache
from importlib.resources import files
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from tuner.adapters import study_file
from tuner.core.layout import Layout
from tuner.core.records import LaunchRecord, StudyRecord, WindowRecord
from tuner.core.summary import record_of
from tuner.core.window import Reading, Sample, Usage, VoidReason, Window

_LAUNCH_COLUMNS = (
    "block, position, attempt, processes, threads, variant, box, started_wall_s,"
    " running_after_s, warmup_s, settled, error, ended_wall_s"
)

# In the order of WindowRecord's fields, with the layout in three and, for what made it void, the window's id.
_WINDOWS = (
    "SELECT launch_id, block, processes, threads, variant, box, window_index, window.attempt,"
    " window.started_wall_s, length_s, n_done, n_failed, load1_mean, load1_max, n_active_mean,"
    " service_cpu_s, tuner_cpu_s, backend_cpu_s, foreign_cpu_s, steal_s, pss_bytes, window.id,"
    " n_active_from_load1"
    " FROM window JOIN launch ON launch.id = launch_id ORDER BY window.id"
)


class SqliteStore:
    """A Store in one file; ``create`` or ``open`` it, and use it as a context manager."""

    def __init__(self, path: Path, connection: sqlite3.Connection, closing: contextlib.ExitStack) -> None:
        self.path = path
        self._connection = connection
        self._closing = closing
        self._study = self._read_study()

    @classmethod
    def create(cls, path: Path, study: StudyRecord) -> SqliteStore:
        """Begin a study in the new file *path*, ready to be written; ConfigError when it is there already."""
        study_file.make(path, _new_database(study))
        return cls.open(path)

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False) -> SqliteStore:
        """Open the study in *path* to go on with it (one tuner at a time), or *read_only*, as it grows too.

        Raises:
            ConfigError: it is no study file, of a newer version, damaged, not to be read or written, or
                another tuner is writing it.
        """
        with contextlib.ExitStack() as stack:
            opened = study_file.read_only(path) if read_only else study_file.written(path)
            connection = stack.enter_context(opened)
            with study_file.translated(path):
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
            values = _launch_values(launch)
            marks = ", ".join("?" * len(values))
            cursor = connection.execute(f"INSERT INTO launch ({_LAUNCH_COLUMNS}) VALUES ({marks})", values)
            assert cursor.lastrowid is not None
            return cursor.lastrowid

    def finish_launch(self, launch_id: int, launch: LaunchRecord) -> None:  # noqa: D102
        with self._committed() as connection:
            connection.execute(
                "UPDATE launch SET running_after_s = ?, warmup_s = ?, settled = ?, error = ?,"
                " ended_wall_s = ? WHERE id = ?",
                (*_launch_values(launch)[-5:], launch_id),
            )

    def add_window(self, launch_id: int, window: Window) -> None:  # noqa: D102
        with self._committed() as connection:
            launch = self._launch(launch_id)
            record = record_of(window, launch_id=launch_id, block=launch.block, box=launch.box)
            window_id = _insert_window(connection, record, window.samples[0].at_s)
            _insert_details(connection, window_id, window)

    def launches(self) -> Sequence[tuple[int, LaunchRecord]]:  # noqa: D102
        with study_file.translated(self.path):
            rows = self._connection.execute(f"SELECT {_LAUNCH_COLUMNS}, id FROM launch ORDER BY id")
            return [(row[-1], _launch_of(row)) for row in rows]

    def windows(self) -> Sequence[WindowRecord]:  # noqa: D102
        layout, record = cache(Layout), cast(Callable[..., WindowRecord], WindowRecord)
        with study_file.translated(self.path):
            self._connection.execute("BEGIN")  # both queries read one state of the file, though it may grow
            try:
                void = self._void_reasons()
                return [
                    record(*row[:2], layout(*row[2:5]), *row[5:-2], void.get(row[-2], ()), row[-1])
                    for row in self._connection.execute(_WINDOWS)
                ]
            finally:
                self._connection.execute("ROLLBACK")

    def samples(self, launch_id: int, index: int, attempt: int) -> Sequence[Sample]:  # noqa: D102
        with study_file.translated(self.path):
            window_id, began_s = self._find(launch_id, index, attempt)
            return self._samples(window_id, began_s)

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
                samples=self._samples(window_id, began_s),
                usage=tuple(Usage(*row[2:]) for row in self._details("usage", "n", window_id)),
                readings=(begin, end),
                void=tuple(VoidReason(*row[2:]) for row in self._details("void_reason", "n", window_id)),
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

    def _read_study(self) -> StudyRecord:
        layouts = self._connection.execute(
            "SELECT processes, threads, variant FROM study_layout ORDER BY position"
        )
        row = self._connection.execute("SELECT * FROM study")
        kept = dict(zip((column[0] for column in row.description), row.fetchone(), strict=True))
        del kept["id"]
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        return StudyRecord(
            **{**kept, "warms_cache": bool(kept["warms_cache"])},
            layouts=tuple(Layout(*layout) for layout in layouts),
            provenance=dict(self._connection.execute("SELECT key, value FROM provenance ORDER BY key")),
            schema_version=version,
        )

    def _launch(self, launch_id: int) -> LaunchRecord:
        query = f"SELECT {_LAUNCH_COLUMNS} FROM launch WHERE id = ?"
        row = self._connection.execute(query, (launch_id,)).fetchone()
        if row is None:
            raise ValueError(f"no launch {launch_id} in {self.path}")
        return _launch_of(row)

    def _find(self, launch_id: int, index: int, attempt: int) -> tuple[int, float]:
        found = self._connection.execute(
            "SELECT id, began_s FROM window WHERE launch_id = ? AND window_index = ? AND attempt = ?",
            (launch_id, index, attempt),
        ).fetchone()
        if found is None:
            raise ValueError(f"no window {index}, attempt {attempt}, of launch {launch_id} in {self.path}")
        return found[0], found[1]

    def _samples(self, window_id: int, began_s: float) -> tuple[Sample, ...]:
        rows = self._connection.execute(
            "SELECT at_us, n_done_total, n_failed_total, load1_x100, load5_x100, load15_x100, n_active"
            " FROM sample_packed WHERE window_id = ? ORDER BY n",
            (window_id,),
        )
        return tuple(
            Sample(began_s + at_us / 1e6, n_done, n_failed, load1 / 100, load5 / 100, load15 / 100, n_active)
            for at_us, n_done, n_failed, load1, load5, load15, n_active in rows
        )

    def _details(self, table: str, order: str, window_id: int) -> list[tuple[Any, ...]]:
        query = f"SELECT * FROM {table} WHERE window_id = ? ORDER BY {order}"
        return self._connection.execute(query, (window_id,)).fetchall()

    def _void_reasons(self) -> dict[int, tuple[VoidReason, ...]]:
        found: dict[int, tuple[VoidReason, ...]] = {}
        rows = self._connection.execute(
            "SELECT window_id, slug, detail FROM void_reason ORDER BY window_id, n"
        )
        for window_id, slug, detail in rows:
            found[window_id] = (*found.get(window_id, ()), VoidReason(slug, detail))
        return found


def _new_database(study: StudyRecord) -> bytes:
    """A whole study file, as bytes, that holds *study* and nothing measured."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA application_id = {study_file.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {study_file.SCHEMA_VERSION}")
        connection.executescript(files("tuner.adapters").joinpath("schema.sql").read_text("utf-8"))
        columns = [row[1] for row in connection.execute("PRAGMA table_info(study)") if row[1] != "id"]
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        values = [getattr(study, column) for column in columns]
        connection.execute(f"INSERT INTO study (id, {names}) VALUES (1, {marks})", values)
        for position, layout in enumerate(study.layouts):
            connection.execute("INSERT INTO study_layout VALUES (?, ?, ?, ?)", (position, *astuple(layout)))
        connection.executemany("INSERT INTO provenance VALUES (?, ?)", study.provenance.items())
        return connection.serialize()


def _launch_values(launch: LaunchRecord) -> tuple[Any, ...]:
    return (
        *(launch.block, launch.position, launch.attempt),
        *(launch.layout.processes, launch.layout.threads, launch.layout.variant),
        *(launch.box, launch.started_wall_s),
        *(launch.running_after_s, launch.warmup_s, launch.settled, launch.error, launch.ended_wall_s),
    )


def _launch_of(row: tuple[Any, ...]) -> LaunchRecord:
    block, position, attempt, processes, threads, variant, box, started_wall_s = row[:8]
    running_after_s, warmup_s, settled, error, ended_wall_s = row[8:13]
    return LaunchRecord(
        block=block,
        position=position,
        attempt=attempt,
        layout=Layout(processes, threads, variant),
        box=box,
        started_wall_s=started_wall_s,
        running_after_s=running_after_s,
        warmup_s=warmup_s,
        settled=None if settled is None else bool(settled),
        error=error,
        ended_wall_s=ended_wall_s,
    )


def _insert_window(connection: sqlite3.Connection, record: WindowRecord, began_s: float) -> int:
    columns = (
        "launch_id, window_index, attempt, started_wall_s, began_s, length_s, n_done, n_failed,"
        " load1_mean, load1_max, n_active_mean, n_active_from_load1, service_cpu_s, tuner_cpu_s,"
        " backend_cpu_s, foreign_cpu_s, steal_s, pss_bytes"
    )
    values = (
        *(record.launch_id, record.index, record.attempt, record.started_wall_s, began_s, record.length_s),
        *(record.n_done, record.n_failed, record.load1_mean, record.load1_max),
        *(record.n_active_mean, record.n_active_from_load1),
        *(record.service_cpu_s, record.tuner_cpu_s, record.backend_cpu_s, record.foreign_cpu_s),
        *(record.steal_s, record.pss_bytes),
    )
    cursor = connection.execute(
        f"INSERT INTO window ({columns}) VALUES ({', '.join('?' * len(values))})", values
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _insert_details(connection: sqlite3.Connection, window_id: int, window: Window) -> None:
    began_s = window.samples[0].at_s
    connection.executemany(
        "INSERT INTO sample_packed VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                *(
                    window_id,
                    n,
                    round((sample.at_s - began_s) * 1e6),
                    sample.n_done_total,
                    sample.n_failed_total,
                ),
                *(round(sample.load1 * 100), round(sample.load5 * 100), round(sample.load15 * 100)),
                sample.n_active,
            )
            for n, sample in enumerate(window.samples)
        ),
    )
    details: Mapping[type, tuple[str, Sequence[object]]] = {
        Reading: ("reading", window.readings),
        Usage: ("usage", window.usage),
        VoidReason: ("void_reason", window.void),
    }
    for kind, (table, rows) in details.items():
        names = [field.name for field in fields(kind)]  # as the columns are called, see schema.sql
        values = attrgetter(*names)  # astuple copies deeply: twenty times slower
        connection.executemany(
            f"INSERT INTO {table} VALUES (?, ?, {', '.join('?' * len(names))})",
            ((window_id, n, *values(row)) for n, row in enumerate(rows)),
        )
