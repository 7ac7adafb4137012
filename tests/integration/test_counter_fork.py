"""What forks, full disks and the probe do with counters, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.probes.mmap_counter import CounterProbe
from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError, MeasurementError
from tuner.probe.counter import Counter, CounterError, open_counter, read_totals

from ..raising import raises
from ..wording import start_of, wording

pytestmark = [
    pytest.mark.pythons,
    pytest.mark.integration,
    # Servers do fork with threads running, and the counter has to stand it.
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]


def in_a_fork(body: Callable[[], None]) -> None:
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)  # a child that hangs fails the test
        status = 1
        try:
            body()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_child_that_never_counts_leaves_no_file(tmp_path: Path) -> None:
    slot = open_counter(str(tmp_path)).slot()
    slot.done()
    in_a_fork(lambda: None)

    assert len(list(tmp_path.iterdir())) == 1


def test_each_generation_counts_into_its_own_file(tmp_path: Path) -> None:
    slot = open_counter(str(tmp_path)).slot()
    add_stages = slot.add_stages  # kept by itself

    def grandchild() -> None:
        slot.failed()

    def child() -> None:
        add_stages(5, 4, 3)
        slot.done()
        in_a_fork(grandchild)
        slot.done()

    slot.done()
    in_a_fork(child)
    slot.done()

    assert tuple(read_totals(str(tmp_path))) == (4, 1, 5, 4, 3, 3, 3)


def test_a_child_may_use_another_threads_slot_and_start_threads_that_ask_for_one(tmp_path: Path) -> None:
    counter = open_counter(str(tmp_path))
    handles = []
    hold, held = threading.Event(), threading.Event()

    def body() -> None:
        handles.append(counter.slot())
        held.set()
        hold.wait()

    thread = threading.Thread(target=body)
    thread.start()
    held.wait()

    def child() -> None:
        handles[0].done()
        worker = threading.Thread(target=lambda: counter.slot().done())
        worker.start()
        worker.join()
        counter.slot().done()

    in_a_fork(child)
    hold.set()
    thread.join()

    totals = read_totals(str(tmp_path))
    assert totals.n_done == 3
    assert totals.n_processes == 2


def test_a_fork_while_another_thread_takes_a_slot_does_not_hang_the_child(tmp_path: Path) -> None:
    counter = open_counter(str(tmp_path))
    counter.slot().done()
    with counter._lock:  # as that thread would hold it
        in_a_fork(lambda: open_counter(str(tmp_path)).slot().done())

    assert read_totals(str(tmp_path)).n_done == 2


def test_a_child_takes_over_a_slot_in_its_own_file_with_the_totals_there(tmp_path: Path) -> None:
    counter = open_counter(str(tmp_path))
    kept = counter.slot()

    def child() -> None:
        # Another thread of the child counts and ends; then the held handle counts for the first time.
        worker = threading.Thread(target=lambda: counter.slot().done())
        worker.start()
        worker.join()
        deadline = time.monotonic() + 30
        while not (counter._slots and counter._slots.free):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        kept.done()
        kept.done()
        kept.add_stages(1, 1, 1)

    in_a_fork(child)

    totals = read_totals(str(tmp_path))
    assert totals.n_done == 3
    assert totals.n_slots == 2  # the parent's, and one in the child that two threads had in turn


def test_a_disk_without_room_is_said_when_the_slot_is_taken(tmp_path: Path) -> None:
    script = (
        "import resource, sys; from tuner.probe.counter import CounterError, open_counter\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "try: open_counter(sys.argv[1]).slot()\n"
        "except CounterError as error: sys.exit(str(error))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert wording("probes.cannot-enlarge-counter", tmp_path=tmp_path) in start_of(result.stderr)
    assert result.stderr.endswith("File too large\n")


def test_the_probe_reads_what_a_worker_process_counts_and_removes_its_folder(tmp_path: Path) -> None:
    script = "from tuner.probe.counter import open_counter; s = open_counter().slot(); s.done(); s.failed()"
    with CounterProbe(SystemClock(), tmp_path).counting(Layout(2, 1)) as counting:
        before = counting.read()
        for _ in range(2):
            subprocess.run(
                [sys.executable, "-c", script], env={**os.environ, **counting.environment}, check=True
            )
        after = counting.read()
        [folder] = tmp_path.iterdir()
        assert len(list(folder.iterdir())) == 2

    assert (before.n_done_total, before.n_slots) == (0, 0)
    assert (after.n_done_total, after.n_failed_total, after.n_slots) == (2, 2, 2)
    assert after.at_s > before.at_s
    assert list(tmp_path.iterdir()) == []


def test_the_probe_says_what_is_wrong_with_a_counter(tmp_path: Path) -> None:
    with CounterProbe(SystemClock(), tmp_path).counting(Layout(1, 1)) as counting:
        [folder] = tmp_path.iterdir()
        Counter(str(folder)).slot().done()
        [path] = folder.iterdir()
        path.write_bytes(b"x" * 4096)

        with raises(MeasurementError, wording("probes.no-counter-of-tuner")):
            counting.read()


def test_the_probe_says_when_it_cannot_make_its_folder(tmp_path: Path) -> None:
    probe = CounterProbe(SystemClock(), tmp_path / "gone")
    with (
        raises(ConfigError, wording("probes.cannot-make-folder-for-counters", folder=tmp_path / "gone")),
        probe.counting(Layout(1, 1)),
    ):
        pass


def test_a_counter_in_a_folder_that_is_gone_says_so_when_the_child_counts(tmp_path: Path) -> None:
    folder = tmp_path / "counts"
    folder.mkdir()
    slot = open_counter(str(folder)).slot()
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()

    def child() -> None:
        with raises(CounterError, wording("probes.cannot-make-counter")):
            slot.done()

    in_a_fork(child)
