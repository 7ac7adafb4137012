"""What a study file must be before it is believed: its tables are tuner's, its figures are possible.

A file may be damaged, or come from a stranger. Nothing of its schema is run: it has no triggers, and what is
read are ordinary tables, whose names a stranger's view or virtual table cannot take.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from tuner.adapters.study_file import Damaged

_SINCE = {
    **dict.fromkeys(("study", "study_layout", "provenance", "launch", "window", "void_reason"), 1),
    **dict.fromkeys(("reading", "sample_packed", "usage"), 1),
    "warmup_sample_packed": 2,
    "box": 8,
    "digest": 9,
}  #: the version in which each table came
#: tables whose pages are walked whenever a study is read; those of the others, by who goes on with it
_SMALL = ("study", "study_layout", "provenance", "box", "launch", "window", "void_reason", "digest")
_LARGEST = 1e15  #: of any figure: 30 million years in seconds, a thousand TB in bytes
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  #: of a service, as a config has it: it names files
_VARIANT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._+-]*)?")
_FIGURES = {
    "study": {
        "> 0": "box_cores window_s min_window_s",
        ">= 0": "warmup_s warmup_cap_s n_blocks budget_s created_wall_s",
        "BETWEEN 1 AND 1000000": "cores windows_per_launch max_attempts",
        "BETWEEN 0 AND 1": "within_ratio",
        "BETWEEN 0.01 AND 0.99999": "confidence",
    },
    "study_layout": {"BETWEEN 1 AND 1000000": "processes", "BETWEEN 0 AND 1000000": "threads"},
    "box": {"> 0": "cores", ">= 0": "joined_wall_s left_wall_s"},
    "launch": {
        "> 0": "window_s",
        ">= 0": "position started_wall_s n_windows running_after_s warmup_s ended_wall_s",
        "BETWEEN 1 AND 1000000": "processes attempt",
        "BETWEEN 0 AND 1000000": "threads",
    },
    "window": {
        "> 0": "length_s rate_per_s",
        ">= 0": "n_done n_failed window_index started_wall_s load1_mean load1_max pss_bytes"
        " n_requests_failed",
        "BETWEEN 1 AND 1000000": "attempt",
    },
}  #: what holds of the columns of each row, NULL aside
_UNBOUNDED = ("seed", "crc32", "id")


def check(connection: sqlite3.Connection, *, wholly: bool = False) -> None:
    """Damaged unless the file is as some tuner may have written it; *wholly*: every page."""
    _check_schema(connection)
    tables = [table for table in _SMALL if _columns(connection, table)]
    # integrity_check sees an index that lacks a row, too: a window is found by one.
    for what in ["quick_check"] * wholly + [f"integrity_check({table})" for table in tables]:
        (said,) = connection.execute(f"PRAGMA {what}").fetchone()
        if said != "ok":
            raise Damaged(" ".join(str(said).split()))
    for table in tables:
        _check_figures(connection, table)
    _check_names(connection)


def _check_schema(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    kinds = {name: (kind, is_strict) for name, kind, is_strict in _tables(connection)}
    for kind, name in connection.execute("SELECT type, name FROM sqlite_master"):
        if kind not in ("table", "index", "view"):
            raise Damaged(f"it has a {kind}, {name!r}, and tuner makes none")
    for table, since in _SINCE.items():
        if table not in kinds:
            if since <= version:
                raise Damaged(f"the table {table} is missing")
            continue
        if kinds[table] != ("table", 1):
            raise Damaged(f"{table} is not a table of tuner's")
        ours, found = _ours()[table], _columns(connection, table)
        odd = [name for name, kept in found.items() if ours.get(name, kept) != kept]
        if odd:
            raise Damaged(f"{table}.{odd[0]} is not of its type")
        missing = [name for name in ours if name not in found]
        if missing and version == max(_SINCE.values()):
            raise Damaged(f"{table}.{missing[0]} is missing")


def _tables(connection: sqlite3.Connection) -> Iterator[tuple[str, str, int]]:
    for _schema, name, kind, _n_columns, _without_rowid, is_strict in connection.execute("PRAGMA table_list"):
        yield name, kind, is_strict


def _columns(connection: sqlite3.Connection, table: str) -> dict[str, tuple[str, int, int]]:
    """Type, NOT NULL and whether it is made up (no 0: generated) of each column."""
    found = connection.execute(f"PRAGMA table_xinfo({table})")
    return {name: (kind, not_null, hidden) for _, name, kind, not_null, _, _, hidden in found}


@cache
def _ours() -> dict[str, dict[str, tuple[str, int, int]]]:
    """Columns of the tables that this tuner makes."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(files("tuner.adapters").joinpath("schema.sql").read_text("utf-8"))
        return {table: _columns(connection, table) for table in _SINCE}


def _check_figures(connection: sqlite3.Connection, table: str) -> None:
    known = _columns(connection, table)
    rules = [
        f"{column} {rule}"
        for rule, columns in _FIGURES.get(table, {}).items()
        for column in columns.split()
        if column in known
    ]
    rules += [
        f"{column} BETWEEN -{_LARGEST:.0f} AND {_LARGEST:.0f}"
        for column, (kind, _, _) in known.items()
        if kind in ("INTEGER", "REAL") and column not in _UNBOUNDED
    ]
    if not rules:
        return
    # A rule about NULL is NULL: neither true nor false.
    all_of_them = " AND ".join(f"({rule})" for rule in rules)
    if connection.execute(f"SELECT 1 FROM {table} WHERE NOT ({all_of_them}) LIMIT 1").fetchone():
        for rule in rules:
            if connection.execute(f"SELECT 1 FROM {table} WHERE NOT ({rule}) LIMIT 1").fetchone():
                raise Damaged(f"in {table}, {rule} does not hold")


def _check_names(connection: sqlite3.Connection) -> None:
    """Names that become names of files, and texts that are JSON."""
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
