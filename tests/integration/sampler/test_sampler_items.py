"""Threads that work on items, of real processes that have others, and workers that nobody sees alive."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.proc.procfs import ProcSampler
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Reading

from .conftest import Workers

pytestmark = [pytest.mark.integration, pytest.mark.alone]

Start = Callable[..., Any]
WaitUntil = Callable[[Callable[[], bool], str], None]
TICK_S = 0.01


@pytest.mark.parametrize("threads", [1, 3])
def test_of_a_pool_the_cpu_of_its_threads_is_the_items_and_that_of_who_deals_them_out_is_not(
    start: Start, threads: int
) -> None:
    """400 items of 2 ms for either. The pool's threads end before the last look at them, but the time since
    the one before: a tenth of a second at most."""
    workers = start(f"pool {threads} 400")
    workers.shape = Layout(1, threads)
    (process,) = workers.processes
    with ProcSampler(SystemClock()).watching(workers, frozenset()) as watch:
        usage, tasks = watch.usage(), Path(f"/proc/{process.pid}/task")
        # at first there may be no pool yet, and so no CPU of items
        while len(list(tasks.iterdir())) > 1 or (usage.item_cpu_s_total or 0.0) < 0.1:
            watch.sample(Reading(time.monotonic(), 0, 0))
            usage = watch.usage()
            time.sleep(0.02)
        truth_s = float(process.stdout.readline())
        usage = watch.usage()

    assert truth_s >= 0.8
    assert usage.worker_cpu_s_total is not None
    assert usage.item_cpu_s_total is not None
    beside_s = usage.worker_cpu_s_total - usage.item_cpu_s_total
    # the main thread: as much, and what it took to start; its first moments may pass for the pool's
    assert beside_s >= 0.75
    assert usage.item_cpu_s_total == pytest.approx(truth_s, abs=0.2 + 0.1 * truth_s)


def test_the_cpu_of_workers_that_end_before_anybody_looks_is_theirs_and_the_masters_is_its_own(
    start: Start, wait_until: WaitUntil
) -> None:
    """Workers live for 20 ms, and are looked at once: nearly all of their CPU is known by who reaped them."""
    masters = start("master 1 2 20")
    (process,) = masters.processes
    process.stdout.readline()

    class Launch(Workers):
        shape = Layout(2, 1, has_threads=False)

        def worker_pids(self) -> frozenset[int]:
            folder = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            return frozenset(map(int, folder.read_text().split()))

        def overhead_pids(self) -> frozenset[int]:
            return frozenset({os.getpid()})  # in place of supervisord: its children belong to the service

    launch = Launch()
    with ProcSampler(SystemClock()).watching(launch, frozenset()) as watch:
        looked = []

        def seen_with_workers() -> bool:
            looked.append(watch.usage())
            return looked[-1].n_processes > 0 and (looked[-1].master_cpu_s_total or 0.0) > 0

        wait_until(seen_with_workers, "a worker")
        before = looked[-1]
        wait_until(
            lambda: watch.usage().service_cpu_s_total > before.service_cpu_s_total + 2.0, "two seconds"
        )
        after = watch.usage()

    worker_s, child_s, master_s, service_s = (
        getattr(after, f"{name}_s_total") - getattr(before, f"{name}_s_total")
        for name in ("worker_cpu", "child_cpu", "master_cpu", "service_cpu")
    )
    assert worker_s + child_s == pytest.approx(service_s)
    assert child_s == pytest.approx(master_s, abs=0.1 * service_s)
    assert worker_s >= 0.4 * service_s


def test_the_memory_of_workers_that_are_replaced_all_the_time_is_whole(start: Start) -> None:
    """60 MiB shared with two workers, who take 6 MiB each for themselves; they live for some 20 ms.

    On average it lies between a master alone and one with three workers, with 10 for each interpreter.
    Without the young ones it would be the master's part of what is shared, 30 MiB.
    """
    masters = start("master 60 2 20")
    masters.processes[0].stdout.readline()
    mib = 1 << 20
    with ProcSampler(SystemClock()).watching(masters, frozenset()) as watch:
        reported = [watch.usage(closing=True).pss_bytes for _ in range(30)]

    assert (60 + 6) * mib <= sum(reported) / len(reported) <= (60 + 40 + 18) * mib
