"""The kernel's clocks that the model is calibrated from, on real processes."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.proc.procfs import ProcSampler
from tuner.adapters.proc.task_states import STARTING_CALLS
from tuner.core.domain.window import Reading

pytestmark = [pytest.mark.integration, pytest.mark.alone]

Start = Callable[..., Any]
WaitUntil = Callable[[Callable[[], bool], str], None]
TICK_S = 0.01


def reading() -> Reading:
    return Reading(time.monotonic(), 0, 0)


def test_what_children_used_stands_apart_from_what_their_workers_did(start: Start) -> None:
    """Each worker starts 10 children of 50 ms: half a second of theirs, and its own beside."""
    workers = start(*["children 10 50"] * 2)
    result = sum(float(process.stdout.readline()) for process in workers.processes)
    with ProcSampler(SystemClock()).watching(workers, frozenset()) as watch:
        usage = watch.usage()
    own_ticks = 0
    for pid in workers.worker_pids():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        own_ticks += int(fields[11]) + int(fields[12])

    assert usage.child_cpu_s_total is not None
    assert usage.child_cpu_s_total >= 2 * 10 * 0.05
    assert usage.worker_cpu_s_total == pytest.approx(own_ticks * TICK_S, abs=2 * TICK_S)
    assert usage.child_cpu_s_total + usage.worker_cpu_s_total == pytest.approx(result, abs=2 * 4 * TICK_S)


def test_a_worker_that_waits_in_vfork_is_blocked_all_the_time(start: Start, wait_until: WaitUntil) -> None:
    """One thread in D: so many seconds of it as pass. The child it waits for sleeps."""
    workers = start("vfork")
    (pid,) = workers.worker_pids()
    wait_until(lambda: ") D " in Path(f"/proc/{pid}/stat").read_text(), "a worker in vfork")
    child = Path(f"/proc/{pid}/task/{pid}/children").read_text().strip()
    wait_until(lambda: ") S " in Path(f"/proc/{child}/stat").read_text(), "its child asleep")
    with ProcSampler(SystemClock()).watching(workers, frozenset()) as watch:
        watch.sample(reading())
        before = watch.usage()
        for _ in range(4):
            time.sleep(0.1)
            watch.sample(reading())
        after = watch.usage()

    assert before.blocked_s_total is not None
    assert after.blocked_s_total is not None
    assert after.blocked_s_total - before.blocked_s_total == pytest.approx(after.at_s - before.at_s)
    assert after.running_s_total == before.running_s_total
    assert after.child_running_s_total == before.child_running_s_total


def is_starting(pid: int) -> bool:
    """It waits uninterruptibly, and has a child."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return bool(children.read_text()) and ") D " in Path(f"/proc/{pid}/stat").read_text()


def spawning_and_elapsed_s(watch: Any) -> tuple[float | None, float]:
    """What four looks add to the time in which workers were starting children, and the time they took."""
    watch.sample(reading())
    before = watch.usage()
    for _ in range(4):
        time.sleep(0.05)
        watch.sample(reading())
    after = watch.usage()
    elapsed_s = after.at_s - before.at_s
    if before.spawning_s_total is None or after.spawning_s_total is None:
        return None, elapsed_s
    return after.spawning_s_total - before.spawning_s_total, elapsed_s


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """A FIFO; whoever waits for it at the end is let go, and whoever comes later finds none."""
    fifo = tmp_path / "gate"
    os.mkfifo(fifo)
    yield fifo
    opened = os.open(fifo, os.O_RDWR)
    fifo.unlink()
    os.close(opened)


knows_the_calls = pytest.mark.skipif(
    platform.machine() not in STARTING_CALLS, reason="the calls that start a child are not known here"
)


@knows_the_calls
def test_a_worker_that_waits_in_vfork_is_starting_a_child_all_the_time(
    start: Start, wait_until: WaitUntil
) -> None:
    workers = start("vfork")
    (pid,) = workers.worker_pids()
    wait_until(lambda: is_starting(pid), "a worker in vfork")
    with ProcSampler(SystemClock()).watching(workers, frozenset()) as watch:
        told_s, elapsed_s = spawning_and_elapsed_s(watch)

    assert told_s == pytest.approx(elapsed_s)


@knows_the_calls
def test_a_worker_starts_its_child_until_that_runs_its_program_and_no_longer(
    start: Start, wait_until: WaitUntil, gate: Path
) -> None:
    """Started by posix_spawn; asleep then, until the child ends and ever after."""
    workers = start(f"starting {gate}")
    (pid,) = workers.worker_pids()
    wait_until(lambda: is_starting(pid), "a worker that starts a child")
    with ProcSampler(SystemClock()).watching(workers, frozenset()) as watch:
        told_s, elapsed_s = spawning_and_elapsed_s(watch)
        os.close(os.open(gate, os.O_WRONLY))
        wait_until(lambda: ") S " in Path(f"/proc/{pid}/stat").read_text(), "a worker asleep")
        reported_later_s, _ = spawning_and_elapsed_s(watch)

    assert told_s == pytest.approx(elapsed_s)
    assert reported_later_s == 0


def test_more_busy_workers_than_cores_wait_for_a_core(start: Start) -> None:
    """Twice as many as there are cores: each runs half of the time at most, and waits for the rest.

    They wait for no less than what the cores cannot give: n_workers x elapsed - cores x elapsed.
    """
    n_cores = len(os.sched_getaffinity(0))
    workers = start(*["busy"] * 2 * n_cores)
    with ProcSampler(SystemClock()).watching(workers, frozenset()) as watch:
        before = watch.usage()
        while (after := watch.usage()).service_cpu_s_total < before.service_cpu_s_total + n_cores:
            watch.sample(reading())
            time.sleep(0.1)
    elapsed_s = after.at_s - before.at_s

    assert before.run_delay_s_total is not None
    assert after.run_delay_s_total is not None
    # The scheduler books a wait when it ends; half a second for those that are under way at either end.
    least_s = n_cores * elapsed_s - 2 * n_cores * 0.5
    assert after.run_delay_s_total - before.run_delay_s_total >= least_s
    assert after.running_s_total is not None
    assert after.running_s_total == pytest.approx(2 * n_cores * elapsed_s, rel=0.3)


def test_clocks_only_grow_while_children_come_and_go(start: Start) -> None:
    workers = start(*["spawning 2 0 5 0"] * 3)
    clocks = [
        *("worker_cpu_s_total", "child_cpu_s_total", "run_delay_s_total", "running_s_total"),
        *("blocked_s_total", "child_running_s_total", "child_blocked_s_total"),
    ]
    with ProcSampler(SystemClock()).watching(workers, frozenset()) as watch:
        moments = []
        while len(moments) < 200 or moments[-1].service_cpu_s_total < 0.5:
            watch.sample(reading())
            moments.append(watch.usage())

    for earlier, later in pairwise(moments):
        for clock in clocks:
            assert getattr(later, clock) >= getattr(earlier, clock)


def test_fixed_work_is_measured_before_a_launch_and_within_its_windows(start: Start) -> None:
    """The same computation, so both CPU times are of the same size."""
    sampler = ProcSampler(SystemClock())
    idle_cpu_s = sampler.idle_fixed_work_cpu_s()
    with sampler.watching(start("busy"), frozenset()) as watch:
        watch.sample(reading())
        before = watch.usage()
        time.sleep(0.2)
        after = watch.usage(closing=True)

    assert before.fixed_work_cpu_s_total is not None
    assert after.fixed_work_cpu_s_total is not None
    grown = after.fixed_work_cpu_s_total - before.fixed_work_cpu_s_total
    assert idle_cpu_s > 0
    assert 0.02 * idle_cpu_s < grown / (after.at_s - before.at_s) < 50 * idle_cpu_s
