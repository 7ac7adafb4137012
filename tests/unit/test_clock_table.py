import sqlite3
from dataclasses import fields
from pathlib import Path

import tuner.adapters.sqlite
from tuner.adapters.sqlite.details import EARLIER_CLOCKS, LATER_CLOCKS
from tuner.core.domain.window import CLOCKS, SUMMED_CLOCKS, ClockTotals, Reading, Usage
from tuner.core.windows.launch_sums import TOLD

SCHEMA = Path(tuner.adapters.sqlite.__file__).parent / "schema.sql"


def columns(table: str) -> list[str]:
    connection = sqlite3.connect(":memory:")
    connection.executescript(SCHEMA.read_text())
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def test_every_clock_of_the_host_grows_from_a_total_of_usage() -> None:
    of_host = {clock.total for clock in CLOCKS if clock.of_reading is None}

    assert of_host == {field.name for field in fields(ClockTotals)}


def test_every_clock_of_a_probe_grows_from_a_field_of_a_reading() -> None:
    of_probes = {clock.of_reading for clock in CLOCKS} - {None}

    assert of_probes
    assert of_probes <= {field.name for field in fields(Reading)}


def test_every_clock_has_its_columns_in_the_study_file() -> None:
    assert {clock.name for clock in CLOCKS} <= set(columns("window"))
    assert set(SUMMED_CLOCKS) <= set(columns("launch_sum"))


def test_a_window_is_read_with_its_clocks_in_the_order_of_versions() -> None:
    assert [*EARLIER_CLOCKS, *LATER_CLOCKS] == [clock.name for clock in CLOCKS]
    assert [clock.since for clock in CLOCKS] == sorted(clock.since for clock in CLOCKS)


def test_usage_is_stored_in_the_order_of_its_columns() -> None:
    kept = [field for field in fields(Usage) if field.metadata.get("stored", True)]
    totals = [clock.total for clock in CLOCKS if clock.of_reading is None]

    assert set(columns("usage")) == {"window_id", "n", *(field.name for field in kept)}
    assert columns("usage")[-len(totals) :] == totals


def test_the_sums_of_a_launch_hold_what_they_held_before_clocks_had_a_table() -> None:
    kept = (
        *("n_done", "n_failed", "length_s"),
        *("service_cpu_s", "tuner_cpu_s", "backend_cpu_s", "foreign_cpu_s", "steal_s"),
        *("worker_cpu_s", "child_cpu_s", "run_delay_s", "blocked_s", "spawning_s"),
        *("child_running_s", "child_blocked_s"),
        *("probe_python_cpu_s", "probe_child_cpu_s", "gil_waiting_s", "gil_waking_s"),
        *("item_cpu_s", "master_cpu_s", "beside_delay_s", "interrupt_s", "elsewhere_cpu_s"),
    )

    assert kept == TOLD
