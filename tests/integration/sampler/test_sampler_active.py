"""The active count on real tasks: running ones, and those in vfork, which procs_blocked misses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.proc.procfs import ProcSampler
from tuner.adapters.proc.task_states import ActiveTasks
from tuner.core.domain.window import Reading, Sample, mean_active_from_load1

pytestmark = [pytest.mark.integration, pytest.mark.alone]

Start = Callable[..., Any]
WaitUntil = Callable[[Callable[[], bool], str], None]


def states(pids: Iterable[int]) -> str:
    lines = (Path(f"/proc/{pid}/stat").read_text() for pid in pids)
    return "".join(sorted(line.rpartition(")")[2].split()[0] for line in lines))


@pytest.fixture
def tasks() -> Iterator[ActiveTasks]:
    tasks = ActiveTasks(Path("/proc"))
    yield tasks
    tasks.close()


def test_threads_in_vfork_are_active_though_they_wait_for_no_disk(
    start: Start, wait_until: WaitUntil, tasks: ActiveTasks
) -> None:
    """Strangers that wait for a disk may add to the count; nothing may take from it."""
    workers = start("vfork", "vfork")
    wait_until(lambda: states(workers.worker_pids()) == "DD", "two workers in vfork")
    wait_until(lambda: tasks.n_active(1) < 2, "a moment of few strangers, the workers not followed")
    tasks.follow(workers.worker_pids())
    counts = [tasks.n_active(1) for _ in range(50)]

    assert min(counts) >= 2
    wait_until(lambda: tasks.n_active(1) == 2, "a moment of few strangers")


def test_a_worker_that_ended_is_no_longer_active(
    start: Start, wait_until: WaitUntil, tasks: ActiveTasks
) -> None:
    workers = start("vfork")
    wait_until(lambda: states(workers.worker_pids()) == "D", "a worker in vfork")
    tasks.follow(workers.worker_pids())
    before = [tasks.n_active(1) for _ in range(50)]
    workers.processes[0].kill()
    workers.processes[0].wait()

    assert min(before) >= 1
    wait_until(lambda: tasks.n_active(1) == 0, "no active task")


def test_a_busy_box_counts_running_and_waiting_tasks_together(start: Start, wait_until: WaitUntil) -> None:
    workers = start("busy", "busy", "busy", "vfork", "vfork")
    wait_until(lambda: states(workers.worker_pids()) == "DDRRR", "3 running, 2 in vfork")
    with ProcSampler(SystemClock()).watching(workers, frozenset()) as watch:
        counts = [watch.sample(Reading(0.0, 0, 0)).n_active for _ in range(50)]

    assert all(count is not None and count >= 5 for count in counts)


@pytest.mark.full
def test_the_count_agrees_with_what_the_kernel_averages(start: Start, wait_until: WaitUntil) -> None:
    """Two minutes of 3 running, 2 in vfork, and whoever else is there. Both views are samples of one box;
    without the two vfork parents ours would be 2 too low."""
    clock = SystemClock()
    samples: list[Sample] = []
    workers = start("busy", "busy", "busy", "vfork", "vfork")
    wait_until(lambda: states(workers.worker_pids()) == "DDRRR", "3 running, 2 in vfork")
    with ProcSampler(clock).watching(workers, frozenset()) as watch:
        began_s = clock.monotonic_s()
        for second in range(121):
            clock.sleep_until(began_s + second)
            samples.append(watch.sample(Reading(clock.monotonic_s(), 0, 0)))
    counts = [float(sample.n_active) for sample in samples if sample.n_active is not None]
    kernel = mean_active_from_load1(samples)

    assert kernel.mean is not None
    assert kernel.low is not None
    assert kernel.high is not None
    of_the_kernel = (kernel.high - kernel.low) / 2
    of_ours = (
        2 * stdev(counts) / (len(counts) / 5) ** 0.5
    )  # neighbouring seconds are alike: one in five counts
    assert fmean(counts) == pytest.approx(kernel.mean, abs=0.25 + 2 * math.hypot(of_the_kernel, of_ours))
