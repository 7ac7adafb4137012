"""A study file that is not as tuner wrote it: it is read as it was, or refused in one line."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.adapters.sqlite import digests as sqlite_digests
from tuner.adapters.sqlite.store import SqliteStore
from tuner.adapters.virtual.box import VirtualBox, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, PlannedStop
from tuner.core.domain.fleet import BoxFacts
from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import LaunchRecord
from tuner.core.domain.requests import Latencies, Requests
from tuner.core.domain.window import VoidReason
from tuner.core.errors import ConfigError
from tuner.core.search.strategies.of_study import strategy_of
from tuner.study.run import run_study

from ..raising import raises
from ..wording import key_of, wording

SERVICE = VirtualService({Layout(1, 2): 10.0, Layout(2, 1): 20.0})
LAUNCH = LaunchRecord(0, 9, 1, Layout(1, 2), "a", 9.0, None, None, None)
GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of two layouts that has a row in every table."""
    path = tmp_path_factory.mktemp("study") / "intact.tuner.db"
    study = virtual_study(SERVICE, window_s=5.0, warmup_s=2.0, n_blocks=1, provenance=Provenance(host="a"))
    with SqliteStore.create(path, study) as store:
        run_study(
            VirtualBox(SERVICE).box(), store, MemoryProgress(), PlannedStop(), strategy_of(store.study())
        )
        store.add_box(BoxFacts("a", 2, Provenance(kernel="6.1"), 0.5), 3.0)
        store.end_box("a", 4.0, "switched off")
        store.add_box(BoxFacts("b", 4, Provenance(kernel="6.1")), 5.0)
        spoilt = store.window(2, 0, 1)
        waiting = Latencies({7: 2})
        store.add_window(
            2,
            replace(
                spoilt,
                attempt=2,
                void=(VoidReason("disturbed", "1.5 cores"), VoidReason("worker-died", "1")),
                requests=Requests(Latencies({9: 30, 15_000: 20}), 4, 7.5, 10.0, waiting, waiting),
            ),
        )
    return path


@pytest.fixture
def file(intact: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copyfile(intact, tmp_path / "s.tuner.db"))


def everything(path: Path) -> tuple[Any, ...]:
    """All that any command reads."""
    with SqliteStore.open(path, read_only=True) as store:
        sums = store.sums()  # first: windows are looked through for them alone
        measured_by = sums.windows_of([one.launch for one in sums.launches])
        windows, launches = store.windows(), store.launches()
        return (
            store.study(),
            store.boxes(),
            launches,
            windows,
            (sums.launches, sums.void, measured_by),
            [store.window(window.launch_id, window.index, window.attempt) for window in windows],
            [store.warmup_samples(launch_id) for launch_id, _ in launches],
        )


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        everything(path)
    assert "\n" not in caught.value.problem
    return caught.value.problem


@contextlib.contextmanager
def changed(path: Path) -> Iterator[sqlite3.Connection]:
    """The file as another program changes it, all of it in that one file afterwards."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def is_as_it_was_or_refused(path: Path, intact: Path) -> None:
    found, text = None, ""
    try:
        found = everything(path)
    except ConfigError as error:
        text = error.problem

    assert "\n" not in text
    assert text or found == everything(intact)


SHARE = st.floats(0, 1, exclude_max=True)  #: of a file
FLIPS = st.lists(st.tuples(SHARE, st.integers(0, 7)), min_size=1, max_size=4)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(flips=FLIPS)
def test_bits_that_flipped_change_no_figure_in_silence(
    intact: Path, tmp_path: Path, flips: list[tuple[float, int]]
) -> None:
    content = bytearray(intact.read_bytes())
    for where, bit in flips:
        content[int(where * len(content))] ^= 1 << bit
    path = tmp_path / "flipped.tuner.db"
    path.write_bytes(content)

    is_as_it_was_or_refused(path, intact)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kept=st.floats(0, 1, exclude_max=True),
    at=st.floats(0, 1, exclude_max=True),
    other=st.binary(max_size=600),
)
def test_a_file_that_was_cut_or_overwritten_changes_no_figure_in_silence(
    intact: Path, tmp_path: Path, kept: float, at: float, other: bytes
) -> None:
    content = intact.read_bytes()
    path = tmp_path / "cut.tuner.db"
    start = int(at * len(content))
    for damaged in (
        content[: int(kept * len(content))],
        content[:start] + other + content[start + len(other) :],
    ):
        path.write_bytes(damaged)

        is_as_it_was_or_refused(path, intact)


def columns(path: Path) -> list[tuple[str, str, str]]:
    with changed(path) as connection:
        return connection.execute(
            "SELECT t.name, c.name, c.type FROM pragma_table_list AS t, pragma_table_info(t.name) AS c"
            " WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite%'"
        ).fetchall()


def test_any_value_that_changed_in_any_column_is_seen_or_is_not_read(intact: Path, tmp_path: Path) -> None:
    """What is not read: what of a window's latency is kept for people's SQL."""
    path = tmp_path / "changed.tuner.db"
    was, seen = everything(intact), set()
    for table, column, kind in columns(intact):
        shutil.copyfile(intact, path)
        other = "coalesce({0}, 0) + 1" if kind in ("INTEGER", "REAL") else "coalesce({0}, '') || '1'"
        if kind == "BLOB":
            other = "x'00'"
        with changed(path) as connection:
            found = connection.execute(f"SELECT {column} FROM {table} LIMIT 1").fetchone()
            assert found is not None, f"{table} has no row to change"
            connection.execute("PRAGMA foreign_keys = OFF")
            with contextlib.suppress(sqlite3.IntegrityError):  # what SQLite itself does not take
                connection.execute(
                    f"UPDATE {table} SET {column} = {other.format(column)} WHERE {column} IS ?", found
                )
        try:
            assert everything(path) == was, f"{table}.{column}"
        except ConfigError:
            seen.add(f"{table}.{column}")

    assert {"window.n_done", "window.length_s", "launch.processes", "launch.block", "study.seed"} <= seen
    assert {"study_layout.threads", "provenance.value", "usage.service_cpu_s_total", "digest.crc32"} <= seen
    assert {"sample_packed.n_done_total", "reading.n_done_total", "warmup_sample_packed.at_us"} <= seen
    assert {"launch_sum.rates", "launch_sum.worker_cpu_s", "launch_sum.void"} <= seen
    assert {"box.cores", "box.why", "void_reason.slug", "void_reason.detail", "window.unfinished"} <= seen
    assert len(seen) > 100


KEYS = {
    **dict.fromkeys(("study", "study_layout", "box", "launch", "window", "launch_sum"), "rowid"),
    **dict.fromkeys(("void_reason", "usage", "sample_packed"), "window_id, n"),
    "reading": "window_id, edge",
    "warmup_sample_packed": "launch_id, n",
    "provenance": "key",
    "digest": "of, id",
}


@pytest.mark.parametrize("table", KEYS)
def test_a_row_that_is_gone_is_missed(file: Path, table: str) -> None:
    key = KEYS[table]
    with changed(file) as connection:
        connection.execute(f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} LIMIT 1)")

    assert "is damaged" in refused(file)


def test_every_table_has_a_row_that_is_taken_away(intact: Path) -> None:
    assert {table for table, _, _ in columns(intact)} == KEYS.keys()


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS id FROM n"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "CREATE TRIGGER odd AFTER INSERT ON launch BEGIN DELETE FROM window; END",
            wording("study-file.has-trigger", name="odd"),
        ),
        (
            f"DROP TABLE box; CREATE VIEW box AS {ENDLESS}",
            wording("study-file.not-a-table-of-tuner", table="box"),
        ),
        (
            f"ALTER TABLE study RENAME TO other; CREATE VIEW study AS {ENDLESS}",
            wording("study-file.not-a-table-of-tuner", table="study"),
        ),
        (
            "DROP TABLE box; CREATE VIRTUAL TABLE box USING fts5(name)",
            wording("study-file.not-a-table-of-tuner", table="box"),
        ),
        (
            "DROP TABLE box;"
            " CREATE TABLE box (id INTEGER PRIMARY KEY, name TEXT NOT NULL, cores REAL NOT NULL,"
            " joined_wall_s REAL NOT NULL, ahead_s REAL NOT NULL, provenance TEXT NOT NULL, left_wall_s REAL,"
            " why TEXT AS (hex(zeroblob(400000000))) VIRTUAL) STRICT",
            wording("study-file.column-of-another-type", column="box.why"),
        ),
        ("ALTER TABLE box RENAME COLUMN why TO because", wording("study-file.column-missing")),
        (
            "ALTER TABLE study ADD COLUMN note TEXT AS (upper('x'))",
            wording("study-file.unknown-column", table="study", column="note"),
        ),
        (
            "ALTER TABLE usage ADD COLUMN note TEXT",
            wording("study-file.unknown-column", table="usage", column="note"),
        ),
        (
            "CREATE INDEX odd ON window (hex(zeroblob(n_done)))",
            wording("study-file.index-of-what-is-worked-out", name="odd"),
        ),
        (
            "CREATE INDEX odd ON launch (id) WHERE block > 0",
            wording("study-file.index-of-what-is-worked-out", name="odd"),
        ),
        (
            "CREATE TABLE other (x); CREATE INDEX odd ON other (upper(x))",
            wording("study-file.index-of-what-is-worked-out", name="odd"),
        ),
        (
            f"ALTER TABLE usage RENAME TO window_; CREATE VIEW usage AS {ENDLESS}",
            wording("study-file.not-a-table-of-tuner", table="usage"),
        ),
        (
            "CREATE VIEW odd AS SELECT 1 AS x;"
            " CREATE TRIGGER usage INSTEAD OF INSERT ON odd BEGIN SELECT 1; END",
            wording("study-file.has-trigger", name="usage"),
        ),
        ("DROP TABLE digest", wording("study-file.table-missing", table="digest")),
        ("DROP TABLE usage", wording("study-file.table-missing", table="usage")),
        (
            "DROP TABLE provenance; CREATE TABLE provenance (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
            wording("study-file.not-a-table-of-tuner", table="provenance"),
        ),
        ("PRAGMA user_version = 0", wording("study-file.version-0")),
        ("PRAGMA user_version = 8", wording("study-file.not-as-written", what="the record of the study")),
        ("UPDATE study SET config = CAST(x'ff00fe' AS TEXT)", "UTF-8"),
    ],
    ids=key_of,
)
def test_a_schema_that_tuner_did_not_make_is_refused_and_not_run(file: Path, script: str, said: str) -> None:
    with changed(file) as connection:
        connection.executescript(script)

    assert said in refused(file)


def histogram(text: str) -> str:
    """SQL for a packed one."""
    return f"x'{zlib.compress(text.encode()).hex()}'"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "UPDATE window SET n_done = -5",
            wording("study-file.constraint-broken", table="window", condition="n_done >= 0"),
        ),
        (
            "UPDATE window SET length_s = 0",
            wording("study-file.constraint-broken", table="window", condition="length_s > 0"),
        ),
        (
            "UPDATE window SET length_s = 9e999",
            wording(
                "study-file.constraint-broken",
                table="window",
                condition="length_s BETWEEN -1000000000000000 AND 1000000000000000",
            ),
        ),
        (
            "UPDATE window SET n_done = 9223372036854775807",
            wording(
                "study-file.constraint-broken",
                table="window",
                condition="n_done BETWEEN -1000000000000000 AND 1000000000000000",
            ),
        ),
        (
            "UPDATE launch_sum SET length_s = 0 WHERE n_windows",
            wording(
                "study-file.constraint-broken",
                table="launch_sum",
                condition="(n_windows > 0) = (length_s > 0)",
            ),
        ),
        (
            "UPDATE launch_sum SET rates = 1e-300 WHERE n_windows",
            wording(
                "study-file.constraint-broken",
                table="launch_sum",
                condition="rates * length_s >= 0.999 * n_done",
            ),
        ),
        (
            "UPDATE launch_sum SET squares = 9e999",
            wording(
                "study-file.constraint-broken",
                table="launch_sum",
                condition="squares BETWEEN -1000000000000000 AND 1000000000000000",
            ),
        ),
        (
            "UPDATE launch_sum SET n_void = 1",
            wording("study-file.no-counts-of-void-windows", launch=3),
        ),
        (
            "UPDATE launch_sum SET n_void = 1, void = '{\"disturbed\": true}'",
            wording("study-file.no-counts-of-void-windows", launch=3),
        ),
        (
            f"UPDATE launch_sum SET latencies = {histogram('1:x')}, n_requests_failed = 0",
            wording("study-file.no-histogram-of", what="launch 3"),
        ),
        (
            "UPDATE launch SET processes = 1000000000000",
            wording(
                "study-file.constraint-broken", table="launch", condition="processes BETWEEN 1 AND 1000000"
            ),
        ),
        (
            "UPDATE study SET confidence = 5",
            wording(
                "study-file.constraint-broken", table="study", condition="confidence BETWEEN 0.5 AND 0.999"
            ),
        ),
        (
            "UPDATE study SET confidence = 0.49",
            wording(
                "study-file.constraint-broken", table="study", condition="confidence BETWEEN 0.5 AND 0.999"
            ),
        ),
        (
            "UPDATE study SET confidence = 0.9995",
            wording(
                "study-file.constraint-broken", table="study", condition="confidence BETWEEN 0.5 AND 0.999"
            ),
        ),
        (
            "UPDATE study SET service = '../../.ssh/authorized_keys'",
            wording("study-file.no-name-of", kind="service"),
        ),
        (
            "PRAGMA ignore_check_constraints = ON; UPDATE launch SET block = -2",
            wording("study-file.constraint-broken", table="launch", condition="block >= -1"),
        ),
        (
            "PRAGMA ignore_check_constraints = ON; UPDATE reading SET edge = 2 WHERE edge = 1",
            wording("study-file.constraint-broken", table="reading", condition="edge IN (0, 1)"),
        ),
        ("UPDATE launch SET variant = '<script>'", wording("study-file.no-name-of", kind="variant")),
        ("UPDATE study SET config = '[]'", wording("study-file.no-names-and-values", column="study.config")),
        (
            "UPDATE study SET config = printf('%.*c', 100000, '[')",
            wording("study-file.no-names-and-values", column="study.config"),
        ),
        (
            "UPDATE study SET limits = 'none'",
            wording("study-file.no-names-and-values", column="study.limits"),
        ),
        (
            'UPDATE study SET limits = \'{"load": "y"}\'',
            wording("study-file.no-limit", name="load", value="y"),
        ),
        (
            "UPDATE study SET limits = '{\"load\": NaN}'",
            wording("study-file.no-limit", name="load", value="nan"),
        ),
        (
            "UPDATE study SET limits = '{\"load\": true}'",
            wording("study-file.no-limit", name="load", value="True"),
        ),
        ("UPDATE study SET limits = '{\"foo\": 1}'", wording("study-file.no-limit", name="foo", value=1)),
        ("UPDATE study SET objective = 'foo'", wording("study-file.no-objective", name="foo")),
        (
            "UPDATE study SET kind = 'foo'",
            wording("study-file.no-kind-of-strategy", kind="foo", strategy="all"),
        ),
        (
            "UPDATE study SET strategy = 'race', kind = 'none'",
            wording("study-file.no-kind-of-strategy", kind="none", strategy="race"),
        ),
        ("UPDATE study SET strategy = '<b>'", wording("study-file.no-name-of-strategy", name="<b>")),
        (
            "UPDATE sample_packed SET n_done_total = -5",
            wording("study-file.constraint-broken", table="sample_packed", condition="n_done_total >= 0"),
        ),
        (
            "UPDATE warmup_sample_packed SET at_us = 9223372036854775807",
            wording(
                "study-file.constraint-broken",
                table="warmup_sample_packed",
                condition="at_us BETWEEN -1000000000000000 AND 1000000000000000",
            ),
        ),
        (
            "UPDATE usage SET at_s = 9e999",
            wording(
                "study-file.constraint-broken",
                table="usage",
                condition="at_s BETWEEN -1000000000000000 AND 1000000000000000",
            ),
        ),
        (
            "UPDATE reading SET n_failed_total = -1",
            wording("study-file.constraint-broken", table="reading", condition="n_failed_total >= 0"),
        ),
        ("DELETE FROM reading WHERE edge = 1", wording("study-file.window-incomplete", window=1)),
        ("UPDATE window SET latencies = x'00'", wording("study-file.no-histogram-of", what="window 1")),
        (
            f"UPDATE window SET latencies = {histogram('1:' + '9' * 4000)}",
            wording("study-file.too-many-digits"),
        ),
        (
            f"UPDATE window SET latencies = {histogram('1:' + '9' * 5000)}",
            wording("study-file.too-many-digits"),
        ),
        (
            f"UPDATE window SET latencies = {histogram('1:' + '9' * 16)}",
            wording("study-file.counts-too-large"),
        ),
        (f"UPDATE window SET latencies = {histogram('1:2:3')}", wording("study-file.no-gap-and-count")),
        (f"UPDATE window SET latencies = {histogram('1:x')}", wording("study-file.no-gap-and-count")),
        ("DELETE FROM study", wording("study-file.no-study-inside")),
    ],
    ids=key_of,
)
def test_figures_that_cannot_be_are_refused_though_their_digests_are_right(
    file: Path, script: str, said: str
) -> None:
    with changed(file) as connection:
        connection.executescript(script)
        sqlite_digests.keep_everything(connection)

    assert said in refused(file)


REWRITTEN = (
    "PRAGMA writable_schema = ON;"
    " UPDATE sqlite_master SET sql = replace(sql, '{}', '{}') WHERE name = 'sample_packed';"
    " PRAGMA writable_schema = RESET"
)  #: what the schema says, while the rows stay as they are


def test_a_constraint_and_an_index_of_a_stranger_that_work_nothing_out_do_no_harm(
    file: Path, intact: Path
) -> None:
    with changed(file) as connection:
        connection.executescript(
            "CREATE INDEX their_own ON window (started_wall_s);"
            + REWRITTEN.replace("sample_packed", "window").format(
                "n_done         INTEGER NOT NULL", "n_done INTEGER NOT NULL CHECK (hex(zeroblob(9)) = 1)"
            )
        )
        assert "CHECK constraint failed" in connection.execute("PRAGMA quick_check").fetchone()[0]

    assert everything(file) == everything(intact)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "ALTER TABLE study ADD COLUMN note TEXT",
            wording("study-file.unknown-column", table="study", column="note"),
        ),
        (
            "ALTER TABLE usage ADD COLUMN note TEXT",
            wording("study-file.unknown-column", table="usage", column="note"),
        ),
        (
            "UPDATE usage SET at_s = 9e999",
            wording(
                "study-file.constraint-broken",
                table="usage",
                condition="at_s BETWEEN -1000000000000000 AND 1000000000000000",
            ),
        ),
        ("DELETE FROM reading", wording("study-file.window-incomplete", window=1)),
        (
            f"{REWRITTEN.format('at_us          INTEGER NOT', 'at_us          INTEGER')};"
            " UPDATE sample_packed SET at_us = NULL;"
            f"{REWRITTEN.format('at_us          INTEGER', 'at_us          INTEGER NOT')}",
            wording(
                "study-file.constraint-broken", table="sample_packed", condition="typeof(at_us) <> 'null'"
            ),
        ),
    ],
    ids=key_of,
)
def test_an_older_file_that_tuner_did_not_write_is_refused(tmp_path: Path, script: str, said: str) -> None:
    path = Path(shutil.copyfile(GOLDEN / "study_version_8.db", tmp_path / "old.tuner.db"))
    with changed(path) as connection:
        connection.executescript(script)

    assert said in refused(path)


@pytest.mark.parametrize("version", range(1, 10))
def test_files_of_every_older_version_are_believed(version: int, tmp_path: Path) -> None:
    path = Path(shutil.copyfile(GOLDEN / f"study_version_{version}.db", tmp_path / "old.tuner.db"))

    assert len(everything(path)[3]) == 3


def test_an_upgraded_file_has_digests_of_all_that_it_holds(tmp_path: Path) -> None:
    path = Path(shutil.copyfile(GOLDEN / "study_version_8.db", tmp_path / "old.tuner.db"))
    SqliteStore.open(path).close()
    with changed(path) as connection:
        connection.execute("UPDATE window SET n_done = n_done + 8 WHERE id = 2")

    assert refused(path) == wording("study-file.damaged-not-as-written", file=path, what="window 2")


def test_a_file_with_digests_is_not_upgraded_where_they_are_not_right(file: Path) -> None:
    with changed(file) as connection:
        connection.execute("UPDATE window SET n_done = n_done + 8 WHERE id = 2")
        connection.execute("PRAGMA user_version = 8")
        sqlite_digests.keep(connection, "study", 1, sqlite_digests.of_study(connection))
    with pytest.raises(ConfigError) as caught:
        SqliteStore.open(file)

    assert caught.value.problem == wording("study-file.damaged-not-as-written", file=file, what="window 2")
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_window_that_is_gone_is_missed_where_only_some_are_requested(file: Path) -> None:
    """Its digest is gone, too: the launch's sum tells how many there were."""
    with changed(file) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        (gone,) = connection.execute("SELECT max(id) FROM window WHERE launch_id = 3").fetchone()
        connection.execute("DELETE FROM window WHERE id = ?", (gone,))
        connection.execute("DELETE FROM digest WHERE of = 'window' AND id = ?", (gone,))
    with SqliteStore.open(file, read_only=True) as store:
        sums = store.sums()
        with raises(ConfigError, wording("study-file.windows-of-launch-missing")):
            sums.windows_of([3])


def test_a_window_that_changed_makes_no_sum(file: Path) -> None:
    with changed(file) as connection:
        connection.execute("UPDATE window SET n_done = n_done + 8 WHERE launch_id = 3")
    with SqliteStore.open(file) as store:
        (launch,) = (launch for launch_id, launch in store.launches() if launch_id == 3)
        with raises(ConfigError, wording("study-file.somewhat-not-as-written")):
            store.finish_launch(3, launch)


FACTS = BoxFacts("c", 4, Provenance())


@pytest.mark.parametrize(
    ("script", "write", "said"),
    [
        (
            "UPDATE launch SET block = 77 WHERE id = 1",
            lambda store: store.finish_launch(1, LAUNCH),
            "launch 1",
        ),
        ("UPDATE box SET cores = 64 WHERE id = 2", lambda store: store.end_box("b", 9.0, "off"), "box 2"),
        (
            "PRAGMA foreign_keys = OFF; DELETE FROM launch WHERE id = 3",
            lambda store: store.add_launch(LAUNCH),
            "launch 3",
        ),
        ("DELETE FROM box WHERE id = 2", lambda store: store.add_box(FACTS, 5.0), "box 2"),
    ],
)
def test_what_changed_on_the_disk_is_seen_before_its_row_gets_a_new_digest(
    file: Path, script: str, write: Callable[[SqliteStore], object], said: str
) -> None:
    with changed(file) as connection:
        connection.executescript(script)
    result = wording("study-file.damaged-not-as-written", file=file, what=said)
    with SqliteStore.open(file) as store, raises(ConfigError, result):
        write(store)

    assert wording("study-file.somewhat-not-as-written") in refused(file)


def test_a_box_that_joins_again_makes_no_new_digest_of_when_it_was_there_before(file: Path) -> None:
    with changed(file) as connection:
        connection.execute("UPDATE box SET cores = 64 WHERE id = 1")
    with SqliteStore.open(file) as store:
        store.add_box(replace(FACTS, name="a"), 7.0)
        with raises(ConfigError, wording("study-file.is-damaged-not-as-written", what="box 1")):
            store.boxes()


def test_why_a_window_is_void_is_checked_with_the_window(file: Path) -> None:
    with changed(file) as connection:
        connection.execute("UPDATE void_reason SET detail = 'nothing'")
        (id,) = connection.execute("SELECT window_id FROM void_reason").fetchone()
    result = wording("study-file.not-as-written", what=f"window {id}")
    with SqliteStore.open(file, read_only=True) as store, raises(ConfigError, result):
        store.window(2, 0, 2)


def test_a_study_that_is_refused_is_closed_at_once(file: Path) -> None:
    with changed(file) as connection:
        connection.execute("UPDATE study SET seed = seed + 1")
    with raises(ConfigError, wording("study-file.not-as-written", what="the record of the study")) as caught:
        SqliteStore.open(file)

    held = {os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")}
    assert not any(name.startswith(str(file)) for name in held)
    assert caught.value.__traceback__ is not None  # which holds all that the attempt had in its hands


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_would_be_waited_for_is_no_study_file(tmp_path: Path, kind: str) -> None:
    path = Path("/dev/zero")
    if kind == "pipe":
        path = tmp_path / "s.tuner.db"
        os.mkfifo(path)

    assert refused(path) == wording("study-file.no-regular-file", path=path)


def test_what_a_killed_writer_left_is_found_behind_a_link(file: Path, tmp_path: Path) -> None:
    """SQLite has the -wal beside the file; whoever looks for it beside the link reads an older study."""
    killed = tmp_path / "killed" / "s.tuner.db"
    killed.parent.mkdir()
    with SqliteStore.open(file) as store:
        store.add_launch(store.launches()[0][1])
        n_launches = len(store.launches())
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{file}{suffix}", f"{killed}{suffix}")
    link = tmp_path / "link.tuner.db"
    link.symlink_to(killed)

    assert len(everything(link)[2]) == n_launches
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "link.tuner.db", "s.tuner.db"]
