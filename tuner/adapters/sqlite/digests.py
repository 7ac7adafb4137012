"""Checksums (CRC-32) of each record of a study file, to detect changed rows.

SQLite detects an invalid page, but not a flipped bit that turns 23896 into 23904 and makes the ranking wrong.
A file older than version 9 has no digests, and an upgrade computes them from its content.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from marshal import dumps
from typing import Any
from zlib import crc32

from tuner.adapters.sqlite import details
from tuner.adapters.sqlite.study_access import Damaged
from tuner.adapters.sqlite.sums import OF_LAUNCHES, OF_ONE, WINDOW_ID, Kept, read_windows, sum_rows

Row = tuple[Any, ...]
# The fastest encoding of the values and types of a row as bytes: 1.3 us per window, repr takes 11 us
# (bench/store.py). Version 2 encodes equal rows equally in every Python; later versions depend on reference
# counts.
_MARSHAL = 2
_OF_WINDOW = (("reading", "edge"), ("usage", "n"), ("sample_packed", "n"))


def digest(*kept: Row, after: int = 0) -> int:
    """Return the digest of rows, continued from the digest *after* of earlier rows."""
    for row in kept:
        after = crc32(dumps(row, _MARSHAL), after)
    return after


def check_all(
    connection: sqlite3.Connection, of: str, find: Callable[[sqlite3.Connection], Mapping[int, int]]
) -> None:
    """Raise Damaged unless *find* returns the stored digests, by id, of all records of the kind *of*."""
    if _has_digests(connection):
        _compare(connection, of, find(connection))


def check(
    connection: sqlite3.Connection, of: str, id: int, find: Callable[[sqlite3.Connection, int], int | None]
) -> None:
    """Raise Damaged unless *find* returns the stored digest of one record (None: none)."""
    if _has_digests(connection) and find(connection, id) != stored_digest(connection, of, id):
        raise Damaged(_describe_row(of, id))


def check_new(connection: sqlite3.Connection, of: str, id: int) -> None:
    """Raise Damaged if a new record already has a digest."""
    check(connection, of, id, lambda _connection, _id: None)


def stored_digest(connection: sqlite3.Connection, of: str, id: int) -> int | None:
    """Return the stored digest of one record, or None."""
    found = connection.execute("SELECT crc32 FROM digest WHERE of = ? AND id = ?", (of, id)).fetchone()
    return None if found is None else int(found[0])


def keep(connection: sqlite3.Connection, of: str, id: int, value: int) -> None:
    """Store the digest of one record, replacing an older one."""
    connection.execute("INSERT OR REPLACE INTO digest VALUES (?, ?, ?)", (of, id, value))


def of_study(connection: sqlite3.Connection, _id: int = 1) -> int:
    """Return the digest of the study's row, its layouts, its provenance and the schema's version."""
    queries = (
        "PRAGMA user_version",
        f"SELECT {', '.join(sorted(details.columns_of(connection, 'study')))} FROM study",
        "SELECT position, processes, threads, variant FROM study_layout ORDER BY position",
        "SELECT key, value FROM provenance ORDER BY key",
    )
    return digest(*(row for query in queries for row in connection.execute(query)))


def of_launches(connection: sqlite3.Connection, where: str = "", *values: object) -> dict[int, int]:
    """Return the digests of launches, by id."""
    return {row[0]: _of_launch_row(row) for row in details.launch_rows(connection, where, *values)}


def _of_launch_row(row: Row) -> int:
    """Return the digest of a launch's row without NULL columns that older files lack: the counted share
    (before 17) and the noise of slices (before 16), the two of fixed work (before 15), `heat` (before 14),
    and those of the GIL (before 13)."""
    for _ in range(2):
        if row[-1] is not None:
            return digest(row)
        row = row[:-1]
    if row[-2:] != (None, None):
        return digest(row)
    row = row[:-2]
    if row[-1] is not None:
        return digest(row)
    return digest(row[:-1] if row[-3:-1] != (None, None) else row[:-3])


def check_launch_rows(connection: sqlite3.Connection) -> Iterator[Row]:
    """Yield the rows of all launches; after the last one, raise Damaged if their digests differ."""
    found: dict[int, int] = {}
    has_digests = _has_digests(connection)
    for row in details.launch_rows(connection):
        if has_digests:
            found[row[0]] = _of_launch_row(row)
        yield row
    if has_digests:
        _compare(connection, "launch", found)


def of_launch(connection: sqlite3.Connection, launch_id: int) -> int | None:
    """Return the digest of one launch, or None if it does not exist."""
    return of_launches(connection, "WHERE id = ?", launch_id).get(launch_id)


def of_boxes(connection: sqlite3.Connection, where: str = "", *values: object) -> dict[int, int]:
    """Return the digests of the hosts of a fleet, by id."""
    query = f"SELECT id, name, cores, joined_wall_s, ahead_s, provenance, left_wall_s, why FROM box {where}"
    return {row[0]: digest(row) for row in connection.execute(query, values)}


def of_box(connection: sqlite3.Connection, box_id: int) -> int | None:
    """Return the digest of one host, or None if it does not exist."""
    return of_boxes(connection, "WHERE id = ?", box_id).get(box_id)


def check_windows(connection: sqlite3.Connection, kept: Iterable[Kept]) -> Iterator[Kept]:
    """Yield all windows *kept* in the file; after the last one, raise Damaged if their digests differ."""
    if not _has_digests(connection):
        yield from kept
        return
    found: dict[int, int] = {}
    yield from _note_digests(kept, found)
    _compare(connection, "window", found)


def check_windows_of_launches(connection: sqlite3.Connection, launch_ids: Iterable[int]) -> Iterator[Kept]:
    """Yield the windows of launches, checked like `check_windows`, except for deleted windows: see
    `check_windows_exist`."""
    asked = json.dumps([*launch_ids])
    kept = read_windows(connection, OF_LAUNCHES, asked)
    if not _has_digests(connection):
        yield from kept
        return
    found: dict[int, int] = {}
    yield from _note_digests(kept, found)
    _compare(connection, "window", found, "AND id IN (SELECT value FROM json_each(?))", json.dumps([*found]))


def check_windows_exist(connection: sqlite3.Connection) -> None:
    """Raise Damaged if a window with a digest does not exist."""
    if _has_digests(connection):
        gone = "SELECT id FROM digest WHERE of = 'window' AND id NOT IN (SELECT id FROM window) LIMIT 1"
        for (window_id,) in connection.execute(gone):
            raise Damaged(_describe_row("window", window_id))


def check_sum_rows(connection: sqlite3.Connection) -> Iterator[Row]:
    """Yield the sums of launches; after the last one, raise Damaged if their digests differ."""
    found: dict[int, int] = {}
    for row in sum_rows(connection):
        found[row[0]] = digest(row)
        yield row
    _compare(connection, "sum", found)


def _note_digests(kept: Iterable[Kept], found: dict[int, int]) -> Iterator[Kept]:
    """Yield the windows, and put the digest of each into *found* by its id."""
    launch, packed = None, b""
    for window in kept:
        if window.launch is not launch:  # consecutive windows often have the same launch
            launch, packed = window.launch, dumps(window.launch, _MARSHAL)
        row = window.row if window.row[-1] is not None else window.row[:-1]  # files before 12 lack the last
        after = crc32(packed, crc32(dumps(row, _MARSHAL)))
        found[window.row[WINDOW_ID]] = digest(*window.void, after=after) if window.void else after
        yield window


def of_windows(kept: Iterable[Kept]) -> dict[int, int]:
    """Return the digests of windows, including their launches' columns and void reasons, by id."""
    found: dict[int, int] = {}
    for _ in _note_digests(kept, found):
        pass
    return found


def of_window(connection: sqlite3.Connection, window_id: int) -> int | None:
    """Return the digest of one window, as a ranking reads it, or None if it does not exist."""
    return of_windows(read_windows(connection, OF_ONE, window_id)).get(window_id)


def of_sums(connection: sqlite3.Connection, launch_id: int | None = None) -> dict[int, int]:
    """Return the digests of the sums of one launch, or of all, by launch id."""
    if not details.columns_of(connection, "launch_sum"):
        return {}
    return {row[0]: digest(row) for row in sum_rows(connection, launch_id)}


def of_details(connection: sqlite3.Connection, window_id: int) -> int:
    """Return the digest of a window's details: start and totals, readings, usage, samples."""
    own = "SELECT began_s, started_wall_s, length_s, n_done, n_failed FROM window WHERE id = ?"
    return digest(
        *connection.execute(own, (window_id,)),
        *(
            row
            for table, order in _OF_WINDOW
            for row in connection.execute(
                f"SELECT * FROM {table} WHERE window_id = ? ORDER BY {order}", (window_id,)
            )
        ),
    )


def of_warmup(connection: sqlite3.Connection, launch_id: int, first: int = 0, after: int = 0) -> int | None:
    """Return the digest of a launch's samples of warm-up from *first* on, continued from *after*, or None."""
    query = "SELECT * FROM warmup_sample_packed WHERE launch_id = ? AND n >= ? ORDER BY n"
    found = connection.execute(query, (launch_id, first)).fetchall()
    return digest(*found, after=after) if found else None


def keep_launch(connection: sqlite3.Connection, launch_id: int) -> None:
    """Compute and store the digest of a launch from the file."""
    _keep_if_found(connection, "launch", launch_id, of_launch)


def keep_box(connection: sqlite3.Connection, box_id: int) -> None:
    """Compute and store the digest of a host from the file."""
    _keep_if_found(connection, "box", box_id, of_box)


def keep_window(connection: sqlite3.Connection, window_id: int) -> None:
    """Compute and store the digests of a new window; raise Damaged if there are some already."""
    for of, find in (("window", of_window), ("details", of_details)):
        check_new(connection, of, window_id)
        _keep_if_found(connection, of, window_id, find)


def keep_sum(connection: sqlite3.Connection, launch_id: int) -> None:
    """Compute and store the digest of a launch's sums from the file; delete it if there are no sums."""
    found = of_sums(connection, launch_id)
    if launch_id in found:
        keep(connection, "sum", launch_id, found[launch_id])
    else:
        connection.execute("DELETE FROM digest WHERE of = 'sum' AND id = ?", (launch_id,))


def keep_warmup(connection: sqlite3.Connection, launch_id: int, n_before: int) -> None:
    """Extend the digest of a launch's warm-up, which contains the first *n_before* samples already."""
    before = stored_digest(connection, "warmup", launch_id) or 0
    added = of_warmup(connection, launch_id, n_before, before)
    if added is not None:
        keep(connection, "warmup", launch_id, added)


def keep_everything(connection: sqlite3.Connection) -> None:
    """Compute and store all digests from the file, if its version has digests."""
    if _has_digests(connection):
        connection.execute("DELETE FROM digest")
        for of, found in _of_everything(connection):
            connection.executemany(
                "INSERT INTO digest VALUES (?, ?, ?)", ((of, id, value) for id, value in found.items())
            )


def check_everything(connection: sqlite3.Connection) -> None:
    """Raise Damaged if any record differs from its digest, if the file's version has digests."""
    if _has_digests(connection):
        for of, found in _of_everything(connection):
            _compare(connection, of, found)


def _has_digests(connection: sqlite3.Connection) -> bool:
    """Return whether the file's version has digests."""
    return bool(details.columns_of(connection, "digest"))


def _compare(
    connection: sqlite3.Connection, of: str, found: Mapping[int, int], only: str = "", *values: object
) -> None:
    kept = dict(connection.execute(f"SELECT id, crc32 FROM digest WHERE of = ? {only}", (of, *values)))
    if kept != found:
        odd = min(id for id in kept.keys() | found.keys() if kept.get(id) != found.get(id))
        raise Damaged(_describe_row(of, odd))


def _keep_if_found(
    connection: sqlite3.Connection, of: str, id: int, find: Callable[[sqlite3.Connection, int], int | None]
) -> None:
    value = find(connection, id)
    if value is not None:
        keep(connection, of, id, value)


def _of_everything(connection: sqlite3.Connection) -> Iterator[tuple[str, dict[int, int]]]:
    yield "study", {1: of_study(connection)}
    launches, windows = of_launches(connection), of_windows(read_windows(connection))
    yield "launch", launches
    yield "box", of_boxes(connection)
    yield "window", windows
    yield "sum", of_sums(connection)
    yield "details", {id: of_details(connection, id) for id in windows}
    warmups = ((id, of_warmup(connection, id)) for id in launches)
    yield "warmup", {id: value for id, value in warmups if value is not None}


def _describe_row(of: str, id: int) -> str:
    what = {"study": "the record of the study", "details": f"the content of window {id}"}
    what |= {"warmup": f"the warm-up of launch {id}", "sum": f"the sum of the windows of launch {id}"}
    return f"{what.get(of, f'{of} {id}')} was changed after it was written"
