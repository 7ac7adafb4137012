"""Numbers in real databases: what a query gives, what is no number, and a server that hangs or goes away."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.probes.postgres_database import PostgresDatabase, check_postgres_url
from tuner.adapters.probes.sql import SqliteDatabase, SqlProbe
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Reading
from tuner.core.errors import ConfigError, MeasurementError
from tuner.ports import Counting

from ..postgres_server import PASSWORD, PostgresServer
from ..raising import raises
from ..wording import key_of, wording

pytestmark = pytest.mark.integration
ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
TIMEOUT_S = 30.0


def fresh(counting: Counting) -> Reading:
    counting.read()  # the first one is 0, and of now, where the answer takes its time
    asked_s = SystemClock().monotonic_s()
    while (reading := counting.read()).at_s <= asked_s:
        pass
    return reading


@contextmanager
def counted(
    database: SqliteDatabase | PostgresDatabase, query: str, failed: str | None = None
) -> Iterator[Counting]:
    probe = SqlProbe(
        SystemClock(), lambda: database, query, failed, lambda slug, text: pytest.fail(f"{slug}: {text}")
    )
    with probe.counting(Layout(1, 1)) as counting:
        yield counting


def read_for_ever(counting: Counting) -> None:
    while True:
        counting.read()


def error_of(database: SqliteDatabase | PostgresDatabase, query: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("tuner.adapters.probes.polled.MOST_FAILURES_AT_FIRST", 1)
    with counted(database, query) as counting, pytest.raises(MeasurementError) as caught:
        read_for_ever(counting)
    # it may have failed again before anybody read
    return re.sub(r"^.*? [0-9]+ times in a row: ", "", caught.value.problem, count=1, flags=re.DOTALL)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a ?#%.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table job (state text)")
    return path


def insert(file: Path, *states: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executemany("insert into job values (?)", [(state,) for state in states])


DONE, FAILED = (f"select count(*) from job where state = '{state}'" for state in ("done", "failed"))


def test_rows_of_a_sqlite_file_are_counted_while_others_write_them(file: Path) -> None:
    insert(file, "done", "failed")
    with counted(SqliteDatabase(file, TIMEOUT_S), DONE, FAILED) as counting:
        fresh(counting)
        insert(file, "done", "done", "failed", "waiting")
        reading = fresh(counting)
        insert(file, "done")  # no lock is left that would keep it from this

    assert (reading.n_done_total, reading.n_failed_total) == (2, 1)


def test_the_sum_of_no_rows_is_0_and_a_sum_may_be_a_float(file: Path) -> None:
    with counted(SqliteDatabase(file, TIMEOUT_S), "select sum(state) from job") as counting:
        fresh(counting)
        insert(file, "3.0")
        reading = fresh(counting)

    assert reading.n_done_total == 3


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select 1, 2", wording("probes.query-gave-columns")),
        ("select 1 where 0", wording("probes.query-gave-no-row")),
        ("select 1 union all select 2", wording("probes.query-gave-rows")),
        ("select 'many'", wording("probes.query-gave-no-whole-number", value="many")),
        ("select -1", wording("probes.query-gave-no-whole-number", value=-1)),
        ("select 1.5", wording("probes.query-gave-no-whole-number", value="1.5")),
        ("select count(*) from jobs", wording("probes.sqlite-says", what="no such table: jobs")),
        (
            "select 1; select 2",
            wording("probes.sqlite-says", what="You can only execute one statement at a time."),
        ),
        ("delete from job", wording("probes.sqlite-says", what="attempt to write a readonly database")),
    ],
    ids=key_of,
)
def test_what_is_not_one_number_of_a_sqlite_file_is_said(
    query: str, said: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert error_of(SqliteDatabase(file, TIMEOUT_S), query, monkeypatch) == said


def test_a_sqlite_file_that_is_not_there_is_said_and_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "none.db"

    said = error_of(SqliteDatabase(path, TIMEOUT_S), "select 1", monkeypatch)

    assert said == wording("probes.sqlite-says", what="unable to open database file")
    assert not path.exists()


def test_a_query_of_sqlite_that_never_ends_is_ended(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert error_of(SqliteDatabase(file, 0.2), ENDLESS, monkeypatch) == wording("probes.query-took-too-long")


def test_rows_that_go_make_a_count_that_is_no_total(file: Path) -> None:
    insert(file, "done", "done")
    with counted(SqliteDatabase(file, TIMEOUT_S), DONE) as counting:
        fresh(counting)
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("delete from job")
        with raises(MeasurementError, wording("probes.query-fell")):
            fresh(counting)


def test_rows_of_postgresql_are_counted_by_socket_and_by_tcp_with_a_password(
    postgres_server: PostgresServer,
) -> None:
    for url in (postgres_server.url, postgres_server.tcp_url):
        with postgres_server.connect() as admin:
            admin.execute("create table job (state text)")
            admin.execute("insert into job values ('done'), ('failed')")
            with counted(PostgresDatabase(url, TIMEOUT_S), DONE, FAILED) as counting:
                fresh(counting)
                admin.execute("insert into job values ('done'), ('done'), ('failed'), ('waiting')")
                reading = fresh(counting)
                admin.execute("drop table job")  # no lock is left that would keep it from this

        assert (reading.n_done_total, reading.n_failed_total) == (2, 1)


def test_what_is_not_one_number_of_postgresql_is_said_and_nothing_is_written(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres_server.connect() as admin:
        admin.execute("create table job (state text)")
    said_by_server = {
        "select count(*) from jobs": 'relation "jobs" does not exist',
        "select 1; select 2": "cannot insert multiple commands into a prepared statement",
        "delete from job": "cannot execute DELETE in a read-only transaction",
        "create table other (i int)": "cannot execute CREATE TABLE in a read-only transaction",
    }
    for query, said in {
        "select 1, 2": wording("probes.query-gave-columns"),
        "select 1 where false": wording("probes.query-gave-no-row"),
        "select generate_series(1, 100000000)": wording("probes.query-gave-rows"),
        "select null::int, 1": wording("probes.query-gave-columns"),
        "select 'many'": wording("probes.query-gave-no-whole-number", value="many"),
        **{query: f"PostgreSQL reports: ERROR:  {said}" for query, said in said_by_server.items()},
    }.items():
        assert error_of(PostgresDatabase(postgres_server.url, TIMEOUT_S), query, monkeypatch) == said


def test_a_query_that_takes_too_long_is_ended_by_the_server(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = error_of(PostgresDatabase(postgres_server.url, 2.0), "select pg_sleep(1000)", monkeypatch)

    # which of the two is first is a matter of luck on a busy box
    assert said in (
        wording("probes.postgresql-ended-query"),
        wording("probes.postgresql-did-not-answer"),
    )


def test_a_server_that_hangs_does_not_hold_the_probe(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PostgresDatabase(postgres_server.url, 2.0) as database:
        (row,) = database.rows("select pg_backend_pid()")
        backend = int(str(row[0]))
        os.kill(backend, signal.SIGSTOP)
        try:
            with raises(MeasurementError, wording("probes.postgresql-did-not-answer")):
                database.rows("select 1")
        finally:
            os.kill(backend, signal.SIGCONT)


def test_a_server_that_is_started_again_is_asked_again(postgres_server: PostgresServer) -> None:
    with PostgresDatabase(postgres_server.url, TIMEOUT_S) as database:
        assert database.rows("select 1") == [("1",)]
        postgres_server.stop()
        for _ in range(2):  # the connection that broke, and the one that is refused
            with pytest.raises(MeasurementError, match="PostgreSQL reports: "):
                database.rows("select 1")
        postgres_server.start()

        assert database.rows("select 2") == [("2",)]


def test_a_query_that_fails_does_not_cost_the_connection(postgres_server: PostgresServer) -> None:
    with PostgresDatabase(postgres_server.url, TIMEOUT_S) as database:
        before = database.rows("select pg_backend_pid()")
        with pytest.raises(MeasurementError, match="division by zero"):
            database.rows("select 1 / 0")

        assert database.rows("select pg_backend_pid()") == before


def test_a_wrong_password_is_refused_and_not_told(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres_server.tcp_url.replace(PASSWORD, "Tr0ub4dor")

    said = error_of(PostgresDatabase(url, TIMEOUT_S), "select 1", monkeypatch)

    assert wording("probes.postgresql-refuses-password") in said
    assert "Tr0ub4dor" not in said


def test_a_url_that_is_none_is_refused_without_telling_its_password() -> None:
    with raises(ConfigError, wording("probes.no-url-of-sql")) as caught:
        check_postgres_url("postgresql://u:Tr0ub4dor@h/d?no_such=1")

    assert "Tr0ub4dor" not in f"{caught.value.problem} {caught.value.hint}"


def test_a_query_is_a_transaction_and_leaves_no_setting_for_other_clients_of_a_pool(
    postgres_server: PostgresServer,
) -> None:
    asked = (
        "select current_setting('transaction_read_only'), current_setting('default_transaction_read_only')"
    )
    with PostgresDatabase(postgres_server.url, TIMEOUT_S) as database, postgres_server.connect() as admin:
        assert database.rows(asked) == [("on", "off")]
        (own,) = database.rows("select pg_backend_pid()")
        state = admin.execute("select state from pg_stat_activity where pid = %s", own).fetchone()

    assert state == ("idle",)  # not in a transaction
