"""Which threads of a worker work on items, by what each does: of services as they are, and of odd ones."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree

import pytest

from tuner.adapters.proc.computing_threads import ItemThreads, ItemUse, threads_at_work
from tuner.adapters.proc.process_tree import TICKS_PER_S, ProcessStat
from tuner.core.domain.layout import Layout

MS = 1e6
#: thread -> ms of CPU, turns on a core, when it was started (ticks since boot)
MAIN, POOL, CONSUMER, AGENT = 1, 2, 3, 4


def at_work(shape: Layout, **threads: tuple[float, float, int]) -> set[str]:
    """The names of those that work on items."""
    names = list(threads)
    data = {
        number: (cpu_ms * MS, turns, (started, number))
        for number, (cpu_ms, turns, started) in enumerate(threads.values())
    }
    return {names[number] for number in threads_at_work(data, shape)}


def test_celery_one_thread_of_the_pool_which_uses_less_than_the_main_thread_does() -> None:
    assert at_work(Layout(1, 1), main=(160, 700, 10), pool=(60, 150, 90)) == {"pool"}


def test_gunicorn_the_pool_and_not_who_accepts() -> None:
    threads = {"main": (100, 800, 10), **{f"pool{n}": (80, 150, 60 + n) for n in range(4)}}

    assert at_work(Layout(2, 4), **threads) == {"pool0", "pool1", "pool2", "pool3"}


def test_dramatiq_the_workers_which_are_started_after_the_consumers() -> None:
    found = at_work(
        Layout(1, 2),
        main=(0, 10, 10),
        consumer=(90, 400, 20),
        delayed=(3, 20, 20),
        worker1=(40, 200, 21),
        worker2=(41, 201, 21),
    )

    assert found == {"worker1", "worker2"}


def test_an_idle_agent_that_was_started_last_is_none_of_them() -> None:
    assert at_work(Layout(1, 1), main=(100, 700, 10), pool=(60, 150, 90), agent=(1, 4, 95)) == {"pool"}


def test_threads_that_hardly_compute_but_often_wake_up_work_on_items() -> None:
    """They sleep nearly all the time; the one beside them computes."""
    found = at_work(
        Layout(1, 2), main=(900, 500, 10), pool1=(4, 200, 90), pool2=(4, 210, 91), agent=(0.3, 4, 95)
    )

    assert found == {"pool1", "pool2"}


def test_where_there_are_no_more_threads_than_the_layout_has_all_of_them_do() -> None:
    """uWSGI's main thread is one of them; eight greenlets share one."""
    assert at_work(Layout(1, 2), main=(50, 100, 10), core1=(50, 100, 11)) == {"main", "core1"}
    assert at_work(Layout(1, 8), loop=(50, 100, 10)) == {"loop"}


def test_uwsgi_the_main_thread_too_where_an_idle_agent_stands_beside_it() -> None:
    assert at_work(Layout(1, 2), main=(50, 90, 10), core1=(50, 99, 11), agent=(0, 5, 9)) == {"main", "core1"}


def test_without_threads_to_choose_all_that_are_not_idle_do() -> None:
    """A sync worker with an agent; an event loop with threads for functions that block."""
    one = Layout(2, 1, has_threads=False)

    assert at_work(one, main=(500, 700, 10), agent=(2, 20, 95)) == {"main"}
    assert at_work(one, main=(50, 700, 10), call1=(40, 70, 20), call2=(40, 80, 21)) == {
        "main",
        "call1",
        "call2",
    }


class Threads:
    """A worker below a folder like /proc, with its threads' accounts."""

    def __init__(self, proc: Path) -> None:
        self.folder = proc / "50" / "task"
        self.stat = ProcessStat(50, "celery", "S", 1, 0, 0, 0, 3, 5)

    def used(self, thread: int, started: int, *, cpu_ms: float, waited_ms: float, turns: int) -> None:
        folder = self.folder / str(thread)
        folder.mkdir(parents=True, exist_ok=True)
        fields = " ".join(["S", "1", *["0"] * 17, str(started), "0", "0"])
        (folder / "stat").write_text(f"{thread} (celery) {fields}\n")
        (folder / "schedstat").write_text(f"{cpu_ms * MS:.0f} {waited_ms * MS:.0f} {turns}\n")


@pytest.fixture
def threads(tmp_path: Path) -> Threads:
    return Threads(tmp_path)


def looked(items: ItemThreads, threads: Threads, unseen_cpu_s: float = 0.0) -> ItemUse:
    used = items.look([threads.stat], Layout(1, 1), unseen_cpu_s=unseen_cpu_s)
    assert used is not None
    return used


def test_what_threads_beside_the_items_use_and_wait_for_is_kept_apart(
    threads: Threads, tmp_path: Path
) -> None:
    items = ItemThreads(tmp_path)
    threads.used(50, 10, cpu_ms=2000, waited_ms=500, turns=900)  # it imported, alone
    before = looked(items, threads)
    threads.used(50, 10, cpu_ms=2160, waited_ms=560, turns=1600)
    threads.used(51, 90, cpu_ms=60, waited_ms=20, turns=150)
    after = looked(items, threads)
    for _ in range(3):
        after = looked(items, threads)

    assert after.beside_cpu_s_total - before.beside_cpu_s_total == pytest.approx(0.160)
    assert after.run_delay_s_total - before.run_delay_s_total == pytest.approx(0.020)
    assert after.beside_delay_s_total - before.beside_delay_s_total == pytest.approx(0.060)
    assert items.of(50) == {51}


def test_workers_that_ended_unseen_waited_for_cores_as_those_that_were_seen(
    threads: Threads, tmp_path: Path
) -> None:
    """Seen: 100 ms of CPU and 50 ms of waiting; unseen: 300 ms of CPU."""
    items = ItemThreads(tmp_path)
    threads.used(50, 10, cpu_ms=10, waited_ms=5, turns=1)
    before = looked(items, threads)
    threads.used(50, 10, cpu_ms=110, waited_ms=55, turns=20)
    after = looked(items, threads, unseen_cpu_s=0.3)

    assert after.run_delay_s_total - before.run_delay_s_total == pytest.approx(0.05 * 4)


def test_nothing_is_known_of_the_threads_of_a_kernel_without_these_accounts(
    threads: Threads, tmp_path: Path
) -> None:
    threads.used(50, 10, cpu_ms=0, waited_ms=0, turns=0)
    items = ItemThreads(tmp_path)

    assert items.look([threads.stat], Layout(1, 1)) is None
    assert items.of(50) is None


def test_threads_that_ended_between_readings_waited_for_cores_as_those_that_were_read(
    threads: Threads, tmp_path: Path
) -> None:
    """Each item has a separate thread: 100 ms of a second of CPU were read, with 300 ms of waiting."""
    items = ItemThreads(tmp_path)
    threads.used(50, 10, cpu_ms=0, waited_ms=0, turns=1)
    threads.used(51, 90, cpu_ms=50, waited_ms=150, turns=20)
    before = looked(items, threads)
    rmtree(threads.folder / "51")
    threads.used(52, 95, cpu_ms=50, waited_ms=150, turns=20)
    threads.stat = threads.stat._replace(own_ticks=TICKS_PER_S)
    after = looked(items, threads)
    again = looked(items, threads)

    assert after.run_delay_s_total - before.run_delay_s_total == pytest.approx(0.15 + 0.9 * 3)
    assert again.run_delay_s_total == after.run_delay_s_total
