"""What makes a window void, with the figures in the text, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.window import Reading, Sample, Usage, VoidReason
from tuner.core.windows.summary import items_per_s, record_of, window_from
from tuner.core.windows.validity import (
    foreign_limit_cores,
    foreign_limit_of,
    free_cores,
    missing_threads,
    most_foreign_cores,
    room_in,
    void_reasons,
)

from ..raising import raises
from ..wording import wording
from .test_ranking_limits import study

DIED = VoidReason("worker-died", "process 2 of 4 (pid 77) ended: exit status 3")
CORES = 2.0


def samples(seconds: int = 10) -> list[Sample]:
    return [Sample(100.0 + s, 20 * s, s // 5, 2.0 + s / 10, 1.0, 0.5, 3 + s % 2) for s in range(seconds + 1)]


def usage(at_s: float = 100.0, **changes: float | None) -> Usage:
    moment = Usage(
        at_s=at_s,
        wall_s=1_700_000_000.0 + at_s,
        service_cpu_s_total=10.0,
        tuner_cpu_s_total=1.0,
        backend_cpu_s_total=2.0,
        box_cpu_s_total=50.0,
        steal_s_total=4.0,
        n_context_switches_total=1000,
        pss_bytes=None,
        n_processes=2,
        n_threads=4,
        cpu_pressure_s_total=9.0,
        memory_pressure_s_total=0.5,
        io_pressure_s_total=None,
    )
    return replace(moment, **changes)  # type: ignore[arg-type]


def window_of(**end: float | None) -> list[Usage]:
    """Ten seconds in which the service used 15 s of CPU and nobody else any, but for what *end* says."""
    defaults = {"service_cpu_s_total": 25.0, "box_cpu_s_total": 65.0}
    return [usage(), usage(110.0, **{**defaults, **end})]


def slugs(reasons: tuple[VoidReason, ...]) -> list[str]:
    return [reason.slug for reason in reasons]


def test_a_quiet_window_counts() -> None:
    assert void_reasons(samples(), window_of(), cores=CORES) == ()


def test_what_the_launch_saw_is_passed_on_once() -> None:
    assert void_reasons(samples(), window_of(), [DIED, DIED], cores=CORES) == (DIED,)


def test_a_dry_source_voids() -> None:
    assert slugs(void_reasons(samples(), window_of(), cores=CORES, source_dry=True)) == ["source-dry"]


@pytest.mark.parametrize(
    ("physical_cores", "cores", "room"), [(None, 4, 0), (4, 4, 0), (64, 4, 53.6), (8, 7.5, 0)]
)
def test_under_a_quota_the_rest_of_the_host_has_room_for_others(
    physical_cores: float | None, cores: float, room: float
) -> None:
    assert free_cores(physical_cores, cores) == pytest.approx(room)


def test_there_is_room_only_in_a_container_whose_workers_are_not_held_to_some_cpus() -> None:
    host = {"cpus": "64", "threads_per_core": "2", "load_of": "the service's tasks"}
    inside = study(cores=4, box_cores=4.0, provenance=Provenance.from_mapping(host))
    outside = replace(inside, provenance=replace(inside.provenance, load_of=None))

    assert room_in(inside) == pytest.approx(0.9 * 32 - 4)
    assert room_in(replace(inside, box_cores=4.5)) == pytest.approx(0.9 * 32 - 4.5)
    assert room_in(outside) == room_in(replace(inside, cores=2)) == 0.0


def test_others_void_a_window_beyond_the_room_that_tuner_and_backends_leave() -> None:
    """They use 5 cores; tuner and a backend use 0.5 core of the room."""
    window = window_of(box_cpu_s_total=65.0 + 50.0 + 5.0, tuner_cpu_s_total=3.0, backend_cpu_s_total=5.0)

    assert void_reasons(samples(), window, cores=CORES, room_cores=5.4) == ()
    (reason,) = void_reasons(samples(), window, cores=CORES, room_cores=5.3)
    assert reason.slug == "disturbed"
    assert "5.00 cores" in reason.detail


@pytest.mark.parametrize(
    ("foreign_cores", "elsewhere_cores", "backend_cores", "is_disturbed"),
    [
        (1.5, 1.5, 0.0, False),  # all of it on CPUs on which the service may not run
        (1.5, None, 0.0, True),
        (1.5, 0.0, 0.0, True),  # another study, on the CPUs of this one
        (1.5, 1.3, 0.0, True),  # 0.2 core on the CPUs of the service
        (0.5, 1.5, 1.0, False),  # with a backend of the service
        (0.5, 1.0, 1.0, True),  # the backend alone may have used these CPUs
        (0.1, 0.0, 1.0, False),
    ],
)
def test_others_may_use_the_cpus_on_which_the_service_may_not_run(
    foreign_cores: float, elsewhere_cores: float | None, backend_cores: float, is_disturbed: bool
) -> None:
    window = window_of(
        box_cpu_s_total=65.0 + 10 * (foreign_cores + backend_cores),
        backend_cpu_s_total=2.0 + 10 * backend_cores,
        elsewhere_cpu_s_total=None if elsewhere_cores is None else 3.0 + 10 * elsewhere_cores,
    )
    window[0] = replace(window[0], elsewhere_cpu_s_total=None if elsewhere_cores is None else 3.0)

    found = slugs(void_reasons(samples(), window, cores=6.0))

    assert found == (["disturbed"] if is_disturbed else [])


@pytest.mark.parametrize(
    ("host", "most_cores"),
    [
        ({"cpus": "6", "host_cpus": "8", "cpus_elsewhere": "2"}, 2.15),
        ({"cpus": "6", "host_cpus": "8"}, 0.15),  # second threads of the service's cores
        ({"cpus": "6"}, 0.15),
    ],
)
def test_the_most_that_others_may_use_has_the_cpus_on_which_the_service_may_not_run(
    host: dict[str, str], most_cores: float
) -> None:
    record = study(cores=6, box_cores=6.0, provenance=Provenance.from_mapping(host))

    assert most_foreign_cores(record) == pytest.approx(most_cores)
    assert most_foreign_cores(replace(record, cores=4)) == pytest.approx(most_cores)


def test_strangers_void_a_window_beyond_the_limit_and_the_text_has_the_figures() -> None:
    (reason,) = void_reasons(samples(), window_of(box_cpu_s_total=67.0), cores=CORES)

    assert reason.slug == "disturbed"
    assert "0.20 core" in reason.detail
    assert "0.15" in reason.detail


def test_strangers_below_the_limit_do_not() -> None:
    assert void_reasons(samples(), window_of(box_cpu_s_total=66.4), cores=CORES) == ()


def test_what_tuner_and_the_backends_use_is_not_foreign() -> None:
    used = window_of(box_cpu_s_total=73.0, tuner_cpu_s_total=3.0, backend_cpu_s_total=8.0)

    assert void_reasons(samples(), used, cores=CORES) == ()


@pytest.mark.parametrize(("cores", "limit"), [(1, 0.15), (2, 0.15), (15, 0.15), (24, 0.24), (64, 0.64)])
def test_the_limit_is_a_share_of_large_boxes(cores: float, limit: float) -> None:
    assert foreign_limit_cores(cores) == pytest.approx(limit)


def test_the_limit_can_be_set() -> None:
    disturbed = window_of(box_cpu_s_total=67.0)

    assert foreign_limit_cores(64, 0.0) == 0.0
    assert void_reasons(samples(), disturbed, cores=CORES, foreign_limit=0.25) == ()
    assert slugs(void_reasons(samples(), disturbed, cores=CORES, foreign_limit=0.1)) == ["disturbed"]


def test_time_the_hypervisor_took_has_its_own_reason() -> None:
    (reason,) = void_reasons(samples(), window_of(steal_s_total=7.0), cores=CORES)

    assert reason.slug == "stolen"
    assert "0.30 core" in reason.detail


def test_a_short_burst_of_strangers_is_averaged_over_the_window() -> None:
    burst = [usage(), usage(101.0, box_cpu_s_total=51.0), usage(110.0, box_cpu_s_total=51.0)]

    assert void_reasons(samples(), burst, cores=CORES) == ()


def test_waiting_for_memory_voids_beyond_a_share() -> None:
    (reason,) = void_reasons(samples(), window_of(memory_pressure_s_total=1.1), cores=CORES)

    assert reason.slug == "memory-pressure"
    assert "6 %" in reason.detail
    assert void_reasons(samples(), window_of(memory_pressure_s_total=0.9), cores=CORES) == ()


def test_memory_pressure_that_cannot_be_seen_does_not_void() -> None:
    unseen = [replace(moment, memory_pressure_s_total=None) for moment in window_of()]

    assert void_reasons(samples(), unseen, cores=CORES) == ()


@pytest.mark.parametrize("step_s", [2.0, -3600.0])
def test_a_wall_clock_that_is_set_voids(step_s: float) -> None:
    first, last = window_of()
    (reason,) = void_reasons(samples(), [first, replace(last, wall_s=last.wall_s + step_s)], cores=CORES)

    assert reason.slug == "clock-jumped"
    assert f"{step_s:+.1f} s" in reason.detail


def test_a_jump_there_and_back_is_seen_between_the_edges() -> None:
    first, last = window_of()
    middle = usage(105.0, wall_s=1_700_000_105.0 + 30)

    assert slugs(void_reasons(samples(), [first, middle, last], cores=CORES)) == ["clock-jumped"]


def test_the_milliseconds_between_reading_two_clocks_are_no_jump() -> None:
    first, last = window_of()

    assert void_reasons(samples(), [first, replace(last, wall_s=last.wall_s + 0.1)], cores=CORES) == ()


def test_a_monotonic_clock_that_goes_back_voids() -> None:
    moments = samples()
    moments[5] = replace(moments[5], at_s=103.5)

    assert "clock-jumped" in slugs(void_reasons(moments, window_of(), cores=CORES))


def test_seconds_in_which_nobody_looked_void() -> None:
    (reason,) = void_reasons(samples()[:4] + samples()[7:], window_of(), cores=CORES)

    assert reason.slug == "stalled"
    assert "4.0 s" in reason.detail


def test_one_late_sample_does_not() -> None:
    moments = samples()

    assert void_reasons(moments[:4] + moments[5:], window_of(), cores=CORES) == ()


def test_a_longer_interval_allows_longer_gaps() -> None:
    assert void_reasons(samples()[::5], window_of(), cores=CORES, interval_s=5.0) == ()


@pytest.mark.parametrize(("field", "name"), [("n_done_total", "finished"), ("n_failed_total", "failed")])
def test_counts_that_fall_void_with_both_figures(field: str, name: str) -> None:
    moments = samples()
    moments[7] = replace(moments[7], **{field: 0})  # type: ignore[arg-type]
    (reason,) = void_reasons(moments, window_of(), cores=CORES)

    assert reason.slug == "counts-fell"
    assert f"count of {name} items fell from {getattr(moments[6], field)} to 0" in reason.detail


def test_every_reason_is_reported() -> None:
    end = {"box_cpu_s_total": 69.0, "steal_s_total": 9.0, "memory_pressure_s_total": 5.0}
    found = void_reasons(samples()[::5], window_of(**end), [DIED], cores=CORES, source_dry=True)

    assert slugs(found) == ["worker-died", "source-dry", "disturbed", "stolen", "memory-pressure", "stalled"]


@pytest.mark.parametrize(("n_samples", "n_usages"), [(1, 2), (2, 1), (0, 0)])
def test_a_window_without_two_edges_is_a_mistake(n_samples: int, n_usages: int) -> None:
    with raises(ValueError, wording("rank.two-edges")):
        void_reasons(samples()[:n_samples], window_of()[:n_usages], cores=CORES)


def test_a_window_is_what_lies_between_its_two_readings() -> None:
    window = window_from(
        Layout(4, 6),
        samples(),
        window_of(),
        (Reading(100.0, 5, 1), Reading(109.5, 195, 3)),
        [DIED],
        index=1,
        attempt=2,
    )

    assert (window.n_done, window.n_failed, window.length_s) == (190, 2, 9.5)
    assert window.throughput_per_s == pytest.approx(20)
    assert (window.index, window.attempt, window.void) == (1, 2, (DIED,))
    assert window.started_wall_s == 1_700_000_100.0


def test_counts_that_fell_give_no_negative_items() -> None:
    readings = (Reading(100.0, 50, 3), Reading(110.0, 10, 0))
    window = window_from(Layout(1, 1), samples(), window_of(), readings, index=0, attempt=1)

    assert (window.n_done, window.n_failed) == (0, 0)


def test_a_window_without_length_is_a_mistake() -> None:
    readings = (Reading(100.0, 5, 0), Reading(100.0, 5, 0))
    with raises(ValueError, wording("rank.has-a-length")):
        window_from(Layout(1, 1), samples(), window_of(), readings, index=0, attempt=1)


def test_a_void_window_with_a_single_reading_is_as_long_as_it_was_looked_at() -> None:
    readings = (Reading(100.0, 5, 0), Reading(100.0, 5, 0))
    window = window_from(Layout(1, 1), samples(), window_of(), readings, [DIED], index=0, attempt=1)

    assert (window.n_done, window.length_s) == (0, 10.0)


def test_a_record_has_means_maxima_and_cpu_scaled_to_the_window() -> None:
    """Usage spans 10 s, the readings 9.5."""
    first, last = window_of(tuner_cpu_s_total=1.4, steal_s_total=5.0, pss_bytes=300.0)
    readings = (Reading(100.2, 0, 0), Reading(109.7, 190, 2))
    window = window_from(
        Layout(4, 6), samples(), [replace(first, pss_bytes=100), last], readings, index=0, attempt=1
    )
    record = record_of(window, launch_id=7, block=2, box="staging-1")

    assert (record.launch_id, record.block, record.box) == (7, 2, "staging-1")
    assert record.load1_mean == pytest.approx(2.5)
    assert record.load1_max == pytest.approx(3.0)
    assert record.n_active_mean == pytest.approx((6 * 3 + 5 * 4) / 11)
    assert record.service_cpu_s == pytest.approx(15 * 0.95)
    assert record.tuner_cpu_s == pytest.approx(0.4 * 0.95)
    assert record.foreign_cpu_s == pytest.approx((15 - 15 - 0.4) * 0.95)
    assert record.steal_s == pytest.approx(1 * 0.95)
    assert record.pss_bytes == pytest.approx(200)


def test_interrupts_of_a_window_are_scaled_to_it_and_are_no_other_processes() -> None:
    """Usage spans 10 s, the readings 9.5."""
    first, last = window_of(interrupt_s_total=76.0)
    first = replace(first, interrupt_s_total=70.0)
    readings = (Reading(100.2, 0, 0), Reading(109.7, 190, 2))
    window = window_from(Layout(4, 6), samples(), [first, last], readings, index=0, attempt=1)
    record = record_of(window, launch_id=7, block=2, box="staging-1")

    assert record.interrupt_s == pytest.approx(6 * 0.95)
    assert record.foreign_cpu_s == 0.0
    assert void_reasons(samples(), [first, last], cores=CORES) == ()


def test_the_load_of_a_window_in_slices_is_that_of_the_tasks_counted_in_it() -> None:
    """Load1 of its samples is 99, so an active count computed from load1 would be wrong, too."""
    counted = [replace(one, load1=99.0, n_active=2 if n else 40) for n, one in enumerate(samples(20))]
    readings = (Reading(100.0, 0, 0), Reading(120.0, 200, 2))
    window = window_from(Layout(1, 1), counted, window_of(), readings, index=0, attempt=1, in_slices=True)
    record = record_of(window, launch_id=1, block=0, box="b")

    assert (record.load1_mean, record.load1_max) == (pytest.approx(2.0), pytest.approx(2.0))
    assert record.n_active_from_load1 is None


def test_the_load_of_a_window_in_slices_is_at_least_the_cores_that_it_used() -> None:
    """Counts that always fall into the waits of items: 15 s of CPU in 10 s."""
    counted = [replace(one, n_active=0) for one in samples(20)]
    readings = (Reading(100.0, 0, 0), Reading(110.0, 200, 2))
    window = window_from(Layout(1, 1), counted, window_of(), readings, index=0, attempt=1, in_slices=True)
    record = record_of(window, launch_id=1, block=0, box="b")

    assert (record.load1_mean, record.load1_max) == (pytest.approx(1.5), pytest.approx(1.5))


def test_what_was_never_seen_has_no_mean() -> None:
    blind = [replace(sample, n_active=None) for sample in samples()]
    readings = (Reading(100.0, 0, 0), Reading(110.0, 200, 2))
    record = record_of(
        window_from(Layout(1, 1), blind, window_of(), readings, index=0, attempt=1),
        launch_id=1,
        block=0,
        box="b",
    )

    assert record.n_active_mean is None
    assert record.pss_bytes is None


def test_items_per_second_of_each_second() -> None:
    assert items_per_s(samples(3)) == [20.0, 20.0, 20.0]


@pytest.mark.parametrize(
    ("n_threads", "n_slots", "is_missing"),
    [
        (7, 7, True),
        (2, 1, True),
        (8, 2, False),  # threads that had no item yet, or count through one of them
        (2, 8, False),  # coroutines, or threads of the workers' children
        (2, None, False),  # the probe cannot tell
        (10, 8, False),
    ],
)
def test_threads_are_missing_when_neither_run_nor_count_as_many(
    n_threads: int, n_slots: int | None, is_missing: bool
) -> None:
    reading = Reading(100.0, 1, 0, n_slots=n_slots)

    assert bool(missing_threads(Layout(2, 4), usage(n_threads=n_threads), reading)) == is_missing


def test_a_window_without_any_item_says_why_and_counts_no_failures() -> None:
    idle = [replace(sample, n_done_total=7, n_failed_total=0) for sample in samples()]
    known = {"probe_problem": "the page is empty", "feeder_problem": "nobody answers"}

    (unknown,), (reason,) = (
        void_reasons(idle, window_of(), cores=CORES),
        void_reasons(idle, window_of(), cores=CORES, **known),
    )
    dry, *_ = void_reasons(idle, window_of(), cores=CORES, source_dry=True, **known)

    assert (unknown.slug, unknown.detail) == ("no-items", wording("rank.item-finished-not-one"))
    assert reason.detail == unknown.detail + ": nobody answers; the page is empty"
    assert dry.slug == "source-dry"
    assert dry.detail.endswith(": nobody answers")


def test_a_probe_without_a_fresh_count_says_why_and_once() -> None:
    stale = [
        replace(sample, at_s=samples()[0].at_s, n_done_total=7, n_failed_total=0) for sample in samples()
    ]
    looked_s = [sample.at_s for sample in samples()]

    gap, none = void_reasons(
        stale, window_of(), cores=CORES, looked_s=looked_s, probe_problem="the page is empty"
    )

    assert (gap.slug, none.slug) == ("probe-gap", "no-items")
    assert gap.detail.endswith(": the page is empty")
    assert none.detail == wording("rank.item-finished-not-one")


def test_a_window_in_which_nothing_was_finished_well_voids_and_says_how_many_failed() -> None:
    failing = [replace(sample, n_done_total=7) for sample in samples()]

    assert void_reasons(failing, window_of(), cores=CORES) == (
        VoidReason("no-items", wording("rank.item-finished-well-window")),
    )
    assert slugs(void_reasons(failing, window_of(), [DIED], cores=CORES)) == ["worker-died"]
    assert slugs(void_reasons(failing, window_of(), cores=CORES, source_dry=True)) == ["source-dry"]


def test_counts_a_little_older_than_the_look_at_them_do_no_harm() -> None:
    late = [sample.at_s + 0.9 for sample in samples()]

    assert void_reasons(samples(), window_of(), cores=CORES, looked_s=late) == ()


@pytest.mark.parametrize("at_fault", ["the first", "in between", "the last"])
def test_counts_that_were_not_fresh_for_more_than_two_intervals_void(at_fault: str) -> None:
    seen, looked_s = samples(), [sample.at_s for sample in samples()]
    stale = {"the first": [0], "in between": [4, 5, 6], "the last": [9, 10]}[at_fault]
    for n in stale:
        source = seen[stale[0] - 1] if stale[0] else replace(seen[0], at_s=seen[0].at_s - 2.5)
        at_s = source.at_s - (0.5 if at_fault == "the last" else 0.0)
        seen[n] = replace(seen[n], at_s=at_s, n_done_total=source.n_done_total)
    if at_fault == "the last":
        seen[8] = replace(seen[8], at_s=seen[8].at_s - 0.5)

    (reason,) = void_reasons(seen, window_of(), cores=CORES, looked_s=looked_s)

    assert reason.slug == "probe-gap"
    assert wording("probes.no-fresh-count") in reason.detail


def test_whoever_slept_is_not_said_to_have_a_slow_probe() -> None:
    slept = [sample for n, sample in enumerate(samples()) if n not in (4, 5, 6)]

    assert slugs(void_reasons(slept, window_of(), cores=CORES)) == ["stalled"]


def test_other_processes_may_use_all_cores_while_layouts_take_turns() -> None:
    alone = study(box_cores=8.0)
    in_turns = replace(alone, n_resident=4)
    assert foreign_limit_of(alone) == pytest.approx(foreign_limit_cores(8.0))
    assert foreign_limit_of(in_turns) == 8.0
    assert foreign_limit_of(replace(in_turns, foreign_limit_cores=0.5)) == 0.5
