from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest

from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.domain.limits import Limit, LimitVerdict, Verdict
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import WARMING_BLOCK, StudyRecord, WindowRecord
from tuner.core.domain.requests import Requests
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.window import VoidReason
from tuner.core.model.calibration.clocks import clocks_of_counted
from tuner.core.model.demand import Demands
from tuner.core.model.diagnosis.evidence import (
    AT_A_RATE,
    NO_CLOCKS,
    NO_WINDOWS,
    Evidence,
    evidence_of,
    why_unknown,
)
from tuner.core.model.diagnosis.explanation import GIL_ASSUMED, explain, gils_of, machine_of
from tuner.core.model.diagnosis.sizing import ENOUGH, MOST, resize, sizing_rules
from tuner.core.model.diagnosis.text import sentence
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict
from tuner.core.model.prediction.extrapolation import CalibratedRange
from tuner.core.ranking.ranking import rank
from tuner.reports.model.explain import explanation_table, render_explanation_json

from ..wording import start_of, wording

L1X1, L1X2, L2X2 = Layout(1, 1), Layout(1, 2), Layout(2, 2)
PRESSED = (VoidReason("memory-pressure", "tasks waited for memory in 20 % of the window"),)
DISTURBED = (VoidReason("disturbed", "foreign CPU"),)


def study_of(*layouts: Layout, cores: int = 2, box_cores: float = 2.0, **provenance: str) -> StudyRecord:
    return StudyRecord(
        service="s", strategy="all", layouts=layouts, cores=cores, box_cores=box_cores, window_s=100.0,
        warmup_s=None, n_blocks=1, windows_per_launch=1, seed=1, budget_s=None, created_wall_s=0.0,
        config=StoredConfig("{}"), provenance=Provenance.from_mapping(provenance),
    )  # fmt: skip


def window(
    layout: Layout, *, void: tuple[VoidReason, ...] = (), block: int = 0, **seen: float | None
) -> WindowRecord:
    usual: dict[str, float | None] = {
        "length_s": 100.0, "n_done": 90, "n_failed": 10, "service_cpu_s": 90.0, "tuner_cpu_s": 1.0,
        "backend_cpu_s": 2.0, "foreign_cpu_s": 3.0, "steal_s": 4.0, "worker_cpu_s": 50.0, "child_cpu_s": 40.0,
        "run_delay_s": 5.0, "blocked_s": 6.0,
    }  # fmt: skip
    return WindowRecord(
        launch_id=zlib.crc32(str(layout).encode()), block=block, layout=layout, box="b", index=0, attempt=1,
        started_wall_s=0.0, load1_mean=1.0, load1_max=1.0, n_active_mean=None, pss_bytes=None, void=void,
        **{**usual, **seen},  # type: ignore[arg-type]
    )  # fmt: skip


def test_windows_that_count_are_added_up_and_others_left_out() -> None:
    windows = [
        window(L1X1), window(L1X1, worker_cpu_s=70.0), window(L1X1, void=DISTURBED),
        window(L1X1, block=WARMING_BLOCK), window(L2X2, void=DISTURBED),
    ]  # fmt: skip

    (one,) = evidence_of(study_of(L1X1, L2X2), windows, {})

    assert (one.layout, one.length_s, one.n_done, one.n_items) == (L1X1, 200.0, 180, 200)
    assert (one.own_cpu_s, one.child_cpu_s, one.others_cpu_s, one.backend_cpu_s) == (120.0, 80.0, 16.0, 4.0)
    assert (one.tuner_cpu_s, one.run_delay_s, one.blocked_s, one.memory) == (2.0, 10.0, 12.0, None)
    assert (one.done_per_s, one.others_cores, one.items_cpu_s) == (0.9, 0.08, 204.0)


def test_threads_that_are_processes_of_a_pool_have_a_gil_each() -> None:
    """50 s of CPU in 100 s: of 8 GILs each is busy for a 16th of the time, of 2 for a quarter."""
    config = '{"service": {"workers": null, "variants": {"nodes": {"workers": "pools"}, "threads": {}}}}'
    layouts = [parse_layout(f"2x4@{name}") for name in ("nodes", "threads")]
    study = replace(study_of(*layouts, cores=8, box_cores=8.0), config=StoredConfig(config))
    windows = [window(layout, child_cpu_s=0.0) for layout in layouts]

    found = explain(evidence_of(study, windows, {}), machine_of(study))
    gils = {one.layout: one.utilization["gil"].value for one in found.diagnoses}

    assert gils == pytest.approx({layouts[0]: 50 / 800, layouts[1]: 50 / 200})
    assert "twice the processes" in sentence(found.diagnoses[0])
    assert found.known_of("nodes").layouts == (parse_layout("8x-@nodes"),)


def test_the_layouts_threads_of_an_event_loop_run_no_python_and_take_no_share() -> None:
    """granian's 2x4: two loops that compute for 25 s each in 100 s, whatever its four threads in Rust do."""
    layout = parse_layout("2x4")
    config = '{"service": {"event_loop": true, "feeder": {"kind": "http"}}}'
    study = replace(study_of(layout, cores=8, box_cores=8.0), config=StoredConfig(config))

    (found,) = explain(evidence_of(study, [window(layout, child_cpu_s=0.0)], {}), machine_of(study)).diagnoses

    assert found.shares["python"].value == pytest.approx(50 / 200)
    assert found.utilization["gil"].value == pytest.approx(50 / 200)


def test_a_clock_that_one_window_lacks_is_not_known() -> None:
    (one,) = evidence_of(study_of(L1X1), [window(L1X1), window(L1X1, run_delay_s=None)], {})

    assert (one.run_delay_s, one.blocked_s) == (None, 12.0)


def test_what_items_counted_themselves_stands_in_for_clocks_of_the_kernel() -> None:
    windows = [
        window(L1X1, worker_cpu_s=None, child_cpu_s=None, probe_python_cpu_s=50.0, probe_child_cpu_s=40.0)
    ]

    (one,) = evidence_of(study_of(L1X1), windows, {})

    assert (one.own_cpu_s, one.child_cpu_s, one.run_delay_s) == (50.0, 40.0, None)


def test_the_start_of_children_stands_apart_in_what_an_item_asks_for() -> None:
    """90 items; 6 s of state D, 4 of them while a child started."""
    untold, result = (
        explain(evidence_of(study_of(L1X1), [window(L1X1, spawning_s=spawning_s)], {}), Machine(2))
        for spawning_s in (None, 4.0)
    )

    whole, parts = untold.references[""].demands, result.references[""].demands
    assert whole.spawn_s == 0.0
    assert parts.spawn_s == pytest.approx(whole.blocked_s * 2 / 3)
    assert parts.blocked_s == pytest.approx(whole.blocked_s / 3)
    assert result.diagnoses == untold.diagnoses


def test_a_file_without_clocks_shows_nothing_and_says_why_and_so_does_one_without_windows() -> None:
    old = [window(L1X1, worker_cpu_s=None, child_cpu_s=None)]

    assert evidence_of(study_of(L1X1), old, {}) == []
    assert why_unknown(old) == NO_CLOCKS
    assert why_unknown([window(L1X1, void=DISTURBED)]) == NO_WINDOWS
    assert why_unknown([]) == NO_WINDOWS


def test_windows_at_a_rate_show_nothing_as_threads_waited_for_requests_too() -> None:
    at_a_rate = [replace(window(L1X1), requests=Requests(rate_per_s=5.0))]
    closed = [replace(window(L1X1), requests=Requests())]

    assert evidence_of(study_of(L1X1), at_a_rate, {}) == []
    assert why_unknown(at_a_rate) == AT_A_RATE
    assert len(evidence_of(study_of(L1X1), at_a_rate + closed, {})) == 1
    assert clocks_of_counted(at_a_rate) == ()
    assert len(clocks_of_counted(closed)) == 1


def test_a_layout_that_finished_nothing_is_left_out() -> None:
    idle = window(L1X1)
    idle.n_done = idle.n_failed = 0

    assert evidence_of(study_of(L1X1), [idle], {}) == []


def test_windows_void_for_memory_pressure_alone_tell_what_binds_a_layout() -> None:
    windows = [window(L1X1), window(L1X1, void=PRESSED), window(L2X2, void=PRESSED)]

    first, second = evidence_of(study_of(L1X1, L2X2), windows, {})

    assert first.memory == wording("model.tasks-waited-for-memory", windows="2 windows")
    assert second.memory == wording("model.tasks-waited-for-memory", windows="1 window")
    assert {one.what for one in explain([first, second], Machine(2)).diagnoses} == {("memory",)}


@pytest.mark.parametrize(("state", "name", "binds"), [
    ("beyond", "memory_bytes", True), ("open", "memory_bytes", False), ("beyond", "load", False),
])  # fmt: skip
def test_memory_binds_where_its_limit_is_shown_to_be_passed(state: str, name: str, binds: bool) -> None:
    finding = LimitVerdict(Limit(name, 8 * 2**30), state, 3, 9 * 2**30)  # type: ignore[arg-type]

    (one,) = evidence_of(study_of(L1X1), [window(L1X1)], {L1X1: Verdict(state, (finding,))})  # type: ignore[arg-type]

    assert one.memory == (wording("model.memory-over-limit") if binds else None)


def test_cores_that_interrupts_fill_are_the_bottleneck() -> None:
    """Of 2 cores, the service uses 1.5 and interrupts 0.4, for example for its connections."""
    layout = parse_layout("4x1")
    windows = [
        window(layout, worker_cpu_s=150.0, child_cpu_s=0.0, foreign_cpu_s=0.0, tuner_cpu_s=0.0, steal_s=0.0,
               backend_cpu_s=0.0, interrupt_s=interrupt_s, run_delay_s=None, block=block)
        for block, interrupt_s in enumerate((30.0, 50.0))
    ]  # fmt: skip

    (found,) = explain(evidence_of(study_of(layout), windows, {}), Machine(2)).diagnoses
    old = [replace(one, interrupt_s=None) for one in windows]
    (unknown,) = explain(evidence_of(study_of(layout), old, {}), Machine(2)).diagnoses

    assert found.utilization["cores"].value == pytest.approx(0.95)
    assert (found.others_cores, found.interrupt_cores) == pytest.approx((0.4, 0.4))
    assert "cores" in found.what
    assert "cores" not in unknown.what


def test_on_fewer_cores_than_the_box_has_others_are_charged_with_what_the_rest_cannot_hold() -> None:
    study = study_of(L1X1, cores=2, box_cores=4.0)

    (few,) = evidence_of(study, [window(L1X1, foreign_cpu_s=150.0)], {})
    (many,) = evidence_of(study, [window(L1X1, foreign_cpu_s=295.0, backend_cpu_s=100.0)], {})

    assert (few.others_cpu_s, few.backend_cpu_s, few.backend_elsewhere_s) == (0.0, 0.0, 2.0)
    assert (many.others_cpu_s, many.backend_cpu_s) == pytest.approx((150.0, 50.0))  # 400 s in all, 200 fit
    assert many.backend_elsewhere_s == pytest.approx(50.0)


def test_what_spare_cores_hold_does_not_stand_in_the_way_of_the_items_either() -> None:
    """An item of 0.5 s of CPU and as much sleep; strangers use 1.5 of the 2 cores that others have alone."""
    windows = [
        window(L1X1, n_done=100, n_failed=0, worker_cpu_s=50.0, child_cpu_s=0.0, foreign_cpu_s=150.0,
               backend_cpu_s=0.0, blocked_s=0.0, run_delay_s=None)
    ]  # fmt: skip
    study = study_of(L1X1, cores=1, box_cores=3.0)

    found = explain(evidence_of(study, windows, {}), machine_of(study))

    assert found.references[""].demands.asleep_s == pytest.approx(0.5)


def test_backends_on_cpus_outside_the_affinity_use_none_of_the_service_s_cores() -> None:
    """The service uses 4 of its 6 cores; a database uses 1.5 of the other 2 CPUs of the host."""
    layout = parse_layout("8x1")
    windows = [
        window(layout, n_done=100, n_failed=0, worker_cpu_s=400.0, child_cpu_s=0.0, foreign_cpu_s=0.0,
               tuner_cpu_s=0.0, steal_s=0.0, backend_cpu_s=150.0, blocked_s=0.0, run_delay_s=None,
               elsewhere_cpu_s=150.0)
    ]  # fmt: skip
    study = study_of(layout, cores=6, box_cores=6.0, cpus="6", host_cpus="8")

    (found,) = explain(evidence_of(study, windows, {}), machine_of(study)).diagnoses

    assert found.utilization["cores"].value == pytest.approx(4 / 6)
    assert "cores" not in found.what


def test_the_box_is_what_the_study_ran_on() -> None:
    assert machine_of(study_of(L1X1, cores=24, box_cores=2.0)) == Machine(2.0)
    assert machine_of(study_of(L1X1, cores=4, box_cores=8.0, threads_per_core="2")).physical_cores == 2.0
    assert machine_of(study_of(L1X1, cores=1, box_cores=8.0, threads_per_core="2")).own_cores == 1.0
    assert not machine_of(study_of(L1X1, worker_gil="off")).has_gil


@pytest.mark.parametrize(
    ("cores", "box_cores", "cpus", "of_cpus", "of_workers", "physical"),
    [
        (8, 16.0, "16", "8", "8", None),  # held to CPUs 0-7; CPU i shares its core with CPU i + 8
        (8, 16.0, "16", "8", "4", 4.0),  # CPU 2i shares its core with CPU 2i + 1
        (8, 16.0, "16", "8", "", 4.0),  # not reported: as in older files
        (8, 16.0, "16", "8", "?", 4.0),
        (16, 16.0, "16", "8", "", 8.0),
        (8, 8.0, "8", "8", "", None),  # a cpuset of eight full cores
        (8, 8.0, "8", "5", "", 5.0),
        (6, 6.0, "16", "8", "", None),  # a quota
    ],
)
def test_the_physical_cores_of_the_service_are_those_of_its_cpus(
    cores: int, box_cores: float, cpus: str, of_cpus: str, of_workers: str, physical: float | None
) -> None:
    facts = {
        "cpus": cpus, "threads_per_core": "2", "physical_cores_of_cpus": of_cpus,
        "physical_cores_of_workers": of_workers,
    }  # fmt: skip

    machine = machine_of(study_of(L1X1, cores=cores, box_cores=box_cores, **facts))

    assert (machine.cores, machine.physical_cores) == (min(cores, box_cores), physical)


@pytest.mark.parametrize(("facts", "known"), [
    ({"worker_gil": "on"}, True), ({"worker_gil": "off"}, True), ({"worker_python": "?"}, False),
])  # fmt: skip
def test_a_gil_is_known_or_assumed_and_that_is_said_once(facts: dict[str, str], known: bool) -> None:
    study = study_of(L1X1, **facts)
    machine = machine_of(study)
    seen = [seen_of(text, Demands(gil_s=0.02, asleep_s=0.1), machine) for text in ("1x1", "1x1@eager")]

    assert machine.has_gil == (facts.get("worker_gil") != "off")
    assert (study.provenance.workers.has_gil("eager") is not None) == known
    found = explain(seen, machine, gils=dict.fromkeys(("", "eager"), study.provenance.workers.has_gil("")))
    notes = [note for reference in found.references.values() for note in reference.notes]
    assert notes.count(GIL_ASSUMED) == (not known)


def test_variants_without_a_gil_are_reported_beside_those_with_one() -> None:
    layouts = [parse_layout(text) for text in ("1x1@3.13", "1x4@3.13", "1x1@3.13t", "1x4@3.13t")]
    study = study_of(*layouts, cores=4, box_cores=4.0, **{"worker_gil@3.13": "on", "worker_gil@3.13t": "off"})
    demands, machine = Demands(gil_s=0.02, asleep_s=0.02), Machine(4)
    seen = [
        seen_of(str(one), demands, machine if one.variant == "3.13" else replace(machine, has_gil=False))
        for one in layouts
    ]

    found = explain(seen, machine_of(study), gils=gils_of(study))

    assert machine_of(study, "3.13").has_gil
    assert not machine_of(study, "3.13t").has_gil
    assert found.gils == {True, False}
    assert found.references["3.13"].machine.has_gil
    assert not found.known_of("3.13t").machine.has_gil
    by_layout = {str(one.layout): one for one in found.diagnoses}
    assert {name for name, one in by_layout.items() if "gil" in one.utilization} == {"1x1@3.13", "1x4@3.13"}
    assert by_layout["1x4@3.13"].what == ("gil",)
    assert "-" in {row[3] for row in explanation_table(found).rows}
    facts = json.loads(render_explanation_json(study, found, ()))
    assert (facts["has_gil"], facts["cores"]) == (None, 4)


def seen_of(text: str, demands: Demands, machine: Machine) -> Evidence:
    """What windows show of a layout that does as the model says, CPU as the kernel counts it."""
    layout, length_s = parse_layout(text), 6000.0
    given = predict(demands, machine, [layout])
    n = round(float(given.throughput_per_s[0]) * length_s)
    counted = n * float(given.busy_cores[0] / (given.throughput_per_s[0] * demands.cpu_s))
    own_s, child_s = counted * (demands.gil_s + demands.python_s), counted * demands.child_s
    one = window(
        layout, length_s=length_s, n_done=n, n_failed=0, service_cpu_s=own_s + child_s, worker_cpu_s=own_s,
        child_cpu_s=child_s, run_delay_s=None, blocked_s=None, foreign_cpu_s=0.0, tuner_cpu_s=0.0,
        backend_cpu_s=0.0, steal_s=0.0,
    )  # fmt: skip
    return Evidence(
        layout, length_s, n, n, own_s, child_s, read_windows=lambda: (one,), read_launches=lambda: (one,)
    )


@pytest.mark.parametrize("layouts", [("1x1", "1x8"), ("2x1", "1x8"), ("1x2", "2x4")])
def test_waits_are_found_from_the_layout_with_the_fewest_threads(layouts: tuple[str, ...]) -> None:
    demands, machine = Demands(gil_s=0.02, child_s=0.05, asleep_s=0.08), Machine(4)

    found = explain([seen_of(text, demands, machine) for text in layouts], machine)

    reference = found.references[""]
    assert reference.layouts == (parse_layout(layouts[0]),)
    assert reference.demands.asleep_s == pytest.approx(0.08, rel=0.01)


def test_a_layout_whose_items_all_failed_is_no_reference_and_others_are() -> None:
    demands, machine = Demands(gil_s=0.02, child_s=0.05, asleep_s=0.08), Machine(4)
    failed = replace(seen_of("1x1", demands, machine), n_done=0)

    found = explain([failed, seen_of("2x1", demands, machine)], machine)

    assert found.references[""].layouts == (Layout(2, 1),)


def test_without_1x1_too_what_counts_are_items_that_were_done() -> None:
    demands, machine = Demands(gil_s=0.02, child_s=0.05, asleep_s=0.08), Machine(4)
    seen = seen_of("2x1", demands, machine)

    found = explain([replace(seen, n_items=2 * seen.n_done)], machine).references[""].demands

    assert (found.gil_s, found.child_s, found.asleep_s) == pytest.approx((0.02, 0.05, 0.08), rel=0.01)


def test_without_1x1_an_item_waits_while_its_backend_computes() -> None:
    demands, machine = Demands(gil_s=0.02, child_s=0.05, asleep_s=0.08), Machine(4)
    seen = seen_of("2x1", demands, machine)
    with_backend = replace(seen, child_cpu_s=0.0, backend_cpu_s=seen.child_cpu_s)

    assert explain([with_backend], machine).references == explain([seen], machine).references


@pytest.mark.parametrize("text", ["6x1", "3x2"])
def test_what_second_threads_of_cores_slow_down_is_no_demand(text: str) -> None:
    """Of 8 threads of 4 cores 5 and more are busy: the kernel counts more CPU than the items ask for."""
    demands, machine = Demands(gil_s=0.01, child_s=0.09, asleep_s=0.02), Machine(8, 4, smt_gain_ratio=0.3)
    seen = seen_of(text, demands, machine)

    found = explain([seen], machine).references[""].demands

    assert seen.child_cpu_s / seen.n_done > 1.15 * 0.09
    assert found.child_s == pytest.approx(0.09, rel=0.06)
    assert found.asleep_s == pytest.approx(0.02, rel=0.06)


def test_a_lone_layout_that_is_full_cannot_tell_how_items_wait() -> None:
    demands, machine = Demands(gil_s=0.02, asleep_s=0.08), Machine(4)

    found = explain([seen_of("1x24", demands, machine)], machine)

    assert found.references == {}
    assert found.bound_by == {Layout(1, 24): ("gil",)}
    assert "elsewhere" in found.diagnoses[0].shares


@pytest.mark.parametrize(
    "seen", [{"worker_cpu_s": 0.0, "child_cpu_s": 0.0, "service_cpu_s": 0.0}, {"n_done": 0}]
)
def test_items_without_cpu_or_that_all_fail_tell_nothing_of_how_items_wait(seen: dict[str, float]) -> None:
    evidence = evidence_of(study_of(L1X1), [window(L1X1, **seen)], {})

    found = explain(evidence, Machine(2))

    assert found.references == {}
    assert found.bound_by == {L1X1: ("waiting",)}


def test_each_variant_has_demands_of_its_own_and_the_fastest_layout_comes_first() -> None:
    machine = Machine(4)
    slow, fast = Demands(gil_s=0.02, asleep_s=0.3), Demands(gil_s=0.02, asleep_s=0.1)

    found = explain([seen_of("1x1", slow, machine), seen_of("1x1@eager", fast, machine)], machine)

    assert [str(one.layout) for one in found.diagnoses] == ["1x1@eager", "1x1"]
    assert found.references[""].demands.asleep_s == pytest.approx(0.3, rel=1e-3)
    assert found.references["eager"].demands.asleep_s == pytest.approx(0.1, rel=1e-3)


def test_a_process_that_uses_more_than_a_core_shows_that_its_cpu_does_not_all_need_the_gil() -> None:
    demands, machine = Demands(gil_s=0.002, python_s=0.018, asleep_s=0.01), Machine(8)
    layouts = ("1x1", "1x4", "1x12")

    found = explain([seen_of(text, demands, machine) for text in layouts], machine)

    assert found.references[""].demands.gil_s == pytest.approx(0.002, rel=0.1)
    assert found.bound_by[Layout(1, 12)] == ("cores",)  # all own CPU with the GIL would be 8 cores of one


def test_where_all_layouts_are_fitted_together_the_gain_of_second_threads_is_theirs() -> None:
    demands, machine = Demands(gil_s=0.002, python_s=0.018, asleep_s=0.01), Machine(8, 4, smt_gain_ratio=0.7)
    layouts = ("1x1", "1x4", "1x12", "2x8", "8x1")
    seen = [seen_of(text, demands, machine) for text in layouts]

    found = explain(seen, replace(machine, smt_gain_ratio=0.3))

    assert found.references[""].machine.smt_gain_ratio == pytest.approx(0.7, abs=0.05)
    assert found.references[""].machine.cores == 8
    assert found.known_of("").machine == found.references[""].machine


def test_what_lies_beyond_the_measured_starts_where_the_busiest_layout_of_the_variant_ends() -> None:
    machine, backend_s = Machine(8), 6000.0
    items = Demands(gil_s=0.02, child_s=0.05, asleep_s=0.08)
    seen = [seen_of(text, items, machine) for text in ("1x1", "6x1", "8x1@eager")]
    seen[1] = replace(seen[1], backend_cpu_s=backend_s)

    known = explain(seen, machine).known_of("")

    assert known.layouts == (Layout(1, 1), Layout(6, 1))
    assert known.busy_cores == pytest.approx((seen[1].child_cpu_s + seen[1].own_cpu_s) / 6000 + 1)


def test_threads_that_fill_a_process_are_the_fewest_that_give_95_percent_of_its_most() -> None:
    demands, machine = Demands(gil_s=0.586, child_s=3.3, asleep_s=0.54), Machine(24)

    rules = {
        rule.kind: rule for rule in sizing_rules(demands, machine, CalibratedRange(Machine(2), (L1X1, L2X2)))
    }

    assert rules.keys() == {"threads", "processes", "single-threads", "utilization"}
    threads = rules["threads"].count
    assert threads is not None
    gives = predict(demands, machine, [Layout(1, threads - 1), Layout(1, threads)]).throughput_per_s
    assert gives[0] < ENOUGH / 0.586 <= gives[1]
    assert wording("model.threads-would-keep-busy") in rules["threads"].reason
    assert rules["threads"].extrapolated == (
        wording("model.more-threads", n=2),
        wording("model.more-cores-busy"),
    )
    assert rules["utilization"].count == 28  # 24 / (3.886 / 4.426) = 27.3
    assert rules["utilization"].extrapolated == (wording("model.more-cores-busy"),)


def test_processes_that_fill_the_box_are_the_fewest_that_give_95_percent_of_its_most() -> None:
    demands, machine = Demands(gil_s=0.1, child_s=0.3, asleep_s=0.2), Machine(8)

    rules = {
        rule.kind: rule
        for rule in sizing_rules(demands, machine, CalibratedRange(machine, (L1X1, Layout(8, 8))))
    }

    count = rules["single-threads"].count
    assert count is not None
    gives = predict(demands, machine, [Layout(count - 1, 1), Layout(count, 1)]).throughput_per_s
    assert gives[0] < ENOUGH * 20 <= gives[1]
    assert rules["utilization"].count == 12  # 8 / (0.4 / 0.6)


def test_pure_python_needs_one_thread_a_process_and_what_was_measured_is_no_extrapolation() -> None:
    rules = sizing_rules(Demands(gil_s=0.02), Machine(2), CalibratedRange(Machine(2), (L1X1, Layout(2, 1))))

    assert [(rule.kind, rule.count) for rule in rules] == [
        ("threads", 1), ("single-threads", 2), ("utilization", 2),
    ]  # fmt: skip
    assert all(rule.extrapolated == () for rule in rules)


def test_more_threads_than_anybody_looks_for_are_reported_as_such() -> None:
    rules = sizing_rules(
        Demands(gil_s=0.001, asleep_s=10.0), Machine(2), CalibratedRange(Machine(2), (L1X1,))
    )

    assert rules[0].count is None
    assert wording("model.more-than-one-thread") in start_of(rules[0].extrapolated[0])
    assert MOST == 1024


def test_items_that_ask_for_no_cpu_have_no_rules() -> None:
    """Clocks that are read a moment apart: of a service that nearly sleeps the workers' may stand still."""
    seen = [window(L1X1, service_cpu_s=0.003, worker_cpu_s=0.0, child_cpu_s=0.0, backend_cpu_s=0.0)]
    found = explain(evidence_of(study_of(L1X1), seen, {}), Machine(2))
    reference = found.references[""]

    assert found.diagnoses[0].what == ("waiting",)
    assert sizing_rules(reference.demands, reference.machine, found.known_of("")) == []


def test_a_larger_box_of_the_same_kind_keeps_its_threads_per_core() -> None:
    assert resize(Machine(4, 2), 24) == Machine(24, 12)
    assert resize(Machine(1, 0.5), 24) == Machine(24, 12)
    assert resize(Machine(4), 24) == Machine(24)


def test_a_box_that_takes_many_processes_of_many_threads_has_their_number() -> None:
    """An item waits 600 of 611 ms: some 56 threads fill a process, and as many processes as cores the box."""
    machine = Machine(24)
    rules = sizing_rules(Demands(gil_s=0.011, asleep_s=0.6), machine, CalibratedRange(machine, (L1X1,)))
    processes = next(rule for rule in rules if rule.kind == "processes")

    assert processes.count is not None
    assert 23 <= processes.count <= 26
    assert processes.cores == 24


def test_the_number_of_processes_that_was_tried_is_reported() -> None:
    machine = Machine(512)
    rules = sizing_rules(Demands(gil_s=0.001, asleep_s=5.0), machine, CalibratedRange(machine, (L1X1,)))
    single = next(rule for rule in rules if rule.kind == "single-threads")

    assert (single.count, single.most) == (None, 1024)


def test_the_layout_that_missed_the_slower_block_is_explained_with_the_corrected_throughput() -> None:
    """1x2 has a window in the faster block only: its own mean of 200 items would put it before 2x1."""
    layouts = (L1X1, L1X2, Layout(2, 1))
    study = replace(study_of(*layouts), n_blocks=2)
    alone = window(L1X1, n_done=100, worker_cpu_s=30.0, child_cpu_s=0.0, service_cpu_s=30.0, blocked_s=0.0)
    cells = [(L1X1, 0, 100), (L1X1, 1, 50), (L1X2, 0, 200), (Layout(2, 1), 0, 220), (Layout(2, 1), 1, 110)]
    windows = [
        replace(alone, launch_id=n, layout=layout, block=block, n_done=n_done)
        for n, (layout, block, n_done) in enumerate(cells, start=1)
    ]
    found = explain(evidence_of(study, windows, {}), Machine(24))

    ranked = rank(study, windows).throughput_per_s
    corrected = found.with_throughput(ranked)

    assert [one.layout for one in found.diagnoses] == [L1X2, Layout(2, 1), L1X1]
    assert [one.layout for one in corrected.diagnoses] == [Layout(2, 1), L1X2, L1X1]
    assert corrected.throughput_per_s == ranked
    assert ranked[L1X2] == pytest.approx(2 * ranked[L1X1])  # as in the block that both were in
    (of_one,) = (one for one in corrected.diagnoses if one.layout == L1X1)
    assert of_one.doubled == (L1X2, pytest.approx(ranked[L1X2] / ranked[L1X1]))
    (of_raw,) = (one for one in found.diagnoses if one.layout == L1X1)
    assert of_raw.doubled == (L1X2, pytest.approx(200 / 75))


@pytest.mark.parametrize(
    ("doubled", "n_done", "text"),
    [
        (Layout(1, 2), 171, wording("model.twice-the-threads-gave-more")),
        (Layout(1, 2), 81, wording("model.twice-the-threads-gave-less")),
        (Layout(1, 2), 90, wording("model.twice-the-threads-gave-no-more")),
        (Layout(1, 3), 171, wording("model.twice-the-threads-would-give")),
    ],
    ids=str,
)
def test_the_gain_of_twice_the_threads_is_the_measured_one_if_it_was_measured(
    doubled: Layout, n_done: int, text: str
) -> None:
    alone = window(L1X1, n_done=90, worker_cpu_s=30.0, child_cpu_s=0.0, service_cpu_s=30.0, blocked_s=0.0)
    other = replace(alone, launch_id=2, layout=doubled, n_done=n_done)
    found = explain(evidence_of(study_of(L1X1, doubled), [alone, other], {}), Machine(24))

    (of_one,) = (one for one in found.diagnoses if one.layout == L1X1)

    assert text in sentence(of_one)
