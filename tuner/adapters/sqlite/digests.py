"""Checksums (CRC-32) of each record of a study file, to detect changed rows.

SQLite finds a page that makes no sense. A bit that turned 23896 into 23904 it does not, and the ranking would
be wrong. A file older than version 9 has no digests, and an upgrade makes them of what it finds.
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
# The shortest way from a row to bytes that tell each value and its type: 1.3 us a window, repr takes 11
# (bench/store.py). Version 2 writes equal rows alike in every Python; later ones look at how often an object
# is referred to.
_MARSHAL = 2
_OF_WINDOW = (("reading", "edge"), ("usage", "n"), ("sample_packed", "n"))


def digest(*kept: Row, after: int = 0) -> int:
    """The digest of rows, or of more of them *after* others whose digest is known."""
    for row in kept:
        after = crc32(dumps(row, _MARSHAL), after)
    return after


def check_all(
    connection: sqlite3.Connection, of: str, find: Callable[[sqlite3.Connection], Mapping[int, int]]
) -> None:
    """Damaged unless what *find* finds, the digests of everything of a kind, by id, is what was kept."""
    if _has_digests(connection):
        _compare(connection, of, find(connection))


def check(
    connection: sqlite3.Connection, of: str, id: int, find: Callable[[sqlite3.Connection, int], int | None]
) -> None:
    """Damaged unless what *find* finds, the digest of one thing (None: there is none), is what was kept."""
    if _has_digests(connection) and find(connection, id) != stored_digest(connection, of, id):
        raise Damaged(_describe_row(of, id))


def check_new(connection: sqlite3.Connection, of: str, id: int) -> None:
    """Damaged where a thing that was just added has a digest already."""
    check(connection, of, id, lambda _connection, _id: None)


def stored_digest(connection: sqlite3.Connection, of: str, id: int) -> int | None:
    """The digest that was kept of one thing; None: none was."""
    found = connection.execute("SELECT crc32 FROM digest WHERE of = ? AND id = ?", (of, id)).fetchone()
    return None if found is None else int(found[0])


def keep(connection: sqlite3.Connection, of: str, id: int, value: int) -> None:
    """Keep the digest of one thing, in place of an older one."""
    connection.execute("INSERT OR REPLACE INTO digest VALUES (?, ?, ?)", (of, id, value))


def of_study(connection: sqlite3.Connection, _id: int = 1) -> int:
    """Of the study's row, its layouts, what is known of where it ran, and the schema's version."""
    queries = (
        "PRAGMA user_version",
        f"SELECT {', '.join(sorted(details.columns_of(connection, 'study')))} FROM study",
        "SELECT position, processes, threads, variant FROM study_layout ORDER BY position",
        "SELECT key, value FROM provenance ORDER BY key",
    )
    return digest(*(row for query in queries for row in connection.execute(query)))


def of_launches(connection: sqlite3.Connection, where: str = "", *values: object) -> dict[int, int]:
    """Of launches, by their ids."""
    return {row[0]: _of_launch_row(row) for row in details.launch_rows(connection, where, *values)}


def _of_launch_row(row: Row) -> int:
    """No file had the last two columns, of fixed work, before 15, nor `heat` before 14, nor those of the GIL
    before 13."""
    if row[-2:] != (None, None):
        return digest(row)
    row = row[:-2]
    if row[-1] is not None:
        return digest(row)
    return digest(row[:-1] if row[-3:-1] != (None, None) else row[:-3])


def check_launch_rows(connection: sqlite3.Connection) -> Iterator[Row]:
    """The rows of all launches as they come; after the last, Damaged unless they are as they were kept."""
    found: dict[int, int] = {}
    has_digests = _has_digests(connection)
    for row in details.launch_rows(connection):
        if has_digests:
            found[row[0]] = _of_launch_row(row)
        yield row
    if has_digests:
        _compare(connection, "launch", found)


def of_launch(connection: sqlite3.Connection, launch_id: int) -> int | None:
    """Of one launch; None: there is none."""
    return of_launches(connection, "WHERE id = ?", launch_id).get(launch_id)


def of_boxes(connection: sqlite3.Connection, where: str = "", *values: object) -> dict[int, int]:
    """Of the boxes of a fleet, by their ids."""
    query = f"SELECT id, name, cores, joined_wall_s, ahead_s, provenance, left_wall_s, why FROM box {where}"
    return {row[0]: digest(row) for row in connection.execute(query, values)}


def of_box(connection: sqlite3.Connection, box_id: int) -> int | None:
    """Of one box; None: there is none."""
    return of_boxes(connection, "WHERE id = ?", box_id).get(box_id)


def check_windows(connection: sqlite3.Connection, kept: Iterable[Kept]) -> Iterator[Kept]:
    """All windows of the file as they come; after the last, Damaged unless they are as they were kept."""
    if not _has_digests(connection):
        yield from kept
        return
    found: dict[int, int] = {}
    yield from _note_digests(kept, found)
    _compare(connection, "window", found)


def check_windows_of_launches(connection: sqlite3.Connection, launch_ids: Iterable[int]) -> Iterator[Kept]:
    """The windows of launches likewise, but for windows that are gone: see `check_none_gone`."""
    asked = json.dumps([*launch_ids])
    kept = read_windows(connection, OF_LAUNCHES, asked)
    if not _has_digests(connection):
        yield from kept
        return
    found: dict[int, int] = {}
    yield from _note_digests(kept, found)
    _compare(connection, "window", found, "AND id IN (SELECT value FROM json_each(?))", json.dumps([*found]))


def check_none_gone(connection: sqlite3.Connection) -> None:
    """Damaged where a window has a digest and is not there."""
    if _has_digests(connection):
        gone = "SELECT id FROM digest WHERE of = 'window' AND id NOT IN (SELECT id FROM window) LIMIT 1"
        for (window_id,) in connection.execute(gone):
            raise Damaged(_describe_row("window", window_id))


def check_sum_rows(connection: sqlite3.Connection) -> Iterator[Row]:
    """The sums of launches as they come; after the last, Damaged unless they are as they were kept."""
    found: dict[int, int] = {}
    for row in sum_rows(connection):
        found[row[0]] = digest(row)
        yield row
    _compare(connection, "sum", found)


def _note_digests(kept: Iterable[Kept], found: dict[int, int]) -> Iterator[Kept]:
    """Windows as they come, each one's digest put into *found* by its id."""
    launch, packed = None, b""
    for window in kept:
        if window.launch is not launch:  # several windows have it one after the other
            launch, packed = window.launch, dumps(window.launch, _MARSHAL)
        row = window.row if window.row[-1] is not None else window.row[:-1]  # no file had the last before 12
        after = crc32(packed, crc32(dumps(row, _MARSHAL)))
        found[window.row[WINDOW_ID]] = digest(*window.void, after=after) if window.void else after
        yield window


def of_windows(kept: Iterable[Kept]) -> dict[int, int]:
    """Of windows with what their launches say and what made them void, by their ids."""
    found: dict[int, int] = {}
    for _ in _note_digests(kept, found):
        pass
    return found


def of_window(connection: sqlite3.Connection, window_id: int) -> int | None:
    """Of one, as the ranking reads it; None: there is none."""
    return of_windows(read_windows(connection, OF_ONE, window_id)).get(window_id)


def of_sums(connection: sqlite3.Connection, launch_id: int | None = None) -> dict[int, int]:
    """Of what the windows of launches add up to, by the ids of these; of one launch, or of all."""
    if not details.columns_of(connection, "launch_sum"):
        return {}
    return {row[0]: digest(row) for row in sum_rows(connection, launch_id)}


def of_details(connection: sqlite3.Connection, window_id: int) -> int:
    """Of what a window was made of: its own beginning and sums, readings, usage, samples."""
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
    """Of a launch's samples of warm-up, from the *first* on, *after* those before; None: there are none."""
    query = "SELECT * FROM warmup_sample_packed WHERE launch_id = ? AND n >= ? ORDER BY n"
    found = connection.execute(query, (launch_id, first)).fetchall()
    return digest(*found, after=after) if found else None


def keep_launch(connection: sqlite3.Connection, launch_id: int) -> None:
    """Make the digest of a launch anew, of what the file holds."""
    _keep_found(connection, "launch", launch_id, of_launch)


def keep_box(connection: sqlite3.Connection, box_id: int) -> None:
    """Make the digest of a box anew, of what the file holds."""
    _keep_found(connection, "box", box_id, of_box)


def keep_window(connection: sqlite3.Connection, window_id: int) -> None:
    """Make the digests of a window that was just added; Damaged where there were some already."""
    for of, find in (("window", of_window), ("details", of_details)):
        check_new(connection, of, window_id)
        _keep_found(connection, of, window_id, find)


def keep_sum(connection: sqlite3.Connection, launch_id: int) -> None:
    """Make the digest of a launch's sums anew, of what the file holds; without them it has none."""
    found = of_sums(connection, launch_id)
    if launch_id in found:
        keep(connection, "sum", launch_id, found[launch_id])
    else:
        connection.execute("DELETE FROM digest WHERE of = 'sum' AND id = ?", (launch_id,))


def keep_warmup(connection: sqlite3.Connection, launch_id: int, n_before: int) -> None:
    """Make the digest of a launch's warm-up, whose first *n_before* samples had theirs already."""
    before = stored_digest(connection, "warmup", launch_id) or 0
    added = of_warmup(connection, launch_id, n_before, before)
    if added is not None:
        keep(connection, "warmup", launch_id, added)


def keep_everything(connection: sqlite3.Connection) -> None:
    """Make every digest of the file anew, of what it holds, if its version has them."""
    if _has_digests(connection):
        connection.execute("DELETE FROM digest")
        for of, found in _of_everything(connection):
            connection.executemany(
                "INSERT INTO digest VALUES (?, ?, ?)", ((of, id, value) for id, value in found.items())
            )


def check_everything(connection: sqlite3.Connection) -> None:
    """Damaged unless all that the file holds is as it was written, as far as its version tells."""
    if _has_digests(connection):
        for of, found in _of_everything(connection):
            _compare(connection, of, found)


def _has_digests(connection: sqlite3.Connection) -> bool:
    """Whether the file is of a version that has them."""
    return bool(details.columns_of(connection, "digest"))


def _compare(
    connection: sqlite3.Connection, of: str, found: Mapping[int, int], only: str = "", *values: object
) -> None:
    kept = dict(connection.execute(f"SELECT id, crc32 FROM digest WHERE of = ? {only}", (of, *values)))
    if kept != found:
        odd = min(id for id in kept.keys() | found.keys() if kept.get(id) != found.get(id))
        raise Damaged(_describe_row(of, odd))


def _keep_found(
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
