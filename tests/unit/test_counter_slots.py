from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tuner.probe import counter as counters
from tuner.probe.counter import (
    DIRECTORY_VARIABLE,
    Counter,
    CounterError,
    Slot,
    Totals,
    open_counter,
    read_totals,
)

from ..raising import raises
from ..wording import wording

pytestmark = pytest.mark.pythons


@pytest.fixture
def counter(tmp_path: Path) -> Counter:
    return open_counter(str(tmp_path))


def in_a_thread(body: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return thread


def wait_for_a_free_slot(counter: Counter) -> None:
    """A thread's locals go shortly after join() has returned."""
    deadline = time.monotonic() + 30
    while not (counter._slots and counter._slots.free):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_what_a_slot_counts_is_read_from_outside(counter: Counter, tmp_path: Path) -> None:
    slot = counter.slot()
    slot.done()
    slot.done()
    slot.failed()
    slot.add_stages(30, 20, 10)
    slot.add_stages(3, 2, 1)

    assert read_totals(str(tmp_path)) == Totals(2, 1, 33, 22, 11, n_slots=1, n_processes=1)


def test_a_thread_has_one_slot_however_often_it_asks(counter: Counter, tmp_path: Path) -> None:
    assert counter.slot() is counter.slot()
    assert open_counter(str(tmp_path)) is counter


def test_more_threads_than_a_page_has_slots_lose_nothing(counter: Counter, tmp_path: Path) -> None:
    n_threads, n_items = 300, 50
    all_counting = threading.Barrier(n_threads)

    def body() -> None:
        slot = counter.slot()
        all_counting.wait()
        for _ in range(n_items):
            slot.done()

    threads = [threading.Thread(target=body) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    totals = read_totals(str(tmp_path))
    assert totals.n_done == n_threads * n_items
    assert totals.n_slots == n_threads


def test_a_thread_takes_over_the_slot_of_one_that_ended_with_its_totals(
    counter: Counter, tmp_path: Path
) -> None:
    in_a_thread(lambda: counter.slot().done())
    wait_for_a_free_slot(counter)
    in_a_thread(lambda: counter.slot().done())

    assert read_totals(str(tmp_path)) == Totals(2, 0, 0, 0, 0, n_slots=1, n_processes=1)


@pytest.mark.parametrize(
    "what_is_kept", [lambda slot: slot, lambda slot: slot.done, lambda slot: slot.add_stages]
)
def test_what_is_kept_of_a_slot_keeps_others_out_of_it(
    counter: Counter, tmp_path: Path, what_is_kept: Callable[[Slot], object]
) -> None:
    kept = []
    in_a_thread(lambda: kept.append(what_is_kept(counter.slot())))
    in_a_thread(lambda: counter.slot().done())

    assert read_totals(str(tmp_path)).n_slots == 2


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    open_counter().slot().failed()

    assert read_totals(str(tmp_path)).n_failed == 1


def test_the_folder_stays_when_the_worker_changes_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "counts").mkdir()
    monkeypatch.chdir(tmp_path)
    counter = open_counter("counts")
    monkeypatch.chdir("/")
    counter.slot().done()

    assert read_totals(str(tmp_path / "counts")).n_done == 1


def test_without_a_folder_the_same_code_counts_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(DIRECTORY_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    slot = open_counter().slot()
    slot.done()
    slot.failed()
    slot.add_stages(1, 2, 3)

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with raises(CounterError, wording("probes.no-folder-to-count-in", folder=tmp_path / "gone")):
        open_counter(str(tmp_path / "gone"))


def test_a_counter_leaves_no_file_before_somebody_takes_a_slot(counter: Counter, tmp_path: Path) -> None:
    assert list(tmp_path.iterdir()) == []


def test_a_name_left_by_an_earlier_process_of_the_same_pid_is_kept(
    counter: Counter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter.slot().done()
    [first] = tmp_path.iterdir()
    second = Counter(str(tmp_path))  # as a process would that finds the file there
    second.slot().done()

    assert len(list(tmp_path.iterdir())) == 2
    assert read_totals(str(tmp_path)).n_done == 2
    assert first.exists()


@pytest.fixture(autouse=True)
def _forget_counters() -> Iterator[None]:
    """Each test is as a new process: no counter is remembered."""
    before = dict(counters._counters)
    yield
    counters._counters.clear()
    counters._counters.update(before)
