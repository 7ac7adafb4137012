"""Conversion of studies, launches, hosts and windows to rows of the study file, and back."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields
from functools import cache
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Any, TypeVar

from tuner.adapters.sqlite.study_access import Damaged
from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import BoxRecord, LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.requests import N_BUCKETS, Latencies, Requests, spread_from_json, spread_to_json
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.window import CLOCKS, SINCE, Reading, Sample, Usage, VoidReason, Window
from tuner.core.text.figures import LARGEST_COUNT

# Compact encoding of a histogram of latencies for the study file.
#
# It is a text of ``GAP:N`` words, compressed by zlib, shortest latency first: N requests in the bucket of
# `tuner.core.domain.requests` that is GAP after the previous one (first: after 0). 60 000 latencies: 5 kB.

_LONGEST_WORD_BYTES = 22  #: a bucket of 5 digits and a count of 16 digits
_LARGEST_TEXT_BYTES = 1 << 20  #: all buckets with counts of 20 digits take 800 kB


def pack_latencies(latencies: Latencies) -> bytes:
    """Return *latencies* as bytes."""
    gaps = (bucket - before for before, bucket in pairwise((0, *latencies.n_by_bucket)))
    words = (f"{gap}:{n}" for gap, n in zip(gaps, latencies.n_by_bucket.values(), strict=True))
    return zlib.compress(" ".join(words).encode("ascii"))


def unpack_latencies(content: bytes) -> Latencies:
    """Return the latencies from the bytes of ``pack_latencies``; raise ValueError for other bytes."""
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(content, _LARGEST_TEXT_BYTES)
    except zlib.error as error:
        raise ValueError(f"no histogram: {error}") from error
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise ValueError("no histogram: it does not end")
    words = text.split()
    if max(map(len, words), default=0) > _LONGEST_WORD_BYTES:
        raise ValueError("no histogram: a number of too many digits")
    try:
        pairs = [(int(gap), int(n)) for gap, n in (word.split(b":") for word in words)]
    except ValueError as error:
        raise ValueError("no histogram: a word that is no GAP:N") from error
    counts = dict(zip(accumulate(gap for gap, _ in pairs), (n for _, n in pairs), strict=True))
    if counts and not (min(counts) >= 0 and max(counts) < N_BUCKETS and min(counts.values()) >= 0):
        raise ValueError("no histogram: a bucket or a count that cannot be")
    if sum(counts.values()) > LARGEST_COUNT:
        raise ValueError(f"no histogram: its counts are beyond {LARGEST_COUNT}")
    return Latencies(counts)


Detail = TypeVar("Detail", Reading, Usage, VoidReason)
_LATER = 12  #: version since which new clocks come last, because older digests depend on the order
#: clocks of a window, named as in WindowRecord, whose columns precede REQUESTS
EARLIER_CLOCKS = tuple(clock.name for clock in CLOCKS if clock.since < _LATER)
LATER_CLOCKS = tuple(clock.name for clock in CLOCKS if clock.since >= _LATER)  #: after REQUESTS
#: columns of a window since version 6, as for `requests_of`; the unfinished ones since version 7
REQUESTS = (
    *("latencies", "n_requests_failed", "rate_per_s", "capacity_per_s"),
    *("unfinished", "unfinished_before"),
    "spread",  #: since version 12; it must be last: see `sqlite_digests`
)
_DETAILS: Mapping[type, tuple[str, str]] = {
    Reading: ("reading", "edge"),
    Usage: ("usage", "n"),
    VoidReason: ("void_reason", "n"),
}  #: table of each kind of detail of a window, and the column that orders its rows
_SAMPLE = "n_done_total, n_failed_total, load1_x100, load5_x100, load15_x100, n_active"


def insert_window(connection: sqlite3.Connection, record: WindowRecord, window: Window) -> int:
    """Add a window with its samples, readings, usage and void reasons; return its id."""
    began_s = window.samples[0].at_s
    clocks, requests = [clock.name for clock in CLOCKS], request_columns(window.requests)
    columns = (
        "launch_id, window_index, attempt, started_wall_s, began_s, length_s, n_done, n_failed,"
        " load1_mean, load1_max, n_active_mean, n_active_from_load1, service_cpu_s, tuner_cpu_s,"
        " backend_cpu_s, foreign_cpu_s, steal_s, pss_bytes, "
    ) + ", ".join((*clocks, *requests))
    values = (
        *(record.launch_id, record.index, record.attempt, record.started_wall_s, began_s, record.length_s),
        *(record.n_done, record.n_failed, record.load1_mean, record.load1_max),
        *(record.n_active_mean, record.n_active_from_load1),
        *(record.service_cpu_s, record.tuner_cpu_s, record.backend_cpu_s, record.foreign_cpu_s),
        *(record.steal_s, record.pss_bytes),
        *(getattr(record, clock) for clock in clocks),
        *requests.values(),
    )
    cursor = connection.execute(
        f"INSERT INTO window ({columns}) VALUES ({', '.join('?' * len(values))})", values
    )
    assert cursor.lastrowid is not None
    _insert_details(connection, cursor.lastrowid, window)
    return cursor.lastrowid


def _insert_details(connection: sqlite3.Connection, window_id: int, window: Window) -> None:
    began_s = window.samples[0].at_s
    connection.executemany(
        "INSERT INTO sample_packed VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        ((window_id, n, *_pack(sample, began_s)) for n, sample in enumerate(window.samples)),
    )
    details = {Reading: window.readings, Usage: window.usage, VoidReason: window.void}
    for kind, rows in details.items():
        table, _ = _DETAILS[kind]
        names = _stored_fields(kind)
        values = attrgetter(*names)  # astuple makes deep copies: twenty times slower
        connection.executemany(
            f"INSERT INTO {table} VALUES (?, ?, {', '.join('?' * len(names))})",
            ((window_id, n, *values(row)) for n, row in enumerate(rows)),
        )


def select_details(connection: sqlite3.Connection, kind: type[Detail], window_id: int) -> tuple[Detail, ...]:
    """Return a window's details of a kind, in order; columns that an older file lacks are None."""
    table, order = _DETAILS[kind]
    known = columns_of(connection, table)
    optional = {field.name for field in fields(kind) if field.default is None}
    names = [name for name in _stored_fields(kind) if name in known or name not in optional]
    query = f"SELECT {', '.join(names)} FROM {table} WHERE window_id = ? ORDER BY {order}"
    return tuple(
        kind(**dict(zip(names, row, strict=True))) for row in connection.execute(query, (window_id,))
    )


def _stored_fields(kind: type) -> list[str]:
    """Return the stored fields of a kind of detail, in the order of their columns in schema.sql."""
    kept = sorted(fields(kind), key=lambda field: field.metadata.get(SINCE, 0))  # newer columns are last
    return [field.name for field in kept if field.metadata.get("stored", True)]


def insert_warmup(connection: sqlite3.Connection, launch_id: int, samples: Sequence[Sample]) -> int:
    """Append samples of a launch's warm-up; return the number of earlier samples."""
    (n_kept,) = connection.execute(
        "SELECT count(*) FROM warmup_sample_packed WHERE launch_id = ?", (launch_id,)
    ).fetchone()
    connection.executemany(
        "INSERT INTO warmup_sample_packed VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        ((launch_id, n, *_pack(sample)) for n, sample in enumerate(samples, start=n_kept)),
    )
    return int(n_kept)


def select_samples(connection: sqlite3.Connection, window_id: int, began_s: float) -> tuple[Sample, ...]:
    """Return a window's samples in time order; *began_s* is the time of the first one."""
    query = f"SELECT at_us, {_SAMPLE} FROM sample_packed WHERE window_id = ? ORDER BY n"
    return tuple(_sample_of(row, began_s) for row in connection.execute(query, (window_id,)))


def select_warmup(connection: sqlite3.Connection, launch_id: int) -> tuple[Sample, ...]:
    """Return a launch's samples of warm-up in time order; empty for a file of version 1."""
    if not columns_of(connection, "warmup_sample_packed"):
        return ()
    query = f"SELECT at_us, {_SAMPLE} FROM warmup_sample_packed WHERE launch_id = ? ORDER BY n"
    return tuple(_sample_of(row) for row in connection.execute(query, (launch_id,)))


def _pack(sample: Sample, began_s: float = 0.0) -> tuple[int | None, ...]:
    return (
        *(round((sample.at_s - began_s) * 1e6), sample.n_done_total, sample.n_failed_total),
        *(round(sample.load1 * 100), round(sample.load5 * 100), round(sample.load15 * 100)),
        sample.n_active,
    )


def _sample_of(row: tuple[Any, ...], began_s: float = 0.0) -> Sample:
    at_us, n_done, n_failed, load1, load5, load15, n_active = row
    return Sample(began_s + at_us / 1e6, n_done, n_failed, load1 / 100, load5 / 100, load15 / 100, n_active)


def select_requests(connection: sqlite3.Connection, window_id: int) -> Requests | None:
    """Return the requests of one window, or None."""
    columns = ", ".join(requests_in(columns_of(connection, "window")))
    row = connection.execute(f"SELECT {columns} FROM window WHERE id = ?", (window_id,)).fetchone()
    return requests_of(f"window {window_id}", *row)


def requests_of(
    of: str,
    latencies: bytes | None,
    n_failed: int,
    rate_per_s: float | None,
    capacity_per_s: float | None,
    unfinished: bytes | None,
    unfinished_before: bytes | None,
    spread: str | None = None,
) -> Requests | None:
    """Return the requests from the columns *of* a window or launch; raise Damaged for a bad histogram."""
    if latencies is None:
        return None
    after, before = (
        Latencies() if one is None else unpack_latencies(one) for one in (unfinished, unfinished_before)
    )
    try:
        held = None if spread is None else spread_from_json(json.loads(spread))
        return Requests(
            unpack_latencies(latencies), n_failed, rate_per_s, capacity_per_s, after, before, held
        )
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{of} has {error}") from error


def requests_in(known: Set[str]) -> list[str]:
    """Return the SQL columns of `requests_of`, with NULL for those that the file lacks."""
    return [column if column in known else f"NULL AS {column}" for column in REQUESTS]


def request_columns(requests: Requests | None) -> dict[str, Any]:
    """Return column -> value of the stored facts about requests; empty if there are none."""
    if requests is None:
        return {}
    return {
        "n_requests": requests.n_total,
        "n_requests_failed": requests.n_failed,
        "latency_p50_s": requests.latency_s(0.5),
        "latency_p95_s": requests.latency_s(0.95),
        "latency_p99_s": requests.latency_s(0.99),
        "n_requests_unfinished": requests.unfinished.n_recorded,
        "latencies": pack_latencies(requests.latencies),
        "unfinished": pack_latencies(requests.unfinished),
        "unfinished_before": pack_latencies(requests.unfinished_before),
        "rate_per_s": requests.rate_per_s,
        "capacity_per_s": requests.capacity_per_s,
        **({} if requests.spread is None else {"spread": json.dumps(spread_to_json(requests.spread))}),
    }


# Studies, launches and hosts.

#: fields of a study that have a column in its table
_STUDY = tuple(
    field.name
    for field in fields(StudyRecord)
    if field.name not in ("layouts", "provenance", "schema_version")
)
_BEGUN = (
    *("block", "position", "attempt", "processes", "threads", "variant", "box", "started_wall_s"),
    *("window_s", "n_windows"),
)
_ENDED = (
    *("running_after_s", "warmup_s", "settled", "unsettled", "steady_from_s"),
    *("trend_ratio_per_h", "trend_se_ratio_per_h", "error", "ended_wall_s"),
    *("has_gil", "gil_module"),  # since version 13
)  #: columns of a launch that are written at its end
_OF_SLICES = ("noise_of_second_ratio", "counted_ratio")  #: since versions 16 and 17
#: `heat` since version 14, fixed work since 15; new columns must come last: see `digests`
LAUNCH = (*_BEGUN, *_ENDED, "heat", "idle_fixed_work_cpu_s", "fixed_work_cpu_s", *_OF_SLICES)


def study_columns(study: StudyRecord) -> Mapping[str, Any]:
    """Return column -> value of the fields of a study that are in its table."""
    values = {name: getattr(study, name) for name in _STUDY}
    limits = json.dumps(dict(study.limits), sort_keys=True)
    return {**values, "config": study.config.text, "limits": limits}


def layout_columns(layout: Layout) -> dict[str, int | str]:
    """Return column -> value of a layout, in the order of the columns."""
    threads = layout.threads if layout.has_threads else 0
    return {"processes": layout.processes, "threads": threads, "variant": layout.variant}


@cache
def layout_of(processes: int, threads: int, variant: str) -> Layout:
    """Return the layout from the columns of `layout_columns`."""
    return Layout(processes, threads or 1, variant, has_threads=threads > 0)


def read_study(connection: sqlite3.Connection) -> StudyRecord:
    """Return the record of the study; settings that an older file lacks have their former defaults."""
    layouts = connection.execute("SELECT processes, threads, variant FROM study_layout ORDER BY position")
    columns = [name for name in _STUDY if name in columns_of(connection, "study")]
    (row,) = connection.execute(f"SELECT {', '.join(columns)} FROM study")
    kept = dict(zip(columns, row, strict=True))
    return StudyRecord(
        **{
            **kept,
            "config": StoredConfig(kept["config"]),
            "warms_cache": bool(kept["warms_cache"]),
            "limits": json.loads(kept.get("limits", "{}")),
        },
        layouts=tuple(layout_of(*layout) for layout in layouts),
        provenance=Provenance.from_mapping(
            dict(connection.execute("SELECT key, value FROM provenance ORDER BY key"))
        ),
        schema_version=connection.execute("PRAGMA user_version").fetchone()[0],
    )


def insert_layouts(connection: sqlite3.Connection, layouts: Iterable[Layout], *, first: int = 0) -> None:
    """Add layouts of the study, at the positions from *first* on."""
    connection.executemany(
        "INSERT INTO study_layout VALUES (?, ?, ?, ?)",
        ((place, *layout_columns(layout).values()) for place, layout in enumerate(layouts, first)),
    )


def insert_launch(connection: sqlite3.Connection, launch: LaunchRecord) -> int:
    """Add a launch and return its id."""
    marks = ", ".join("?" * len(LAUNCH))
    cursor = connection.execute(
        f"INSERT INTO launch ({', '.join(LAUNCH)}) VALUES ({marks})", _launch_values(launch, LAUNCH)
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def end_launch(connection: sqlite3.Connection, launch_id: int, launch: LaunchRecord) -> None:
    """Write the result of a launch into its row."""
    columns = (*_ENDED, "fixed_work_cpu_s", *_OF_SLICES)
    changed = ", ".join(f"{column} = ?" for column in columns)
    connection.execute(
        f"UPDATE launch SET {changed} WHERE id = ?", (*_launch_values(launch, columns), launch_id)
    )


def launch_rows(connection: sqlite3.Connection, where: str = "", *values: Any) -> Iterator[tuple[Any, ...]]:
    """Return the id and the columns `LAUNCH` of launches, in the order of their starts."""
    known = columns_of(connection, "launch")
    wanted = ", ".join(column if column in known else f"NULL AS {column}" for column in LAUNCH)
    return connection.execute(f"SELECT id, {wanted} FROM launch {where} ORDER BY id", values)


def columns_of(connection: sqlite3.Connection, table: str) -> Set[str]:
    """Return the columns of *table* in this file; empty if the file's version has no such table."""
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def _launch_values(launch: LaunchRecord, columns: Sequence[str]) -> tuple[Any, ...]:
    layout = layout_columns(launch.layout)
    return tuple(layout[column] if column in layout else getattr(launch, column) for column in columns)


def launch_of(row: tuple[Any, ...]) -> tuple[int, LaunchRecord]:
    """Return the id and the record of a launch from a row of `launch_rows`."""
    # fmt: off
    (
        launch_id, block, position, attempt, processes, threads, variant, box, started_wall_s, window_s,
        n_windows, running_after_s, warmup_s, settled, unsettled, steady_from_s, trend_ratio_per_h,
        trend_se_ratio_per_h, error, ended_wall_s, has_gil, gil_module, heat,
        idle_fixed_work_cpu_s, fixed_work_cpu_s, noise_of_second_ratio, counted_ratio,
    ) = row
    return launch_id, LaunchRecord(
        block, position, attempt, layout_of(processes, threads, variant), box, started_wall_s,
        running_after_s, warmup_s, None if settled is None else bool(settled), error, ended_wall_s, window_s,
        n_windows, unsettled, steady_from_s, trend_ratio_per_h, trend_se_ratio_per_h,
        None if has_gil is None else bool(has_gil), gil_module, heat, idle_fixed_work_cpu_s,
        fixed_work_cpu_s, noise_of_second_ratio, counted_ratio,
    )
    # fmt: on


def insert_box(connection: sqlite3.Connection, box: BoxRecord) -> int:
    """Add a host that joined; return the id of its row."""
    cursor = connection.execute(
        "INSERT INTO box (name, cores, joined_wall_s, ahead_s, provenance, left_wall_s, why)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            *(box.name, box.cores, box.joined_wall_s, box.ahead_s),
            *(json.dumps(box.provenance.to_mapping()), box.left_wall_s, box.why),
        ),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def present_box_id(connection: sqlite3.Connection, name: str) -> int | None:
    """Return the id of the last row of a host; None if it has left, or never joined."""
    query = "SELECT id FROM box WHERE id = (SELECT max(id) FROM box WHERE name = ?) AND left_wall_s IS NULL"
    found = connection.execute(query, (name,)).fetchone()
    return None if found is None else int(found[0])


def end_box(connection: sqlite3.Connection, box_id: int, left_wall_s: float, why: str) -> None:
    """Write time and reason of a host's leaving into its row."""
    connection.execute("UPDATE box SET left_wall_s = ?, why = ? WHERE id = ?", (left_wall_s, why, box_id))


def select_boxes(connection: sqlite3.Connection) -> list[BoxRecord]:
    """Return the hosts in the order of their joining; empty for a file older than version 8."""
    if not columns_of(connection, "box"):
        return []
    query = "SELECT name, cores, joined_wall_s, ahead_s, provenance, left_wall_s, why FROM box ORDER BY id"
    return [
        BoxRecord(
            name, cores, joined_wall_s, ahead_s, Provenance.from_mapping(json.loads(facts)), left_wall_s, why
        )
        for name, cores, joined_wall_s, ahead_s, facts, left_wall_s, why in connection.execute(query)
    ]
