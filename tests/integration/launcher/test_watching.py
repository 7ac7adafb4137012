"""What a launch tells of itself while it runs, and what it costs."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.adapters.processes.log_tail import KEPT_BYTES
from tuner.adapters.supervisord.launch import SupervisedLaunch, n_threads_of
from tuner.adapters.supervisord.launcher import SupervisordLauncher
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import VoidReason
from tuner.core.errors import MeasurementError

from ...memory_cgroup import memory_cgroup
from ...processes import is_running
from ...raising import raises
from ...wording import end_of, key_of, wording

pytestmark = pytest.mark.integration
LaunchersOf = Callable[..., SupervisordLauncher]


def awaited_problem(launch: SupervisedLaunch, slug: str) -> VoidReason:
    deadline = time.monotonic() + 30
    while slug not in {problem.slug for problem in launch.problems()}:
        assert time.monotonic() < deadline, launch.problems()
        time.sleep(0.01)
    return next(problem for problem in launch.problems() if problem.slug == slug)


def await_threads(launch: SupervisedLaunch, n_threads: int) -> None:
    deadline = time.monotonic() + 30
    while {n_threads_of(pid) for pid in launch.watch.alive().values()} != {n_threads}:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_layout_as_requested_has_no_problems(launcher_of: LaunchersOf) -> None:
    launcher = launcher_of("wait", "3", spec={"max_extra_threads": 0})

    with launcher.running(Layout(3, 3), {}) as launch:
        await_threads(launch, 3)
        assert launch.problems() == ()
        assert len(launch.worker_pids()) == 3
        assert len(launch.overhead_pids()) == 2
        assert not launch.worker_pids() & launch.overhead_pids()


@pytest.mark.parametrize(
    ("threads", "said"),
    [
        (1, wording("launch.threads-of-another-number", n="1 thread")),
        (4, wording("launch.threads-of-another-number", n="4 threads")),
    ],
    ids=key_of,
)
def test_too_few_or_too_many_threads_are_reported(launcher_of: LaunchersOf, threads: int, said: str) -> None:
    launcher = launcher_of("wait", str(threads), spec={"max_extra_threads": 1})

    with launcher.running(Layout(2, 2), {}) as launch:
        await_threads(launch, threads)
        problems = launch.problems()

    assert [problem.slug for problem in problems] == ["wrong-layout"] * 2
    assert all(problem.detail.endswith(said) for problem in problems)


def test_workers_that_are_threads_of_the_one_program_are_counted(launcher_of: LaunchersOf) -> None:
    how = {"programs": "one", "workers": "threads"}
    with launcher_of("wait", "4", spec=how).running(Layout(1, 3), {}) as launch:
        await_threads(launch, 4)
        assert launch.worker_pids() == frozenset(launch.watch.alive().values())
        assert launch.problems() == ()
    with launcher_of("wait", "2", spec=how).running(Layout(1, 3), {}) as launch:
        await_threads(launch, 2)
        (problem,) = launch.problems()

    assert problem.slug == "wrong-layout"
    assert problem.detail.endswith(wording("launch.fewer-threads-than-workers"))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="OpenBLAS starts no threads on one core")
def test_threads_that_a_numeric_library_starts_are_no_wrong_layout(launcher_of: LaunchersOf) -> None:
    """One of OpenBLAS beside the main thread."""
    environment = {"OPENBLAS_NUM_THREADS": "2"}
    launcher = launcher_of("calculate", spec={"max_extra_threads": 0, "environment": environment})

    with launcher.running(Layout(1, 1), {}) as launch:
        await_threads(launch, 2)
        assert launch.problems() == ()


def test_a_wrong_layout_stays_told_when_it_mends(launcher_of: LaunchersOf, tmp_path: Path) -> None:
    script = (
        "import os, sys, threading, time\n"
        "def linger():\n"
        "    while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
        "extra = threading.Thread(target=linger); extra.start(); extra.join(); time.sleep(60)"
    )
    go = tmp_path / "go"
    command = (sys.executable, "-c", script, str(go))
    with launcher_of(spec={"command": command, "max_extra_threads": 0}).running(Layout(1, 1), {}) as launch:
        awaited_problem(launch, "wrong-layout")
        go.touch()
        await_threads(launch, 1)
        problems = launch.problems()

    assert [problem.slug for problem in problems] == ["wrong-layout"]


def test_threads_are_not_looked_at_where_the_service_does_not_say(launcher_of: LaunchersOf) -> None:
    with launcher_of("wait", "1").running(Layout(1, 9), {}) as launch:
        assert launch.problems() == ()


def test_a_worker_that_dies_stays_told_with_its_exit_code(launcher_of: LaunchersOf, tmp_path: Path) -> None:
    with launcher_of("ends", str(tmp_path / "go"), "5").running(Layout(1, 1), {}) as launch:
        (tmp_path / "go").touch()
        problem = awaited_problem(launch, "worker-died")
        time.sleep(0.05)
        again = launch.problems()

    assert wording("launch.ended-and-log-ends") in end_of(problem.detail)
    assert again == (problem,)
    assert launch.worker_pids() == frozenset()


def test_a_worker_that_is_killed_is_reported_with_the_signal_and_never_replaced(
    launcher_of: LaunchersOf,
) -> None:
    with launcher_of("wait").running(Layout(3, 1), {}) as launch:
        before = launch.worker_pids()
        os.kill(min(before), signal.SIGKILL)
        problem = awaited_problem(launch, "worker-died")

        assert "terminated by SIGKILL" in problem.detail
        assert f"(pid {min(before)})" in problem.detail
        assert launch.worker_pids() == before - {min(before)}


def await_ready(launch: SupervisedLaunch) -> int:
    """The pid of the one worker, once it has logged a line."""
    deadline = time.monotonic() + 60
    while not (launch.log_files[0].exists() and launch.log_files[0].stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (pid,) = launch.worker_pids()
    return pid


def test_a_worker_that_the_kernel_killed_for_its_memory_is_reported_as_that(launcher_of: LaunchersOf) -> None:
    with (
        memory_cgroup(64 << 20) as procs,
        launcher_of("devours", str(procs)).running(Layout(1, 1), {}) as launch,
    ):
        os.kill(await_ready(launch), signal.SIGUSR1)
        problem = awaited_problem(launch, "worker-died")

    assert wording("launch.killed-out-of-memory") in problem.detail


@pytest.mark.parametrize(
    ("n_bytes", "n_times"),
    [(8 << 20, 16), pytest.param(16 << 20, 256, marks=pytest.mark.full, id="four gigabytes")],
)
def test_a_worker_that_logs_without_end_fills_no_disk_and_is_reported_once(
    launcher_of: LaunchersOf, warnings_given: list[tuple[str, str]], n_bytes: int, n_times: int
) -> None:
    most_bytes = 0
    with launcher_of("chatty", str(n_bytes)).running(Layout(1, 1), {}) as launch:
        pid, log = await_ready(launch), launch.log_files[0]
        for n in range(1, n_times + 1):
            os.kill(pid, signal.SIGUSR1)
            deadline = time.monotonic() + 60
            while log.stat().st_size < n * n_bytes:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert launch.problems() == ()
            most_bytes = max(most_bytes, log.stat().st_blocks * 512)

    assert most_bytes <= 2 * KEPT_BYTES + n_bytes < n_bytes * n_times / 2
    assert [slug for slug, _ in warnings_given] == ["log-long"]
    assert wording("launch.logged-too-much") in warnings_given[0][1]


def test_a_dead_supervisord_is_reported(launcher_of: LaunchersOf) -> None:
    launcher = launcher_of("wait")
    with launcher.running(Layout(2, 1), {}) as launch:
        (supervisord,) = launch.overhead_pids() - {launcher.guardian_pid}
        os.kill(supervisord, signal.SIGKILL)
        problem = awaited_problem(launch, "launcher-died")
        awaited_problem(launch, "worker-died")

    assert problem.detail == wording("launch.supervisord-ended")
    assert launch.overhead_pids() == frozenset({launcher.guardian_pid})


def test_a_dead_guardian_is_reported_and_the_next_launch_has_another(launcher_of: LaunchersOf) -> None:
    launcher = launcher_of("wait")
    with launcher.running(Layout(2, 1), {}) as launch:
        first = launcher.guardian_pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        problem = awaited_problem(launch, "launcher-died")
        workers = launch.worker_pids()

    assert problem.detail == wording("launch.guardian-ended")
    assert not any(map(is_running, workers))
    with launcher.running(Layout(2, 1), {}) as launch:
        assert launch.problems() == ()
        assert launcher.guardian_pid not in {None, first}


@pytest.mark.parametrize("n_killed", [1, 2])
def test_a_guardian_that_is_killed_as_it_starts_is_replaced_once(
    launcher_of: LaunchersOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, n_killed: int
) -> None:
    launcher = launcher_of("wait")
    starts, python = tmp_path / "starts", tmp_path / "python3"
    kill_some = f'echo >>{starts}; [ "$(wc -l <{starts})" -gt {n_killed} ] || kill -9 $$'
    python.write_text(f'#!/bin/sh\n{kill_some}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))

    if n_killed == 1:
        with launcher:
            assert launcher.guardian_pid is not None
            assert is_running(launcher.guardian_pid)
    else:
        with raises(MeasurementError, wording("launch.guardian-gone")) as caught, launcher:
            pytest.fail("nobody guards")
        named = str(caught.value).partition(wording("launch.guardian-process"))[2]
        assert named.partition(wording("launch.guardian-gone"))[0].isdecimal()
    assert starts.read_text() == "\n\n"


def test_asking_every_second_is_cheap(launcher_of: LaunchersOf) -> None:
    with launcher_of("wait", spec={"max_extra_threads": 0}).running(Layout(8, 1), {}) as launch:
        await_threads(launch, 1)
        begun_s = time.process_time()
        for _ in range(100):
            assert launch.problems() == ()
        spent_s = time.process_time() - begun_s

    assert spent_s / 100 < 0.005  # 0.1 ms here; a call of supervisord is 3 ms
