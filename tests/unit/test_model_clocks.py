"""Clocks of a window: where each figure comes from, what is left out, and the scatter of counts."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import accumulate
from math import log
from random import Random
from statistics import fmean, variance

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import WARMING_BLOCK, StudyRecord, WindowRecord
from tuner.core.domain.requests import Requests
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.window import Sample, VoidReason
from tuner.core.model.calibration.calibrate import calibrate_jointly
from tuner.core.model.calibration.clocks import (
    Spare,
    clocks_of,
    clocks_of_counted,
    clocks_of_layouts,
    count_dispersion,
    spare_cores_of,
)
from tuner.core.model.calibration.per_item import PerItem, by_layout, log_throughputs, looks_in_d, per_item
from tuner.core.model.demand import Demands
from tuner.core.windows.launch_sums import tally

from .synthetic_clocks import BOX, GRID, SMALL, study_of

WINDOW = WindowRecord(
    launch_id=7,
    block=2,
    layout=Layout(2, 3),
    box="box",
    index=0,
    attempt=1,
    started_wall_s=1e9,
    length_s=100.0,
    n_done=500,
    n_failed=10,
    load1_mean=3.0,
    load1_max=4.0,
    n_active_mean=2.5,
    service_cpu_s=120.0,
    tuner_cpu_s=0.25,
    backend_cpu_s=2.0,
    foreign_cpu_s=1.0,
    steal_s=0.75,
    pss_bytes=1e8,
    void=(),
    n_active_from_load1=2.75,
    worker_cpu_s=50.0,
    child_cpu_s=70.0,
    run_delay_s=3.0,
    running_s=55.0,
    blocked_s=8.0,
    child_running_s=75.0,
    child_blocked_s=2.0,
    probe_python_cpu_s=0.0,
    probe_child_cpu_s=0.0,
    spawning_s=6.0,
)
OLD = replace(
    WINDOW,
    **dict.fromkeys(
        [
            *("worker_cpu_s", "child_cpu_s", "run_delay_s", "running_s", "blocked_s"),
            *("child_running_s", "child_blocked_s", "spawning_s"),
        ]
    ),
)


def samples(counts: list[int]) -> list[Sample]:
    """One a second."""
    totals = accumulate(counts, initial=1000)
    return [Sample(50.0 + second, total, 0, 1.0, 1.0, 1.0, 1) for second, total in enumerate(totals)]


def finished(cv: float, mean_s: float, n_seconds: int, seed: int) -> list[int]:
    """Items finished in each second by one that takes gamma times of this mean and scatter, one by one."""
    random, counts = Random(seed), [0] * n_seconds
    at_s = -100 * mean_s
    while at_s < n_seconds:
        if at_s >= 0:
            counts[int(at_s)] += 1
        at_s += random.gammavariate(1 / cv**2, mean_s * cv**2)
    return counts


def test_the_kernels_clocks_go_first() -> None:
    clocks = clocks_of(WINDOW)

    assert clocks.source == "kernel"
    assert (clocks.worker_cpu_s, clocks.child_cpu_s, clocks.run_delay_s) == (50.0, 70.0, 3.0)
    assert (clocks.blocked_s, clocks.child_blocked_s, clocks.running_s) == (8.0, 2.0, 55.0)
    assert clocks.spawning_s == 6.0
    assert (clocks.layout, clocks.launch_id, clocks.block) == (Layout(2, 3), 7, 2)
    assert clocks.throughput_per_s == 5.0


def test_whatever_neither_the_service_nor_its_backends_use_of_the_cores_is_others() -> None:
    assert clocks_of(WINDOW).foreign_cores == pytest.approx((0.25 + 1.0 + 0.75) / 100)
    assert clocks_of(WINDOW).backend_cpu_s == 2.0
    assert clocks_of(replace(WINDOW, foreign_cpu_s=-9.0)).foreign_cores == 0.0


def test_interrupts_use_cores_but_are_no_other_processes() -> None:
    clocks = clocks_of(replace(WINDOW, interrupt_s=4.0))

    assert clocks.foreign_cores == pytest.approx((0.25 + 1.0 + 0.75 + 4.0) / 100)
    assert (clocks.interrupt_cores, clocks.tuner_cores) == pytest.approx((0.04, 0.0025))
    assert clocks.strangers_cores == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("spare", "foreign_cores", "interrupt_cores"),
    [
        (Spare(by_cores=0.04), 0.03, 0.02),  # 0.08 cores in all, of which half fit there
        (Spare(by_quota=0.03), 0.01 + 0.02, 0.02),  # 0.01 of other processes and 0.02 of these fit there
        (Spare(by_quota=62.0), 0.01, 0.0),
    ],
)
def test_of_spare_cores_interrupts_use_those_that_tuner_uses_and_those_beyond_a_quota(
    spare: Spare, foreign_cores: float, interrupt_cores: float
) -> None:
    """In 100 s: backends 2 s, strangers 1 s, tuner and the hypervisor 1 s, interrupts 4 s."""
    clocks = clocks_of(replace(WINDOW, interrupt_s=4.0), spare=spare)

    assert clocks.foreign_cores == pytest.approx(foreign_cores)
    assert clocks.interrupt_cores == pytest.approx(interrupt_cores)


def test_of_what_the_service_s_cores_are_charged_with_the_others_of_the_box_hold_as_much_as_they_can() -> (
    None
):
    """Strangers and backends, 2 s each in 100 s: 0.03 cores more hold three quarters of both."""
    some, all_of_it = (clocks_of(WINDOW, spare=Spare(cores)) for cores in (0.03, 2.0))
    idle = replace(WINDOW, tuner_cpu_s=0.0, backend_cpu_s=0.0, foreign_cpu_s=0.0, steal_s=0.0)
    (counted,) = clocks_of_counted([WINDOW], spare=Spare(0.03))

    assert (some.foreign_cores, some.backend_cpu_s) == pytest.approx((0.005, 0.5))
    assert (all_of_it.foreign_cores, all_of_it.backend_cpu_s) == (0.0, 0.0)
    assert clocks_of(idle, spare=Spare(0.03)).foreign_cores == 0.0
    assert counted == some


def test_under_a_quota_only_strangers_can_use_the_other_cores() -> None:
    """Strangers use 1 s in 100 s, tuner 0.25 s; a quota leaves 0.005 cores, or 62, to strangers alone."""
    some, all_of_it = (clocks_of(WINDOW, spare=Spare(by_quota=cores)) for cores in (0.005, 62.0))

    assert some.foreign_cores == pytest.approx((0.5 + 0.25 + 0.75) / 100)
    assert all_of_it.foreign_cores == pytest.approx((0.25 + 0.75) / 100)
    assert (some.backend_cpu_s, all_of_it.backend_cpu_s) == (2.0, 2.0)


def test_what_was_used_outside_the_affinity_is_not_charged_to_the_service_s_cores() -> None:
    """Strangers use 1 s in 100 s, backends 2 s, tuner 0.25 s and the hypervisor 0.75 s."""
    some, all_of_it = (clocks_of(replace(WINDOW, elsewhere_cpu_s=used_s)) for used_s in (1.5, 4.0))
    negative = clocks_of(replace(WINDOW, foreign_cpu_s=-0.5, elsewhere_cpu_s=1.0))

    assert (some.foreign_cores, some.backend_cpu_s) == pytest.approx((0.015, 1.0))
    assert (all_of_it.foreign_cores, all_of_it.backend_cpu_s) == pytest.approx((0.01, 0.0))
    assert all_of_it.strangers_cores == pytest.approx(0.01)  # its tasks are in the host's load average
    assert (negative.foreign_cores, negative.backend_cpu_s) == pytest.approx((0.005, 1.0))


@pytest.mark.parametrize(
    ("cores", "box_cores", "host", "spare"),
    [
        (2, 8.0, {}, Spare(6.0)),
        (8, 8.0, {}, Spare()),
        (24, 2.0, {}, Spare()),
        (4, 4.0, {"cpus": "64"}, Spare()),  # a quota on the host itself
        (4, 4.0, {"cpus": "64", "load_of": "tasks"}, Spare(0.0, 60.0)),  # a quota in a container
        (2, 4.0, {"cpus": "64", "threads_per_core": "2", "load_of": "tasks"}, Spare(2.0, 28.0)),
        (1, 1.5, {"cpus": "64", "load_of": "tasks"}, Spare(0.0, 62.5)),  # 1.5 cores, and not held to one CPU
        (8, 8.0, {"cpus": "8", "threads_per_core": "2", "load_of": "tasks"}, Spare()),  # no quota
        (4, 4.0, {"cpus": "?", "load_of": "tasks"}, Spare()),
        (6, 6.0, {"cpus": "6", "host_cpus": "8"}, Spare()),
        (4, 6.0, {"cpus": "6", "host_cpus": "8"}, Spare(2.0)),
        (8, 8.0, {"cpus": "8", "host_cpus": "8"}, Spare()),
        (4, 4.0, {"cpus": "6", "host_cpus": "8", "load_of": "tasks"}, Spare(by_quota=2.0)),
    ],
)
def test_a_study_on_fewer_cores_than_the_box_has_leaves_the_rest_to_others(
    cores: int, box_cores: float, host: dict[str, str], spare: Spare
) -> None:
    study = StudyRecord(
        service="s", strategy="all", layouts=(Layout(1, 1),), cores=cores, box_cores=box_cores,
        window_s=100.0, warmup_s=None, n_blocks=1, windows_per_launch=1, seed=1, budget_s=None,
        created_wall_s=0.0, config=StoredConfig("{}"), provenance=Provenance.from_mapping(host),
    )  # fmt: skip

    assert spare_cores_of(study) == spare


def test_the_cpu_of_backends_is_a_demand_of_the_item_as_that_of_its_children() -> None:
    windows = study_of(Demands(0.02, child_s=0.03, asleep_s=0.05), SMALL)
    with_backend = [
        replace(one, backend_cpu_s=one.child_cpu_s, child_cpu_s=0.0, service_cpu_s=one.worker_cpu_s)
        for one in windows
    ]
    item = per_item(with_backend[:1])
    demands = calibrate_jointly(with_backend, BOX, with_terms=False).profile.demands

    assert (item.child_s, item.backend_s, item.children_s) == pytest.approx((0.0, 0.03, 0.03), rel=1e-3)
    assert demands.child_s == pytest.approx(0.03, rel=0.02)
    assert demands.asleep_s == pytest.approx(0.05, rel=0.02)


def test_of_an_old_file_what_the_items_told_the_probe_is_taken() -> None:
    clocks = clocks_of(replace(OLD, probe_python_cpu_s=40.0, probe_child_cpu_s=65.0))

    assert clocks.source == "probe"
    assert (clocks.worker_cpu_s, clocks.child_cpu_s) == (120.0 - 65.0, 65.0)
    assert (clocks.run_delay_s, clocks.blocked_s) == (None, None)


def test_without_either_only_the_whole_service_is_known() -> None:
    clocks = clocks_of(OLD)

    assert clocks.source == "service"
    assert (clocks.service_cpu_s, clocks.worker_cpu_s, clocks.child_cpu_s) == (120.0, None, None)


def test_workers_that_only_start_those_that_work_are_not_taken_for_them() -> None:
    """Supervisord started a shell: the kernel's clock of it says nothing of the items."""
    clocks = clocks_of(
        replace(WINDOW, worker_cpu_s=0.5, child_cpu_s=119.5, probe_python_cpu_s=48.0, probe_child_cpu_s=70.0)
    )

    assert clocks.source == "probe"
    assert (clocks.worker_cpu_s, clocks.child_cpu_s) == (50.0, 70.0)
    assert (clocks.blocked_s, clocks.spawning_s) == (None, None)


def test_items_that_tell_less_than_the_kernel_sees_do_not_matter() -> None:
    """Fetching, acknowledging and the interpreter itself are not within any item."""
    assert clocks_of(replace(WINDOW, probe_python_cpu_s=45.0, probe_child_cpu_s=70.0)).source == "kernel"


def test_items_that_use_less_cpu_than_a_tick_of_the_kernels_clock_leave_that_clock_in_use() -> None:
    """Items that only sleep: 2 ms in all for the probe, less than a tick of 10 ms for the kernel."""
    asleep = replace(WINDOW, service_cpu_s=0.0, worker_cpu_s=0.0, child_cpu_s=0.0, probe_python_cpu_s=0.002)

    clocks = clocks_of(asleep)

    assert clocks.source == "kernel"
    assert clocks.run_delay_s == WINDOW.run_delay_s


def test_active_tasks_that_were_not_seen_are_taken_from_load1() -> None:
    assert clocks_of(WINDOW).n_active == 2.5
    assert clocks_of(replace(WINDOW, n_active_mean=None)).n_active == 2.75


def test_void_windows_and_those_that_warm_the_cache_are_left_out() -> None:
    void = replace(WINDOW, launch_id=8, void=(VoidReason("disturbed", ""),))
    warming = replace(WINDOW, launch_id=9, block=WARMING_BLOCK)

    assert [one.launch_id for one in clocks_of_counted([warming, WINDOW, void])] == [7]


def test_samples_are_requested_window_by_window() -> None:
    text = clocks_of_counted([WINDOW], lambda window: samples([10, 12] * 30) if window is WINDOW else ())

    assert text[0].count_dispersion is not None
    assert clocks_of(WINDOW).count_dispersion is None


def several(n: int, like: WindowRecord = WINDOW, seed: int = 5) -> list[WindowRecord]:
    """Windows of one launch, each figure of which is up to a tenth off."""
    random = Random(seed)
    figures = {name: value for name, value in vars_of(like).items() if isinstance(value, float)}
    return [
        replace(
            like,
            index=index,
            n_done=random.randint(450, 550),
            **{name: value * random.uniform(0.9, 1.1) for name, value in figures.items()},
        )
        for index in range(n)
    ]


def vars_of(window: WindowRecord) -> dict[str, object]:
    return {one.name: getattr(window, one.name) for one in fields(window)}


def test_launches_together_say_of_their_items_what_their_windows_say() -> None:
    windows = [*several(4), *several(3, replace(WINDOW, launch_id=8), seed=6)]
    void = replace(WINDOW, launch_id=8, index=9, n_done=1, void=(VoidReason("disturbed", ""),))
    warming = replace(WINDOW, launch_id=9, block=WARMING_BLOCK)
    each = clocks_of_counted(windows)
    (together,) = clocks_of_layouts(tally([*windows, void, warming]))

    assert (together.layout, together.n_windows) == (WINDOW.layout, 7)
    assert log_throughputs([together]) == log_throughputs(each)
    whole, added = (figures_of(per_item(clocks)) for clocks in (each, [together]))
    assert added == pytest.approx(whole, rel=1e-12)
    assert together.child_running_s == pytest.approx(sum(one.child_running_s or 0.0 for one in each))
    assert together.pss_bytes == pytest.approx(fmean(one.pss_bytes or 0.0 for one in windows))


def figures_of(item: PerItem) -> dict[str, object]:
    found = {one.name: getattr(item, one.name) for one in fields(item)}
    return {name: value for name, value in found.items() if isinstance(value, int | float)}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"layout": Layout(1, 1)}, id="1x1, which says how windows scatter"),
        pytest.param(dict.fromkeys(("worker_cpu_s", "probe_python_cpu_s")), id="one tells no workers' CPU"),
        pytest.param({"n_active_mean": None}, id="one tells no active tasks"),
        pytest.param({"requests": Requests(rate_per_s=5.0)}, id="one is at a rate"),
    ],
)
def test_launches_whose_windows_do_not_add_up_are_read_window_by_window(change: dict[str, object]) -> None:
    windows = several(3)
    layout = change.get("layout", WINDOW.layout)
    windows = [replace(one, layout=layout) for one in windows[:2]] + [replace(windows[2], **change)]
    others = several(2, replace(WINDOW, launch_id=8))
    found = clocks_of_layouts(tally([*windows, *others]))

    assert [one.n_windows for one in found[:1]] == [2]
    assert found[1:] == clocks_of_counted(windows)
    if layout == WINDOW.layout:
        assert log_throughputs(found).n == 2
        assert log_throughputs(found).mean == pytest.approx(
            log_throughputs(clocks_of_counted([*windows, *others])).mean, rel=1e-12
        )


def test_launches_that_count_active_tasks_are_not_put_together_with_those_that_do_not() -> None:
    """Of these the kernel's load average tells how many were active."""
    other = replace(WINDOW, launch_id=8, n_active_mean=None)
    found = clocks_of_layouts(tally([WINDOW, other]))

    assert [(one.n_active, one.launches is None) for one in found] == [(2.5, False), (2.75, True)]
    assert per_item(found).n_active == pytest.approx(2.625)
    assert log_throughputs(found).n == 2


SHELL = replace(WINDOW, worker_cpu_s=0.5, child_cpu_s=119.5, probe_python_cpu_s=80.0, probe_child_cpu_s=40.0)


@pytest.mark.parametrize(
    ("usual", "change"),
    [
        pytest.param(SHELL, dict.fromkeys(("probe_python_cpu_s", "probe_child_cpu_s")), id="no probe's CPU"),
        pytest.param(SHELL, dict.fromkeys(("worker_cpu_s", "child_cpu_s")), id="no kernel's clocks"),
        pytest.param(WINDOW, {"spawning_s": None}, id="no start of children"),
        pytest.param(WINDOW, {"pss_bytes": None}, id="no memory"),
    ],
)
def test_a_launch_that_tells_less_takes_nothing_from_the_others_of_its_layout(
    usual: WindowRecord, change: dict[str, object]
) -> None:
    windows = [replace(usual, launch_id=launch) for launch in range(9)]
    windows.append(replace(usual, launch_id=9, **change))
    each, found = clocks_of_counted(windows), clocks_of_layouts(tally(windows))

    assert [one.n_windows for one in found] == [9, 1]
    assert found[1] == each[9]
    assert figures_of(per_item(found)) == pytest.approx(figures_of(per_item(each)), rel=1e-12)
    assert looks_in_d(found) == pytest.approx(looks_in_d(each))
    assert found[0].source == each[0].source


def test_where_cores_are_spare_windows_are_read_one_by_one() -> None:
    """They hold what a window's strangers use, up to a limit: what one window leaves over is no other's."""
    windows = [replace(WINDOW, launch_id=n, foreign_cpu_s=800.0 * (n == 0)) for n in range(4)]
    found = clocks_of_layouts(tally(windows), spare=Spare(4.0))

    assert found == clocks_of_counted(windows, spare=Spare(4.0))
    assert per_item(found).foreign_cores == pytest.approx(1.0, rel=0.05)


def test_how_launches_scatter_is_the_same_however_they_are_put_together() -> None:
    windows = [replace(WINDOW, launch_id=n, n_done=400 + 40 * n * n) for n in range(5)]
    each = log_throughputs(clocks_of_counted(windows))
    groups = [*clocks_of_layouts(tally(windows[:2])), *clocks_of_layouts(tally(windows[2:4]))]
    mixed = log_throughputs([*groups, *clocks_of_counted(windows[4:])])

    logs = [log(one.n_done / one.length_s) for one in windows]
    assert (each.n, each.mean, each.squares) == pytest.approx((5, fmean(logs), 4 * variance(logs)))
    assert (mixed.n, mixed.mean, mixed.squares) == pytest.approx((each.n, each.mean, each.squares))


def test_of_1x1_samples_are_requested_and_of_nothing_else() -> None:
    asked = []

    def of(window: WindowRecord) -> list[Sample]:
        asked.append(window)
        return samples([10, 12] * 30)

    alone = replace(WINDOW, launch_id=8, layout=Layout(1, 1))
    found = clocks_of_layouts(tally([WINDOW, alone]), of)

    assert asked == [alone]
    assert [one.count_dispersion is None for one in found] == [True, False]


def test_a_launch_without_an_item_and_one_at_a_rate_say_nothing() -> None:
    idle = replace(WINDOW, launch_id=8, n_done=0)
    at_a_rate = replace(WINDOW, launch_id=9, requests=Requests(rate_per_s=5.0))

    assert [one.n_windows for one in clocks_of_layouts(tally([idle, WINDOW, at_a_rate]))] == [1]


def test_threads_of_a_pool_are_processes() -> None:
    other = replace(WINDOW, launch_id=8, layout=Layout(2, 3, "pool"))
    mixed = [replace(other, launch_id=9, n_active_mean=None), replace(other, launch_id=9)]
    found = clocks_of_layouts(tally([WINDOW, other, *mixed]), pooled={"pool"})

    assert [one.layout for one in found] == [WINDOW.layout, *[other.layout.as_processes] * 3]


@pytest.mark.parametrize("cv", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("mean_s", [0.02, 0.3])
def test_counts_scatter_by_the_square_of_how_the_times_of_items_do(cv: float, mean_s: float) -> None:
    """The variance of an estimate from n bins is about 3/n of its square: neighbours share bins."""
    n_seconds = round(40_000 * mean_s)
    counts = finished(cv, mean_s, n_seconds, seed=3)
    n_bins = n_seconds / max(1, 10 * mean_s)
    dispersion = count_dispersion(samples(counts))

    assert dispersion is not None
    assert dispersion == pytest.approx(cv**2, rel=4 * (3 / n_bins) ** 0.5, abs=0.01)


def test_a_slow_drift_is_no_scatter_of_items() -> None:
    steady = [100 + second // 10 for second in range(600)]  # 100 an s, then 160

    assert count_dispersion(samples(steady)) == 0.0


def test_too_few_counts_tell_nothing() -> None:
    assert count_dispersion([]) is None
    assert count_dispersion(samples([1] * 60)) is None
    assert count_dispersion(samples([0] * 60)) is None
    assert count_dispersion(samples([10] * 5)) is None
    assert count_dispersion(samples([0] * 118 + [109])) is None  # all of them after the last bin of 11 s


def test_clocks_per_item_are_sums_over_sums() -> None:
    """Windows of 500 items and of 1000: the long one weighs twice."""
    long = replace(WINDOW, n_done=1000, length_s=200.0, worker_cpu_s=160.0, child_blocked_s=8.0)
    item = per_item([clocks_of(WINDOW), clocks_of(long)])

    assert item.own_s == pytest.approx(210 / 1500)
    assert (item.child_s, item.backend_s) == pytest.approx((140 / 1500, 4 / 1500))
    assert item.children_s == pytest.approx(144 / 1500)
    assert item.blocked_s == pytest.approx((8 + 2 + 8 + 8) / 1500)
    assert item.residence_s == pytest.approx(6 * 300 / 1500)
    assert item.n_active == pytest.approx(2.5)


def test_a_clock_that_one_window_lacks_is_not_known_of_all() -> None:
    item = per_item([clocks_of(WINDOW), clocks_of(OLD)])

    assert item.source == "service"
    assert (item.worker_s, item.child_s, item.blocked_s) == (None, None, None)
    assert item.own_s == item.service_s == pytest.approx(240 / 1000)


def test_a_launch_with_many_windows_counts_once() -> None:
    one, two = replace(WINDOW, launch_id=1), replace(WINDOW, launch_id=2, n_done=1000)
    windows = [clocks_of(window) for window in (one, one, one, two)]

    assert log_throughputs(windows) == log_throughputs([windows[0], windows[3]])


@settings(max_examples=20)
@given(st.permutations(range(20)))
def test_the_order_of_windows_does_not_matter(order: list[int]) -> None:
    windows = study_of(Demands(0.02, child_s=0.01, asleep_s=0.02), GRID, n_launches=2, n_windows=1)
    data = {layout: per_item(group) for layout, group in by_layout(windows).items()}
    mixed = {layout: per_item(group) for layout, group in by_layout([windows[n] for n in order]).items()}

    assert list(mixed) == list(data)
    assert all(mixed[layout].own_s == pytest.approx(data[layout].own_s) for layout in data)
