"""Services whose one program starts the worker processes itself, and wrappers around each worker."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.proc.procfs import ProcSampler
from tuner.adapters.supervisord.launch import SupervisedLaunch
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Reading

from ...wording import end_of, wording
from .conftest import LaunchersOf

pytestmark = pytest.mark.integration

#: A master of TUNER_PROCESSES workers that burn 50 ms of CPU and wait; it replaces one that ends, or, told to
#: with "once", does not. TERM ends all.
MASTER = """\
import os, signal, sys, time

def work():
    while time.process_time() < 0.05:
        pass
    signal.pause()

def started():
    child = os.fork()
    if child:
        return child
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    work()

def end(*_):
    for worker in workers:
        os.kill(worker, signal.SIGTERM)
    os._exit(0)

workers = set(started() for _ in range(int(os.environ["TUNER_PROCESSES"])))
signal.signal(signal.SIGTERM, end)
while True:
    workers.discard(os.wait()[0])
    if sys.argv[1:] != ["once"]:
        workers.add(started())
    while not workers:
        time.sleep(0.01)
"""
GUNICORN_LIKE = {"programs": "one", "workers": "children"}


def wait_until(seen: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < deadline, f"never seen: {what}"
        time.sleep(0.02)


def spec(*arguments: str) -> dict[str, object]:
    return {"command": (sys.executable, "-c", MASTER, *arguments), **GUNICORN_LIKE}


def await_workers(launch: SupervisedLaunch, n: int) -> frozenset[int]:
    wait_until(lambda: len(launch.worker_pids()) == n, f"{n} workers")
    return launch.worker_pids()


def test_the_workers_of_a_master_are_its_children(launcher_of: LaunchersOf) -> None:
    with launcher_of(spec=spec()).running(Layout(3, 1), {}) as launch:
        workers = await_workers(launch, 3)

        (master,) = launch.watch.alive().values()
        assert {int(Path(f"/proc/{pid}/stat").read_text().split()[3]) for pid in workers} == {master}
        assert launch.problems() == ()
        assert not workers & launch.overhead_pids()
    assert launch.worker_pids() == frozenset()


def test_each_of_several_masters_has_a_pool_of_as_many_workers_as_the_layout_has_threads(
    launcher_of: LaunchersOf,
) -> None:
    master = MASTER.replace("TUNER_PROCESSES", "TUNER_THREADS")
    pools = {"command": (sys.executable, "-c", master, "once"), "workers": "pools", "max_extra_threads": 0}
    with launcher_of(spec=pools).running(Layout(2, 3), {}) as launch:
        workers = await_workers(launch, 6)

        assert len(launch.watch.alive()) == 2
        assert launch.shape == Layout(6, 1, has_threads=False)
        assert (launch.problems(), launch.problems()) == ((), ())
        os.kill(min(workers), signal.SIGKILL)
        await_workers(launch, 5)
        assert launch.problems() == ()
        (problem,) = launch.problems()
    assert problem.detail == wording("services.worker-processes-below", n=5, n_all=6)


def test_the_cpu_of_workers_below_a_master_is_the_workers(launcher_of: LaunchersOf) -> None:
    """50 ms each, told in ticks of 10 ms; the master's own is the service's, and no worker's."""
    with launcher_of(spec=spec()).running(Layout(3, 1), {}) as launch:
        await_workers(launch, 3)
        with ProcSampler(SystemClock()).watching(launch, frozenset()) as watch:
            wait_until(lambda: (watch.usage().worker_cpu_s_total or 0.0) >= 0.12, "CPU of the workers")
            watch.sample(Reading(time.monotonic(), 0, 0))
            usage = watch.usage()

    assert (usage.n_processes, usage.n_threads) == (3, 3)
    assert usage.worker_cpu_s_total is not None
    assert usage.master_cpu_s_total is not None
    assert usage.master_cpu_s_total > 0
    # nobody's children have used anything: what is no worker's is the master's, but for what started it
    assert usage.child_cpu_s_total == pytest.approx(usage.master_cpu_s_total, abs=0.05)
    assert usage.service_cpu_s_total == pytest.approx(usage.worker_cpu_s_total + usage.child_cpu_s_total)


def test_a_worker_that_its_master_replaces_is_no_problem(launcher_of: LaunchersOf) -> None:
    with launcher_of(spec=spec()).running(Layout(2, 1), {}) as launch:
        before = await_workers(launch, 2)
        os.kill(min(before), signal.SIGKILL)
        wait_until(lambda: len(launch.worker_pids() - before) == 1, "another worker")
        await_workers(launch, 2)

        assert (launch.problems(), launch.problems()) == ((), ())


def test_a_worker_that_stays_away_is_reported_once_it_was_missed_twice(launcher_of: LaunchersOf) -> None:
    with launcher_of(spec=spec("once")).running(Layout(3, 1), {}) as launch:
        os.kill(min(await_workers(launch, 3)), signal.SIGKILL)
        await_workers(launch, 2)
        first = launch.problems()
        still_warming = launch.problems(threads=False)
        (problem,) = launch.problems()

    assert (first, still_warming) == ((), ())
    assert problem.slug == "wrong-layout"
    assert problem.detail == wording("services.worker-processes-below", n=2, n_all=3)


def test_the_threads_of_workers_below_a_master_are_counted(launcher_of: LaunchersOf) -> None:
    with launcher_of(spec={**spec(), "max_extra_threads": 0}).running(Layout(2, 2), {}) as launch:
        await_workers(launch, 2)
        problems = launch.problems()

    assert all(wording("launch.one-thread-too-few") in end_of(problem.detail) for problem in problems)
    assert len(problems) == 2


def test_a_shell_around_each_worker_is_no_worker(launcher_of: LaunchersOf) -> None:
    command = ("sh", "-c", "sleep 60 & wait")
    how = {"command": command, "workers": "children", "stop_as_group": True}
    with launcher_of(spec=how).running(Layout(2, 1), {}) as launch:
        workers = await_workers(launch, 2)

        assert not workers & set(launch.watch.alive().values())
        assert launch.problems() == ()


def test_the_workers_of_a_program_that_a_runner_starts_are_looked_for_below_it(
    launcher_of: LaunchersOf, tmp_path: Path
) -> None:
    """As ``uv run`` does it: it stays, and passes the signal on."""
    runner = tmp_path / "uv"
    runner.write_text(
        f"#!{sys.executable}\n"
        "import signal, subprocess, sys\n"
        "run = subprocess.Popen(sys.argv[2:])\n"
        "signal.signal(signal.SIGTERM, lambda *_: run.terminate())\n"
        "sys.exit(run.wait())\n"
    )
    runner.chmod(0o755)
    master = (str(runner), "run", *spec()["command"])  # type: ignore[misc]
    with launcher_of(spec={**spec(), "command": master}).running(Layout(3, 1), {}) as launch:
        await_workers(launch, 3)

        assert (launch.problems(), launch.problems()) == ((), ())
    alone = (str(runner), "run", sys.executable, "-c", "import signal; signal.pause()")
    with launcher_of(spec={"command": alone}).running(Layout(2, 1), {}) as launch:
        workers = await_workers(launch, 2)

        assert not workers & set(launch.watch.alive().values())
        assert (launch.problems(), launch.problems()) == ((), ())


def test_a_master_that_ends_is_reported_as_a_worker_that_died(launcher_of: LaunchersOf) -> None:
    with launcher_of(spec=spec()).running(Layout(2, 1), {}) as launch:
        await_workers(launch, 2)
        (master,) = launch.watch.alive().values()
        os.kill(master, signal.SIGKILL)
        wait_until(lambda: bool(launch.problems()), "a problem")

        assert launch.problems()[0].slug == "worker-died"
        assert wording("launch.process-of") in launch.problems()[0].detail


@pytest.mark.parametrize(
    ("old", "new", "n_children", "n_workers"),
    [
        ('["TUNER_PROCESSES"])', '["TUNER_PROCESSES"]) * 2', 4, 4),
        ("workers = set(", "os.fork() or os.execvp('sleep', ['sleep', '60'])\nworkers = set(", 3, 2),
    ],
    ids=["workers", "another-child"],
)
def test_more_workers_than_the_layout_s_are_a_problem_but_not_a_master_s_other_children(
    launcher_of: LaunchersOf, old: str, new: str, n_children: int, n_workers: int
) -> None:
    said = 'print("Booting worker with pid:", os.getpid(), flush=True)'
    master = MASTER.replace(old, new).replace("    work()\n", f"    {said}\n    work()\n")
    service = {"command": (sys.executable, "-c", master), **GUNICORN_LIKE}
    with launcher_of(spec={**service, "worker_pid": r"worker with pid: (\d+)"}).running(
        Layout(2, 1), {}
    ) as launch:
        await_workers(launch, n_children)
        wait_until(lambda: launch.log_files[0].read_bytes().count(b"\n") == n_workers, "lines of workers")
        assert launch.problems() == ()
        problems = launch.problems()

    wanted = [("extra-workers", wording("services.more-worker-processes"))] if n_workers > 2 else []
    assert [(one.slug, one.detail) for one in problems] == wanted
