"""Read-only PostgreSQL connection with time limits, for the SQL probe."""

from __future__ import annotations

import fcntl
import math
import select
import struct
import termios
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tuner.adapters.bounded_socket import Bound, TooMuchError
from tuner.adapters.probes.sql import Row
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.text.figures import render_duration

_GRACE_S = 0.5  #: time for the server to cancel the query, so that the connection stays usable
_LARGEST_BYTES = 8 << 20  #: limit for two rows; libpq reads each row completely into memory
_SHOWN = 200

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGconn, PGresult


def check_postgres_url(url: str) -> None:
    """Check, before anything starts, that *url* is usable.

    Raises:
        ConfigError: the client is not installed, or *url* is invalid (libpq's own message would contain its
            password).
    """
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise ConfigError(
            "the sql probe needs the client of PostgreSQL, which is not installed",
            hint="pip install 'proctuner[postgresql]'",
        ) from error
    try:
        conninfo_to_dict(url)
    except ProgrammingError:
        raise ConfigError(
            "invalid url of the sql probe for PostgreSQL",
            hint="Write postgresql://USER@HOST:PORT/DATABASE, with / and @ in a password as %2F and %40.",
        ) from None


class PostgresDatabase:
    """Connection that is opened at the first query and again after a failure. Use it in a ``with`` block.

    Each query is a read-only transaction with a time limit of *timeout_s*. Settings of the session would
    remain with other clients behind a pool such as PgBouncer. The limit is also enforced here, because a
    server that hangs does not enforce it. (psycopg's own cursors would wait for ever, so this uses libpq
    below them.)

    Args:
        timeout_s: for each query; connecting may take 2 s at least.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._disconnect()

    def rows(self, query: str) -> list[Row]:
        """See ``Database``."""
        import psycopg
        from psycopg.pq import ConnStatus

        try:
            if self._connection is None:
                self._connection = self._connect()
            rows = self._read_rows(self._connection, query)
        except TimeoutError as error:
            self._disconnect()
            took = f"PostgreSQL did not answer within {render_duration(self._timeout_s)}"
            raise MeasurementError(took) from error
        except TooMuchError as error:
            self._disconnect()
            raise MeasurementError(f"PostgreSQL did not give a number: {error}") from error
        except psycopg.Error as error:
            self._disconnect()
            raise _server_error(str(error)) from error
        except MeasurementError:
            if self._connection is not None and self._connection.pgconn.status != ConnStatus.OK:
                self._disconnect()
            raise
        if len(rows) > 1:
            self._disconnect()  # the rest of the answer is not needed
        return rows

    def _connect(self) -> Connection:
        import psycopg

        return psycopg.connect(
            self._url,
            autocommit=True,
            client_encoding="utf8",
            connect_timeout=math.ceil(self._timeout_s),
            application_name="tuner",
        )

    def _read_rows(self, connection: Connection, query: str) -> list[Row]:
        """Return the first rows of *query*, at most two, in a transaction that ends with it."""
        from psycopg.pq import ConnStatus

        try:
            self._answer(connection, "begin read only")
            self._answer(connection, f"set local statement_timeout = {math.ceil(self._timeout_s * 1000)}")
            rows = self._answer(connection, query)
        except MeasurementError:
            if connection.pgconn.status == ConnStatus.OK:
                self._answer(connection, "rollback")
            raise
        if len(rows) < 2:  # else the caller closes the connection
            self._answer(connection, "rollback")
        return rows

    def _answer(self, connection: Connection, query: str) -> list[Row]:
        """Return the first rows, at most two; TimeoutError if the server is late."""
        from psycopg.pq import ExecStatus

        bound = Bound(self._timeout_s + _GRACE_S, _LARGEST_BYTES)
        server = connection.pgconn
        server.send_query_params(query.encode(), None)  # this call accepts one statement only
        server.set_single_row_mode()
        rows: list[Row] = []
        problem = None
        while len(rows) < 2 and (result := _next_result(server, bound)) is not None:
            if result.status == ExecStatus.FATAL_ERROR:
                problem = _server_error(result.error_message.decode("utf-8", "replace"))
            rows += [_row(result, number) for number in range(result.ntuples)]
        if problem is not None:
            raise problem
        return rows

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _next_result(server: PGconn, bound: Bound) -> PGresult | None:
    readable = select.poll()
    readable.register(server.socket, select.POLLIN)
    while server.is_busy():
        if not readable.poll(bound.left_s() * 1000):
            raise TimeoutError
        bound.take(_n_waiting_bytes(server.socket))
        server.consume_input()
    return server.get_result()


def _n_waiting_bytes(descriptor: int) -> int:
    count = struct.Struct("i")
    return int(count.unpack(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(count.size)))[0])


def _row(result: PGresult, number: int) -> Row:
    values = (result.get_value(number, column) for column in range(result.nfields))
    return tuple(None if value is None else value.decode("utf-8", "replace") for value in values)


def _server_error(words: str) -> MeasurementError:
    first = words.strip().partition("\n")[0]  # the following lines point into the query
    return MeasurementError(f"PostgreSQL reports: {first[:_SHOWN]}")
