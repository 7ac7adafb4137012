"""The sampler on a real launch: supervisord reaps workers, and must not be billed for them."""

from __future__ import annotations

import os
import signal
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.proc.procfs import ProcSampler
from tuner.adapters.supervisord.launcher import SupervisordLauncher
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec

LOAD = Path(__file__).with_name("load.py")
pytestmark = [pytest.mark.integration, pytest.mark.alone]


def test_a_worker_that_dies_leaves_its_cpu_with_the_service(
    wait_until: Callable[[Callable[[], bool], str], None],
) -> None:
    clock = SystemClock()
    reported: list[tuple[str, str]] = []
    launcher = SupervisordLauncher(
        ServiceSpec("busy", (sys.executable, str(LOAD), "busy")),
        cores=2,
        cpus=None,
        run_root=None,
        clock=clock,
        marker=f"test-{uuid.uuid4().hex}",
        keep_logs=None,
        warn=lambda slug, text: reported.append((slug, text)),
        settle_s=0.05,
    )
    with (
        launcher,
        launcher.running(Layout(2, 1), {}) as launch,
        ProcSampler(clock).watching(launch, frozenset()) as watch,
    ):
        while watch.usage().service_cpu_s_total < 2.0:
            time.sleep(0.1)
        before = watch.usage()
        victim = max(launch.worker_pids())
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{victim}").exists(), "the worker reaped by supervisord")
        after = watch.usage()

    assert (before.n_processes, before.n_threads) == (2, 2)
    assert (after.n_processes, after.n_threads) == (1, 1)
    assert after.service_cpu_s_total >= before.service_cpu_s_total
    assert after.tuner_cpu_s_total - before.tuner_cpu_s_total < 0.6  # the victim alone had used about 1 s
