"""Checks of a study file before its use: tables as tuner makes them, and possible values in all columns.

A file may be damaged, or come from an unknown source. No code in its schema is run: triggers are rejected,
and only ordinary tables are read, which a view or virtual table of the same name cannot replace.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, get_args

from tuner.adapters.sqlite.study_access import Damaged
from tuner.adapters.sqlite.study_file import SCHEMA_VERSION
from tuner.core.domain.layout import MOST_TIMES
from tuner.core.domain.limits import QUANTITIES
from tuner.core.domain.records import OBJECTIVES
from tuner.core.domain.strategy import Kind

_SINCE = {
    **dict.fromkeys(("study", "study_layout", "provenance", "launch", "window", "void_reason"), 1),
    **dict.fromkeys(("reading", "sample_packed", "usage"), 1),
    "warmup_sample_packed": 2,
    "box": 8,
    "digest": 9,
    "launch_sum": 10,
}  #: first schema version of each table
#: Tables whose pages are all checked whenever a study is opened. The other tables are checked when it is
#: opened for writing; a missing digest, or a missing row that has a digest, is detected when it is used.
_SMALL = ("study", "study_layout", "provenance", "box", "launch")
#: tables whose pages are checked when windows are read, because an index used for it may lack rows
OF_WINDOWS = ("window", "void_reason")
_LARGEST = 1e15  #: limit for all numbers: 30 million years in seconds, a thousand TB in bytes
#: name of a service as in a config, because files are named by it
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIANT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._+-]*)?")
#: an unknown strategy is reported only when the study is continued
_STRATEGY = re.compile(r"[a-z][a-z0-9-]{0,63}")
_OF_SAMPLES = ">= 0", "n_done_total n_failed_total load1_x100 load5_x100 load15_x100 n_active"
_FIGURES = {
    "study": {
        "> 0": "box_cores window_s min_window_s",
        ">= 0": "warmup_s warmup_cap_s n_blocks budget_s created_wall_s",
        f"BETWEEN 1 AND {MOST_TIMES}": "cores windows_per_launch max_attempts",
        "BETWEEN 0 AND 1": "within_ratio",
        "BETWEEN 0.5 AND 0.999": "confidence",
    },
    "study_layout": {f"BETWEEN 1 AND {MOST_TIMES}": "processes", f"BETWEEN 0 AND {MOST_TIMES}": "threads"},
    "box": {"> 0": "cores", ">= 0": "joined_wall_s left_wall_s"},
    "launch": {
        "> 0": "window_s counted_ratio",
        ">= -1": "block",
        ">= 0": "position started_wall_s n_windows running_after_s warmup_s ended_wall_s",
        f"BETWEEN 1 AND {MOST_TIMES}": "processes attempt",
        f"BETWEEN 0 AND {MOST_TIMES}": "threads",
    },
    "window": {
        "> 0": "length_s rate_per_s",
        ">= 0": "n_done n_failed window_index started_wall_s load1_mean load1_max pss_bytes"
        " n_requests_failed",
        f"BETWEEN 1 AND {MOST_TIMES}": "attempt",
    },
    "reading": {
        "IN (0, 1)": "edge",
        ">= 0": "n_done_total n_failed_total python_cpu_ns_total child_cpu_ns_total waiting_ns_total n_slots",
    },
    "launch_sum": {
        ">= 0": "n_windows length_s n_done n_failed rates squares load load_max active_s from_load1_s"
        " pss_bytes n_pss pss_max n_void n_short n_requests_failed",
        "> 0": "rate_per_s",
        "IN (0, 1)": "is_told",
    },
    "usage": {">= 0": "n_context_switches_total pss_bytes n_processes n_threads"},
    "sample_packed": dict([_OF_SAMPLES]),
    "warmup_sample_packed": dict([_OF_SAMPLES]),
}  #: conditions on the columns of each row, for values that are not NULL
_TOGETHER = {
    "launch_sum": (
        "(n_windows > 0) = (length_s > 0)",
        "(n_done > 0) = (rates > 0)",
        "rates * length_s >= 0.999 * n_done",  # no window is longer than all of them
    )
}  #: conditions on several columns of a row
#: indexes on expressions, or with a WHERE clause; a check of them would execute these
_WORKED_OUT = """
SELECT name FROM sqlite_master AS own WHERE type = 'index' AND (
  EXISTS (SELECT 1 FROM pragma_index_xinfo(own.name) WHERE cid = -2)
  OR EXISTS (SELECT 1 FROM pragma_index_list(own.tbl_name) AS told WHERE told.name = own.name AND partial)
)
"""
_UNBOUNDED = ("seed", "crc32", "id")
_FROM_0 = ">= 0"
_LARGEST_INTEGER = f"{2**63 - 1}"  #: limit for nanoseconds: 1e15 ns are only 12 days of one core


def check(connection: sqlite3.Connection, *, wholly: bool = False) -> None:
    """Raise Damaged if no tuner can have written the file; *wholly*: check every page."""
    _check_schema(connection)
    with _no_constraints(connection):
        if wholly:
            _check_pages(connection, "quick_check")
        _check_tables(connection, (*_SMALL, *OF_WINDOWS, "launch_sum", "digest") if wholly else _SMALL)
        _check_names(connection)
        _check_question(connection)


def check_tables(connection: sqlite3.Connection, tables: Sequence[str]) -> None:
    """Raise Damaged unless all pages of *tables* are valid, and all rows have possible values."""
    with _no_constraints(connection):
        _check_tables(connection, tables)


@contextlib.contextmanager
def _no_constraints(connection: sqlite3.Connection) -> Iterator[None]:
    """Ignore the constraints of the file, which run for every row; those of tuner are also in _FIGURES."""
    connection.execute("PRAGMA ignore_check_constraints = ON")
    try:
        yield
    finally:
        connection.execute("PRAGMA ignore_check_constraints = OFF")


def _check_tables(connection: sqlite3.Connection, tables: Sequence[str]) -> None:
    tables = [table for table in tables if _columns(connection, table)]
    for table in tables:  # integrity_check also detects an index that lacks a row
        _check_pages(connection, f"integrity_check({table})")
    for table in tables:
        check_rows(connection, table)


def _check_pages(connection: sqlite3.Connection, how: str) -> None:
    (said,) = connection.execute(f"PRAGMA {how}").fetchone()
    if said != "ok":
        raise Damaged(" ".join(str(said).split()))


def check_rows(connection: sqlite3.Connection, table: str, where: str = "true", *values: object) -> None:
    """Raise Damaged unless the rows of *table* that satisfy *where* have possible values.

    Tables with up to millions of rows are checked when rows are read. Their pages are not checked, so this
    also detects other types in place of numbers.
    """
    query = f"SELECT 1 FROM {table} WHERE {where} AND NOT ({{}}) LIMIT 1"
    if connection.execute(query.format(_all_rules(connection, table)), values).fetchone():
        for rule in _rules(connection, table):
            if connection.execute(query.format(rule), values).fetchone():
                raise Damaged(f"in {table}, {rule} does not hold")


def _check_schema(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    kinds = {name: (kind, is_strict) for name, kind, is_strict in _tables(connection)}
    for kind, name in connection.execute("SELECT type, name FROM sqlite_master"):
        if kind not in ("table", "index", "view"):
            raise Damaged(f"it has a {kind}, {name[:80]!r}, and tuner makes none")
    for (name,) in connection.execute(_WORKED_OUT):
        raise Damaged(
            f"it has an index, {name[:80]!r}, on expressions or with a condition; tuner creates none"
        )
    for table, since in _SINCE.items():
        if table not in kinds:
            if since <= version:
                raise Damaged(f"the table {table} is missing")
            continue
        if kinds[table] != ("table", 1):
            raise Damaged(f"{table} is not a table of tuner's")
        ours, found = _expected_columns()[table], _columns(connection, table)
        missing = [name for name in ours if name not in found]
        if missing and version == SCHEMA_VERSION:
            raise Damaged(f"{table}.{missing[0]} is missing")
        for name, kept in found.items():
            if name not in ours:
                raise Damaged(f"{table} has a column {name[:80]!r}, and tuner makes none")
            if ours[name] != kept:
                raise Damaged(f"{table}.{name} is not of its type")


def _tables(connection: sqlite3.Connection) -> Iterator[tuple[str, str, int]]:
    for _schema, name, kind, _n_columns, _without_rowid, is_strict in connection.execute("PRAGMA table_list"):
        yield name, kind, is_strict


def _columns(connection: sqlite3.Connection, table: str) -> dict[str, tuple[str, int, int]]:
    """Return type, NOT NULL and the hidden flag (not 0: generated) of each column."""
    found = connection.execute(f"PRAGMA table_xinfo({table})")
    return {name: (kind, not_null, hidden) for _, name, kind, not_null, _, _, hidden in found}


@cache
def _expected_columns() -> dict[str, dict[str, tuple[str, int, int]]]:
    """Return the columns of the tables that this tuner makes."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(files("tuner.adapters.sqlite").joinpath("schema.sql").read_text("utf-8"))
        return {table: _columns(connection, table) for table in _SINCE}


def _rules(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the rules for each row of *table*, as SQL; for NULL only the rule against NULL can fail."""
    rules = [f"{column} {rule}" for column, rule in _rules_of(connection, table)]
    for column, largest, not_null in _numbers(connection, table):
        rules.append(f"{column} BETWEEN -{largest} AND {largest}")
        if not_null:  # SQLite evaluates IS NOT NULL by the schema, not by the value
            rules.append(f"typeof({column}) <> 'null'")
    return [*_TOGETHER.get(table, ()), *rules]


def _all_rules(connection: sqlite3.Connection, table: str) -> str:
    """Return all rules as one expression, which is faster: it uses each column once where possible."""
    own = [*_rules_of(connection, table)]
    from_0 = {column for column, rule in own if rule == _FROM_0}
    rules = [f"{column} {rule}" for column, rule in own if rule != _FROM_0]
    known = []
    for column, largest, not_null in _numbers(connection, table):
        rules.append(f"{column} BETWEEN {0 if column in from_0 else f'-{largest}'} AND {largest}")
        known += [column] * not_null
    if known:  # a sum with NULL is NULL
        rules.append(f"({' + '.join(known)}) IS NOT NULL")
    return " AND ".join(f"({rule})" for rule in [*_TOGETHER.get(table, ()), *rules]) or "true"


def _rules_of(connection: sqlite3.Connection, table: str) -> Iterator[tuple[str, str]]:
    """Yield (column, rule) for each rule in `_FIGURES`."""
    known = _columns(connection, table)
    for rule, columns in _FIGURES.get(table, {}).items():
        for column in columns.split():
            if column in known:
                yield column, rule


def _numbers(connection: sqlite3.Connection, table: str) -> Iterator[tuple[str, str, int]]:
    """Yield each bounded numeric column, its largest value, and whether it is NOT NULL."""
    for column, (kind, not_null, _) in _columns(connection, table).items():
        if kind in ("INTEGER", "REAL") and column not in _UNBOUNDED:
            # a text or blob is larger than any number
            yield column, _LARGEST_INTEGER if column.endswith("_ns_total") else f"{_LARGEST:.0f}", not_null


def _check_names(connection: sqlite3.Connection) -> None:
    """Check names that become names of files, and texts that must be JSON."""
    studies = connection.execute("SELECT service, config FROM study").fetchall()
    if len(studies) != 1:
        raise Damaged(f"it holds {len(studies)} studies, not one")
    ((service, config),) = studies
    if _NAME.fullmatch(service) is None:
        raise Damaged(f"{service[:80]!r} is no name of a service")
    texts = [("study.config", config)]
    if "limits" in _columns(connection, "study"):
        texts += [("study.limits", *connection.execute("SELECT limits FROM study").fetchone())]
    if _columns(connection, "box"):
        texts += [("box.provenance", text) for (text,) in connection.execute("SELECT provenance FROM box")]
    for where, text in texts:
        try:
            is_mapping = isinstance(json.loads(text), dict)
        except (ValueError, RecursionError):
            is_mapping = False
        if not is_mapping:
            raise Damaged(f"{where} is not JSON of names and values")
    for table in ("study_layout", "launch"):
        for (variant,) in connection.execute(f"SELECT DISTINCT variant FROM {table}"):
            if _VARIANT.fullmatch(variant) is None:
                raise Damaged(f"{variant[:80]!r} is no name of a variant")


def _check_question(connection: sqlite3.Connection) -> None:
    """Check that strategy, kind, objective and limits are valid; older versions have the defaults."""
    known = _columns(connection, "study")
    asked = {"kind": "strict", "objective": OBJECTIVES[0], "limits": "{}"}
    columns = ("strategy", *(column for column in asked if column in known))
    (row,) = connection.execute(f"SELECT {', '.join(columns)} FROM study")
    asked.update(zip(columns, row, strict=True))
    if _STRATEGY.fullmatch(asked["strategy"]) is None:
        raise Damaged(f"{asked['strategy'][:80]!r} is no name of a strategy")
    if asked["objective"] not in OBJECTIVES:
        raise Damaged(f"{asked['objective'][:80]!r} is no objective")
    kind = asked["kind"]
    if kind not in get_args(Kind) or (asked["strategy"] == "race" and kind == "none"):
        raise Damaged(f"{kind[:80]!r} is nothing that a study of strategy {asked['strategy']} can promise")
    for name, at_most in json.loads(asked["limits"]).items():
        if name not in QUANTITIES or not _is_positive(at_most):
            raise Damaged(f"study.limits has {name[:80]!r} at most {str(at_most)[:80]!r}, which is no limit")


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _LARGEST
