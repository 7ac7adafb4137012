"""How all windows of a study file are listed: 100 000 of them in well under a second."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, cast

from tuner.adapters.sqlite.details import EARLIER_CLOCKS, LATER_CLOCKS, REQUESTS, requests_in, requests_of
from tuner.adapters.sqlite.rows import columns_of, layout_of
from tuner.core.domain.clocks import CLOCKS
from tuner.core.domain.records import WindowRecord
from tuner.core.domain.window import VoidReason

Row = tuple[Any, ...]
# In the order of WindowRecord's fields; what its launch says is filled in, and what made it void (by its id).
_WINDOW = (
    *("launch_id", "NULL", "NULL", "NULL", "window_index", "window.attempt", "started_wall_s", "length_s"),
    *("n_done", "n_failed", "load1_mean", "load1_max", "n_active_mean", "service_cpu_s", "tuner_cpu_s"),
    *("backend_cpu_s", "foreign_cpu_s", "steal_s", "pss_bytes", "window.id", "n_active_from_load1"),
)
WINDOW_ID = _WINDOW.index("window.id")
_LATENCIES = len(_WINDOW) + len(EARLIER_CLOCKS)  #: the first of the columns of `requests_of`
_LATER = _LATENCIES + len(REQUESTS)  #: the first of LATER_CLOCKS; a file of an older version has fewer
#: the clocks of probes, and the column of a reading that each grows from
_COUNTED = {clock.name: clock.of_reading for clock in CLOCKS if clock.of_reading is not None}
_NOTHING: list[Row] = []
OF_ONE = "window.id = ?"
OF_LAUNCHES = "window.launch_id IN (SELECT value FROM json_each(?))"  #: their ids, as JSON


class Kept(NamedTuple):
    """A window as the file has it."""

    row: Row
    launch: Row  #: its launch's block, processes, threads, variant and box
    void: list[Row]  #: slug and detail of each thing that made it void


def read_windows(connection: sqlite3.Connection, where: str = "", *values: object) -> Iterator[Kept]:
    """Every window in the order it was taken, or those *where* something holds (`OF_ONE`, `OF_LAUNCHES`).

    To be asked within one transaction, as a file may grow. A window whose launch is not there is left out:
    nobody knows what ran.
    """
    # Launches are few: looking them up here takes less than a join that gives their columns again and again.
    launches, void = _launches(connection, where, values), _void_reasons(connection, where, values)
    for row in connection.execute(_query(connection, where), values):
        launch = launches.get(row[0])
        if launch is not None:
            yield Kept(row, launch, void.get(row[WINDOW_ID], _NOTHING))


def list_windows(kept: Iterable[Kept]) -> list[WindowRecord]:
    """The records of windows."""
    layout, record, windows = cache(layout_of), cast(Callable[..., WindowRecord], WindowRecord), []
    for row, (block, processes, threads, variant, box), void in kept:
        window = record(*row[:_LATENCIES], *row[_LATER:])
        window.block, window.layout, window.box = block, layout(processes, threads, variant), box
        window.void = tuple(VoidReason(*reason) for reason in void) if void else ()
        if row[_LATENCIES] is not None:
            window.requests = requests_of(f"window {row[WINDOW_ID]}", *row[_LATENCIES:_LATER])
        windows.append(window)
    return windows


def _query(connection: sqlite3.Connection, where: str) -> str:
    """Clocks that an older file has not are NULL; what items counted of CPU stands in the readings."""
    tables = "window"
    known = columns_of(connection, "window")
    clocks = [clock if clock in known else "NULL" for clock in EARLIER_CLOCKS]
    if not known >= _COUNTED.keys():
        for clock, column in _COUNTED.items():
            clocks[EARLIER_CLOCKS.index(clock)] = f"(after.{column} - before.{column}) * 1e-9"
        for edge, name in enumerate(("before", "after")):
            tables += f" LEFT JOIN reading AS {name} ON {name}.window_id = window.id AND {name}.edge = {edge}"
    later = [clock for clock in LATER_CLOCKS if clock in known]
    columns = ", ".join((*_WINDOW, *clocks, *requests_in(known), *later))
    return f"SELECT {columns} FROM {tables} WHERE {where or 'true'} ORDER BY window.id"


def _launches(connection: sqlite3.Connection, where: str, values: Sequence[object]) -> dict[int, Row]:
    """What launches say of their windows, by their ids."""
    of_these = f"WHERE id IN (SELECT launch_id FROM window WHERE {where})" if where else ""
    found = connection.execute(
        f"SELECT id, block, processes, threads, variant, box FROM launch {of_these}", values
    )
    return {launch_id: tuple(said) for launch_id, *said in found}


def _void_reasons(
    connection: sqlite3.Connection, where: str, values: Sequence[object]
) -> dict[int, list[Row]]:
    """Of each window that is void, by its id."""
    of_these = f"WHERE window_id IN (SELECT id FROM window WHERE {where})" if where else ""
    found: dict[int, list[Row]] = {}
    query = f"SELECT window_id, slug, detail FROM void_reason {of_these} ORDER BY window_id, n"
    for id, slug, detail in connection.execute(query, values):
        found.setdefault(id, []).append((slug, detail))
    return found
