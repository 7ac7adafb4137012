"""A launch of two hundred processes: it starts, is looked at whole, and leaves nothing."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.proc.procfs import ProcSampler
from tuner.adapters.proc.task_states import MOST_KEPT_OPEN
from tuner.adapters.supervisord.launcher import SupervisordLauncher
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.domain.window import Reading

from ...processes import is_running

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.alone, pytest.mark.timeout(300)]
MANY = 200


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_two_hundred_processes_are_all_seen_and_leave_nothing(
    wait_until: Callable[[Callable[[], bool], str], None], tmp_path: Path
) -> None:
    clock = SystemClock()
    reported: list[tuple[str, str]] = []
    launcher = SupervisordLauncher(
        ServiceSpec("many", ("sleep", "100000")),
        cores=MANY,
        cpus=None,
        run_root=tmp_path,
        clock=clock,
        marker=f"test-{uuid.uuid4().hex}",
        keep_logs=None,
        warn=lambda slug, text: reported.append((slug, text)),
        settle_s=0.05,
    )
    before = open_files()
    with launcher:
        with (
            launcher.running(Layout(MANY, 1), {}) as launch,
            ProcSampler(clock).watching(launch, frozenset()) as watch,
        ):
            pids = launch.worker_pids()
            for _ in range(3):
                sample = watch.sample(Reading(time.monotonic(), 0, 0))
            usage = watch.usage(closing=True)
            during = open_files()
        wait_until(lambda: not any(map(is_running, pids)), "the workers gone")

    assert len(pids) == MANY
    assert (usage.n_processes, usage.n_threads) == (MANY, MANY)
    assert usage.pss_bytes is not None
    assert usage.pss_bytes > MANY * 10_000
    assert sample.n_active is not None
    assert during - before <= MANY + MOST_KEPT_OPEN + 16  # each is held by one; far from a limit of 1024
    assert open_files() == before
    assert list(tmp_path.iterdir()) == []
    assert reported == []
