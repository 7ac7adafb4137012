from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tuner.core.defaults import NO_GAIN_RATIO
from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.model.demand import Demands
from tuner.core.model.diagnosis.diagnose import (
    BUSY,
    NEAR,
    Figure,
    Share,
    Station,
    What,
    diagnose,
    diagnose_one,
    find_bottlenecks,
)
from tuner.core.model.diagnosis.evidence import Evidence
from tuner.core.model.diagnosis.expected import Expected
from tuner.core.model.diagnosis.text import sentence, short
from tuner.core.model.machine import Machine
from tuner.core.model.network import Prediction, predict

from ..raising import raises
from ..wording import end_of, start_of, wording

SOCORRO = Demands(gil_s=0.586, child_s=3.3, asleep_s=0.54)
BOX = Machine(24)


def seen_of(text: str, demands: Demands, machine: Machine, length_s: float = 60_000.0) -> Evidence:
    """What windows would show of a layout that does as the model says, CPU as the kernel counts it."""
    layout = parse_layout(text)
    given = predict(demands, machine, [layout])
    n_items = round(float(given.throughput_per_s[0]) * length_s)
    counted = float(given.busy_cores[0] / (given.throughput_per_s[0] * demands.cpu_s))
    return Evidence(
        layout=layout,
        length_s=length_s,
        n_done=n_items,
        n_items=n_items,
        own_cpu_s=n_items * counted * (demands.gil_s + demands.python_s),
        child_cpu_s=n_items * counted * demands.child_s,
    )


def own_cpu(text: str, cores: float, *, length_s: float = 100.0, **more: float) -> Evidence:
    """A layout whose workers use so many cores and start no children."""
    return Evidence(parse_layout(text), length_s, 1000, 1000, cores * length_s, 0.0, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gil", "cores", "what"),
    [
        (0.97, 0.50, ("gil",)),
        (0.10, 0.99, ("cores",)),
        (BUSY, 0.10, ("gil",)),
        (BUSY - 1e-9, 0.10, ("waiting",)),
        (0.10, BUSY, ("cores",)),
        (0.10, BUSY - 1e-9, ("waiting",)),
        (1.00, NEAR, ("gil", "cores")),
        (1.00, NEAR - 1e-9, ("gil",)),
        (NEAR, 1.00, ("cores", "gil")),
        (
            BUSY,
            BUSY * NEAR,
            ("gil", "cores"),
        ),  # the second is below the threshold, and a near tie all the same
    ],
)
def test_the_station_with_the_highest_utilization_binds_once_it_is_busy_and_a_near_tie_names_both(
    gil: float, cores: float, what: tuple[What, ...]
) -> None:
    assert find_bottlenecks({"gil": gil, "cores": cores}, {"asleep": 1.0}, gain_ratio=1.5) == what


@pytest.mark.parametrize(
    ("gain", "what"),
    [(NO_GAIN_RATIO, ("waiting",)), (NO_GAIN_RATIO - 1e-9, ("cores",)), (None, ("waiting",))],
)
def test_where_twice_the_threads_bring_nothing_it_is_not_waiting_that_binds(
    gain: float | None, what: tuple[What, ...]
) -> None:
    assert find_bottlenecks({"gil": 0.1, "cores": 0.7}, {"asleep": 1.0}, gain_ratio=gain) == what


@pytest.mark.parametrize(
    ("shares", "what"),
    [
        ({"asleep": 0.6, "blocked": 0.4}, ("waiting",)),
        ({"asleep": 0.4, "blocked": 0.6}, ("backend",)),
        ({"asleep": 0.4, "blocked": 0.3, "contended": 0.3}, ("backend",)),
        ({"asleep": 0.5, "contended": 0.5}, ("waiting", "backend")),
        ({"asleep": 0.49, "contended": 0.51}, ("backend", "waiting")),
        ({"asleep": 0.48, "contended": 0.52}, ("backend",)),
        ({"python": 0.2, "child": 0.4, "blocked": 0.4}, ("waiting",)),  # most of the time they compute
        ({"gil_line": 0.3, "core_line": 0.25, "blocked": 0.45}, ("waiting",)),
        ({"elsewhere": 0.9, "python": 0.1}, ("waiting",)),
    ],
)
def test_a_backend_binds_where_threads_spend_more_on_it_than_on_anything_else(
    shares: dict[Share, float], what: tuple[What, ...]
) -> None:
    assert find_bottlenecks({"gil": 0.2, "cores": 0.2}, shares) == what


def test_short_of_memory_goes_before_all() -> None:
    assert find_bottlenecks({"cores": 1.0}, {}, short_of_memory=True) == ("memory",)


def test_the_published_service_is_bound_by_the_gil_in_one_process_and_by_the_cores_in_many() -> None:
    seen = [seen_of(text, SOCORRO, BOX) for text in ("1x1", "1x24", "24x1", "8x6")]

    found = {str(one.layout): one for one in diagnose(seen, BOX, SOCORRO)}

    assert {text: one.what for text, one in found.items()} == {
        "1x1": ("waiting",), "1x24": ("gil",), "24x1": ("cores",), "8x6": ("cores",),
    }  # fmt: skip
    assert sentence(found["1x24"]) == wording(
        "model.gil-is-busy-and-threads-wait", layout="1x24", busy=100, waiting="~16", threads=24
    )
    assert wording("model.all-cores-busy") in start_of(sentence(found["8x6"]))


def test_by_hand_one_process_of_four_threads() -> None:
    """400 thread-seconds: 90 computing, 20 waiting for a core, 10 blocked; the model halves the other 280."""
    seen = own_cpu("1x4", 0.9, run_delay_s=20.0, blocked_s=10.0)
    expected = Expected(n_core_waiting=9.0, n_gil_waiting=1.4, n_asleep=1.4, n_blocked=9.0, gain_ratio=1.0)

    found = diagnose_one(seen, Machine(2), expected)

    assert found.utilization == {"cores": Figure(0.45, "measured"), "gil": Figure(0.9, "measured")}
    assert {name: (round(one.value, 12), one.source) for name, one in found.shares.items()} == {
        "python": (0.225, "measured"),
        "child": (0.0, "measured"),
        "core_line": (0.05, "measured"),
        "blocked": (0.025, "measured"),
        "asleep": (0.35, "modelled"),
        "gil_line": (0.35, "modelled"),
    }
    assert sentence(found) == wording(
        "model.gil-is-busy-and-threads-wait", layout="1x4", busy=90, waiting="~1.4", threads=4
    )


def test_who_waits_for_the_gil_is_measured_where_somebody_looked() -> None:
    """The same, with 120 thread-seconds in line; in 8 of them they waited for a core, to ask for it."""
    seen = own_cpu("1x4", 0.9, run_delay_s=20.0, blocked_s=10.0, gil_waiting_s=120.0, gil_waking_s=8.0)
    expected = Expected(n_core_waiting=9.0, n_gil_waiting=1.4, n_asleep=1.4, n_blocked=9.0, gain_ratio=1.0)

    found = diagnose_one(seen, Machine(2), expected)

    assert {name: (round(one.value, 12), one.source) for name, one in found.shares.items()} == {
        "python": (0.225, "measured"),
        "child": (0.0, "measured"),
        "core_line": (0.03, "measured"),
        "blocked": (0.025, "measured"),
        "gil_line": (0.3, "measured"),
        "asleep": (0.35, "modelled"),
        "contended": (0.07, "modelled"),
    }
    assert sentence(found) == wording(
        "model.gil-is-busy-and-threads-wait", layout="1x4", busy=90, waiting="1.2", threads=4
    )


@pytest.mark.parametrize(("waiting_s", "gil"), [(300.0, 1.0), (246.0, 0.82), (30.0, 0.1), (400.0, 1.0)])
def test_a_gil_that_somebody_holds_asleep_is_seen_by_the_line_before_it(waiting_s: float, gil: float) -> None:
    """It uses a tenth of a core. Three of four wait all the time, or four fifths of it."""
    found = diagnose_one(own_cpu("1x4", 0.1, gil_waiting_s=waiting_s, gil_waking_s=0.0), Machine(2), None)

    assert found.utilization["gil"].value == pytest.approx(gil)
    assert ("gil" in found.what) == (gil >= BUSY)


def test_processes_without_a_second_thread_have_no_line_for_the_gil() -> None:
    found = diagnose_one(own_cpu("4x1", 0.4, gil_waiting_s=0.0, gil_waking_s=0.0), Machine(2), None)

    assert "gil_line" not in found.shares
    assert found.utilization["gil"].value == pytest.approx(0.1)


def test_where_items_start_children_the_workers_clock_is_not_all_of_the_waiting_for_a_core() -> None:
    seen = Evidence(Layout(1, 2), 100.0, 100, 100, own_cpu_s=20.0, child_cpu_s=100.0, run_delay_s=4.0)
    expected = Expected(0.3, 0.0, 0.5, 0.0, 1.2)

    alone = replace(seen, child_cpu_s=0.2)  # the children of a hundredth of the CPU are none
    queue, database = (replace(alone, backend_cpu_s=cpu_s) for cpu_s in (1.9, 100.0))

    assert diagnose_one(queue, Machine(2), expected).shares["core_line"].source == "measured"
    assert diagnose_one(database, Machine(2), expected).shares["core_line"].source == "modelled"
    assert diagnose_one(seen, Machine(2), expected).shares["core_line"].source == "modelled"
    assert diagnose_one(alone, Machine(2), expected).shares["core_line"] == Figure(0.02, "measured")


def test_what_threads_wait_beyond_the_model_is_the_line_of_the_busy_station_or_else_a_backend_s() -> None:
    expected = Expected(0.0, 0.4, 0.4, 0.0, 1.5)

    busy = diagnose_one(own_cpu("1x4", 0.9), Machine(2), expected)
    idle = diagnose_one(own_cpu("1x4", 0.1), Machine(2), expected)

    assert busy.shares["gil_line"].value == pytest.approx(0.675)
    assert "contended" not in busy.shares
    assert idle.shares["contended"].value == pytest.approx(0.775)
    assert idle.what == ("backend",)


def test_a_line_that_was_measured_is_no_longer_than_that_however_busy_its_station() -> None:
    """Of 8 threads 1.9 compute and 2 wait for one of 2 cores, by their clock; the model knows of 1 asleep."""
    seen = own_cpu("8x1", 1.9, run_delay_s=200.0)

    found = diagnose_one(seen, Machine(2), Expected(3.0, 0.0, 1.0, 0.0, 1.0))

    assert found.what == ("cores",)
    assert found.shares["core_line"] == Figure(0.25, "measured")
    assert found.shares["contended"].value == pytest.approx((8 - 1.9 - 2 - 1) / 8)


def told(demands: Demands, machine: Machine, text: str) -> Prediction:
    return predict(demands, machine, [parse_layout(text)])


def test_items_that_fail_do_not_pass_for_items_that_were_done() -> None:
    """CPU and waits are those of an item that was done, what failed ones took included."""
    seen = [seen_of(text, SOCORRO, BOX) for text in ("1x1", "1x24", "8x6")]
    with_failures = [replace(one, n_items=2 * one.n_done) for one in seen]

    assert diagnose(with_failures, BOX, SOCORRO) == diagnose(seen, BOX, SOCORRO)


def test_of_a_layout_whose_items_all_failed_nothing_is_modelled() -> None:
    failed = replace(own_cpu("1x4", 0.2), n_done=0)

    first, second = diagnose([failed, seen_of("1x1", SOCORRO, BOX)], BOX, SOCORRO)

    assert (first.gain_ratio, "elsewhere" in first.shares) == (None, True)
    assert second.gain_ratio is not None
    assert diagnose([failed], BOX, SOCORRO) == [first]


#: 8 threads of 4 physical cores; items compute in a child, and sleep
SMT, BUSY_ITEM = Machine(8, 4, smt_gain_ratio=0.3), Demands(gil_s=0.001, child_s=0.1, asleep_s=0.05)


@pytest.mark.parametrize("text", ["8x1", "12x1", "24x1"])
def test_whoever_computes_on_the_second_thread_of_a_core_is_not_in_line_for_one(text: str) -> None:
    given = told(BUSY_ITEM, SMT, text)
    n_threads = parse_layout(text).total_threads

    (found,) = diagnose([seen_of(text, BUSY_ITEM, SMT)], SMT, BUSY_ITEM)

    in_line = n_threads - float(given.busy_cores[0] + given.n_asleep[0])
    line, asleep = found.n_threads("core_line"), found.n_threads("asleep")
    assert line is not None
    assert asleep is not None
    assert line.value == pytest.approx(in_line, abs=0.02 * n_threads)
    assert asleep.value == pytest.approx(float(given.n_asleep[0]), abs=0.02 * n_threads)


@pytest.mark.parametrize(("few", "twice"), [("3x1", "3x2"), ("6x1", "6x2"), ("8x1", "8x2")])
def test_twice_the_threads_bring_what_second_threads_of_cores_give(few: str, twice: str) -> None:
    gain = told(BUSY_ITEM, SMT, twice).throughput_per_s[0] / told(BUSY_ITEM, SMT, few).throughput_per_s[0]

    (found,) = diagnose([seen_of(few, BUSY_ITEM, SMT)], SMT, BUSY_ITEM)

    assert found.gain_ratio == pytest.approx(float(gain), rel=0.02)


def with_backend(text: str, demands: Demands, machine: Machine) -> Evidence:
    """What is seen where a backend does what *demands* have children do."""
    seen = seen_of(text, demands, machine)
    return replace(seen, child_cpu_s=0.0, backend_cpu_s=seen.child_cpu_s)


def test_a_backend_fills_the_cores_as_children_do_and_is_named_as_their_user() -> None:
    demands, machine = Demands(gil_s=0.01, child_s=0.03, asleep_s=0.04), Machine(4)
    seen = with_backend("12x1", demands, machine)

    (found,) = diagnose([seen], machine, demands)

    assert found.what == ("cores",)
    assert found.utilization["cores"].value == pytest.approx(1.0, abs=0.02)
    assert (found.others_cores, found.backend_cores) == pytest.approx((3.0, 3.0), abs=0.06)
    assert wording("model.all-cores-busy-by-others") in start_of(sentence(found))


def test_while_its_backend_computes_a_thread_sleeps_and_that_is_no_sign_of_a_shared_wait() -> None:
    demands, machine = Demands(gil_s=0.01, child_s=0.03, asleep_s=0.04), Machine(4)
    seen = [with_backend(text, demands, machine) for text in ("1x1", "2x1")]

    for one, found in zip(seen, diagnose(seen, machine, demands), strict=True):
        n_threads = one.layout.total_threads
        asleep = (one.done_per_s * 0.04 + one.backend_cpu_s / one.length_s) / n_threads
        assert found.what == ("waiting",)
        assert found.shares["asleep"].value == pytest.approx(asleep)
        assert found.shares.get("contended", Figure(0.0, "modelled")).value < 0.02


def test_a_backend_that_computes_longer_for_an_item_when_many_ask_it_binds_by_name() -> None:
    """Alone an item has 10 ms of it; of 8 that ask at once each has 60 ms, and waits for it."""
    demands, machine = Demands(gil_s=0.01, child_s=0.01, asleep_s=0.02), Machine(16)
    alone = Evidence(Layout(1, 1), 100.0, 2500, 2500, 25.0, 0.0, backend_cpu_s=25.0)
    n_done = round(8 * 100 / 0.1)
    many = Evidence(Layout(8, 1), 100.0, n_done, n_done, 0.01 * n_done, 0.0, backend_cpu_s=0.06 * n_done)

    _, found = diagnose([alone, many], machine, demands)

    assert found.what == ("backend",)
    assert found.shares["contended"].value == pytest.approx(0.6, abs=0.01)
    assert wording("model.backends-use-cores", cores="4.8") in end_of(sentence(found))


def test_a_backend_on_cores_of_its_own_is_named_too() -> None:
    seen = own_cpu("1x4", 0.1, backend_elsewhere_s=50.0)

    found = diagnose_one(seen, Machine(2), Expected(0.0, 0.0, 0.4, 0.0, 1.5))

    assert found.what == ("backend",)
    assert wording("model.backends-use-cores", cores="0.5") in end_of(sentence(found))
    assert found.utilization["cores"].value == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("cores", "others", "delay", "what"),
    [
        (0.4, 1.6, 0.21, ("cores",)),  # waits for a core for a fifth of its time
        (0.4, 1.6, 0.19, ("waiting",)),
        (0.9, 0.8, 0.0, ("gil",)),  # the box is nearly full, most of that by the service: its GIL is fuller
        (0.4, 1.1, 0.5, ("waiting",)),  # 75 %: the cores are not full
    ],
)
def test_strangers_that_fill_the_cores_bind_only_who_waits_for_a_core(
    cores: float, others: float, delay: float, what: tuple[What, ...]
) -> None:
    seen = own_cpu("1x1", cores, others_cpu_s=100 * others, run_delay_s=100 * delay)

    assert diagnose_one(seen, Machine(2), None).what == what


def test_a_backend_is_no_stranger_that_makes_way() -> None:
    """Strangers use 0.9 of 2 cores, the items 1.1; no worker waits for a core."""
    seen = own_cpu("1x1", 0.3, others_cpu_s=90.0, backend_cpu_s=80.0, run_delay_s=0.0)

    assert diagnose_one(seen, Machine(2), None).what == ("cores",)
    assert diagnose_one(replace(seen, others_cpu_s=170.0, backend_cpu_s=0.0), Machine(2), None).what == (
        "waiting",
    )


def test_backends_that_use_next_to_nothing_leave_the_line_for_cores_a_known_one() -> None:
    """Items that only sleep, on a full host, beside an idle Redis that the config names."""
    seen = own_cpu("1x1", 0.0, others_cpu_s=199.0, backend_cpu_s=0.3, run_delay_s=0.2)

    assert diagnose_one(seen, Machine(2), None).what == ("waiting",)
    assert diagnose_one(replace(seen, backend_cpu_s=3.0), Machine(2), None).what == ("cores",)


def test_strangers_are_reported() -> None:
    full = own_cpu("1x1", 0.4, others_cpu_s=160.0, run_delay_s=40.0)
    way = own_cpu("1x1", 0.01, others_cpu_s=199.0, run_delay_s=2.0)

    assert sentence(diagnose_one(full, Machine(2), None)) == (
        wording("model.all-cores-busy-and-thread-waits")
    )
    assert sentence(diagnose_one(way, Machine(2), None)) == (wording("model.others-keep-cores-busy"))


def test_cpu_of_tuner_itself_is_not_reported_as_that_of_other_processes() -> None:
    full = own_cpu("1x1", 0.4, others_cpu_s=160.0, tuner_cpu_s=100.0, run_delay_s=40.0)

    assert wording("model.tuner-and-others-use") in sentence(diagnose_one(full, Machine(2), None))
    assert diagnose_one(full, Machine(2), None).tuner_cores == pytest.approx(1.0)


def test_interrupts_are_reported_as_users_of_full_cores() -> None:
    full = own_cpu("4x1", 1.4, others_cpu_s=50.0, interrupt_s=30.0, run_delay_s=40.0)
    few = replace(full, interrupt_s=3.0)

    assert wording("model.interrupts-and-others-use") in sentence(diagnose_one(full, Machine(2), None))
    assert "interrupts" not in sentence(diagnose_one(few, Machine(2), None))


def test_interrupts_do_not_give_way_to_the_service_as_other_processes_do() -> None:
    """A thread hardly waits for a core. Without the other processes, the last host is 83 % busy."""
    seen = own_cpu("1x1", 0.7, others_cpu_s=120.0, run_delay_s=1.0)

    assert diagnose_one(seen, Machine(2), None).what == ("waiting",)
    assert diagnose_one(replace(seen, interrupt_s=60.0), Machine(2), None).what == ("cores",)
    more = own_cpu("1x1", 0.25, others_cpu_s=170.0, interrupt_s=140.0, run_delay_s=1.0)
    assert diagnose_one(more, Machine(2), None).what == ("cores",)


def test_without_a_gil_there_is_no_such_station_and_no_line_for_it() -> None:
    machine = replace(BOX, has_gil=False)

    (found,) = diagnose([seen_of("1x24", SOCORRO, machine)], machine, SOCORRO)

    assert found.what == ("cores",)
    assert "gil" not in found.utilization
    assert "gil_line" not in found.shares


def test_cpu_that_is_known_not_to_need_the_gil_is_left_out_of_it_and_the_figure_is_then_the_model_s() -> None:
    demands = Demands(gil_s=0.1, python_s=0.3, asleep_s=0.1)

    (found,) = diagnose([seen_of("1x2", demands, BOX)], BOX, demands)

    busy = found.utilization["gil"]
    own_cores = found.shares["python"].value * 2
    assert (busy.value, busy.source) == (pytest.approx(own_cores / 4), "modelled")


def test_children_that_use_more_cores_than_there_are_threads_leave_no_share_for_anything_else() -> None:
    seen = Evidence(Layout(1, 1), 100.0, 100, 100, own_cpu_s=50.0, child_cpu_s=250.0)

    found = diagnose_one(seen, Machine(8), Expected(0.0, 0.0, 0.5, 0.0, 1.9))

    assert found.shares["child"].value == pytest.approx(250 / 300)
    assert found.shares["asleep"].value == 0


def test_the_cpu_of_a_master_is_called_so_and_not_a_childs() -> None:
    seen = Evidence(Layout(2, 1), 100.0, 100, 100, own_cpu_s=50.0, child_cpu_s=30.0, has_master=True)

    found = diagnose_one(seen, Machine(8), Expected(0.0, 0.0, 0.5, 0.0, 1.9))

    assert found.shares["master"].value == pytest.approx(0.15)
    assert "child" not in found.shares
    assert wording("model.master-at-work") in sentence(found)


def test_a_master_whose_cpu_is_known_takes_no_share_of_the_threads_time() -> None:
    """No item's thread waits for it: it fills the cores, and they sleep meanwhile."""
    seen = Evidence(
        Layout(2, 1), 100.0, 100, 100, own_cpu_s=50.0, child_cpu_s=30.0, has_master=True, master_cpu_s=24.0
    )

    found = diagnose_one(seen, Machine(8), Expected(0.0, 0.0, 0.5, 0.0, 1.9))

    assert "master" not in found.shares
    assert found.shares["child"].value == pytest.approx(6 / 200)
    assert found.utilization["cores"].value == pytest.approx(80 / 800)
    assert found.beside_cores == pytest.approx(0.24)


PREFORK = Evidence(
    Layout(4, 1, has_threads=False), 100.0, 1000, 1000, own_cpu_s=60.0, child_cpu_s=10.0, others_cpu_s=130.0,
    run_delay_s=320.0, blocked_s=0.0, has_master=True,
)  # fmt: skip
"""Four pool processes that compute all the time, on two cores of which others use 1.3."""


def test_threads_that_wait_for_cores_are_bound_by_them_whatever_their_master_uses() -> None:
    """Their own clock of waiting says so; that children might wait as well takes nothing away from it."""
    for master_cpu_s in (10.0, None):  # None: the file is older, and does not tell it from children's
        (found,) = diagnose([replace(PREFORK, master_cpu_s=master_cpu_s)], Machine(2), None)

        assert found.what == ("cores",)
        assert found.shares["core_line"] == Figure(pytest.approx(0.8), "measured")
        assert found.shares["python"].value == pytest.approx(0.15)


def test_a_line_for_cores_that_is_not_known_is_no_reason_to_say_that_others_make_way() -> None:
    """The kernel keeps no such account; or children, who do most of the work, may stand in line unseen."""
    children = replace(PREFORK, has_master=False, own_cpu_s=10.0, child_cpu_s=60.0, run_delay_s=4.0)
    for seen in (replace(PREFORK, run_delay_s=None, master_cpu_s=10.0), children):
        (found,) = diagnose([seen], Machine(2), None)

        assert found.what == ("cores",)


def test_others_make_way_where_threads_are_known_not_to_wait_for_cores() -> None:
    quiet = replace(PREFORK, own_cpu_s=8.0, child_cpu_s=2.0, others_cpu_s=190.0, run_delay_s=4.0)
    a_little_of_children = replace(quiet, master_cpu_s=0.0)
    for seen in (replace(quiet, master_cpu_s=2.0), a_little_of_children):
        (found,) = diagnose([seen], Machine(2), None)

        assert found.what == ("waiting",)


def test_longer_waits_on_a_host_that_others_fill_do_not_show_that_items_share_something() -> None:
    """They wait longer than an item alone: maybe for who deals items out, and he for a core."""
    slow = replace(own_cpu("1x4", 0.1), others_cpu_s=180.0, run_delay_s=12.0, blocked_s=0.0)
    expected = Expected(n_core_waiting=0.1, n_gil_waiting=0.0, n_asleep=1.2, n_blocked=0.0, gain_ratio=1.9)

    on_a_full_host = diagnose_one(slow, Machine(2), expected)
    on_a_quiet_one = diagnose_one(replace(slow, others_cpu_s=0.0), Machine(2), expected)

    assert on_a_full_host.shares["contended"].value > 0.5
    assert on_a_full_host.what == ("waiting",)
    assert on_a_quiet_one.what == ("backend",)


#: a node of Celery with one thread, whose tasks sleep for 10 ms of the 13.5 that each takes: its main thread
#: computes for 2.2 ms of them, the pool's for 2.4, and waits for a core for 0.9 and for the GIL for 0.2
NODE = Evidence(
    Layout(1, 1), 135.0, 10_000, 10_000, own_cpu_s=46.0, child_cpu_s=0.0, run_delay_s=9.0, blocked_s=0.0,
    gil_waiting_s=2.0, gil_waking_s=0.0, item_cpu_s=24.0, master_cpu_s=0.0,
)  # fmt: skip


def alone_in(one: Evidence) -> Demands:
    """As `told_by_1x1` has them: all CPU of the process, and sleep for the rest of an item's time."""
    own_s, waited_s = one.own_cpu_s / one.n_done, (one.run_delay_s or 0.0) / one.n_done
    return Demands(gil_s=own_s, asleep_s=one.length_s / one.n_done - own_s - waited_s)


def test_what_a_process_computes_beside_its_items_is_no_time_of_the_items_threads() -> None:
    (found,) = diagnose([NODE], Machine(2), alone_in(NODE))

    shares = {name: figure.value for name, figure in found.shares.items()}
    assert shares["python"] == pytest.approx(24 / 135)
    assert shares["asleep"] == pytest.approx(100 / 135, abs=0.01)
    assert shares["core_line"] == pytest.approx(9 / 135)
    assert found.utilization["gil"].value == pytest.approx(46 / 135)  # both take it
    assert found.beside_cores == pytest.approx(22 / 135)
    assert sentence(found) == wording("model.node-of-celery")


def test_the_one_thread_of_a_layout_waits_for_the_gil_where_another_thread_of_its_process_has_it() -> None:
    (found,) = diagnose([NODE], Machine(2), alone_in(NODE))

    assert found.shares["gil_line"] == Figure(pytest.approx(2 / 135), "measured")


def test_more_threads_that_do_as_one_alone_did_share_nothing() -> None:
    """Four of them take 4 % longer an item, for a core and the GIL: nobody waits for a backend."""
    four = replace(
        NODE, layout=Layout(1, 4), n_done=38_500, n_items=38_500, own_cpu_s=4 * 44.0, item_cpu_s=4 * 23.0,
        run_delay_s=4 * 11.0, gil_waiting_s=4 * 4.0,
    )  # fmt: skip
    _, found = diagnose([NODE, four], Machine(4), alone_in(NODE))

    assert found.shares["asleep"].value == pytest.approx(38_500 * 0.01 / (4 * 135), abs=0.02)
    assert found.shares.get("contended", Figure(0.0, "modelled")).value < 0.02


def test_a_gil_that_threads_beside_the_items_hold_may_be_waited_for_by_all_of_these() -> None:
    """Two wait half of the time: it is held for half of it, not for all of it."""
    seen = replace(NODE, layout=Layout(1, 2), gil_waiting_s=135.0, item_cpu_s=24.0)
    (found,) = diagnose([seen], Machine(2), None)

    assert found.utilization["gil"].value == pytest.approx(0.5)


def test_without_a_model_the_wait_is_one_figure_and_measured() -> None:
    (found,) = diagnose([own_cpu("1x4", 0.2)], Machine(2), None)

    assert found.shares["elsewhere"] == Figure(pytest.approx(0.95), "measured")
    assert found.gain_ratio is None
    assert sentence(found) == (wording("model.nothing-is-full-with-waits"))


def test_nothing_to_go_by_is_refused() -> None:
    with raises(ValueError, wording("model.items-say-nothing")):
        Evidence(Layout(1, 1), 10.0, 0, 0, 0.0, 0.0)


def test_the_column_joins_what_binds() -> None:
    assert [short(what) for what in ((), ("gil",), ("cores", "gil"), ("memory",))] == [  # type: ignore[arg-type]
        "", "GIL", "cores+GIL", "memory",
    ]  # fmt: skip


seconds = st.floats(0.0, 5.0)
layouts = st.builds(Layout, st.integers(1, 12), st.integers(1, 12))


@st.composite
def studies(draw: st.DrawFn) -> tuple[list[Evidence], Machine, Demands]:
    """Any layouts of a service with any clocks, the model's or not."""
    demands = Demands(
        gil_s=draw(st.floats(0.001, 2.0)),
        python_s=draw(seconds),
        child_s=draw(seconds),
        asleep_s=draw(seconds),
        blocked_s=draw(seconds),
        spawn_s=draw(seconds),
    )
    seen = [
        Evidence(
            layout=layout,
            length_s=draw(st.floats(1.0, 1000.0)),
            n_done=(n_items := draw(st.integers(1, 1000))),
            n_items=n_items,
            own_cpu_s=draw(st.floats(0.0, 5000.0)),
            child_cpu_s=draw(st.floats(0.0, 5000.0)),
            others_cpu_s=draw(st.floats(0.0, 500.0)),
            backend_cpu_s=draw(st.floats(0.0, 500.0)),
            run_delay_s=draw(st.none() | st.floats(0.0, 5000.0)),
            blocked_s=draw(st.none() | st.floats(0.0, 5000.0)),
        )
        for layout in draw(st.lists(layouts, min_size=1, max_size=3, unique=True))
    ]
    return seen, Machine(draw(st.floats(0.5, 64.0)), has_gil=draw(st.booleans())), demands


@settings(max_examples=60, deadline=None)
@given(studies(), st.booleans())
@example(
    (
        [Evidence(Layout(8, 10), 1.0, 1, 1, 0.0, 0.0, backend_cpu_s=119.0, run_delay_s=0.0, blocked_s=79.0)],
        Machine(1.0, has_gil=False),
        Demands(gil_s=1.0, python_s=0.0, child_s=0.0, asleep_s=0.0),
    ),
    True,
)
def test_shares_add_up_to_one_and_utilizations_lie_in_0_to_1_whatever_was_seen(
    study: tuple[list[Evidence], Machine, Demands], with_model: bool
) -> None:
    seen, machine, demands = study

    for one in diagnose(seen, machine, demands if with_model else None):
        assert sum(figure.value for figure in one.shares.values()) == pytest.approx(1.0)
        assert all(figure.value >= 0 for figure in one.shares.values())
        assert all(0 <= figure.value <= 1 for figure in one.utilization.values())
        assert one.what
        assert len(set(one.what)) == len(one.what)
        assert sentence(one).startswith(f"{one.layout}: ")


stations = st.fixed_dictionaries({"gil": st.floats(0.0, 1.0), "cores": st.floats(0.0, 1.0)})


@given(stations, st.floats(0.0, 1.0))
def test_a_station_that_binds_still_binds_when_it_is_busier(
    utilization: dict[Station, float], more: float
) -> None:
    before = find_bottlenecks(utilization, {"asleep": 1.0})
    for station in ("gil", "cores"):
        busier = {**utilization, station: min(1.0, utilization[station] + more)}  # type: ignore[index]
        if station in before:
            assert station in find_bottlenecks(busier, {"asleep": 1.0})  # type: ignore[arg-type]


@given(st.floats(0.0, 2.0), st.floats(0.0, 2.0))
def test_more_own_cpu_never_makes_the_gil_less_busy(one: float, other: float) -> None:
    low, high = (
        diagnose_one(own_cpu("2x4", cores), Machine(4), None).utilization["gil"].value
        for cores in sorted((one, other))
    )
    assert low <= high


def test_a_layout_that_has_only_processes_is_predicted_with_twice_the_processes() -> None:
    """Twice the threads would share the GIL that is held half of the time, twice the processes would not."""
    item = Demands(gil_s=0.01, asleep_s=0.01)

    (of_processes,) = diagnose([seen_of("2x-", item, BOX)], BOX, item)
    (of_threads,) = diagnose([seen_of("2x1", item, BOX)], BOX, item)

    assert of_processes.gain_ratio == pytest.approx(2.0, rel=1e-3)
    assert of_threads.gain_ratio is not None
    assert of_threads.gain_ratio < 1.7
