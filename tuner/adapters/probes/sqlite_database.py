"""A SQLite file, asked by the SQL probe: never written to, never held."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from tuner.adapters.probes.sql import Row
from tuner.core.errors import MeasurementError
from tuner.core.text.durations import render_duration

_LONGEST_VALUE_BYTES = 64 << 20  #: a query may look into such, and gives a number
_STEPS = 10_000  #: of SQLite's machine, between two looks at the time: some 0.1 ms


class SqliteDatabase:
    """Opens the file for each query: it may be replaced, and no lock stays on it.

    Args:
        timeout_s: for each query, and for waiting until a writer lets readers in.
    """

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._path = path
        self._uri = f"file:{quote(str(path.absolute()))}?mode=ro"
        self._timeout_s = timeout_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held."""

    def _refuse_what_is_no_file(self) -> None:
        """SQLite would wait for the writer of a pipe, and for ever."""
        with suppress(OSError):  # SQLite's own words are better
            if not stat.S_ISREG(os.stat(self._path).st_mode):
                raise MeasurementError(f"{self._path} is no file of SQLite")

    def rows(self, query: str) -> list[Row]:
        """See ``Database``."""
        deadline_s = time.monotonic() + self._timeout_s
        self._refuse_what_is_no_file()
        try:
            with closing(sqlite3.connect(self._uri, uri=True, timeout=self._timeout_s)) as connection:
                connection.isolation_level = None
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE_BYTES)
                connection.set_progress_handler(lambda: time.monotonic() > deadline_s, _STEPS)
                with closing(connection.execute(query)) as cursor:
                    return cursor.fetchmany(2)
        except (sqlite3.Error, sqlite3.Warning) as error:  # two statements are a Warning before Python 3.12
            if str(error) == "interrupted":
                took = f"a query took longer than {render_duration(self._timeout_s)}"
                raise MeasurementError(took) from error
            raise MeasurementError(f"SQLite reports: {error}") from error
