"""What happens when: small networks whose every event can be worked out by hand (all times fixed: cv 0)."""

from __future__ import annotations

from math import inf

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.simulation.events import run
from tuner.core.model.simulation.scenario import Scenario, residence_quantile, simulate
from tuner.core.model.simulation.tally import Event


def trajectory(
    layout: Layout, demands: Demands, machine: Machine, *, n: int, arrival_per_s: float | None = None
) -> list[tuple[str, int, float]]:
    events: list[Event] = []
    scenario = Scenario(
        layout, demands, machine, n_items=max(20, n), n_warm_items=0, arrival_per_s=arrival_per_s
    )
    run(scenario, events)
    return [(event.what, event.thread, round(event.at_s, 9)) for event in events[:n]]


def test_who_waits_gets_the_gil_every_switch_interval() -> None:
    """Two threads want 20 ms of GIL each; a turn is 5 ms, and whoever gets it pays 0.5 ms more.

    Thread 0 begins. Left to do after each turn: 15 of 0; 20 + 0.5 - 5 = 15.5 of 1; 10.5 of 0 (15 + 0.5 - 5)
    and so on, 4.5 ms less a turn. At 40 ms thread 0 has 1.5 + 0.5 ms to do, ends at 42 ms and goes to the end
    of the line with a new item; thread 1 has 2 + 0.5 ms left and ends at 44.5 ms, before the turn that began
    at 42 ms is over.
    """
    demands = Demands(gil_s=0.020, n_gil_visits=1, cv_ratio=0)
    machine = Machine(cores=2, switch_interval_s=0.005, handover_s=0.0005)

    assert trajectory(Layout(1, 2), demands, machine, n=11) == [
        ("forced", 0, 0.005),
        ("forced", 1, 0.010),
        ("forced", 0, 0.015),
        ("forced", 1, 0.020),
        ("forced", 0, 0.025),
        ("forced", 1, 0.030),
        ("forced", 0, 0.035),
        ("forced", 1, 0.040),
        ("gil", 0, 0.042),
        ("gil", 1, 0.0445),
        ("forced", 0, 0.0495),
    ]


def test_holders_of_two_processes_share_a_core_and_each_loses_its_gil_every_switch_interval() -> None:
    """Threads 0 and 2 are one process, 1 and 3 another; each pair does the same at the same moments.

    A visit is 9 ms of CPU, a hand-over 0.5 ms more, and a turn of 5 ms is 2.5 ms of CPU to each holder. Left
    to do after their turns: 6.5, 4.5, 2.5, 0.5 ms of threads 0 and 1 (each turn but the first takes 0.5 ms
    more), 7, 5, 3, 1 of threads 2 and 3. At 40 ms threads 0 and 1 have 0.5 + 0.5 ms to do, end at 42 ms, and
    go to the ends of their lines with new items; 2 and 3 have 1 + 0.5 ms, and end at 45 ms, before the turn
    that began at 42 ms is over.
    """
    demands = Demands(gil_s=0.009, n_gil_visits=1, cv_ratio=0)
    machine = Machine(cores=1, switch_interval_s=0.005, handover_s=0.0005)
    forced = [("forced", turn % 2 * 2 + k, round(0.005 * (turn + 1), 9)) for turn in range(8) for k in (0, 1)]

    assert trajectory(Layout(2, 2), demands, machine, n=22) == [
        *forced,
        ("gil", 0, 0.042),
        ("gil", 1, 0.042),
        ("gil", 2, 0.045),
        ("gil", 3, 0.045),
        ("forced", 0, 0.050),
        ("forced", 1, 0.050),
    ]


def test_the_turn_of_a_holder_begins_when_somebody_comes_to_wait() -> None:
    """The last line: thread 0 has the GIL since 33 ms, thread 1 waits since 35 ms, and gets it at 40 ms.

    A visit is 12 ms. Thread 1 waits from the start, so the GIL goes to and fro every 5 ms: thread 0 is
    through after 5 + 5 + 2 ms of its own, at 22 ms, thread 1 at 24 ms. Both sleep for 11 ms.
    """
    demands = Demands(gil_s=0.012, asleep_s=0.011, n_gil_visits=1, cv_ratio=0)
    machine = Machine(cores=1, handover_s=0)

    assert trajectory(Layout(1, 2), demands, machine, n=9) == [
        ("forced", 0, 0.005),
        ("forced", 1, 0.010),
        ("forced", 0, 0.015),
        ("forced", 1, 0.020),
        ("gil", 0, 0.022),
        ("gil", 1, 0.024),
        ("asleep", 0, 0.033),
        ("asleep", 1, 0.035),
        ("forced", 0, 0.040),
    ]


def test_nobody_keeps_the_gil_longer_than_a_turn_while_somebody_waits() -> None:
    """However many more come: the turn ends 5 ms after the first of them came, or after the last switch."""
    demands = Demands(gil_s=0.05, asleep_s=0.1, n_gil_visits=1, cv_ratio=1)
    n_there, waited_since_s, n_full_turns = 6, 0.0, 0
    for what, _, at_s in trajectory(Layout(1, 6), demands, Machine(cores=6, handover_s=0), n=3000):
        if n_there > 1:
            assert at_s <= waited_since_s + 0.005 + 1e-8
            n_full_turns += at_s > waited_since_s + 0.0049
        n_there += {"asleep": 1, "gil": -1, "forced": 0}[what]
        if what != "asleep" or n_there == 2:
            waited_since_s = at_s

    assert n_full_turns > 1000


def test_the_line_for_the_gil_is_first_come_first_served() -> None:
    demands = Demands(gil_s=0.003, asleep_s=0.1, n_gil_visits=1, cv_ratio=0)
    machine = Machine(cores=4, handover_s=0)

    events = trajectory(Layout(1, 4), demands, machine, n=4)

    assert events == [("gil", k, round(0.003 * (k + 1), 9)) for k in range(4)]


def test_hand_over_costs_cpu_only_where_somebody_waits() -> None:
    demands = Demands(gil_s=0.003, asleep_s=0.1, n_gil_visits=1, cv_ratio=0)
    machine = Machine(cores=4, handover_s=0.0001)

    assert trajectory(Layout(1, 2), demands, machine, n=2) == [("gil", 0, 0.003), ("gil", 1, 0.0061)]
    assert trajectory(Layout(2, 1), demands, machine, n=2) == [("gil", 0, 0.003), ("gil", 1, 0.003)]


def test_runnable_tasks_share_the_cores_equally() -> None:
    """Three children of 1 s on 2 cores: each gets two thirds. All end at 1.5 s, the lower thread first."""
    demands = Demands(gil_s=0, child_s=1.0, cv_ratio=0)

    assert trajectory(Layout(3, 1), demands, Machine(cores=2), n=4) == [
        ("core", 0, 1.5),
        ("core", 1, 1.5),
        ("core", 2, 1.5),
        ("core", 0, 3.0),
    ]


def test_a_task_speeds_up_when_another_one_ends() -> None:
    """Two threads on one core: 1 s of GIL, a child of 2 s.

    0 to 1 s: thread 0 has the GIL and the core. Then its child (2 s) and the visit of thread 1 (1 s) share:
    the visit ends at 3 s, with 1 s left to the child. That one and the new child share: 5 s. Then thread 0
    visits the GIL (1 s) beside the rest of the new child (1 s): both end at 7 s, the lower thread first.
    """
    demands = Demands(gil_s=1.0, child_s=2.0, n_gil_visits=1, cv_ratio=0)
    machine = Machine(cores=1, switch_interval_s=inf, handover_s=0)

    assert trajectory(Layout(1, 2), demands, machine, n=5) == [
        ("gil", 0, 1.0),
        ("gil", 1, 3.0),
        ("core", 0, 5.0),
        ("gil", 0, 7.0),
        ("core", 1, 7.0),
    ]


def test_at_one_moment_computing_ends_before_waits_and_turns() -> None:
    """At 4 s thread 0 ends its second visit, thread 1 its sleep. At 5 ms a visit ends, as a turn would."""
    alternating = Demands(gil_s=1.0, asleep_s=2.0, n_gil_visits=1, cv_ratio=0)
    short = Demands(gil_s=0.005, asleep_s=1.0, n_gil_visits=1, cv_ratio=0)
    patient = Machine(cores=2, switch_interval_s=inf, handover_s=0)

    assert trajectory(Layout(1, 2), alternating, patient, n=5)[3:] == [("gil", 0, 4.0), ("asleep", 1, 4.0)]
    assert trajectory(Layout(1, 2), short, Machine(cores=2), n=1) == [("gil", 0, 0.005)]


def test_two_threads_on_one_physical_core_do_what_smt_brings() -> None:
    demands = Demands(gil_s=0, child_s=1.0, cv_ratio=0)
    machine = Machine(cores=2, physical_cores=1, smt_gain_ratio=0.25)

    assert trajectory(Layout(2, 1), demands, machine, n=1) == [("core", 0, 1.6)]
    assert trajectory(Layout(1, 1), demands, machine, n=1) == [("core", 0, 1.0)]


def test_strangers_take_cores_away() -> None:
    demands = Demands(gil_s=0, child_s=1.0, cv_ratio=0)

    assert trajectory(Layout(2, 1), demands, Machine(cores=2, foreign_cores=1), n=1) == [("core", 0, 2.0)]


def test_an_item_goes_through_its_stages_in_order() -> None:
    demands = Demands(
        gil_s=0.3,
        python_s=0.02,
        child_s=0.4,
        asleep_s=0.05,
        blocked_s=0.006,
        spawn_s=0.07,
        n_gil_visits=3,
        cv_ratio=0,
    )

    assert trajectory(Layout(1, 1), demands, Machine(cores=1), n=8) == [
        ("gil", 0, 0.1),
        ("asleep", 0, 0.15),
        ("gil", 0, 0.25),
        ("blocked", 0, 0.32),
        ("core", 0, 0.72),
        ("core", 0, 0.74),
        ("gil", 0, 0.84),
        ("blocked", 0, 0.846),
    ]


def test_an_arrival_goes_to_the_thread_that_is_idle_for_longest() -> None:
    """Items come rarely: each one finds all threads idle, and they take turns."""
    demands = Demands(gil_s=0, child_s=0.001, cv_ratio=0)

    events = trajectory(Layout(1, 3), demands, Machine(cores=1), n=12, arrival_per_s=0.1)

    assert [thread for what, thread, _ in events if what == "core"] == [0, 1, 2, 0, 1, 2]


def test_items_that_wait_for_a_thread_are_served_first_come_first_served() -> None:
    """One thread, items of 1 s: the residence times are those of the arrivals, by Lindley's recursion."""
    events: list[Event] = []
    work = Demands(gil_s=0, child_s=1.0, cv_ratio=0)
    scenario = Scenario(Layout(1, 1), work, Machine(cores=1), n_items=1000, n_warm_items=0, arrival_per_s=0.8)
    counts = run(scenario, events)
    residences_s, free_at_s = [], 0.0
    for arrived_s in [event.at_s for event in events if event.what == "arrival"][:1000]:
        free_at_s = max(free_at_s, arrived_s) + 1.0
        residences_s.append(free_at_s - arrived_s)

    assert counts.residence_sum_s == pytest.approx(sum(residences_s))
    for share in (0.5, 0.95, 0.99):
        exact_s = sorted(residences_s)[round(share * 1000) - 1]
        assert residence_quantile(scenario, counts, share) == pytest.approx(exact_s, rel=0.011)


def test_the_same_seed_gives_the_same_trajectory_and_another_one_does_not() -> None:
    demands = Demands(gil_s=0.02, child_s=0.1, asleep_s=0.1)
    first, again, other = (
        simulate(Scenario(Layout(2, 3), demands, Machine(cores=2), seed=seed, n_items=200, n_warm_items=20))
        for seed in (1, 1, 2)
    )

    assert first == again
    assert first.digest != other.digest
    assert first.throughput_per_s != other.throughput_per_s
