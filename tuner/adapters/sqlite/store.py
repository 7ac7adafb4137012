"""The store of a study: one SQLite file. schema.sql explains its tables and units."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tuner.adapters.sqlite import checks as sqlite_checks
from tuner.adapters.sqlite import details as details
from tuner.adapters.sqlite import digests as sqlite_digests
from tuner.adapters.sqlite import study_file, study_reading
from tuner.adapters.sqlite import sums as sqlite_sums
from tuner.adapters.sqlite.study_access import Damaged, translate_errors
from tuner.adapters.sqlite.study_reading import Looks, read_only
from tuner.adapters.sqlite.sums import OF_LAUNCHES, list_windows, read_windows
from tuner.core.domain.fleet import BoxFacts, record_of_box
from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import BoxRecord, LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.window import Reading, Sample, Usage, VoidReason, Window
from tuner.core.errors import ConfigError
from tuner.core.windows.launch_sums import Sums, tally
from tuner.core.windows.summary import record_of

Answer = TypeVar("Answer")
_TRIES = 5  #: attempts to read an idle file that other programs write meanwhile


class SqliteStore:
    """A Store in one SQLite file. ``create`` or ``open`` it, and use it as a context manager."""

    def __init__(
        self, path: Path, *, read_only: bool, lasting: bool = True, warn: Callable[[str], object]
    ) -> None:
        self.path = path
        self._is_read_only, self._lasting, self._warn = read_only, lasting, warn
        self._closing = contextlib.ExitStack()
        self._is_open = False
        self._study: StudyRecord
        #: state of the file when it was opened; None: SQLite's locks exclude changes during a read
        self._looked: Looks | None = None
        #: cached lists by kind, each with the version of the file's content
        self._lists: dict[str, tuple[int, Any]] = {}
        self._believed: set[str] = set()  #: tables checked since the file was opened

    @classmethod
    def create(cls, path: Path, study: StudyRecord, *, lasting: bool = True) -> SqliteStore:
        """Create the file *path* for *study* and open it for writing; raise ConfigError if it exists."""
        study_file.make(path, study_reading.new_database(study))
        return cls.open(path, lasting=lasting)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        read_only: bool = False,
        lasting: bool = True,
        warn: Callable[[str], object] = lambda _text: None,
    ) -> SqliteStore:
        """Open the study in *path* to continue it (one tuner at a time), or *read_only*, also while it grows.

        *lasting*: each commit is on the disk when it returns, so that a power cut loses no finished window.
        Continuing a file of an older version upgrades it: first a copy is saved in the same folder, and
        *warn* receives a line.

        Raises:
            ConfigError: it is not a study file, of a newer version, damaged, not readable or writable, or
                being written by another tuner.
        """
        store = cls(path, read_only=read_only, lasting=lasting, warn=warn)
        try:
            store._read_consistently(lambda _: None)
        except BaseException:
            store.close()
            raise
        return store

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; committed data stay."""
        self._closing.close()

    def study(self) -> StudyRecord:  # noqa: D102  (documented in ports.Store, as the others)
        return self._study

    def add_to_study(self, layouts: Sequence[Layout], facts: Provenance) -> None:  # noqa: D102
        with self._transaction() as connection:
            # otherwise the new digest would hide a change on the disk
            sqlite_digests.check(connection, "study", 1, sqlite_digests.of_study)
            details.insert_layouts(connection, layouts, first=len(self._study.layouts))
            connection.executemany(
                "INSERT OR REPLACE INTO provenance VALUES (?, ?)", facts.to_mapping().items()
            )
            sqlite_digests.keep(connection, "study", 1, sqlite_digests.of_study(connection))
            self._study = details.read_study(connection)

    def add_launch(self, launch: LaunchRecord) -> int:  # noqa: D102
        with self._transaction() as connection:
            launch_id = details.insert_launch(connection, launch)
            sqlite_digests.check_new(connection, "launch", launch_id)
            sqlite_digests.keep_launch(connection, launch_id)
            return launch_id

    def finish_launch(self, launch_id: int, launch: LaunchRecord) -> None:  # noqa: D102
        with self._transaction() as connection:
            # otherwise the new digest would hide a change on the disk
            sqlite_digests.check(connection, "launch", launch_id, sqlite_digests.of_launch)
            details.end_launch(connection, launch_id, launch)
            sqlite_digests.keep_launch(connection, launch_id)
            windows = list_windows(sqlite_digests.check_windows_of_launches(connection, [launch_id]))
            sqlite_sums.replace_sum(connection, launch_id, windows)
            sqlite_digests.keep_sum(connection, launch_id)

    def add_warmup(self, launch_id: int, samples: Sequence[Sample]) -> None:  # noqa: D102
        with self._transaction() as connection:
            n_before = details.insert_warmup(connection, launch_id, samples)
            sqlite_digests.keep_warmup(connection, launch_id, n_before)

    def add_window(self, launch_id: int, window: Window) -> None:  # noqa: D102
        with self._transaction() as connection:
            launch = self._launch(launch_id)
            record = record_of(window, launch_id=launch_id, block=launch.block, box=launch.box)
            sqlite_digests.keep_window(connection, details.insert_window(connection, record, window))
            sqlite_sums.remove_sum(connection, launch_id)
            sqlite_digests.keep_sum(connection, launch_id)

    def add_box(self, facts: BoxFacts, joined_wall_s: float) -> None:  # noqa: D102
        with self._transaction() as connection:
            box_id = details.insert_box(connection, record_of_box(facts, joined_wall_s))
            sqlite_digests.check_new(connection, "box", box_id)
            sqlite_digests.keep_box(connection, box_id)

    def end_box(self, name: str, left_wall_s: float, why: str) -> None:  # noqa: D102
        with self._transaction() as connection:
            box_id = details.present_box_id(connection, name)
            if box_id is not None:
                sqlite_digests.check(connection, "box", box_id, sqlite_digests.of_box)
                details.end_box(connection, box_id, left_wall_s, why)
                sqlite_digests.keep_box(connection, box_id)

    def boxes(self) -> Sequence[BoxRecord]:  # noqa: D102
        def boxes(connection: sqlite3.Connection) -> list[BoxRecord]:
            sqlite_digests.check_all(connection, "box", sqlite_digests.of_boxes)
            return details.select_boxes(connection)

        return self._read_consistently(boxes)

    def launches(self) -> Sequence[tuple[int, LaunchRecord]]:  # noqa: D102
        def launches(connection: sqlite3.Connection) -> list[tuple[int, LaunchRecord]]:
            return [details.launch_of(row) for row in sqlite_digests.check_launch_rows(connection)]

        return self._cached_list("launches", launches)

    def windows(self) -> Sequence[WindowRecord]:  # noqa: D102
        return self._cached_list("windows", self._all_windows)

    def sums(self) -> Sums:  # noqa: D102
        def sums(connection: sqlite3.Connection) -> Sums:
            if not sqlite_sums.has_sums(connection):
                return tally(self._kept_windows(connection) or self._all_windows(connection))
            sqlite_checks.check_rows(connection, "launch_sum")
            launches, void = sqlite_sums.sums_of(sqlite_digests.check_sum_rows(connection))
            n_known = Counter({one.launch: one.n_windows for one in launches})
            n_known.update({one.launch: one.n_windows for one in void})
            others = tally(self._windows_of(connection, sqlite_sums.without_sums(connection), n_known))
            return Sums(
                sorted([*launches, *others.launches], key=attrgetter("launch")),
                sorted([*void, *others.void], key=attrgetter("launch")),
                lambda ids: self._read_consistently(
                    lambda connection: self._windows_of(connection, ids, n_known)
                ),
            )

        found = self._read_consistently(
            sums
        )  # not cached: in addition to all windows they would need too much memory
        return found if self._study.n_resident == 1 else found.with_heats(self.launches())

    def samples(self, launch_id: int, index: int, attempt: int) -> Sequence[Sample]:  # noqa: D102
        def samples(connection: sqlite3.Connection) -> Sequence[Sample]:
            window_id, began_s = self._find(launch_id, index, attempt)
            self._check_details(window_id, "sample_packed")
            return details.select_samples(connection, window_id, began_s)

        return self._read_consistently(samples)

    def warmup_samples(self, launch_id: int) -> Sequence[Sample]:  # noqa: D102
        def samples(connection: sqlite3.Connection) -> Sequence[Sample]:
            sqlite_digests.check(connection, "warmup", launch_id, sqlite_digests.of_warmup)
            if details.columns_of(connection, "warmup_sample_packed"):
                sqlite_checks.check_rows(connection, "warmup_sample_packed", "launch_id = ?", launch_id)
            return details.select_warmup(connection, launch_id)

        return self._read_consistently(samples)

    def window(self, launch_id: int, index: int, attempt: int) -> Window:  # noqa: D102
        return self._read_consistently(lambda connection: self._window(connection, launch_id, index, attempt))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block as one transaction: commit it, or roll it back on any error."""
        with translate_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _cached_list(self, what: str, ask: Callable[[sqlite3.Connection], list[Answer]]) -> list[Answer]:
        """Return the list from *ask*; for a read-only file it is cached until the content changes."""

        def listed(connection: sqlite3.Connection) -> list[Answer]:
            found: list[Answer] | None = self._cache_for(connection, what)
            if found is None:
                found = ask(connection)
                if self._is_read_only:  # the version does not change by this connection's own writes
                    self._lists[what] = _version(connection), found
            return found

        return self._read_consistently(listed)

    def _cache_for(self, connection: sqlite3.Connection, what: str) -> list[Any] | None:
        """Return the cached list for the state of the file that *connection* reads, or None."""
        if what not in self._lists or self._lists[what][0] != _version(connection):
            return None
        found: list[Any] = self._lists[what][1]
        return found

    def _kept_windows(self, connection: sqlite3.Connection) -> list[WindowRecord] | None:
        return self._cache_for(connection, "windows")

    def _read_consistently(self, ask: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Return the result of *ask* for one state of the file, even if another program begins to write it.

        Raises:
            ConfigError: the file is unreadable, or was written by another program at each attempt.
        """
        for n_more in reversed(range(_TRIES)):
            try:
                if not self._is_open:
                    self._open()
                with self._one_state() as connection:
                    answer = ask(connection)
            except Exception:  # any error may result from pages of two states
                if not (n_more and self._is_overtaken()):
                    raise
            else:
                if not self._is_overtaken():
                    return answer
            self._is_open = False
            self._closing.close()
        raise ConfigError(
            f"another program wrote {self.path} during each of {_TRIES} attempts to read it",
            hint="Wait for that program.",
        )

    @contextlib.contextmanager
    def _one_state(self) -> Iterator[sqlite3.Connection]:
        """Let all queries of the block read one state of the file, while it may grow."""
        with translate_errors(self.path):
            self._connection.execute("BEGIN")
            try:
                yield self._connection
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _open(self) -> None:
        """Open and check the file; it is closed after an error."""
        self._looked, self._lists, self._believed = Looks.of(self.path), {}, set()
        with contextlib.ExitStack() as stack:
            if self._is_read_only:
                connection, is_locked = stack.enter_context(read_only(self.path))
            else:
                connection = stack.enter_context(
                    study_file.open_for_writing(self.path, lasting=self._lasting)
                )
                is_locked = True
            with translate_errors(self.path):
                sqlite_checks.check(connection, wholly=not self._is_read_only)
                if not self._is_read_only and (copy := study_reading.upgrade(self.path, connection)):
                    self._warn(f"{self.path} is of an older tuner and was upgraded; as it was: {copy}")
                sqlite_digests.check(connection, "study", 1, sqlite_digests.of_study)
                if not self._is_read_only:  # sums of ending launches are computed from the existing windows
                    sqlite_digests.check_windows_exist(connection)
                self._study = details.read_study(connection)
            self._connection = connection
            if is_locked:
                self._looked = None
            self._closing = stack.pop_all()  # only now, so that an unreadable file is closed
            self._is_open = True

    def _believe(self, connection: sqlite3.Connection, tables: Sequence[str]) -> None:
        """Check *tables* once before the first row is read; a writer has checked them at opening."""
        if self._is_read_only and not self._believed.issuperset(tables):
            sqlite_checks.check_tables(connection, tables)
            self._believed.update(tables)

    def _all_windows(self, connection: sqlite3.Connection) -> list[WindowRecord]:
        self._believe(connection, sqlite_checks.OF_WINDOWS)
        return list_windows(sqlite_digests.check_windows(connection, read_windows(connection)))

    def _windows_of(
        self, connection: sqlite3.Connection, launch_ids: Collection[int], n_known: Mapping[int, int]
    ) -> list[WindowRecord]:
        """Return the windows of some launches; raise Damaged if there are fewer than in *n_known*.

        They are found by an index. For launches not in *n_known*, the whole tables are checked first.
        """
        if kept := self._kept_windows(connection):
            asked = frozenset(launch_ids)
            return [window for window in kept if window.launch_id in asked]
        if not n_known.keys() >= set(launch_ids):
            self._believe(connection, sqlite_checks.OF_WINDOWS)
            sqlite_digests.check_windows_exist(connection)
        sqlite_checks.check_rows(connection, "window", OF_LAUNCHES, json.dumps([*launch_ids]))
        windows = list_windows(sqlite_digests.check_windows_of_launches(connection, launch_ids))
        n_found = Counter(window.launch_id for window in windows)
        for launch_id in launch_ids:
            if n_found[launch_id] < n_known.get(launch_id, 0):
                raise Damaged(f"the windows of launch {launch_id} are not all there")
        return windows

    def _is_overtaken(self) -> bool:
        return self._is_read_only and self._looked is not None and self._looked.changed()

    def _window(self, connection: sqlite3.Connection, launch_id: int, index: int, attempt: int) -> Window:
        window_id, began_s = self._find(launch_id, index, attempt)
        sqlite_digests.check(connection, "window", window_id, sqlite_digests.of_window)
        self._check_details(window_id, "reading", "usage", "sample_packed")
        started_wall_s, length_s, n_done, n_failed = connection.execute(
            "SELECT started_wall_s, length_s, n_done, n_failed FROM window WHERE id = ?", (window_id,)
        ).fetchone()
        samples = details.select_samples(connection, window_id, began_s)
        usage = details.select_details(connection, Usage, window_id)
        readings = details.select_details(connection, Reading, window_id)
        if not samples or not usage or len(readings) != 2:
            raise Damaged(f"parts of window {window_id} are missing")
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
            void=details.select_details(connection, VoidReason, window_id),
            requests=details.select_requests(connection, window_id),
        )

    def _check_details(self, window_id: int, *tables: str) -> None:
        sqlite_digests.check(self._connection, "details", window_id, sqlite_digests.of_details)
        for table in tables:
            sqlite_checks.check_rows(self._connection, table, "window_id = ?", window_id)

    def _launch(self, launch_id: int) -> LaunchRecord:
        found = [*details.launch_rows(self._connection, "WHERE id = ?", launch_id)]
        if not found:
            raise ValueError(f"no launch {launch_id} in {self.path}")
        sqlite_digests.check(self._connection, "launch", launch_id, sqlite_digests.of_launch)
        return details.launch_of(found[0])[1]

    def _find(self, launch_id: int, index: int, attempt: int) -> tuple[int, float]:
        self._believe(self._connection, sqlite_checks.OF_WINDOWS)
        found = self._connection.execute(
            "SELECT id, began_s FROM window WHERE launch_id = ? AND window_index = ? AND attempt = ?",
            (launch_id, index, attempt),
        ).fetchone()
        if found is None:
            raise ValueError(f"no window {index}, attempt {attempt}, of launch {launch_id} in {self.path}")
        return found[0], found[1]


def _version(connection: sqlite3.Connection) -> int:
    """Return a number that changes if another connection writes."""
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)
