"""What every launcher promises, whatever it starts."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.supervisord.launcher import SupervisordLauncher
from tuner.adapters.virtual.box import VirtualBox, VirtualService
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.ports import Launcher

pytestmark = pytest.mark.pythons

LAYOUTS = (Layout(1, 1), Layout(3, 2), Layout(2, 4))
WORKER = """
import os, signal, threading
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
for _ in range(int(os.environ["TUNER_THREADS"]) - 1):
    threading.Thread(target=ended.wait).start()
ended.wait()
"""


@pytest.fixture(params=["virtual", pytest.param("supervisord", marks=pytest.mark.integration)])
def launcher(request: pytest.FixtureRequest) -> Launcher:
    """A healthy service's launcher; another adapter joins by a fixture NAME_launcher and its name above."""
    made: Launcher = request.getfixturevalue(f"{request.param}_launcher")
    return made


@pytest.fixture
def virtual_launcher() -> Launcher:
    return VirtualBox(VirtualService(dict.fromkeys(LAYOUTS, 1.0)))


@pytest.fixture
def supervisord_launcher(_nothing_is_left_behind: None) -> Iterator[Launcher]:
    spec = ServiceSpec("healthy", (sys.executable, "-c", WORKER), max_extra_threads=0)
    with SupervisordLauncher(
        spec,
        cores=2,
        cpus=None,
        run_root=None,
        clock=SystemClock(),
        marker=f"contract-{uuid.uuid4().hex}",
        keep_logs=None,
        warn=lambda slug, text: pytest.fail(f"{slug}: {text}"),
    ) as made:
        yield made


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_layout_runs_in_as_many_processes_as_it_has(launcher: Launcher, layout: Layout) -> None:
    with launcher.running(layout, {}) as launch:
        assert len(launch.worker_pids()) == layout.processes


def test_a_layout_is_over_with_its_block(launcher: Launcher) -> None:
    with launcher.running(Layout(3, 2), {}) as launch:
        pass

    assert launch.worker_pids() == frozenset()


def test_a_layout_is_over_with_its_block_even_on_an_error(launcher: Launcher) -> None:
    with pytest.raises(KeyboardInterrupt), launcher.running(Layout(3, 2), {}) as launch:
        raise KeyboardInterrupt

    assert launch.worker_pids() == frozenset()


def test_the_time_of_the_start_is_reported(launcher: Launcher) -> None:
    with launcher.running(Layout(3, 2), {}) as launch:
        assert launch.running_after_s > 0


def test_what_is_spent_on_launching_is_no_worker(launcher: Launcher) -> None:
    with launcher.running(Layout(3, 2), {}) as launch:
        assert not launch.overhead_pids() & launch.worker_pids()


def test_a_healthy_layout_has_no_problems_once_it_has_warmed_up(launcher: Launcher) -> None:
    with launcher.running(Layout(3, 2), {}) as launch:
        # the threads of a real worker take a moment; a problem once seen would stay
        _await_threads(launch.worker_pids(), 2)
        assert list(launch.problems()) == []


def test_layouts_run_one_after_the_other(launcher: Launcher) -> None:
    for layout in LAYOUTS:
        with launcher.running(layout, {}) as launch:
            assert len(launch.worker_pids()) == layout.processes
        assert launch.worker_pids() == frozenset()


def _await_threads(pids: frozenset[int], n_threads: int) -> None:
    for pid in pids:
        while (task := Path(f"/proc/{pid}/task")).exists() and len(list(task.iterdir())) < n_threads:
            continue
