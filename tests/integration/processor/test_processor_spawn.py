"""Running a child: its limits, its cost, and nothing of it left."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tuner_workers.crash_processor.spawn import STARTS, Ended, run_child
from tuner_workers.crash_processor.spawn_path import spawn_path
from tuner_workers.crash_processor.stop_event import StopEvent

from ...processes import is_running
from .conftest import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def stop() -> Iterator[StopEvent]:
    stop = StopEvent(graceful_timeout_s=0.1)
    yield stop
    stop.close()


@pytest.fixture(params=list(STARTS))
def run(request: pytest.FixtureRequest) -> Callable[..., Ended]:
    """run_child, by each way to start one."""
    return partial(run_child, spawn_path=request.param)


def _sh(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def test_both_outputs_and_the_exit_code_come_back_whole(run: Callable[..., Ended], stop: StopEvent) -> None:
    script = (
        "i=0; while [ $i -lt 9000 ]; do echo 0123456789abcdef$i; echo err$i >&2; i=$((i+1)); done; exit 7"
    )

    ended = run(_sh(script), timeout_s=60, stop=stop)

    assert ended.stdout.decode().split() == [f"0123456789abcdef{i}" for i in range(9000)]
    assert ended.stderr.decode().split() == [f"err{i}" for i in range(9000)]
    assert (ended.exit_code, ended.describe(), ended.killed) == (7, "exit code 7", None)


def test_the_childs_cpu_time_is_reported_and_so_is_its_childrens(
    run: Callable[..., Ended], stop: StopEvent
) -> None:
    spin = "import time\nwhile time.process_time() < 0.2: pass"

    ended = run(_sh(f'"{sys.executable}" -c "{spin}"; true'), timeout_s=60, stop=stop)

    assert ended.cpu_ns >= 0.2e9


def test_a_signal_is_reported_by_its_name(run: Callable[..., Ended], stop: StopEvent) -> None:
    assert run(_sh("kill -ABRT $$"), timeout_s=60, stop=stop).describe() == "signal SIGABRT"


@pytest.mark.parametrize(
    "script",
    [
        "sleep 1000",
        "trap '' TERM INT; sleep 1000; sleep 1000",
        "sleep 1000 & sleep 1000 & wait",
        "exec >&- 2>&-; sleep 1000",
        "sleep 1000 & exit 0",
    ],
)
def test_a_time_limit_ends_the_child_and_all_it_started(
    run: Callable[..., Ended], stop: StopEvent, script: str
) -> None:
    ended = run(_sh(script), timeout_s=0.2, stop=stop)  # a leftover fails the test (tests/conftest.py)

    assert ended.killed == "kill_timeout"


def test_what_a_child_left_running_in_its_group_is_ended_with_it(
    run: Callable[..., Ended], stop: StopEvent, tmp_path: Path
) -> None:
    ended = run(_sh(f"sleep 1000 >&- 2>&- & echo $! > {tmp_path}/pid"), timeout_s=60, stop=stop)

    assert (ended.exit_code, ended.killed) == (0, None)
    left = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_running(left))


def test_output_has_a_limit(run: Callable[..., Ended], stop: StopEvent) -> None:
    ended = run(["yes"], timeout_s=60, stop=stop, max_output_bytes=100_000)

    assert ended.killed == "too much output"
    assert len(ended.stdout) < 300_000


@pytest.mark.parametrize("script", ["sleep 1000", "exec >&- 2>&-; sleep 1000"])
def test_a_stop_in_the_middle_leaves_the_child_its_grace_and_no_more(
    run: Callable[..., Ended], stop: StopEvent, script: str
) -> None:
    threading.Timer(0.2, stop.set).start()
    started_s = time.monotonic()

    ended = run(_sh(script), timeout_s=1000, stop=stop)

    assert ended.killed == "stopping"
    assert time.monotonic() - started_s >= 0.25  # 0.2 s until the stop, 0.1 s of grace, rounded down


def test_a_child_that_ends_within_the_grace_is_not_killed(run: Callable[..., Ended]) -> None:
    stop = StopEvent(graceful_timeout_s=60)
    stop.set()

    ended = run(_sh("sleep 0.2; echo x"), timeout_s=60, stop=stop)

    assert (ended.killed, ended.stdout) == (None, b"x\n")
    stop.close()


def test_what_cannot_be_started_is_an_error_and_leaves_no_file_open(
    run: Callable[..., Ended], stop: StopEvent
) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        run(["/nonexistent/walker"], timeout_s=1, stop=stop)

    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_many_runs_leave_no_file_open(run: Callable[..., Ended], stop: StopEvent) -> None:
    run(["true"], timeout_s=60, stop=stop)
    before = len(os.listdir("/proc/self/fd"))
    for script in ("true", "sleep 9", "exec >&- 2>&-; sleep 0.05") * 3:
        run(_sh(script), timeout_s=0.1, stop=stop)

    assert len(os.listdir("/proc/self/fd")) == before


def test_this_interpreters_way_to_spawn_is_seen() -> None:
    facts = spawn_path()

    assert facts["interpreter"] == sys.executable
    assert facts["path"] == "vfork+exec"
    assert facts["spawn_ms"] > 0
    assert subprocess._fork_exec.__name__ == "fork_exec"  # type: ignore[attr-defined]


@pytest.mark.skipif(sys.version_info < (3, 11, 4), reason="this Python holds the GIL while it starts a child")
def test_other_threads_run_on_while_a_child_is_started() -> None:
    """process_group=0 is pinned for this: 3.13's own choice would be posix_spawn."""
    assert spawn_path()["holds_the_gil"] is False


def test_a_spawn_that_holds_the_gil_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """os.posix_spawn holds it in every version: put in place of the function that Popen calls."""

    def spawn(arguments: tuple[bytes, ...], *_: object) -> int:
        return os.posix_spawn(sys.executable, arguments, os.environ)

    monkeypatch.setattr(subprocess, "_fork_exec", spawn)

    assert spawn_path()["holds_the_gil"] is True


def test_posix_spawn_can_be_requested_and_holds_the_gil() -> None:
    path = os.environ["PATH"]

    facts = spawn_path("posix_spawn")

    assert (facts["path"], facts["holds_the_gil"]) == ("posix_spawn", True)
    assert os.environ["PATH"] == path
    assert os.posix_spawnp.__name__ == "posix_spawnp"


def test_a_child_gets_the_signals_back_that_python_ignores(
    run: Callable[..., Ended], stop: StopEvent
) -> None:
    """SIGPIPE is 13: a child that inherits it ignored has bit 12 of SigIgn set."""
    ended = run(_sh("grep SigIgn /proc/self/status"), timeout_s=60, stop=stop)

    assert int(ended.stdout.split()[1], 16) & (1 << 12 | 1 << 24) == 0


def test_a_child_leads_a_group_of_its_own_and_has_no_file_of_ours(
    run: Callable[..., Ended], stop: StopEvent
) -> None:
    ended = run(_sh("echo $$; cut -d' ' -f5 /proc/$$/stat; ls /proc/$$/fd"), timeout_s=60, stop=stop)
    pid, group, *files = ended.stdout.split()

    assert pid == group
    assert {b"0", b"1", b"2"} <= set(files)
    assert not set(files) - {b"0", b"1", b"2", b"10"}  # some shells keep one of their own
