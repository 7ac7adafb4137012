"""Conversion of studies, launches and hosts to rows of the study file, and back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields
from functools import cache
from typing import Any

from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import BoxRecord, LaunchRecord, StudyRecord
from tuner.core.domain.stored_config import StoredConfig

#: the fields of a study that have a column in its table
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
)  #: what is written into a launch's row once it is over
#: `heat` since version 14, the others since 15; what is newer stands last: see `digests`
LAUNCH = (*_BEGUN, *_ENDED, "heat", "idle_fixed_work_cpu_s", "fixed_work_cpu_s")


def study_columns(study: StudyRecord) -> Mapping[str, Any]:
    """Column and value of each field that has a column in the table of the study."""
    values = {name: getattr(study, name) for name in _STUDY}
    limits = json.dumps(dict(study.limits), sort_keys=True)
    return {**values, "config": study.config.text, "limits": limits}


def layout_columns(layout: Layout) -> dict[str, int | str]:
    """Column and value of a layout, in the order of the columns."""
    threads = layout.threads if layout.has_threads else 0
    return {"processes": layout.processes, "threads": threads, "variant": layout.variant}


@cache
def layout_of(processes: int, threads: int, variant: str) -> Layout:
    """The layout of such columns."""
    return Layout(processes, threads or 1, variant, has_threads=threads > 0)


def read_study(connection: sqlite3.Connection) -> StudyRecord:
    """What was asked for; what a file of an older version does not say is as it was then."""
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
    """Add layouts of the study, at the places from *first* on."""
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
    """Write a launch's end into its row."""
    columns = (*_ENDED, "fixed_work_cpu_s")
    changed = ", ".join(f"{column} = ?" for column in columns)
    connection.execute(
        f"UPDATE launch SET {changed} WHERE id = ?", (*_launch_values(launch, columns), launch_id)
    )


def launch_rows(connection: sqlite3.Connection, where: str = "", *values: Any) -> Iterator[tuple[Any, ...]]:
    """The id and the columns `LAUNCH` of launches, in the order they were started."""
    known = columns_of(connection, "launch")
    wanted = ", ".join(column if column in known else f"NULL AS {column}" for column in LAUNCH)
    return connection.execute(f"SELECT id, {wanted} FROM launch {where} ORDER BY id", values)


def columns_of(connection: sqlite3.Connection, table: str) -> Set[str]:
    """The columns that *table* has in this file; none when the file's version has no such table."""
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def _launch_values(launch: LaunchRecord, columns: Sequence[str]) -> tuple[Any, ...]:
    layout = layout_columns(launch.layout)
    return tuple(layout[column] if column in layout else getattr(launch, column) for column in columns)


def launch_of(row: tuple[Any, ...]) -> tuple[int, LaunchRecord]:
    """The id and the record of a launch that stands in such a row."""
    # fmt: off
    (
        launch_id, block, position, attempt, processes, threads, variant, box, started_wall_s, window_s,
        n_windows, running_after_s, warmup_s, settled, unsettled, steady_from_s, trend_ratio_per_h,
        trend_se_ratio_per_h, error, ended_wall_s, has_gil, gil_module, heat,
        idle_fixed_work_cpu_s, fixed_work_cpu_s,
    ) = row
    return launch_id, LaunchRecord(
        block, position, attempt, layout_of(processes, threads, variant), box, started_wall_s,
        running_after_s, warmup_s, None if settled is None else bool(settled), error, ended_wall_s, window_s,
        n_windows, unsettled, steady_from_s, trend_ratio_per_h, trend_se_ratio_per_h,
        None if has_gil is None else bool(has_gil), gil_module, heat, idle_fixed_work_cpu_s,
        fixed_work_cpu_s,
    )
    # fmt: on


def insert_box(connection: sqlite3.Connection, box: BoxRecord) -> int:
    """Add a box that joined, and return the id of its row."""
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


def box_there(connection: sqlite3.Connection, name: str) -> int | None:
    """The id of the last row of a box; None where it left, or never joined."""
    query = "SELECT id FROM box WHERE id = (SELECT max(id) FROM box WHERE name = ?) AND left_wall_s IS NULL"
    found = connection.execute(query, (name,)).fetchone()
    return None if found is None else int(found[0])


def end_box(connection: sqlite3.Connection, box_id: int, left_wall_s: float, why: str) -> None:
    """Write into the row of a box that it left."""
    connection.execute("UPDATE box SET left_wall_s = ?, why = ? WHERE id = ?", (left_wall_s, why, box_id))


def select_boxes(connection: sqlite3.Connection) -> list[BoxRecord]:
    """Boxes as they joined; none in a file older than version 8."""
    if not columns_of(connection, "box"):
        return []
    query = "SELECT name, cores, joined_wall_s, ahead_s, provenance, left_wall_s, why FROM box ORDER BY id"
    return [
        BoxRecord(
            name, cores, joined_wall_s, ahead_s, Provenance.from_mapping(json.loads(facts)), left_wall_s, why
        )
        for name, cores, joined_wall_s, ahead_s, facts, left_wall_s, why in connection.execute(query)
    ]
