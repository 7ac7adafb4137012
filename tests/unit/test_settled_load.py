"""The load that limits apply to: from load1 or from counts, and never below the CPU that was used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.domain.limits import Limit, usage_of, verdicts
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import WindowRecord
from tuner.core.domain.settled_load import LEAST_FROM_LOAD1_S
from tuner.core.domain.strategy import Observed
from tuner.core.domain.window import Reading, Sample
from tuner.core.planning import compared
from tuner.core.ranking.ranking import rank
from tuner.core.windows.launch_sums import tally
from tuner.core.windows.summary import record_of, window_from

from .test_ranking_limits import study
from .test_validity import samples, window_of

ONE = Layout(1, 1)
#: 1x1 of bench/studies/celery-mixed-2-cores.tuner.db: active tasks from load1, and CPU seconds in 20 s of the
#: service, backends, tuner and other processes
CELERY = [(0.02, 6.8, 0.3, 0.2, 0.5), (0.24, 7.4, 0.3, 0.2, 0.3), (0.0, 6.4, 0.9, 0.2, 1.1)]


def celery() -> list[WindowRecord]:
    return [
        WindowRecord(
            launch_id=number, block=number, layout=ONE, box="box", index=0, attempt=1, started_wall_s=0.0,
            length_s=20.0, n_done=100, n_failed=0, load1_mean=0.7, load1_max=0.9, n_active_mean=0.76,
            service_cpu_s=service_s, backend_cpu_s=backend_s, tuner_cpu_s=tuner_s, foreign_cpu_s=foreign_s,
            steal_s=0.0, pss_bytes=1e8, void=(), n_active_from_load1=from_load1,
        )
        for number, (from_load1, service_s, backend_s, tuner_s, foreign_s) in enumerate(CELERY, start=1)
    ]  # fmt: skip


def record(samples: list[Sample], length_s: float) -> WindowRecord:
    readings = (Reading(100.0, 0, 0), Reading(100.0 + length_s, 200, 2))
    window = window_from(ONE, samples, window_of(), readings, index=0, attempt=1)
    return record_of(window, launch_id=1, block=0, box="b")


def test_three_updates_of_load1_that_found_an_idle_host_do_not_hide_the_cpu_it_used() -> None:
    (row,) = [row for row in rank(replace(study(), layouts=(ONE,)), celery()).rows if row.layout == ONE]

    assert row.settled_load == pytest.approx((0.39 * 0.41 * 0.43) ** (1 / 3))  # from load1 alone: 0.035
    assert row.n_active_from_load1 == pytest.approx(sum(load for load, *_ in CELERY) / 3)


def test_the_load_of_a_service_alone_is_at_least_its_own_cpu() -> None:
    in_container = replace(study(), layouts=(ONE,), provenance=Provenance(load_of="the service's tasks"))
    (row,) = rank(in_container, celery()).rows

    assert row.settled_load == pytest.approx((0.34 * 0.37 * 0.32) ** (1 / 3))


def test_a_load_above_the_cpu_is_taken_as_it_is() -> None:
    windows = [replace(one, n_active_from_load1=2.5) for one in celery()]
    (row,) = rank(replace(study(), layouts=(ONE,)), windows).rows

    assert row.settled_load == pytest.approx(2.5)


def test_a_race_judges_the_same_load_as_the_ranking() -> None:
    usages = [usage_of(one, is_load_of_host=True) for one in celery()]
    tallies = tally(celery()).with_load_of(study()).launches
    windows = [Observed(ONE, 5.0, number, 0.0, 0.0, 20.0, usage=usage) for number, usage in enumerate(usages)]
    limit = Limit("load", 0.3)

    assert [usage["load"] for usage in usages] == pytest.approx([0.39, 0.41, 0.43])
    assert [one.mean_load for one in tallies] == pytest.approx([0.39, 0.41, 0.43])
    for kept in (windows, tallies):
        assert verdicts([limit], [ONE], kept, 0.95)[ONE].state == "beyond"


def test_a_comparison_of_studies_takes_it_too() -> None:
    tallies = tally(celery()).with_load_of(study()).launches

    assert compared._value(tallies[2], "load") == pytest.approx(0.43)


@pytest.mark.parametrize(
    ("length_s", "is_used"), [(LEAST_FROM_LOAD1_S - 1, False), (LEAST_FROM_LOAD1_S, True)]
)
def test_counts_once_per_second_are_preferred_to_load1_in_windows_of_minutes(
    length_s: float, is_used: bool
) -> None:
    """Load1 of a host with 3 or 4 active tasks, which the kernel would take for a load of 2."""
    seen = [replace(one, load1=2.0) for one in samples(round(length_s))]
    found = record(seen, length_s)

    assert (found.n_active_from_load1 is not None) == is_used
    assert usage_of(found)["load"] == pytest.approx(2.0 if is_used else 3.5, abs=0.01)


def test_load1_is_used_in_shorter_windows_if_tasks_were_not_counted() -> None:
    blind = [replace(one, load1=2.0, n_active=None) for one in samples(60)]

    assert record(blind, 60.0).n_active_from_load1 == pytest.approx(2.0)
    assert record(blind[:11], 10.0).n_active_from_load1 is None


def test_a_window_of_an_older_study_keeps_the_load_from_load1() -> None:
    """Its counts, 0.76 here, may have met the same part of each item."""
    older = replace(celery()[0], n_active_from_load1=0.6)

    assert usage_of(older, is_load_of_host=True)["load"] == 0.6
