"""Sums over the windows of each finished launch, stored so that a ranking reads no windows."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, cast

from tuner.adapters.sqlite import details
from tuner.adapters.sqlite.details import (
    EARLIER_CLOCKS,
    LATER_CLOCKS,
    REQUESTS,
    columns_of,
    layout_of,
    request_columns,
    requests_in,
    requests_of,
)
from tuner.adapters.sqlite.study_access import Damaged
from tuner.core.domain.records import WARMING_BLOCK, WindowRecord
from tuner.core.domain.window import CLOCKS, VoidReason
from tuner.core.windows.launch_sums import (
    TOLD,
    LaunchTally,
    LaunchVoid,
    add_sums,
    separates_workers,
    tally,
    told_by,
)

# Reading of all windows of a study file: 100 000 of them in well under a second.

# In the order of WindowRecord's fields; those of the launch are filled in later, and void reasons (by id).
_WINDOW = (
    *("launch_id", "NULL", "NULL", "NULL", "window_index", "window.attempt", "started_wall_s", "length_s"),
    *("n_done", "n_failed", "load1_mean", "load1_max", "n_active_mean", "service_cpu_s", "tuner_cpu_s"),
    *("backend_cpu_s", "foreign_cpu_s", "steal_s", "pss_bytes", "window.id", "n_active_from_load1"),
)
WINDOW_ID = _WINDOW.index("window.id")
_LATENCY_COLUMNS = len(_WINDOW) + len(EARLIER_CLOCKS)  #: index of the first column for `requests_of`
#: index of the first of LATER_CLOCKS; a file of an older version has fewer
_LATER = _LATENCY_COLUMNS + len(REQUESTS)
#: clocks from probes -> the column of a reading from which each is computed
_COUNTED = {clock.name: clock.of_reading for clock in CLOCKS if clock.of_reading is not None}
_NOTHING: list[Row] = []
OF_ONE = "window.id = ?"
#: the parameter is a JSON list of launch ids
OF_LAUNCHES = "window.launch_id IN (SELECT value FROM json_each(?))"


class Kept(NamedTuple):
    """A window as rows of the file."""

    row: Row
    launch: Row  #: block, processes, threads, variant and host of its launch
    void: list[Row]  #: slug and detail of each reason why it is invalid


def read_windows(connection: sqlite3.Connection, where: str = "", *values: object) -> Iterator[Kept]:
    """Yield all windows in the order of measurement, or those that satisfy *where* (`OF_ONE`, `OF_LAUNCHES`).

    Call it within one transaction, because a file may grow. A window without its launch is left out, because
    its layout is unknown.
    """
    # Launches are few: a lookup here is faster than a join that repeats their columns for each window.
    launches, void = _launches(connection, where, values), _void_reasons(connection, where, values)
    for row in connection.execute(_query(connection, where), values):
        launch = launches.get(row[0])
        if launch is not None:
            yield Kept(row, launch, void.get(row[WINDOW_ID], _NOTHING))


def list_windows(kept: Iterable[Kept]) -> list[WindowRecord]:
    """Return the records of windows."""
    layout, record, windows = cache(layout_of), cast(Callable[..., WindowRecord], WindowRecord), []
    for row, (block, processes, threads, variant, box), void in kept:
        window = record(*row[:_LATENCY_COLUMNS], *row[_LATER:])
        window.block, window.layout, window.box = block, layout(processes, threads, variant), box
        window.void = tuple(VoidReason(*reason) for reason in void) if void else ()
        if row[_LATENCY_COLUMNS] is not None:
            window.requests = requests_of(f"window {row[WINDOW_ID]}", *row[_LATENCY_COLUMNS:_LATER])
        windows.append(window)
    return windows


def _query(connection: sqlite3.Connection, where: str) -> str:
    """Return the query of windows. Clocks that an older file lacks are NULL, or computed from readings."""
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
    """Return the columns of launches that their windows need, by launch id."""
    of_these = f"WHERE id IN (SELECT launch_id FROM window WHERE {where})" if where else ""
    found = connection.execute(
        f"SELECT id, block, processes, threads, variant, box FROM launch {of_these}", values
    )
    return {launch_id: tuple(said) for launch_id, *said in found}


def _void_reasons(
    connection: sqlite3.Connection, where: str, values: Sequence[object]
) -> dict[int, list[Row]]:
    """Return slug and detail of each void reason, by window id."""
    of_these = f"WHERE window_id IN (SELECT id FROM window WHERE {where})" if where else ""
    found: dict[int, list[Row]] = {}
    query = f"SELECT window_id, slug, detail FROM void_reason {of_these} ORDER BY window_id, n"
    for id, slug, detail in connection.execute(query, values):
        found.setdefault(id, []).append((slug, detail))
    return found


Row = tuple[Any, ...]
_FIELDS = (
    *("n_windows", "length_s", "n_done", "rates", "squares", "load", "load_max", "active", "active_s"),
    *("from_load1", "from_load1_s", "cpu_s", "backend_cpu_s", "pss_bytes", "n_pss", "pss_max"),
    "limited_load",
)  #: fields of `LaunchTally`, in its order
_OWN = tuple("service_cpu_s" if name == "cpu_s" else name for name in _FIELDS)  #: the columns of these fields
_fields_of = attrgetter(*_FIELDS)
_OTHERS = tuple(name for name in TOLD if name not in _OWN)
_OF_LAUNCH = ("launch.id", "block", "processes", "threads", "variant", "box")
_VOID = ("n_void", "n_short", "void")
_READ = (*_OF_LAUNCH, *_OWN, *_OTHERS, "is_told", *_VOID, *REQUESTS)
_FIRST, _LAST = _READ.index("n_windows"), _READ.index("limited_load")
_FAILED = _READ.index("n_failed")
_FOREIGN, _STEAL, _TUNER = (_READ.index(name) for name in ("foreign_cpu_s", "steal_s", "tuner_cpu_s"))
_INTERRUPTS = _READ.index("interrupt_s")
_IS_TOLD, _N_VOID, _LATENCIES = (_READ.index(name) for name in ("is_told", "n_void", REQUESTS[0]))
_told_in = itemgetter(*(_READ.index(name, _FIRST) for name in TOLD))
_LARGEST = 1e15  #: limit for numbers in a file: `sqlite_checks`


def sum_rows(connection: sqlite3.Connection, launch_id: int | None = None) -> Iterator[Row]:
    """Return the stored sums of one launch, or of all, with columns of the launch, in order of ids."""
    known = details.columns_of(connection, "launch_sum")
    columns = ", ".join(
        name if name in _OF_LAUNCH else f"own.{name}" for name in _READ if name in (*_OF_LAUNCH, *known)
    )
    tables = "launch_sum AS own JOIN launch ON launch.id = launch_id"
    where = "" if launch_id is None else f"WHERE launch_id = {launch_id:d}"
    return connection.execute(f"SELECT {columns} FROM {tables} {where} ORDER BY launch_id")


def has_sums(connection: sqlite3.Connection) -> bool:
    """Return whether the file has all sums that this tuner needs: versions 10 to 17 had fewer."""
    return details.columns_of(connection, "launch_sum") >= set(_OTHERS)


def without_sums(connection: sqlite3.Connection) -> list[int]:
    """Return the ids of launches without stored sums: see `replace_sum`."""
    query = "SELECT id FROM launch WHERE id NOT IN (SELECT launch_id FROM launch_sum) ORDER BY id"
    return [launch_id for (launch_id,) in connection.execute(query)]


def sums_of(kept: Iterable[Row]) -> tuple[list[LaunchTally], list[LaunchVoid]]:
    """Return the sums of valid and of invalid windows from rows of `sum_rows`, without cache warming.

    Raises:
        Damaged: a row has impossible values.
    """
    launches, void = [], []
    for row in kept:
        launch_id, block, processes, threads, variant, box = row[:_FIRST]
        if block == WARMING_BLOCK:
            continue
        layout = details.layout_of(processes, threads, variant)
        if row[_FIRST]:
            launch = LaunchTally(layout, (box, block), launch_id, *row[_FIRST : _LAST + 1])
            launch.n_failed = row[_FAILED]
            launch.foreign_cpu_s, launch.steal_s = row[_FOREIGN], row[_STEAL]
            launch.tuner_cpu_s, launch.interrupt_s = row[_TUNER], row[_INTERRUPTS] or 0.0
            if row[_IS_TOLD]:
                launch.sums = _told_in(row)
            if row[_LATENCIES] is not None:
                requests = requests_of(f"launch {launch_id}", *row[_LATENCIES:])
                launch.requests = requests
                if requests is not None and requests.rate_per_s is not None:
                    launch.n_at_a_rate = launch.n_windows
            launches.append(launch)
        if row[_N_VOID]:
            n_void, n_short, reasons = row[_N_VOID:_LATENCIES]
            void.append(LaunchVoid(layout, box, launch_id, n_void, n_short, _counts(launch_id, reasons)))
    return launches, void


def replace_sum(connection: sqlite3.Connection, launch_id: int, windows: Sequence[WindowRecord]) -> None:
    """Store the sums of all *windows* of a launch, replacing earlier sums.

    Nothing is stored if only some of the valid windows have the CPU of workers, or a request rate, or if a
    sum exceeds the limits of a file: such windows are added up at each reading.
    """
    remove_sum(connection, launch_id)
    sums = tally(windows)
    counting = [one for one in windows if not one.void and one.block != WARMING_BLOCK]
    if len({(separates_workers(one), one.is_at_a_rate) for one in counting}) > 1:
        return
    values: dict[str, Any] = dict.fromkeys((*_OWN, *TOLD), 0)
    values |= {"launch_id": launch_id, "is_told": 0, "n_void": 0, "n_short": 0}
    for launch in sums.launches:
        values |= zip(TOLD, add_sums(map(told_by, counting)), strict=True)
        values |= zip(_OWN, _fields_of(launch), strict=True)
        values |= {"is_told": int(launch.sums is not None)}
        requests = request_columns(launch.requests)
        values |= {name: requests[name] for name in REQUESTS if name in requests}
    for void in sums.void:
        reasons = json.dumps(dict(sorted(void.reasons.items())))
        values |= {"n_void": void.n_windows, "n_short": void.n_short, "void": reasons}
    if any(isinstance(value, int | float) and abs(value) > _LARGEST for value in values.values()):
        return
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO launch_sum ({names}) VALUES ({marks})", [*values.values()])


def remove_sum(connection: sqlite3.Connection, launch_id: int) -> None:
    """Delete the sums of a launch, which has a new window."""
    connection.execute("DELETE FROM launch_sum WHERE launch_id = ?", (launch_id,))


def _counts(launch_id: int, text: str | None) -> Counter[str]:
    """Parse the number of invalid windows by slug; raise Damaged if it is not JSON of this form."""
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(type(n) is int and n > 0 for n in found.values()):
        raise Damaged(
            f"the reasons of invalid windows of launch {launch_id} are not JSON of slugs and counts"
        )
    return Counter(found)
