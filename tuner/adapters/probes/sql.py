"""Probe that queries a SQLite or PostgreSQL database for the number of finished items."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Protocol, Self
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from tuner.adapters.probes.polled import Counts, PolledCounting, polling
from tuner.config.document import check_no_folder, from_config_folder
from tuner.config.fields import TimeLimit
from tuner.config.kinds import ProbeSettings, Surroundings
from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.text.figures import render_duration
from tuner.ports import Clock, Warn

if TYPE_CHECKING:
    from tuner.config.settings import Settings


Row = tuple[object, ...]
_NUMBER = re.compile(r"([0-9]{1,18})(\.0*)?")  #: a sum may be returned as 12.0
_SHOWN = 80
_SQLITE = "sqlite:///"


def _sql_url(url: str) -> str:
    if re.fullmatch(r"sqlite:///[^\0]*[^\0/]", url) is not None:
        return url
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("postgresql", "postgres") and parts.port != 0
    except ValueError:  # the port
        known = False
    if not known or not url.startswith(f"{parts.scheme}://") or parts.netloc.count("@") > 1 or parts.fragment:
        raise ValueError(
            "should be sqlite:///FILE, or postgresql://USER:PASSWORD@HOST:PORT/DATABASE with every / @ # of a"
            " password as %2F %40 %23"
        )
    return url


class SqlProbeSettings(ProbeSettings):
    """tuner queries a database for the number of finished items."""

    plain_keys: ClassVar[frozenset[str]] = frozenset({"query", "failed"})
    kind: Literal["sql"]  #: Kind of probe
    #: URL of the database: `sqlite:///FILE`, or `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`
    url: Annotated[str, AfterValidator(_sql_url)]
    #: Query that returns the number of items finished so far, which must never decrease
    query: Annotated[str, Field(min_length=1)]
    #: Query that returns the number of items failed so far
    failed: Annotated[str, Field(min_length=1)] | None = None
    timeout: TimeLimit = 2.0  #: Time limit of each query

    @field_validator("url")
    @classmethod
    def _resolve_file(cls, url: str, info: ValidationInfo) -> str:
        """Return *url* as an absolute path; a relative path begins at the folder of the config."""
        if not url.startswith(_SQLITE):
            return url
        path = from_config_folder(Path(url.removeprefix(_SQLITE)), info)
        return f"{_SQLITE}{check_no_folder(path)}"

    @property
    def file(self) -> Path | None:
        """File of SQLite; None: the url is PostgreSQL's."""
        return Path(self.url.removeprefix(_SQLITE)) if self.url.startswith(_SQLITE) else None

    @property
    def servers(self) -> Mapping[str, str]:
        """See `ProbeSettings`."""
        return {"url": self.url}

    def build(self, settings: Settings, around: Surroundings) -> SqlProbe:
        """See `ProbeSettings`."""
        url, file, timeout_s = self.url, self.file, self.timeout
        if file is not None:
            return SqlProbe(
                around.clock, lambda: SqliteDatabase(file, timeout_s), self.query, self.failed, around.warn
            )
        from tuner.adapters.probes.postgres_database import PostgresDatabase, check_postgres_url

        check_postgres_url(url)
        probe = SqlProbe(
            around.clock, lambda: PostgresDatabase(url, timeout_s), self.query, self.failed, around.warn
        )
        if settings.is_there_already:
            probe.check()
        return probe


class Database(Protocol):
    """A database to query; implementations decide whether to keep their connection."""

    def rows(self, query: str) -> list[Row]:
        """Return the first two rows of the answer, or fewer.

        Raises:
            MeasurementError: there was no answer, or none in time.
        """


class SqlProbe:
    """Queries the database at each sample, over a separate connection for each launch.

    Args:
        database: connects to the database, for one launch.
        query: returns one row with one number, the items finished so far.
        failed: the same for failed items; None: unknown.
    """

    def __init__(
        self,
        clock: Clock,
        database: Callable[[], AbstractContextManager[Database]],
        query: str,
        failed: str | None,
        warn: Warn,
    ) -> None:
        self._clock = clock
        self._database = database
        self._query, self._failed = query, failed
        self._warn = warn

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[PolledCounting]:  # noqa: ARG002  # the port's signature
        """Count during one launch."""
        with self._database() as database:
            asked = PolledCounting(
                self._clock,
                lambda: self._counts(database),
                "the database",
                self._warn,
                most_falls=0,  # deleted rows are no restart
            )
            with polling(asked) as counting:
                yield counting

    def check(self) -> None:
        """Send a query before anything is started; the service may still have to create the tables.

        Raises:
            ConfigError: the server does not answer.
        """
        with self._database() as database:
            try:
                database.rows("select 1")
            except MeasurementError as error:
                raise ConfigError(
                    f"the sql probe cannot count: {error.problem}",
                    hint=hint_of(error.problem)
                    or "Start the database first (a hook before_study may), or correct the url.",
                ) from error

    def _counts(self, database: Database) -> Counts:
        done = {"query": _number("query", database.rows(self._query))}
        if self._failed is None:
            return Counts(done)
        return Counts(done, {"failed": _number("failed", database.rows(self._failed))})


#: hints by the server's English error text; an error in another language names only the address
_HINTS = {
    r"password authentication failed|no password supplied|authentication failed": (
        "Check the user and the password in the url."
    ),
    r'role ".*" does not exist': "Check the user in the url, or make it: CREATE ROLE.",
    r'database ".*" does not exist': "Check the database in the url.",
    r"no pg_hba.conf entry": "Let pg_hba.conf of the server admit this user, host and database.",
    r"permission denied": "Allow this user to read the table: GRANT SELECT.",
    r"too many (clients|connections)|remaining connection slots": (
        "Close connections to this server, or raise its max_connections."
    ),
}


def hint_of(problem: str) -> str:
    """Return the remedy for an error of PostgreSQL; empty: it is not a refusal."""
    return next((hint for words, hint in _HINTS.items() if re.search(words, problem)), "")


def _number(name: str, rows: list[Row]) -> int:
    if len(rows) != 1 or len(rows[0]) != 1:
        gave = "no row" if not rows else f"{len(rows[0])} columns" if len(rows) == 1 else "several rows"
        raise MeasurementError(f"{name} should give one number, and gave {gave}")
    value = rows[0][0]
    if value is None:
        return 0  # the sum of no rows
    match = _NUMBER.fullmatch(str(value))
    if match is None:
        raise MeasurementError(f"{name} should give a whole number, and gave {str(value)[:_SHOWN]!r}")
    return int(match[1])


# SQLite file for the SQL probe, read without writes and without lasting locks.

_LONGEST_VALUE_BYTES = 64 << 20  #: limit for values that a query reads; its result is a number
_STEPS = 10_000  #: steps of SQLite's virtual machine between two checks of the time, about 0.1 ms


class SqliteDatabase:
    """Opens the file for each query: it may be replaced, and no lock remains.

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
        """Do nothing: no connection is open."""

    def _check_regular_file(self) -> None:
        """Raise an error unless the file is a regular file: SQLite would wait for the writer of a pipe for
        ever.
        """
        with suppress(OSError):  # SQLite's own message is better
            if not stat.S_ISREG(os.stat(self._path).st_mode):
                raise MeasurementError(f"{self._path} is no file of SQLite")

    def rows(self, query: str) -> list[Row]:
        """See ``Database``."""
        deadline_s = time.monotonic() + self._timeout_s
        self._check_regular_file()
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
