from __future__ import annotations

from dataclasses import replace

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WindowRecord, value_of

from ..raising import raises
from ..wording import wording

WINDOW = WindowRecord(
    launch_id=1, block=0, layout=Layout(4, 6), box="box", index=0, attempt=1, started_wall_s=0.0,
    length_s=60.0, n_done=600, n_failed=7, load1_mean=9.0, load1_max=12.0, n_active_mean=4.0,
    service_cpu_s=100.0, tuner_cpu_s=5.0, backend_cpu_s=20.0, foreign_cpu_s=3.0, steal_s=0.0,
    pss_bytes=1e9, void=(),
)  # fmt: skip


def test_throughput_is_items_a_second_whatever_they_cost() -> None:
    assert value_of(WINDOW, "throughput") == 10.0


def test_per_cpu_counts_the_service_and_its_backends_and_nobody_else() -> None:
    assert value_of(WINDOW, "throughput-per-cpu") == 600 / 120


def test_what_cannot_be_divided_has_no_value() -> None:
    assert value_of(replace(WINDOW, n_done=0), "throughput") == 0.0
    assert value_of(replace(WINDOW, service_cpu_s=0.0, backend_cpu_s=0.0), "throughput-per-cpu") == 0.0


def test_there_is_no_other_objective() -> None:
    with raises(ValueError, wording("rank.no-such-objective-at-all")):
        value_of(WINDOW, "latency")
