"""The time that threads of real workers spend in line for the GIL, beside what it must be."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.proc.gil_waits import FUTEX_CALLS, GilWaits
from tuner.adapters.proc.procfs import ProcSampler
from tuner.core.domain.window import Reading

pytestmark = [
    pytest.mark.integration,
    pytest.mark.alone,
    pytest.mark.skipif(platform.machine() not in FUTEX_CALLS, reason="futex has another number here"),
]

Start = Callable[..., Any]
N_LOOKS = 60
N_TRIES = 12  #: until others leave the box alone


def waiting_ratio(start: Start, kind: str, threads: int) -> float:
    """The part of their time that the threads of a worker wait for its GIL, from looks at random moments."""
    worker = start(f"gil {kind} {threads}")
    worker.processes[0].stdout.readline()
    random = Random(1)
    waits = GilWaits(Path("/proc"))
    waits.follow(worker.worker_pids())
    assert waits.is_known
    found = []
    for _ in range(N_LOOKS):
        time.sleep(random.uniform(0.0, 0.04))
        line = waits.look()
        found.append((line.asleep + line.waking) / threads)
    waits.close()
    for process in worker.processes:
        process.kill()
        process.wait()
    return fmean(found)


def until(measured: Callable[[], float], expected: object) -> float:
    """Measure until it is as *expected*, for a while: where others use the box, who gets the GIL waits for a
    core to take it, and all seem to wait."""
    for _ in range(N_TRIES - 1):
        if (found := measured()) == expected:
            return found
    return measured()


@pytest.mark.parametrize("threads", [2, 4, 8])
def test_threads_that_hold_the_gil_in_turn_wait_for_it_the_rest_of_the_time(
    start: Start, threads: int
) -> None:
    """One at a time has it, however long a core is not to be had."""
    expected = pytest.approx((threads - 1) / threads, abs=0.1)
    assert until(lambda: waiting_ratio(start, "held", threads), expected) == expected


@pytest.mark.parametrize("threads", [4, 8])
def test_threads_in_python_wait_for_each_other(start: Start, threads: int) -> None:
    """On a busy box many of them are awake at a time, and wait for a core to ask for it."""
    expected = pytest.approx((threads - 1) / threads, abs=0.2)
    assert until(lambda: waiting_ratio(start, "python", threads), expected) == expected


@pytest.mark.parametrize("kind", ["free", "asleep"])
def test_threads_that_do_without_the_gil_do_not_wait_for_it(start: Start, kind: str) -> None:
    assert waiting_ratio(start, kind, 3) < 0.1


def test_a_launch_that_is_watched_tells_how_long_its_threads_wait(start: Start) -> None:
    workers = start("gil held 4")
    workers.processes[0].stdout.readline()
    with ProcSampler(SystemClock(), gil_looks_per_s=50).watching(workers, frozenset()) as watch:
        watch.sample(Reading(time.monotonic(), 0, 0))

        def n_waiting() -> float:
            before = watch.usage()
            time.sleep(1.0)
            after = watch.usage()
            waited_s = after.gil_waiting_s_total - before.gil_waiting_s_total
            return waited_s / (after.at_s - before.at_s)

        expected = pytest.approx(3, abs=0.6)
        assert until(n_waiting, expected) == expected
        assert watch.usage().gil_waking_s_total is not None


def test_at_the_edge_of_a_slice_a_sample_replaces_that_of_the_idle_launch(start: Start) -> None:
    """Otherwise a sample is taken once in a quarter of an hour."""
    workers = start("gil held 4")
    workers.processes[0].stdout.readline()
    with ProcSampler(SystemClock(), gil_looks_per_s=0.001).watching(workers, frozenset()) as watch:
        watch.sample(Reading(time.monotonic(), 0, 0))

        def n_waiting(*, at_edge: bool) -> float:
            before = watch.usage(at_edge=at_edge)
            time.sleep(0.2)
            after = watch.usage()
            waited_s = after.gil_waiting_s_total - before.gil_waiting_s_total
            return waited_s / (after.at_s - before.at_s)

        assert n_waiting(at_edge=False) == 0.0
        expected = pytest.approx(3, abs=0.6)
        assert until(lambda: n_waiting(at_edge=True), expected) == expected


def test_nobody_looks_unless_told_to(start: Start) -> None:
    with ProcSampler(SystemClock()).watching(start("busy"), frozenset()) as watch:
        watch.sample(Reading(time.monotonic(), 0, 0))

        assert watch.usage().gil_waiting_s_total is None
