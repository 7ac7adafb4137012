"""What shows that the rows of a study file are as they were written: a CRC-32 for each thing kept.

SQLite finds a page that makes no sense. A bit that turned 23896 into 23904 it does not, and the ranking would
be wrong. A file older than version 9 has no digests, and an upgrade makes them of what it finds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from marshal import dumps
from typing import Any
from zlib import crc32

from tuner.adapters import sqlite_rows as rows
from tuner.adapters.sqlite_windows import WINDOW_ID, Kept, kept_windows
from tuner.adapters.study_file import Damaged

Row = tuple[Any, ...]
# The shortest way from a row to bytes that tell each value and its type: 2.4 us a window, repr takes 21.
# Version 2 writes equal rows alike in every Python; later ones look at how often an object is referred to.
_MARSHAL = 2
_OF_WINDOW = (("reading", "edge"), ("usage", "n"), ("sample_packed", "n"))


def digest(*kept: Row, after: int = 0) -> int:
    """The digest of rows, or of more of them *after* others whose digest is known."""
    for row in kept:
        after = crc32(dumps(row, _MARSHAL), after)
    return after


def has_digests(connection: sqlite3.Connection) -> bool:
    """Whether the file is of a version that has them."""
    return bool(rows.columns_of(connection, "digest"))


def check_all(connection: sqlite3.Connection, of: str, found: Mapping[int, int]) -> None:
    """Damaged unless the digests *found* of everything of a kind, by id, are those that were kept."""
    if not has_digests(connection):
        return
    kept = dict(connection.execute("SELECT id, crc32 FROM digest WHERE of = ?", (of,)))
    if kept != found:
        odd = min(id for id in kept.keys() | found.keys() if kept.get(id) != found.get(id))
        raise Damaged(_told(of, odd))


def check(connection: sqlite3.Connection, of: str, id: int, found: int | None) -> None:
    """Damaged unless the digest *found* of one thing is the one that was kept; None: there is none."""
    if has_digests(connection) and found != kept_digest(connection, of, id):
        raise Damaged(_told(of, id))


def kept_digest(connection: sqlite3.Connection, of: str, id: int) -> int | None:
    """The digest that was kept of one thing; None: none was."""
    found = connection.execute("SELECT crc32 FROM digest WHERE of = ? AND id = ?", (of, id)).fetchone()
    return None if found is None else int(found[0])


def keep(connection: sqlite3.Connection, of: str, id: int, value: int) -> None:
    """Keep the digest of one thing, in place of an older one."""
    connection.execute("INSERT OR REPLACE INTO digest VALUES (?, ?, ?)", (of, id, value))


def of_study(connection: sqlite3.Connection) -> int:
    """Of the study's row, its layouts, what is known of where it ran, and the schema's version."""
    queries = (
        "PRAGMA user_version",
        f"SELECT {', '.join(sorted(rows.columns_of(connection, 'study')))} FROM study",
        "SELECT position, processes, threads, variant FROM study_layout ORDER BY position",
        "SELECT key, value FROM provenance ORDER BY key",
    )
    return digest(*(row for query in queries for row in connection.execute(query)))


def of_launches(connection: sqlite3.Connection, where: str = "", *values: object) -> dict[int, int]:
    """Of launches, by their ids."""
    query = f"SELECT id, {', '.join(rows.LAUNCH)} FROM launch {where}"
    return {row[0]: digest(row) for row in connection.execute(query, values)}


def of_boxes(connection: sqlite3.Connection, where: str = "", *values: object) -> dict[int, int]:
    """Of the boxes of a fleet, by their ids."""
    query = f"SELECT id, name, cores, joined_wall_s, ahead_s, provenance, left_wall_s, why FROM box {where}"
    return {row[0]: digest(row) for row in connection.execute(query, values)}


def noted(kept: Iterable[Kept], found: dict[int, int]) -> Iterator[Kept]:
    """Windows as they come, each one's digest put into *found* by its id."""
    for window in kept:
        found[window.row[WINDOW_ID]] = digest(window.row, window.launch, *window.void)
        yield window


def of_windows(kept: Iterable[Kept]) -> dict[int, int]:
    """Of windows with what their launches say and what made them void, by their ids."""
    found: dict[int, int] = {}
    for _ in noted(kept, found):
        pass
    return found


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


def keep_window(connection: sqlite3.Connection, window_id: int) -> None:
    """Make the digests of a window that was just added; Damaged where there were some already."""
    for of in ("window", "details"):
        check(connection, of, window_id, None)
    for value in of_windows(kept_windows(connection, window_id)).values():
        keep(connection, "window", window_id, value)
    keep(connection, "details", window_id, of_details(connection, window_id))


def keep_everything(connection: sqlite3.Connection) -> None:
    """Make every digest of the file anew, of what it holds."""
    connection.execute("DELETE FROM digest")
    for of, found in _of_everything(connection):
        connection.executemany(
            "INSERT INTO digest VALUES (?, ?, ?)", ((of, id, value) for id, value in found.items())
        )


def check_everything(connection: sqlite3.Connection) -> None:
    """Damaged unless all that the file holds is as it was written."""
    for of, found in _of_everything(connection):
        check_all(connection, of, found)


def _of_everything(connection: sqlite3.Connection) -> Iterator[tuple[str, dict[int, int]]]:
    yield "study", {1: of_study(connection)}
    launches, windows = of_launches(connection), of_windows(kept_windows(connection))
    yield "launch", launches
    yield "box", of_boxes(connection)
    yield "window", windows
    yield "details", {id: of_details(connection, id) for id in windows}
    warmups = ((id, of_warmup(connection, id)) for id in launches)
    yield "warmup", {id: value for id, value in warmups if value is not None}


def _told(of: str, id: int) -> str:
    what = {"study": "what was asked for", "details": f"what window {id} is made of"}
    what["warmup"] = f"the warm-up of launch {id}"
    return f"{what.get(of, f'{of} {id}')} is not as it was written"
