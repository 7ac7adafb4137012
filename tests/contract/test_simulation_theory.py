"""The C program against what queueing theory says exactly.

Its twin in Python gives the same figures to the last bit (tests/integration/test_simulator.py), and takes
forty times as long for as many items. Here the twin simulates one service, which uses most of what one may.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import factorial, inf, sqrt

import numpy as np
import pytest

from tuner.adapters.virtual.simulator import simulate_all
from tuner.core.domain.layout import Layout
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.simulation.scenario import Scenario, Simulated, simulate

from ..queueing import exact_chain, product_form

WORK = Demands(gil_s=0, child_s=1.0, cv_ratio=1)
PLAIN = Machine(cores=1, switch_interval_s=inf, handover_s=0)


class Simulator:
    """Who simulates, how many items, and how close that has to come."""

    def __init__(self, run: Callable[[Scenario], Simulated], n_items: int, tolerance: float) -> None:
        self._run, self._n_items = run, n_items
        self.tolerance = tolerance

    def __call__(
        self,
        layout: Layout,
        demands: Demands,
        machine: Machine,
        *,
        arrival_per_s: float | None = None,
        share: float = 1.0,
    ) -> Simulated:
        n = self.n_items(share)
        return self._run(
            Scenario(
                layout, demands, machine, 7, n_items=n, n_warm_items=n // 20, arrival_per_s=arrival_per_s
            )
        )

    def n_items(self, share: float = 1.0) -> int:
        return int(self._n_items * share)

    def near(self, value: float, error: float = 0.0) -> object:
        """*value*, to its tolerance or four times the *error* (relative, standard) that chance makes."""
        return pytest.approx(value, rel=max(self.tolerance, 4 * error))


TWIN = Simulator(simulate, 40_000, 0.01)


@pytest.fixture(params=[pytest.param("tuner-simulate", marks=pytest.mark.integration)])
def simulator() -> Simulator:
    """The program is so much faster that it can be held to less than a third of the twin's 1 %."""
    return Simulator(lambda scenario: simulate_all([scenario])[0], 1_000_000, 0.003)


def erlang_c(servers: int, offered: float) -> float:
    """The probability to wait in M/M/c, where *offered* servers are busy on average."""
    full = offered**servers / factorial(servers) * servers / (servers - offered)
    return full / (sum(offered**k / factorial(k) for k in range(servers)) + full)


def repairman(customers: int, held_s: float, away_s: float) -> float:
    """Throughput of customers that think, and line up for one server: exact mean-value analysis."""
    queue = per_s = 0.0
    for n in range(1, customers + 1):
        there_s = held_s * (1 + queue)
        per_s = n / (away_s + there_s)
        queue = per_s * there_s
    return per_s


class OpenQueue:
    """M/M/c: how far chance takes the mean over a time from its limit.

    Over a long time t the mean of a function f of the state of a birth-death process has the variance
    2/t sum_j (sum_{i <= j} (f_i - mean) p_i)^2 / (birth_j p_j).

    Source: Whitt, Asymptotic formulas for Markov processes with applications to simulation (1992).
    """

    def __init__(self, servers: int, per_s: float, n_items: int) -> None:
        self.present = np.arange(40.0)  # beyond, for less than 1e-10 of the time at the rates below
        self.served = np.minimum(self.present, servers)
        self._flow = np.append(1.0, np.cumprod(per_s / self.served[1:]))
        self._per_s, self._n_items = per_s, n_items

    def error(self, of: np.ndarray) -> float:
        """Relative, standard: of the mean of a function *of* how many are present."""
        share = self._flow / self._flow.sum()
        mean = share @ of
        below = np.cumsum((of - mean) * share)[:-1]
        variance = 2 * (below**2 / (self._per_s * share[:-1])).sum()
        return float(sqrt(variance * self._per_s / self._n_items) / mean)


@pytest.mark.parametrize(("servers", "per_s"), [(1, 0.3), (4, 2.0)])
def test_threads_with_a_core_each_are_an_m_m_c_queue(
    simulator: Simulator, servers: int, per_s: float
) -> None:
    one = simulator(Layout(1, servers), WORK, replace(PLAIN, cores=servers), arrival_per_s=per_s, share=2)
    waiting_s = erlang_c(servers, per_s) / (servers - per_s)
    queue = OpenQueue(servers, per_s, simulator.n_items(2))

    # Residence times are the number present over the rate: with arrivals as they came, they scatter less.
    assert one.residence_s == simulator.near(1 + waiting_s, queue.error(queue.present))
    assert one.n_queued == simulator.near(per_s * waiting_s, queue.error(queue.present - queue.served))
    assert one.cpu_cores == simulator.near(per_s, queue.error(queue.served))


@pytest.mark.parametrize("cv", [0.0, 1.0])
def test_shared_cores_are_as_fast_whatever_the_distribution(simulator: Simulator, cv: float) -> None:
    """M/G/1 with processor sharing: residence time 1 / (1 - rho), by the mean alone.

    With exponential work as many are present as in M/M/1; where all work is alike they scatter half as much.
    """
    one = simulator(Layout(1, 60), replace(WORK, cv_ratio=cv), PLAIN, arrival_per_s=0.3, share=2)
    queue = OpenQueue(1, 0.3, simulator.n_items(2))

    assert one.residence_s == simulator.near(1 / (1 - 0.3), queue.error(queue.present))


@pytest.mark.parametrize("threads", [2, 12])
def test_threads_at_one_gil_are_a_machine_repairman(simulator: Simulator, threads: int) -> None:
    demands = Demands(gil_s=0.1, asleep_s=0.5, n_gil_visits=1, cv_ratio=1)
    one = simulator(Layout(1, threads), demands, PLAIN)
    per_s = repairman(threads, 0.1, 0.5)

    assert one.throughput_per_s == simulator.near(per_s)
    assert one.gil_utilization_ratio == simulator.near(per_s * 0.1)
    assert one.n_asleep == simulator.near(per_s * 0.5)


def test_processes_with_cores_enough_are_machine_repairmen_each_for_itself(simulator: Simulator) -> None:
    demands = Demands(gil_s=0.1, asleep_s=0.5, n_gil_visits=1, cv_ratio=1)
    one = simulator(Layout(3, 4), demands, replace(PLAIN, cores=64))
    per_s = 3 * repairman(4, 0.1, 0.5)

    assert one.throughput_per_s == simulator.near(per_s)
    assert one.gil_utilization_ratio == simulator.near(per_s * 0.1 / 3)
    assert one.cpu_cores == simulator.near(per_s * 0.1)
    assert one.n_asleep == simulator.near(per_s * 0.5)
    # What is left over varies more: over 60 seeds by a quarter of this.
    assert one.n_gil_waiting == pytest.approx(12 - per_s * 0.6, rel=5 * simulator.tolerance)


@pytest.mark.parametrize("cv", [0.3, 1.0])
@pytest.mark.parametrize(("customers", "cores"), [(6, 2), (12, 8)])
def test_children_on_shared_cores_are_a_product_form_network(
    simulator: Simulator, customers: int, cores: int, cv: float
) -> None:
    demands = Demands(gil_s=0, child_s=1.0, asleep_s=0.6, blocked_s=0.4, cv_ratio=cv)
    one = simulator(Layout(customers, 1), demands, replace(PLAIN, cores=cores), share=0.6)
    per_s, n_runnable = product_form(customers, cores, 1.0, 1.0)

    assert one.throughput_per_s == simulator.near(per_s)
    assert one.load - one.n_blocked == simulator.near(n_runnable)
    assert one.residence_s == simulator.near(customers / per_s)


@pytest.mark.parametrize("cv", [0.3, 1.0])
def test_cores_with_two_threads_each_are_a_product_form_network_that_slows_down(
    simulator: Simulator, cv: float
) -> None:
    """Work is done at the rate of the cores, but a core is busy as soon as one of its two threads is."""
    demands = Demands(gil_s=0, child_s=1.0, asleep_s=1.0, cv_ratio=cv)
    machine = replace(PLAIN, cores=4, physical_cores=2, smt_gain_ratio=0.25)
    one = simulator(Layout(7, 1), demands, machine, share=0.6)
    runnable = np.arange(8)
    speeds = np.array([0, 1, 2, 2.25, 2.5, 2.5, 2.5, 2.5])
    weight = np.cumprod(np.append(1.0, (7 - runnable[:-1]) / speeds[1:]))
    share = weight / weight.sum()

    assert one.cpu_cores == simulator.near(share @ speeds)
    assert one.load == simulator.near(share @ runnable)
    assert one.busy_cores == simulator.near(share @ np.minimum(runnable, 4))


@pytest.mark.parametrize(("threads", "cores"), [(3, 1), (8, 4)])
def test_a_gil_and_children_on_the_same_cores_are_as_their_exact_chain(
    simulator: Simulator, threads: int, cores: int
) -> None:
    is_as_its_chain(simulator, threads, cores)


def test_the_twin_is_as_the_exact_chain() -> None:
    is_as_its_chain(TWIN, 8, 4)


def is_as_its_chain(simulator: Simulator, threads: int, cores: int) -> None:
    """Threads that need the GIL, a child on one of the cores, and a disk, one after the other."""
    demands = Demands(gil_s=0.2, child_s=0.5, blocked_s=0.3, n_gil_visits=1, cv_ratio=1)
    one = simulator(Layout(1, threads), demands, replace(PLAIN, cores=cores), share=0.6)
    exact = exact_chain(threads, cores, 0.2, 0.5, 0.3)

    assert one.throughput_per_s == simulator.near(exact.throughput_per_s)
    assert one.n_gil_waiting == pytest.approx(exact.n_in_line, rel=4 * simulator.tolerance)


def test_forced_hand_overs_make_the_gil_a_shared_processor(simulator: Simulator) -> None:
    """Turns far shorter than a visit are round robin, nearly processor sharing: the mean alone counts."""
    demands = Demands(gil_s=1.0, asleep_s=2.0, n_gil_visits=1, cv_ratio=0.3)
    fair = replace(PLAIN, cores=4, switch_interval_s=0.02)
    one = simulator(Layout(1, 4), demands, fair, share=0.1)
    per_s, n_there = product_form(4, 1, 1.0, 2.0)

    assert one.throughput_per_s == pytest.approx(per_s, rel=0.01)
    assert one.gil_utilization_ratio + one.n_gil_waiting == pytest.approx(n_there, rel=0.01)
