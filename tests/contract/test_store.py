"""What every store promises."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tuner.adapters.sqlite.store import SqliteStore
from tuner.adapters.virtual.memory import MemoryStore
from tuner.core.domain.fleet import BoxFacts
from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import BoxRecord, LaunchRecord, StudyRecord
from tuner.core.domain.requests import Latencies, Requests
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.window import Reading, Sample, Usage, VoidReason, Window
from tuner.core.windows.launch_sums import tally
from tuner.ports import Store

from ..raising import raises
from ..wording import wording

pytestmark = pytest.mark.pythons

STUDY = StudyRecord(
    service="crash-processor",
    strategy="all",
    layouts=(Layout(2, 1), Layout(1, 2, "threads"), Layout(3, 1, "prefork", has_threads=False)),
    cores=24,
    box_cores=1.5,
    window_s=600.0,
    warmup_s=None,
    n_blocks=3,
    windows_per_launch=2,
    seed=2**62,
    budget_s=None,
    created_wall_s=1_000_000_000.123456,
    config=StoredConfig('{"ä": 1}'),
    max_attempts=4,
    warmup_cap_s=90.0,
    foreign_limit_cores=0.3,
    memory_pressure_limit_ratio=0.1,
    warms_cache=False,
    provenance=Provenance(host="böx", kernel="6.1"),
    within_ratio=0.05,
    confidence=0.9,
    kind="calibrated",
    min_window_s=30.0,
    objective="throughput-per-cpu",
    limits={"load": 20.0, "memory_bytes": 2.0**33},
)
LAUNCH = LaunchRecord(
    block=1,
    position=2,
    attempt=3,
    layout=Layout(1, 2, "threads"),
    box="box-1",
    started_wall_s=1_000_000_001.5,
    running_after_s=None,
    warmup_s=None,
    settled=None,
    window_s=30.5,
    n_windows=4,
)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore(STUDY)
        return
    with SqliteStore.create(tmp_path / "s.tuner.db", STUDY) as kept:
        yield kept


def usage(at_s: float, **changes: Any) -> Usage:
    usual = Usage(
        at_s=at_s,
        wall_s=1_000_000_000.0 + at_s,
        service_cpu_s_total=2 * at_s,
        tuner_cpu_s_total=0.125 * at_s,
        backend_cpu_s_total=0.25 * at_s,
        box_cpu_s_total=3 * at_s,
        steal_s_total=0.5 * at_s,
        n_context_switches_total=int(100 * at_s),
        pss_bytes=None,
        n_processes=2,
        n_threads=4,
        cpu_pressure_s_total=None,
        memory_pressure_s_total=0.0,
        io_pressure_s_total=None,
    )
    return replace(usual, **changes)


def clocks(at_s: float) -> dict[str, float | None]:
    """Of workers and children, as a kernel without schedstat tells them."""
    return {
        "worker_cpu_s_total": 0.75 * at_s,
        "child_cpu_s_total": 1.25 * at_s,
        "run_delay_s_total": None,
        "running_s_total": 0.5 * at_s,
        "blocked_s_total": 0.375 * at_s,
        "child_running_s_total": 1.5 * at_s,
        "child_blocked_s_total": 0.125 * at_s,
        "spawning_s_total": 0.25 * at_s,
        "gil_waiting_s_total": 2.5 * at_s,
        "gil_waking_s_total": 0.5 * at_s,
        "interrupt_s_total": 0.0625 * at_s,
    }


def window(index: int = 0, attempt: int = 1, void: tuple[VoidReason, ...] = ()) -> Window:
    samples = tuple(
        Sample(
            at_s=50.000001 + 1.000137 * second,
            n_done_total=100 + 7 * second,
            n_failed_total=second,
            load1=0.29 + second,
            load5=0.57,
            load15=1.15,
            n_active=None if second == 1 else second,
        )
        for second in range(5)
    )
    return Window(
        layout=LAUNCH.layout,
        index=index,
        attempt=attempt,
        started_wall_s=1_000_000_050.25,
        length_s=4.0,
        n_done=28,
        n_failed=4,
        samples=samples,
        usage=(usage(50.0, **clocks(50.0)), usage(54.0, pss_bytes=2**40, **clocks(54.0))),
        readings=(Reading(50.0, 100, 0, None, 10**9), Reading(54.0, 128, 4, 2**60, 3 * 10**9, 5, 4)),
        void=void,
        requests=Requests(
            Latencies({0: 3, 15_000: 20, 33_420: 1}), 4, 7.5, 10.0, Latencies({7: 2}), Latencies({9: 1})
        ),
    )


def test_the_study_comes_back_as_it_was_requested(store: Store) -> None:
    assert store.study() == STUDY


def test_a_new_study_has_nothing_in_it(store: Store) -> None:
    assert list(store.launches()) == []
    assert list(store.windows()) == []


def test_a_launch_comes_back_unfinished_then_as_it_ended(store: Store) -> None:
    launch_id = store.add_launch(LAUNCH)
    started = list(store.launches())
    ended = replace(
        LAUNCH,
        running_after_s=0.7,
        warmup_s=20.0,
        settled=False,
        unsettled="trend: -3 % an hour",
        steady_from_s=7.25,
        trend_ratio_per_h=-0.03,
        trend_se_ratio_per_h=0.004,
        error="it died",
        ended_wall_s=1_000_000_099.0,
    )
    store.finish_launch(launch_id, ended)

    assert started == [(launch_id, LAUNCH)]
    assert list(store.launches()) == [(launch_id, ended)]


def test_a_launch_of_a_layout_without_threads_comes_back_as_one(store: Store) -> None:
    alone = Layout(4, 1, has_threads=False)
    launch_id = store.add_launch(replace(LAUNCH, layout=alone))
    store.add_window(launch_id, replace(window(), layout=alone))

    assert [launch.layout for _, launch in store.launches()] == [alone]
    assert [window.layout for window in store.windows()] == [alone]
    assert store.window(launch_id, 0, 1).layout == alone


def test_boxes_come_back_as_they_joined_with_why_they_left(store: Store) -> None:
    none = list(store.boxes())
    facts = BoxFacts("böx-1", 1.5, Provenance(host="böx", kernel="6.1"), ahead_s=-0.25)
    store.add_box(facts, 1_000_000_000.5)
    store.add_box(BoxFacts("box-2", 8.0, Provenance()), 1_000_000_001.0)
    store.end_box("böx-1", 1_000_000_060.0, "it was not heard of for 20 s")
    store.add_box(facts, 1_000_000_090.0)

    assert none == []
    assert list(store.boxes()) == [
        BoxRecord(
            "böx-1",
            1.5,
            1_000_000_000.5,
            -0.25,
            Provenance(host="böx", kernel="6.1"),
            1_000_000_060.0,
            "it was " + wording("fleet.heard-no-more"),
        ),
        BoxRecord("box-2", 8.0, 1_000_000_001.0),
        BoxRecord("böx-1", 1.5, 1_000_000_090.0, -0.25, Provenance(host="böx", kernel="6.1")),
    ]


def test_a_box_leaves_once_for_the_first_reason(store: Store) -> None:
    store.add_box(BoxFacts("box-1", 2.0, Provenance()), 1_000_000_000.0)
    store.end_box("box-1", 1_000_000_060.0, "it was stopped")
    store.end_box("box-1", 1_000_000_070.0, "the study ended")
    store.end_box("nobody", 1_000_000_070.0, "never there")

    assert [(box.left_wall_s, box.why) for box in store.boxes()] == [(1_000_000_060.0, "it was stopped")]


def test_launches_come_in_the_order_they_were_started(store: Store) -> None:
    ids = [store.add_launch(replace(LAUNCH, position=position)) for position in (2, 0, 1)]

    assert [launch_id for launch_id, _ in store.launches()] == ids
    assert [launch.position for _, launch in store.launches()] == [2, 0, 1]


def test_a_window_comes_back_with_all_that_was_seen(store: Store) -> None:
    launch_id = store.add_launch(LAUNCH)
    kept = window(index=1, attempt=2, void=(VoidReason("disturbed", "a"), VoidReason("source-dry", "b")))
    store.add_window(launch_id, kept)
    back = store.window(launch_id, 1, 2)

    assert [s.at_s for s in back.samples] == pytest.approx([s.at_s for s in kept.samples], abs=1e-6)
    assert replace(back, samples=()) == replace(kept, samples=())
    assert [replace(s, at_s=0.0) for s in back.samples] == [replace(s, at_s=0.0) for s in kept.samples]
    assert tuple(store.samples(launch_id, 1, 2)) == back.samples


def test_the_samples_of_a_warm_up_come_back_and_those_of_a_second_one_after_them(store: Store) -> None:
    launch_id, other = store.add_launch(LAUNCH), store.add_launch(LAUNCH)
    first, again = window().samples, tuple(replace(s, at_s=s.at_s + 700.0) for s in window().samples[:2])
    store.add_warmup(launch_id, first)
    store.add_warmup(launch_id, again)
    back = store.warmup_samples(launch_id)

    assert [s.at_s for s in back] == pytest.approx([s.at_s for s in first + again], abs=1e-6)
    assert [replace(s, at_s=0.0) for s in back] == [replace(s, at_s=0.0) for s in first + again]
    assert list(store.warmup_samples(other)) == []


def test_windows_are_listed_with_their_launch_and_their_sums(store: Store) -> None:
    launch_id = store.add_launch(LAUNCH)
    store.add_window(launch_id, window())

    (record,) = store.windows()
    assert (record.launch_id, record.block, record.layout, record.box) == (
        launch_id,
        1,
        LAUNCH.layout,
        "box-1",
    )
    assert (record.index, record.attempt, record.void) == (0, 1, ())
    assert (record.n_done, record.n_failed, record.length_s) == (28, 4, 4.0)
    assert (record.load1_mean, record.load1_max) == pytest.approx((2.29, 4.29))
    assert record.n_active_mean == pytest.approx((0 + 2 + 3 + 4) / 4)
    assert record.pss_bytes == 2**40
    assert (record.service_cpu_s, record.tuner_cpu_s, record.backend_cpu_s) == pytest.approx((8.0, 0.5, 1.0))
    assert (record.foreign_cpu_s, record.steal_s) == pytest.approx((2.5, 2.0))
    assert (record.worker_cpu_s, record.child_cpu_s, record.run_delay_s) == (3.0, 5.0, None)
    assert (record.running_s, record.blocked_s) == (2.0, 1.5)
    assert (record.child_running_s, record.child_blocked_s) == (6.0, 0.5)
    assert (record.spawning_s, record.gil_waiting_s, record.gil_waking_s) == (1.0, 10.0, 2.0)
    assert (record.probe_python_cpu_s, record.probe_child_cpu_s) == (None, 2.0)
    assert record.interrupt_s == 0.25
    assert record.requests == window().requests


def test_a_window_of_a_feeder_that_sends_no_requests_has_none_and_one_without_an_answer_has_none_to_time(
    store: Store,
) -> None:
    launch_id = store.add_launch(LAUNCH)
    store.add_window(launch_id, replace(window(0), requests=None))
    store.add_window(launch_id, replace(window(1), requests=Requests(n_failed=3)))

    assert [record.requests for record in store.windows()] == [None, Requests(n_failed=3)]
    assert store.window(launch_id, 0, 1).requests is None
    assert store.window(launch_id, 1, 1).requests == Requests(n_failed=3)


def test_clocks_taken_a_moment_before_and_after_a_window_are_scaled_to_it(store: Store) -> None:
    """Twice as long as the 4 s of the window: half of each."""
    launch_id = store.add_launch(LAUNCH)
    around = (usage(48.0, **clocks(48.0)), usage(56.0, **clocks(56.0)))
    store.add_window(launch_id, replace(window(), usage=around))

    (record,) = store.windows()
    assert (record.worker_cpu_s, record.child_cpu_s) == (3.0, 5.0)
    assert (record.running_s, record.blocked_s) == (2.0, 1.5)
    assert (record.child_running_s, record.child_blocked_s, record.spawning_s) == (6.0, 0.5, 1.0)


def test_a_window_whose_kernel_tells_no_clocks_has_none(store: Store) -> None:
    launch_id = store.add_launch(LAUNCH)
    store.add_window(launch_id, replace(window(), usage=(usage(50.0), usage(54.0))))

    (record,) = store.windows()
    assert (record.worker_cpu_s, record.child_cpu_s) == (None, None)
    assert (record.blocked_s, record.spawning_s, record.gil_waiting_s) == (None, None, None)


def test_void_windows_are_listed_among_the_others_in_the_order_taken(store: Store) -> None:
    launch_id = store.add_launch(LAUNCH)
    why = (VoidReason("disturbed", "others used 1.2 core"), VoidReason("stolen", "..."))
    store.add_window(launch_id, window(0, 1, why))
    store.add_window(launch_id, window(0, 2))
    store.add_window(launch_id, window(1, 1))

    assert [(w.index, w.attempt, w.void) for w in store.windows()] == [(0, 1, why), (0, 2, ()), (1, 1, ())]


WHY = (VoidReason("disturbed", "others used 1.2 core"), VoidReason("stolen", "..."))
SHORT = (VoidReason("memory-pressure", "tasks waited"),)
NO_CLOCKS = replace(
    window(1), requests=None, usage=(usage(50.0), usage(54.0)), readings=(Reading(50, 1, 0),) * 2
)
LONG = tuple(Sample(50.0 + n, 7 * n, 0, 0.29, 1.0, 1.0, None) for n in range(200))
#: what a launch's windows may be, one of each kind; and whether a file keeps what they add up to
LAUNCHED = {
    "at a rate": ([window(0), window(1)], True),
    "in a closed loop": (
        [replace(window(n), requests=Requests(Latencies({5 + n: 9}), 1)) for n in range(2)],
        True,
    ),
    "without requests": ([replace(window(n), requests=None, n_done=28 + n) for n in range(3)], True),
    "without clocks": ([NO_CLOCKS], True),
    "void, then not": ([window(0, 1, WHY), window(0, 2, SHORT), replace(window(0, 3), requests=None)], True),
    "void alone": ([window(0, 1, SHORT), replace(window(0, 2, SHORT), requests=None)], True),
    "long": ([replace(window(0), requests=None, samples=LONG, length_s=199.0)], True),
    "none": ([], True),
    "some with clocks": ([replace(window(0), requests=None), NO_CLOCKS], False),
    "some at a rate": ([window(0), replace(window(1), requests=None)], False),
    "beyond what a file takes": ([replace(window(0), requests=None, n_done=10**9, length_s=1.0)], False),
}


def test_sums_are_what_the_windows_of_launches_add_up_to_whatever_they_are(store: Store) -> None:
    for number, (windows, _) in enumerate(LAUNCHED.values()):
        launch = replace(LAUNCH, block=number, layout=Layout(1 + number % 2, 1), box=f"box-{number % 3}")
        launch_id = store.add_launch(launch)
        for one in windows:
            store.add_window(launch_id, one)
        store.finish_launch(launch_id, replace(launch, ended_wall_s=1_000_000_100.0))
    runs = store.add_launch(replace(LAUNCH, block=99))
    store.add_window(runs, window(0))
    warms = store.add_launch(replace(LAUNCH, block=-1))
    store.add_window(warms, window(0))
    store.finish_launch(warms, replace(LAUNCH, block=-1, ended_wall_s=1_000_000_200.0))

    sums, expected = store.sums(), tally(store.windows())
    assert (sums.launches, sums.void) == (expected.launches, expected.void)
    assert [one.n_windows for one in sums.launches] == [2, 2, 3, 1, 1, 1, 2, 2, 1, 1]
    assert [one.from_load1_s for one in sums.launches] == [0, 0, 0, 0, 0, 199.0, 0, 0, 0, 0]
    assert sums.launches[0].interrupt_s == 0.5
    assert [one.n_windows for one in sums.void] == [2, 2]
    for ids in ([1], [2, 3, 5], [runs], [launch_id for launch_id, _ in store.launches()], [], [1000]):
        assert list(sums.windows_of(ids)) == [one for one in store.windows() if one.launch_id in ids]
    if isinstance(store, SqliteStore):
        with contextlib.closing(sqlite3.connect(store.path)) as connection:
            kept = [id for (id,) in connection.execute("SELECT launch_id FROM launch_sum ORDER BY launch_id")]
        assert kept == [*(n for n, (_, is_kept) in enumerate(LAUNCHED.values(), 1) if is_kept), warms]
        with SqliteStore.open(store.path, read_only=True) as reader:
            again = reader.sums()
        assert (again.launches, again.void) == (expected.launches, expected.void)


def test_a_window_that_comes_after_its_launch_ended_is_in_its_sum(store: Store) -> None:
    launch_id = store.add_launch(LAUNCH)
    store.add_window(launch_id, window(0))
    store.finish_launch(launch_id, replace(LAUNCH, ended_wall_s=1_000_000_100.0))
    store.add_window(launch_id, window(1))

    assert [one.n_windows for one in store.sums().launches] == [2]
    store.finish_launch(launch_id, replace(LAUNCH, ended_wall_s=1_000_000_200.0))
    assert [one.n_windows for one in store.sums().launches] == [2]


def test_a_window_that_was_never_taken_is_a_callers_mistake(store: Store) -> None:
    launch_id = store.add_launch(LAUNCH)

    with raises(ValueError, wording("study-file.no-window-0-attempt-1")):
        store.window(launch_id, 0, 1)
    with raises(ValueError, wording("study-file.no-window-0-attempt-1")):
        store.samples(launch_id, 0, 1)


def test_a_window_is_kept_once(store: Store) -> None:
    launch_id = store.add_launch(LAUNCH)
    store.add_window(launch_id, window())

    with pytest.raises(Exception, match=r"kept already|UNIQUE"):
        store.add_window(launch_id, window())
    assert len(store.windows()) == 1


def test_layouts_by_which_a_grid_grows_stand_behind_those_requested(store: Store) -> None:
    more = (Layout(4, 8), Layout(16, 1, has_threads=False))

    store.add_to_study(more, Provenance(grid_grew="{}"))
    store.add_to_study((), Provenance(others={"other": "1"}))

    grown = replace(
        STUDY,
        layouts=(*STUDY.layouts, *more),
        provenance=replace(STUDY.provenance, grid_grew="{}", others={"other": "1"}),
    )
    assert replace(store.study(), schema_version=STUDY.schema_version) == grown
    if isinstance(store, SqliteStore):
        store.close()
        with SqliteStore.open(store.path, read_only=True) as again:
            assert replace(again.study(), schema_version=STUDY.schema_version) == grown
