"""Both task managers keep one promise; threads and queue are all that differs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tuner_workers.crash_processor.stop_event import StopEvent
from tuner_workers.crash_processor.task_manager import TaskManager
from tuner_workers.crash_processor.threaded_task_manager import ThreadedTaskManager

from ..raising import raises
from ..wording import wording

LONG_S = 30.0

Make = Callable[..., TaskManager]


@pytest.fixture(params=["single", "one thread", "three threads"])
def make(request: pytest.FixtureRequest) -> Make:
    n_threads = 3 if request.param == "three threads" else 1
    manager_class = TaskManager if request.param == "single" else ThreadedTaskManager

    def make_manager(source: Any, task: Any, *, quit_on_empty_queue: bool = False, **how: Any) -> TaskManager:
        config = SimpleNamespace(
            number_of_threads=n_threads,
            maximum_queue_size=2,
            idle_delay=0.001,
            quit_on_empty_queue=quit_on_empty_queue,
        )
        return manager_class(config, source, task, **how)

    return make_manager


def _job(n: int, **kwargs: Any) -> Any:
    return (n,), kwargs


def test_every_job_is_done_once_before_the_end(make: Make) -> None:
    done: list[int] = []

    make([_job(n) for n in range(100)], done.append).blocking_start()

    assert sorted(done) == list(range(100))


def test_a_source_may_be_a_function_that_gives_an_iterator(make: Make) -> None:
    done: list[int] = []

    make(lambda: iter([_job(1), _job(2)]), done.append).blocking_start()

    assert sorted(done) == [1, 2]


def test_a_job_brings_its_arguments_and_its_finished_func(make: Make) -> None:
    finished: list[str] = []

    def task(crash_id: str, finished_func: Callable[[], None]) -> None:
        finished_func()

    jobs = [
        ((crash_id,), {"finished_func": lambda crash_id=crash_id: finished.append(crash_id)})
        for crash_id in "abc"
    ]
    make(jobs, task).blocking_start()

    assert sorted(finished) == ["a", "b", "c"]


def test_an_empty_queue_is_waited_out(make: Make) -> None:
    done: list[int] = []

    make([None, _job(1), None, None, _job(2)], done.append).blocking_start()

    assert sorted(done) == [1, 2]


def test_an_empty_queue_is_the_end_where_that_was_requested(make: Make) -> None:
    done: list[int] = []

    def source() -> Iterator[Any]:
        yield _job(1)
        while True:
            yield None

    make(source, done.append, quit_on_empty_queue=True).blocking_start()

    assert done == [1]


def test_a_queue_is_not_empty_while_a_job_in_hand_may_come_back(make: Make) -> None:
    queue = [1, 2, 3]
    tries: list[int] = []

    def source() -> Iterator[Any]:
        while True:
            yield _job(queue.pop()) if queue else None

    def task(n: int) -> None:
        tries.append(n)
        if tries.count(n) < 3:
            threading.Event().wait(0.01)  # the source finds nothing meanwhile
            queue.append(n)

    make(source, task, quit_on_empty_queue=True).blocking_start()

    assert sorted(tries) == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_a_job_that_fails_takes_no_other_with_it(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    done: list[int] = []

    def task(n: int) -> None:
        if n == 1:
            raise RuntimeError("broken")
        done.append(n)

    make([_job(n) for n in range(3)], task).blocking_start()

    assert sorted(done) == [0, 2]
    assert "RuntimeError: broken" in capsys.readouterr().err


def test_a_source_that_dies_ends_it_with_that_error_after_the_jobs_it_gave(make: Make) -> None:
    done: list[int] = []

    def source() -> Iterator[Any]:
        yield _job(1)
        raise ConnectionError("source is gone")

    with raises(ConnectionError, wording("crash-processor.source-is-gone")):
        make(source, done.append).blocking_start()

    assert done == [1]


def test_stop_ends_an_endless_source_and_gives_back_what_was_not_started(make: Make) -> None:
    taken: list[int] = []
    started: list[int] = []
    given_back: list[int] = []
    enough = threading.Event()

    def source() -> Iterator[Any]:
        n = 0
        while True:
            taken.append(n)
            yield _job(n)
            n += 1

    def task(n: int) -> None:
        started.append(n)
        if n >= 20:
            manager.stop()
            enough.set()
        enough.wait(0.001)

    manager = make(source, task, unstarted_func=given_back.append)
    manager.blocking_start()

    assert enough.is_set()
    assert sorted(started + given_back) == taken
    assert len(taken) <= 21 + 3 + 3 + 2 + 1  # done, in the threads' hands, in the queue, in the source's


def test_stop_ends_the_idle_wait_at_once(make: Make) -> None:
    def source() -> Iterator[Any]:
        threading.Timer(0.05, manager.stop).start()
        while True:
            yield None

    manager = make(source, print)
    manager.config.idle_delay = LONG_S  # type: ignore[misc]
    ended = threading.Event()

    def run() -> None:
        manager.blocking_start()
        ended.set()

    threading.Thread(target=run, daemon=True).start()

    assert ended.wait(LONG_S / 2)


def test_a_signal_stops_the_main_thread_while_it_waits(make: Make) -> None:
    def source() -> Iterator[Any]:
        os.kill(os.getpid(), signal.SIGUSR1)
        while True:
            yield None

    manager = make(source, print)
    before = signal.signal(signal.SIGUSR1, lambda *_: manager.stop())
    try:
        manager.blocking_start()
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert manager.stop_event.is_set()


def test_never_more_is_taken_than_the_threads_and_the_queue_hold() -> None:
    config = SimpleNamespace(
        number_of_threads=2, maximum_queue_size=3, idle_delay=0.001, quit_on_empty_queue=False
    )
    most = 0
    n_taken = n_done = 0
    lock = threading.Lock()

    def source() -> Iterator[Any]:
        nonlocal n_taken, most
        for n in range(200):
            with lock:
                n_taken += 1
                most = max(most, n_taken - n_done)
            yield _job(n)

    def task(n: int) -> None:
        nonlocal n_done
        with lock:
            n_done += 1

    ThreadedTaskManager(config, source, task).blocking_start()

    assert n_done == 200
    assert most <= 2 + 3


def test_the_stop_event_wakes_everybody_who_waits_for_it() -> None:
    stop = StopEvent()
    woken = []
    threads = [threading.Thread(target=lambda: woken.append(stop.wait(LONG_S))) for _ in range(5)]
    for thread in threads:
        thread.start()
    stop.set()
    stop.set()
    for thread in threads:
        thread.join(LONG_S)

    assert woken == [True] * 5
    assert stop.wait()
    stop.close()


def test_the_stop_event_counts_its_grace_from_the_first_set() -> None:
    stop = StopEvent(graceful_timeout_s=10.0)
    assert stop.deadline_s() is None
    assert not stop.wait(0.001)
    stop.set()
    first = stop.deadline_s()
    stop.set()

    assert first is not None
    assert stop.deadline_s() == first
    stop.close()
