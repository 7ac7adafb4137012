"""Whose CPU it was, on real processes: no second of a short-lived child is lost or counted twice."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.proc.procfs import ProcSampler

pytestmark = [pytest.mark.integration, pytest.mark.alone]

Start = Callable[..., Any]
TICK_S = 0.01


def test_children_that_lived_for_milliseconds_are_in_the_services_account(start: Start) -> None:
    """Each worker says what the kernel told it of itself and its 20 children; the tree must say the same."""
    workers = start(*["children 20 5"] * 3)
    result = sum(float(process.stdout.readline()) for process in workers.processes)
    with ProcSampler(SystemClock()).watching(workers, frozenset()) as watch:
        usage = watch.usage()

    assert result > 3 * 20 * 0.005
    assert usage.service_cpu_s_total == pytest.approx(result, abs=3 * 4 * TICK_S)
    assert (usage.n_processes, usage.n_threads) == (3, 3)


def test_totals_only_grow_while_children_come_and_go(start: Start) -> None:
    workers = start(*["spawning 2 0 5 0"] * 3)
    with ProcSampler(SystemClock()).watching(workers, frozenset()) as watch:
        moments = []
        while len(moments) < 200 or moments[-1].service_cpu_s_total < 0.5:
            moments.append(watch.usage())

    for earlier, later in pairwise(moments):
        assert later.service_cpu_s_total >= earlier.service_cpu_s_total
        assert later.tuner_cpu_s_total >= earlier.tuner_cpu_s_total
        assert later.box_cpu_s_total >= earlier.box_cpu_s_total


def test_service_and_strangers_together_are_what_the_box_used(start: Start) -> None:
    """What a sampler that knows no workers calls foreign is, to one that does, their CPU and the rest."""
    workers = start("busy", "spawning 2 1 20 0")
    nobody = start()
    clock = SystemClock()
    with (
        ProcSampler(clock).watching(workers, frozenset()) as knowing,
        ProcSampler(clock).watching(nobody, frozenset()) as unknowing,
    ):
        before = knowing.usage(), unknowing.usage()
        while (after := (knowing.usage(), unknowing.usage()))[0].service_cpu_s_total < 2.0:
            time.sleep(0.2)
    foreign_s = [
        now.foreign_cpu_s_total - then.foreign_cpu_s_total for then, now in zip(before, after, strict=True)
    ]
    service_s = after[0].service_cpu_s_total - before[0].service_cpu_s_total

    assert foreign_s[1] - foreign_s[0] == pytest.approx(service_s, abs=0.15)
    assert foreign_s[0] > -0.3  # another run of tests may use the box: no upper bound


def test_a_backend_is_accounted_apart(start: Start) -> None:
    backend = subprocess.Popen([sys.executable, "-S", "-E", "-c", "while True: pass"])
    try:
        sampler = ProcSampler(SystemClock(), backends=[str(backend.pid)])
        with sampler.watching(start(), frozenset()) as watch:
            while (usage := watch.usage()).backend_cpu_s_total < 0.5:
                time.sleep(0.05)
    finally:
        backend.kill()
        backend.wait()

    assert usage.service_cpu_s_total == 0


def test_a_feeder_is_tuners(start: Start) -> None:
    feeder = subprocess.Popen([sys.executable, "-S", "-E", "-c", "while True: pass"])
    try:
        with ProcSampler(SystemClock(), own_pid=os.getpid()).watching(
            start(), frozenset({feeder.pid})
        ) as watch:
            began = watch.usage().tuner_cpu_s_total
            while watch.usage().tuner_cpu_s_total < began + 0.5:
                time.sleep(0.05)
    finally:
        feeder.kill()
        feeder.wait()


def test_the_sampler_keeps_no_file_open_when_the_launch_is_over(start: Start) -> None:
    before = len(os.listdir("/proc/self/fd"))
    workers = start("busy", "busy")
    started = len(os.listdir("/proc/self/fd"))
    with ProcSampler(SystemClock()).watching(workers, frozenset()) as watch:
        watch.usage()

    assert started > before
    assert len(os.listdir("/proc/self/fd")) == started
