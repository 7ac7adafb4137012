"""What the sampler makes of /proc, on a recorded box: who used which CPU, what is active, what it weighs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.adapters.proc.process_tree import ProcessStat, ProcessTable, parse_stat, read_box_times
from tuner.adapters.proc.procfs import ProcSampler, ProcWatch
from tuner.adapters.proc.pss import PssReader, PssSeen
from tuner.adapters.proc.task_states import ActiveTasks
from tuner.adapters.virtual.box import VirtualClock
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Reading, VoidReason
from tuner.core.errors import ConfigError

from ..permitted import closed
from ..raising import raises
from ..wording import wording

VFORK, CLONE, CLONE3, READ, FAULT = (
    f"{call} 0x7f00 0x7ffd\n" if call == -1 else f"{call} 0x1 0x2 0x3 0x0 0x0 0x0 0x7ffd 0x7f00\n"
    for call in (58, 56, 435, 0, -1)
)
RECORDED = Path(__file__).resolve().parent.parent / "proc" / "busy_box"
TUNER, FEEDER, REDIS_NAME = 30, 80, "redis-server"
INIT, SUPERVISORD, GUARDIAN = 1, 40, 41


class RecordedLaunch:
    """The launch that was recorded; its pids may be changed."""

    running_after_s = 0.5
    shape = Layout(2, 64)  # of which all threads work on items

    def __init__(self) -> None:
        self.workers = frozenset({50, 51})
        self.overhead = frozenset({SUPERVISORD, GUARDIAN})

    def worker_pids(self) -> frozenset[int]:
        return self.workers

    def overhead_pids(self) -> frozenset[int]:
        return self.overhead

    def problems(self, *, threads: bool = True) -> tuple[VoidReason, ...]:
        return ()


class RecordedBox:
    """/proc at one of the two moments, and time to go from one to the other."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder / "proc"
        self.clock = VirtualClock()
        self.launch = RecordedLaunch()
        self.warnings: list[tuple[str, str]] = []
        shutil.copytree(RECORDED / "before", self.proc)

    def ten_seconds_later(self) -> None:
        shutil.rmtree(self.proc)
        shutil.copytree(RECORDED / "after", self.proc)
        self.clock.sleep_until(self.clock.monotonic_s() + 10)

    def kill(self, pid: int) -> None:
        shutil.rmtree(self.proc / str(pid))

    def waits_in(self, pid: int, thread: int, call: str) -> None:
        """The thread waits in a system call, as the kernel tells it."""
        (self.proc / str(pid) / "task" / str(thread) / "syscall").write_text(call)

    def sampler(
        self, *backends: str, machine: str = "x86_64", elsewhere: frozenset[int] = frozenset()
    ) -> ProcSampler:
        return ProcSampler(
            self.clock,
            proc=self.proc,
            backends=backends,
            own_pid=TUNER,
            machine=machine,
            warn=lambda slug, text: self.warnings.append((slug, text)),
            elsewhere=elsewhere,
        )


@pytest.fixture
def box(tmp_path: Path) -> RecordedBox:
    return RecordedBox(tmp_path)


@pytest.fixture
def watch(box: RecordedBox) -> Iterator[ProcWatch]:
    with box.sampler(REDIS_NAME).watching(box.launch, frozenset({FEEDER})) as watch:
        yield watch


def pss_bytes(box: RecordedBox, members: list[ProcessStat]) -> int | None:
    seen = PssReader(box.proc, "x86_64").read(lambda: members)
    return None if seen is None else seen.pss_bytes


def reading(at_s: float = 1000.0) -> Reading:
    return Reading(at_s, n_done_total=12, n_failed_total=3)


def test_a_sample_holds_the_counts_and_the_three_loads(watch: ProcWatch) -> None:
    sample = watch.sample(reading(1234.5))

    assert (sample.at_s, sample.n_done_total, sample.n_failed_total) == (1234.5, 12, 3)
    assert (sample.load1, sample.load5, sample.load15) == (3.21, 1.50, 0.70)


def test_active_are_runnable_tasks_without_the_reader_and_every_worker_thread_or_child_in_d(
    watch: ProcWatch,
) -> None:
    """6 run, one of them reads; in D are two worker threads (vfork) and one child (procs_blocked: 1)."""
    assert watch.sample(reading()).n_active == 5 + 3


def test_samples_are_taken_at_all_parts_of_a_second(watch: ProcWatch) -> None:
    moments = [watch.next_sample_s(10.0, 11.0) for _ in range(2000)]

    assert all(10.0 <= at_s <= 11.0 for at_s in moments)
    tenths = [sum(10 + n / 10 <= at_s < 10 + (n + 1) / 10 for at_s in moments) for n in range(10)]
    assert min(tenths) > 100  # of 200; the standard deviation is 13


def test_strangers_that_wait_for_a_disk_are_active(box: RecordedBox) -> None:
    box.launch.workers = frozenset()
    with box.sampler().watching(box.launch, frozenset()) as watch:
        assert watch.sample(reading()).n_active == 5 + 1


def test_a_thread_that_ended_is_no_longer_counted(box: RecordedBox, watch: ProcWatch) -> None:
    watch.sample(reading(1000.0))
    shutil.rmtree(box.proc / "51" / "task" / "511")

    assert watch.sample(reading(1006.0)).n_active == 5 + 2


def test_a_worker_that_came_later_is_followed_within_five_seconds(box: RecordedBox) -> None:
    box.launch.workers = frozenset({50})
    with box.sampler().watching(box.launch, frozenset()) as watch:
        before = watch.sample(reading(1000.0)).n_active
        box.launch.workers = frozenset({50, 51})
        after = watch.sample(reading(1005.0)).n_active

    assert (before, after) == (5 + 2, 5 + 3)


def test_service_cpu_is_workers_descendants_and_whatever_they_reaped(
    box: RecordedBox, watch: ProcWatch
) -> None:
    """50: 10 + 5 s, its child 0.04; 51: 20, its child 0.1, grandchild 0.05; supervisord reaped 1 s."""
    before = watch.usage()
    box.ten_seconds_later()
    after = watch.usage()

    assert before.service_cpu_s_total == pytest.approx(10 + 5 + 0.04 + 20 + 0.1 + 0.05 + 1)
    assert after.service_cpu_s_total == pytest.approx(13 + 8 + 0.02 + 21 + 0.12 + 0.06 + 1.3)


def test_tuner_pays_for_itself_its_helpers_and_its_feeder_but_not_for_reaped_workers(
    box: RecordedBox, watch: ProcWatch
) -> None:
    before = watch.usage()
    box.ten_seconds_later()
    after = watch.usage()

    assert before.tuner_cpu_s_total == pytest.approx(0.3 + 0.1 + 0.1 + 0.01 + 0.5)
    assert after.tuner_cpu_s_total == pytest.approx(0.33 + 0.1 + 0.11 + 0.01 + 0.51)


def test_a_backend_is_found_by_name_and_brings_its_children(box: RecordedBox, watch: ProcWatch) -> None:
    before = watch.usage()
    box.ten_seconds_later()
    after = watch.usage()

    assert before.backend_cpu_s_total == pytest.approx(3.0)
    assert after.backend_cpu_s_total == pytest.approx(3.4 + 0.3)
    assert box.warnings == []


def test_a_backend_named_together_with_its_child_counts_once(box: RecordedBox) -> None:
    box.ten_seconds_later()
    with box.sampler(REDIS_NAME, "redis-rdb-bgsave").watching(box.launch, frozenset()) as watch:
        assert watch.usage().backend_cpu_s_total == pytest.approx(3.7)


def test_a_backend_may_be_named_by_its_pid(box: RecordedBox) -> None:
    with box.sampler("70").watching(box.launch, frozenset()) as watch:
        assert watch.usage().backend_cpu_s_total == pytest.approx(3.0)


def test_a_backend_that_ends_keeps_what_it_used(box: RecordedBox, watch: ProcWatch) -> None:
    watch.usage()
    box.kill(70)

    assert watch.usage().backend_cpu_s_total == pytest.approx(3.0)


def test_a_backend_that_is_not_there_is_reported_once(box: RecordedBox) -> None:
    with box.sampler("postgres").watching(box.launch, frozenset()) as watch:
        watch.usage()
        watch.usage()

    assert [slug for slug, _ in box.warnings] == ["no-backend"]
    assert "postgres" in box.warnings[0][1]


def test_what_is_neither_idle_nor_stolen_was_used_and_the_rest_is_foreign(
    box: RecordedBox, watch: ProcWatch
) -> None:
    """2 cores x 10 s, 3 s idle, 0.1 waiting for disks, 0.1 stolen; service 7.31, tuner 0.05, Redis 0.7."""
    before = watch.usage()
    box.ten_seconds_later()
    after = watch.usage()

    assert after.box_cpu_s_total - before.box_cpu_s_total == pytest.approx(20 - 3 - 0.1 - 0.1)
    assert after.steal_s_total - before.steal_s_total == pytest.approx(0.1)
    assert after.foreign_cpu_s_total - before.foreign_cpu_s_total == pytest.approx(16.8 - 7.31 - 0.05 - 0.7)
    assert after.n_context_switches_total - before.n_context_switches_total == 1000
    assert after.at_s - before.at_s == pytest.approx(10)


def test_the_use_of_cpus_elsewhere_is_a_part_of_that_of_the_host(box: RecordedBox) -> None:
    """Of 10 s, CPU 1 was idle for 1.5 s, waited for disks for 0.05 s, and 0.05 s were stolen."""
    with box.sampler(elsewhere=frozenset({1})).watching(box.launch, frozenset()) as watch:
        before = watch.usage()
        box.ten_seconds_later()
        after = watch.usage()

    assert before.elsewhere_cpu_s_total == 0.0
    assert after.elsewhere_cpu_s_total == pytest.approx(10 - 1.5 - 0.05 - 0.05)
    assert after.box_cpu_s_total == pytest.approx(2 * 8.4)


def with_interrupts(box: RecordedBox, *ticks: tuple[int, int]) -> None:
    """Replace the ticks of hard and soft interrupts of each CPU in /proc/stat."""
    file, lines = box.proc / "stat", []
    both = sum(hard for hard, _ in ticks), sum(soft for _, soft in ticks)
    for line in file.read_text().splitlines():
        words = line.split()
        if words[0].startswith("cpu"):
            words[6:8] = map(str, ticks[int(words[0][3:])] if words[0][3:] else both)
        lines.append(" ".join(words))
    file.write_text("\n".join([*lines, ""]))


@pytest.mark.parametrize(("elsewhere", "interrupt_s"), [(frozenset(), 1.0), (frozenset({1}), 0.7)])
def test_interrupts_are_counted_on_the_cpus_on_which_tuner_may_run(
    box: RecordedBox, elsewhere: frozenset[int], interrupt_s: float
) -> None:
    """In 10 s, CPU 0 has 0.2 s of hard and 0.5 s of soft interrupts, CPU 1 has 0.1 and 0.2 s."""
    with_interrupts(box, (40, 900), (30, 800))
    with box.sampler(elsewhere=elsewhere).watching(box.launch, frozenset()) as watch:
        before = watch.usage()
        box.ten_seconds_later()
        with_interrupts(box, (60, 950), (40, 820))
        after = watch.usage()

    assert before.interrupt_s_total is not None
    assert after.interrupt_s_total is not None
    assert after.interrupt_s_total - before.interrupt_s_total == pytest.approx(interrupt_s)
    assert after.box_cpu_s_total == pytest.approx(2 * 8.4 - 1.0)


def test_interrupts_are_none_if_the_kernel_charges_them_to_processes(
    box: RecordedBox, watch: ProcWatch
) -> None:
    with_interrupts(box, (0, 900), (0, 800))
    before = watch.usage()
    box.ten_seconds_later()
    with_interrupts(box, (0, 950), (0, 820))
    after = watch.usage()

    assert (before.interrupt_s_total, after.interrupt_s_total) == (0.0, 0.0)


def test_without_cpus_elsewhere_there_is_no_use_of_them(watch: ProcWatch) -> None:
    assert watch.usage().elsewhere_cpu_s_total is None


def test_processes_and_threads_are_those_of_living_workers(watch: ProcWatch) -> None:
    usage = watch.usage()

    assert (usage.n_processes, usage.n_threads) == (2, 5)


def test_a_worker_that_died_keeps_the_total_from_falling(box: RecordedBox, watch: ProcWatch) -> None:
    """Until supervisord has reaped it, nobody's account holds what it used."""
    before = watch.usage()
    box.kill(51)
    box.launch.workers = frozenset({50})
    after = watch.usage()

    assert after.service_cpu_s_total >= before.service_cpu_s_total
    assert (after.n_processes, after.n_threads) == (1, 3)


def test_a_child_that_left_its_worker_still_belongs_to_the_service(
    box: RecordedBox, watch: ProcWatch
) -> None:
    """61 ends and is reaped by its worker; 62, which it had started, becomes init's."""
    before = watch.usage().service_cpu_s_total
    (box.proc / "51" / "task" / "51" / "children").write_text("")
    box.kill(61)
    orphan = (box.proc / "62" / "stat").read_text().replace(" R 61 ", " R 1 ")
    (box.proc / "62" / "stat").write_text(orphan)
    worker = (box.proc / "51" / "stat").read_text()
    (box.proc / "51" / "stat").write_text(worker.replace(" 1333 667 0 0 ", " 1333 667 7 3 "))
    moved = watch.usage().service_cpu_s_total
    stray = (box.proc / "62" / "stat").read_text()
    (box.proc / "62" / "stat").write_text(stray.replace(" 3 2 0 0 ", " 103 2 0 0 "))
    worked = watch.usage().service_cpu_s_total
    box.kill(62)

    assert moved == pytest.approx(before)
    assert worked == pytest.approx(before + 1)
    assert watch.usage().service_cpu_s_total == pytest.approx(before + 1)


def test_a_pid_that_was_given_to_a_stranger_is_not_the_services(box: RecordedBox, watch: ProcWatch) -> None:
    """62 ended and its number came back: the start time tells."""
    before = watch.usage().service_cpu_s_total
    (box.proc / "61" / "task" / "61" / "children").write_text("")
    stranger = (box.proc / "62" / "stat").read_text()
    stranger = (
        stranger.replace(" R 61 ", " R 1 ").replace(" 3 2 0 0 ", " 9000 2 0 0 ").replace("999900", "999999")
    )
    (box.proc / "62" / "stat").write_text(stranger)

    assert watch.usage().service_cpu_s_total == pytest.approx(before)


def test_a_worker_that_waits_to_be_reaped_still_counts_but_is_not_alive(
    box: RecordedBox, watch: ProcWatch
) -> None:
    before = watch.usage().service_cpu_s_total
    box.launch.workers = frozenset({50})
    ended = (box.proc / "51" / "stat").read_text()
    (box.proc / "51" / "stat").write_text(ended.replace(") R 40 ", ") Z 40 ").replace(" 1333 ", " 1433 "))
    waiting = watch.usage()
    for pid in (51, 61, 62):
        box.kill(pid)
    supervisord = (box.proc / "40" / "stat").read_text()
    (box.proc / "40" / "stat").write_text(supervisord.replace(" 75 25 ", f" 75 {25 + 2100 + 10 + 5} "))
    reaped = watch.usage()

    assert waiting.service_cpu_s_total == pytest.approx(before + 1)
    assert (waiting.n_processes, waiting.n_threads) == (1, 3)
    assert reaped.service_cpu_s_total == pytest.approx(before + 1)


def test_the_workers_own_cpu_and_all_else_of_the_service_stand_apart(
    box: RecordedBox, watch: ProcWatch
) -> None:
    """Workers: 50 used 10 s then 13, 51 20 then 21; the rest were their children, and what was reaped."""
    before = watch.usage()
    box.ten_seconds_later()
    after = watch.usage()

    assert (before.worker_cpu_s_total, after.worker_cpu_s_total) == pytest.approx((10 + 20, 13 + 21))
    assert before.child_cpu_s_total == pytest.approx(5 + 0.04 + 0.1 + 0.05 + 1)
    assert after.child_cpu_s_total == pytest.approx(8 + 0.02 + 0.12 + 0.06 + 1.3)


def test_a_worker_that_ended_keeps_its_own_cpu_apart(box: RecordedBox, watch: ProcWatch) -> None:
    before = watch.usage()
    box.kill(51)
    box.launch.workers = frozenset({50})
    after = watch.usage()

    assert after.worker_cpu_s_total == before.worker_cpu_s_total
    assert after.child_cpu_s_total == before.child_cpu_s_total


def test_waiting_for_a_core_is_added_up_over_the_workers_threads(box: RecordedBox, watch: ProcWatch) -> None:
    before = watch.usage()
    box.ten_seconds_later()
    after = watch.usage()

    assert before.run_delay_s_total == pytest.approx(1.0 + 0.25 + 0.25 + 4.0 + 0.5)
    assert after.run_delay_s_total == pytest.approx(1.2 + 0.35 + 0.25 + 4.5 + 0.6)


def test_a_thread_that_ended_keeps_what_it_waited_for_a_core(box: RecordedBox, watch: ProcWatch) -> None:
    before = watch.usage()
    shutil.rmtree(box.proc / "51" / "task" / "511")

    assert watch.usage().run_delay_s_total == before.run_delay_s_total
    assert watch.usage().run_delay_s_total == before.run_delay_s_total


def test_a_new_thread_with_the_number_of_an_ended_one_is_another(box: RecordedBox, watch: ProcWatch) -> None:
    before = watch.usage().run_delay_s_total
    (box.proc / "51" / "task" / "511" / "schedstat").write_text("1000000 100000000 3\n")

    assert before is not None
    assert watch.usage().run_delay_s_total == pytest.approx(before + 0.1)


@pytest.mark.parametrize("text", [None, "0 0 0\n"])
def test_a_kernel_that_keeps_no_account_of_waiting_for_a_core_is_none(
    box: RecordedBox, text: str | None
) -> None:
    for file in box.proc.glob("*/task/*/schedstat"):
        file.unlink() if text is None else file.write_text(text)
    with box.sampler().watching(box.launch, frozenset()) as watch:
        assert watch.usage().run_delay_s_total is None


def test_time_in_a_state_is_what_each_look_saw_until_the_next(box: RecordedBox, watch: ProcWatch) -> None:
    """2 worker threads in D and 1 in R, then 1 and 1; of the children 1 in D and 2 in R all the time."""
    begin = watch.usage()
    watch.sample(reading(1000.0))
    box.clock.sleep_until(box.clock.monotonic_s() + 10)
    (box.proc / "50" / "task" / "502" / "stat").write_text("502 (python) S 40 502")
    watch.sample(reading(1010.0))
    box.clock.sleep_until(box.clock.monotonic_s() + 2)
    end = watch.usage()
    again = watch.usage()

    assert again == replace(end, pss_bytes=again.pss_bytes)
    assert (begin.blocked_s_total, begin.running_s_total) == (0, 0)
    assert (end.blocked_s_total, end.running_s_total) == pytest.approx((10 * 2 + 2 * 1, 12 * 1))
    assert (end.child_blocked_s_total, end.child_running_s_total) == pytest.approx((12 * 1, 12 * 2))


def spawning_s(box: RecordedBox, machine: str = "x86_64") -> tuple[float | None, float | None]:
    """Seconds in which threads were starting a child, of those in D; 10 s after one look."""
    with box.sampler(machine=machine).watching(box.launch, frozenset()) as watch:
        watch.sample(reading())
        box.clock.sleep_until(box.clock.monotonic_s() + 10)
        usage = watch.usage()
    return usage.spawning_s_total, usage.blocked_s_total


@pytest.mark.parametrize("call", [VFORK, CLONE, CLONE3])
def test_a_thread_in_d_that_waits_in_a_call_that_starts_a_child_is_starting_one(
    box: RecordedBox, call: str
) -> None:
    """One of the two threads in D; it stays a part of the time in D."""
    box.waits_in(50, 502, call)
    box.waits_in(51, 511, READ)

    assert spawning_s(box) == pytest.approx((10, 20))


def test_threads_in_d_that_wait_for_something_else_start_no_child(box: RecordedBox) -> None:
    """A read from a disk, and a page that has to be fetched: that is outside any call."""
    box.waits_in(50, 502, READ)
    box.waits_in(51, 511, FAULT)

    assert spawning_s(box) == (0, 20)


@pytest.mark.parametrize(("machine", "result"), [("aarch64", 10), ("x86_64", 0), ("m68k", None)])
def test_calls_have_the_numbers_of_the_machine_and_of_one_that_is_not_known_none(
    box: RecordedBox, machine: str, result: float | None
) -> None:
    box.waits_in(50, 502, VFORK.replace("58 ", "220 ", 1))
    box.waits_in(51, 511, READ)

    assert spawning_s(box, machine) == (result, 20)


@pytest.mark.parametrize("content", [None, "folder", "running\n", "", "what is this?"])
def test_what_nobody_may_see_of_a_thread_in_d_is_not_known_and_not_nothing(
    box: RecordedBox, content: str | None
) -> None:
    box.waits_in(50, 502, READ)
    file = box.proc / "51" / "task" / "511" / "syscall"
    if content == "folder":
        file.mkdir()
    elif content is not None:
        file.write_text(content)

    assert spawning_s(box) == (None, 20)


def test_only_threads_in_d_are_requested_their_call(box: RecordedBox) -> None:
    """Nobody may see any call; and as nobody was in D, nobody was starting a child."""
    for pid, thread in ((50, 502), (51, 511)):
        stat = box.proc / str(pid) / "task" / str(thread) / "stat"
        stat.write_text(stat.read_text().replace(") D ", ") S "))

    assert spawning_s(box) == (0, 0)


def test_a_few_looks_at_which_the_call_was_not_to_be_seen_do_not_matter(box: RecordedBox) -> None:
    """A twentieth of the time in D; from a tenth on nothing is told."""
    box.waits_in(50, 502, VFORK)
    box.waits_in(51, 511, READ)
    reported = []
    with box.sampler().watching(box.launch, frozenset()) as watch:
        watch.sample(reading())
        for seconds, content in ((9, "running\n"), (1, "running\n"), (2, READ)):
            box.clock.sleep_until(box.clock.monotonic_s() + seconds)
            box.waits_in(51, 511, content)
            watch.sample(reading())
            reported.append(watch.usage().spawning_s_total)
        box.clock.sleep_until(box.clock.monotonic_s() + 10)
        reported.append(watch.usage().spawning_s_total)

    assert reported == pytest.approx([9, 10, None, 22])


def test_of_very_many_threads_in_d_not_all_are_asked_and_what_they_do_is_not_known(box: RecordedBox) -> None:
    tasks = box.proc / "50" / "task"
    for thread in range(600, 680):
        shutil.copytree(tasks / "502", tasks / str(thread))
        box.waits_in(50, thread, READ)
    box.waits_in(50, 502, READ)
    box.waits_in(51, 511, READ)

    assert spawning_s(box) == (None, 820)


def test_clocks_of_workers_nobody_can_see_are_none(box: RecordedBox) -> None:
    box.launch.workers = frozenset()
    box.launch.overhead = frozenset()
    with box.sampler().watching(box.launch, frozenset()) as watch:
        usage = watch.usage()

    assert (usage.worker_cpu_s_total, usage.child_cpu_s_total, usage.run_delay_s_total) == (None, None, None)
    assert (usage.running_s_total, usage.blocked_s_total, usage.spawning_s_total) == (None, None, None)
    assert (usage.child_running_s_total, usage.child_blocked_s_total) == (None, None)


def test_pressure_is_none_where_the_kernel_does_not_tell(watch: ProcWatch) -> None:
    usage = watch.usage()

    assert usage.cpu_pressure_s_total == pytest.approx(5.0)
    assert usage.io_pressure_s_total == pytest.approx(0.25)
    assert usage.memory_pressure_s_total is None


def parent_waits_for_its_copy(box: RecordedBox) -> None:
    """61 is in vfork, so that 62 has its memory until it runs its program."""
    for file in (box.proc / "61" / "stat", box.proc / "61" / "task" / "61" / "stat"):
        file.write_text(file.read_text().replace(") R ", ") D "))
    box.waits_in(61, 61, VFORK)


def test_memory_leaves_out_a_child_that_has_its_parents(box: RecordedBox, watch: ProcWatch) -> None:
    parent_waits_for_its_copy(box)

    assert watch.usage(closing=True).pss_bytes == (30000 + 20000 + 300 + 500) * 1024


def test_memory_is_not_read_at_the_edge_of_a_slice_but_stays_due(watch: ProcWatch) -> None:
    assert watch.usage(at_edge=True).pss_bytes is None
    assert watch.usage().pss_bytes is not None


def test_memory_of_a_child_counts_from_its_birth_where_its_parent_continues(watch: ProcWatch) -> None:
    """62 is a second old, and was forked: a worker that is replaced often is never older."""
    assert watch.usage(closing=True).pss_bytes == (30000 + 20000 + 300 + 500 + 300) * 1024


def test_memory_of_a_child_counts_where_its_parent_waits_for_something_else(
    box: RecordedBox, watch: ProcWatch
) -> None:
    parent_waits_for_its_copy(box)
    box.waits_in(61, 61, READ)

    assert watch.usage(closing=True).pss_bytes == (30000 + 20000 + 300 + 500 + 300) * 1024


def test_memory_of_an_older_copy_counts(box: RecordedBox) -> None:
    """Preforked: it will never run another program."""
    parent_waits_for_its_copy(box)
    table = ProcessTable(box.proc)
    (box.proc / "uptime").write_text("10100.00 1.00\n")
    members = [stat for stat in map(table.stat, (61, 62)) if stat]

    assert pss_bytes(box, members) == 600 * 1024


def test_memory_nobody_can_see_is_none_and_reported_once(box: RecordedBox, watch: ProcWatch) -> None:
    for file in box.proc.glob("*/smaps_rollup"):
        file.unlink()

    assert watch.usage(closing=True).pss_bytes is None
    assert watch.usage(closing=True).pss_bytes is None
    assert [slug for slug, _ in box.warnings] == ["no-memory-figures"]


def test_memory_that_is_closed_to_us_is_none_and_reported(box: RecordedBox, watch: ProcWatch) -> None:
    with closed(box.proc / "51" / "smaps_rollup"):
        usage = watch.usage(closing=True)

    assert (usage.pss_bytes, usage.n_processes) == (None, 2)
    assert [slug for slug, _ in box.warnings] == ["no-memory-figures"]


def test_processes_that_are_hidden_from_us_are_as_good_as_gone(box: RecordedBox) -> None:
    """hidepid=1 lists processes of other users, and shows nothing of them: a worker, a backend, init."""
    with (
        closed(*(box.proc / str(pid) for pid in (INIT, 51, 70))),
        box.sampler(REDIS_NAME).watching(box.launch, frozenset({FEEDER})) as watch,
    ):
        sample, usage = watch.sample(reading()), watch.usage(closing=True)

    assert sample.n_active == 5 + 2  # two of the workers' threads are in D, one of them 51's
    assert (usage.n_processes, usage.backend_cpu_s_total) == (1, 0.0)
    assert [slug for slug, _ in box.warnings] == ["no-backend"]


def test_of_a_hidden_process_neither_threads_nor_words_are_known(box: RecordedBox) -> None:
    table = ProcessTable(box.proc)
    with closed(box.proc / "50"):
        assert table.stat(50) is None
        assert (table.thread_ids(50), table.children(50), table.command_line(50)) == ([], [], [])


def test_a_thread_that_becomes_hidden_is_no_longer_counted(box: RecordedBox, watch: ProcWatch) -> None:
    """It became another user's after its process was asked for its threads."""
    with closed(box.proc / "51" / "task" / "511"):
        assert watch.sample(reading()).n_active == 5 + 2
        assert watch.usage().n_processes == 2


def test_a_service_that_is_gone_uses_no_memory_and_that_is_no_reason_to_warn(box: RecordedBox) -> None:
    box.launch.workers = frozenset()
    box.launch.overhead = frozenset()
    with box.sampler().watching(box.launch, frozenset()) as watch:
        usage = watch.usage(closing=True)

    assert (usage.pss_bytes, usage.n_processes, usage.n_threads) == (0, 0, 0)
    assert box.warnings == []


def test_memory_is_read_again_where_a_process_ended_meanwhile(box: RecordedBox) -> None:
    """60 ends before it is read: what it shared is its parent's alone by then."""
    members = [list(ProcessTable(box.proc).trees([50]).members.values())]
    box.kill(60)
    (box.proc / "50" / "smaps_rollup").write_text("0-1 ---p 0 00:00 0 [rollup]\nPss: 30250 kB\n")
    members.append(members[0][:1])

    seen = PssReader(box.proc, "x86_64").read(lambda: members.pop(0) if len(members) > 1 else members[0])

    assert seen == PssSeen(30250 * 1024, n_read=1)


def test_where_processes_come_and_go_all_the_time_those_alike_stand_for_one_that_was_missed(
    box: RecordedBox,
) -> None:
    """Three like 60, of which one ends unread: the others have 500 and 700 kB, 200 and 400 for themselves, so
    it is taken for (600 + 300) / 2. Who has just ended is there at each look, another one each time."""
    (parent, child) = ProcessTable(box.proc).trees([50]).members.values()
    for pid, size_kb in ((63, 500), (64, 700)):
        (box.proc / str(pid)).mkdir()
        sizes = f"Pss: {size_kb} kB\nPrivate_Clean: 50 kB\nPrivate_Dirty: {size_kb - 350} kB\n"
        (box.proc / str(pid) / "smaps_rollup").write_text(f"0-1 ---p 0 00:00 0 [rollup]\n{sizes}")
    box.kill(60)
    pids = iter(range(1000, 2000))

    def looked() -> list[ProcessStat]:
        return [
            parent,
            *(child._replace(pid=pid) for pid in (60, 63, 64)),
            child._replace(pid=next(pids), state="Z"),
        ]

    assert PssReader(box.proc, "x86_64").read(looked) == PssSeen((30000 + 450 + 500 + 700) * 1024, 3, 1)


def test_what_was_missed_of_memory_is_reported_once_it_is_more_than_a_little(box: RecordedBox) -> None:
    """Each reading misses 60, of five processes: 20 %."""
    with box.sampler().watching(box.launch, frozenset()) as watch:
        (box.proc / "60" / "smaps_rollup").write_text("")
        for _ in range(25):
            watch.usage(closing=True)

    assert box.warnings == [("memory-missed", wording("sampler.memory-missed"))]


def test_within_a_window_memory_is_read_only_as_often_as_its_cost_allows(
    box: RecordedBox, watch: ProcWatch
) -> None:
    """The cost of the first reading sets when the next one is due; the closing edge always has one."""
    first = watch.usage().pss_bytes
    at_once = watch.usage().pss_bytes
    box.clock.sleep_until(box.clock.monotonic_s() + 3600)
    due = watch.usage().pss_bytes
    closing = watch.usage(closing=True).pss_bytes

    assert at_once is None
    assert first == due == closing == 51100 * 1024


def test_without_children_files_parents_are_asked_instead(box: RecordedBox, watch: ProcWatch) -> None:
    """A kernel without CONFIG_PROC_CHILDREN."""
    result = watch.usage().service_cpu_s_total
    for file in box.proc.glob("*/task/*/children"):
        file.unlink()
    with box.sampler().watching(box.launch, frozenset()) as without:
        assert without.usage().service_cpu_s_total == pytest.approx(result)


def test_without_children_files_a_child_that_starts_or_ends_later_is_detected(box: RecordedBox) -> None:
    """63, a child of 50 in D, starts after the first sample. Then 60, its other child in D, ends."""
    for file in box.proc.glob("*/task/*/children"):
        file.unlink()
    tasks = ActiveTasks(box.proc, "x86_64")
    tasks.follow([50, 51])
    found = [tasks.n_own(), tasks.n_active(6)]
    shutil.copytree(box.proc / "60", box.proc / "63")
    stat = (box.proc / "60" / "stat").read_text()
    (box.proc / "63" / "stat").write_text(stat.replace("60 (", "63 (", 1))
    found += [tasks.n_own(), tasks.n_active(6)]
    box.kill(60)
    box.kill(63)
    found += [tasks.n_own(), tasks.n_active(6)]
    tasks.close()

    assert [n - first for n, first in zip(found, found[:2] * 3, strict=True)] == [0, 0, 1, 1, -1, -1]


def test_without_children_files_a_process_that_supervisord_starts_later_belongs_to_the_service(
    box: RecordedBox, watch: ProcWatch
) -> None:
    """62 has left its worker, so it is read on its own, last. Then 81 starts, a program that used 4 s."""
    for file in box.proc.glob("*/task/*/children"):
        file.unlink()
    watch.usage()
    orphan = (box.proc / "62" / "stat").read_text()
    (box.proc / "62" / "stat").write_text(orphan.replace(" R 61 ", f" R {INIT} "))
    before = watch.usage().service_cpu_s_total
    (box.proc / "81" / "task").mkdir(parents=True)
    stat = (box.proc / "90" / "stat").read_text()
    (box.proc / "81" / "stat").write_text(stat.replace("90 (cron) S 1 ", f"81 (cron) S {SUPERVISORD} "))

    assert watch.usage().service_cpu_s_total == pytest.approx(before + 4.0)


def test_a_folder_that_is_not_proc_is_one_clear_error(tmp_path: Path) -> None:
    sampler = ProcSampler(VirtualClock(), proc=tmp_path)

    with (
        raises(ConfigError, wording("launch.cannot-be-read")),
        sampler.watching(RecordedLaunch(), frozenset()),
    ):
        pass


def test_a_name_may_hold_spaces_and_brackets() -> None:
    stat = ProcessTable(RECORDED / "before").stat(51)

    assert stat is not None
    assert (stat.name, stat.state, stat.parent, stat.n_threads) == ("odd) name (x", "R", SUPERVISORD, 2)


def test_a_tree_counts_nobody_twice_whichever_roots_are_named(box: RecordedBox) -> None:
    table = ProcessTable(box.proc)

    assert table.trees([51]).ticks == table.trees([62, 61, 51]).ticks == table.trees([51, 61, 62]).ticks
    assert table.trees([51, 62]).members.keys() == {51, 61, 62}


def test_a_process_that_is_gone_has_no_tree(box: RecordedBox) -> None:
    tree = ProcessTable(box.proc).trees([999])

    assert (tree.members, tree.ticks) == ({}, 0)


@pytest.mark.parametrize(("irq", "used_s"), [((0, 0), 17.0), ((10, 30), 16.3)])
def test_interrupts_are_no_use_by_processes_where_the_kernel_counts_them_apart(
    tmp_path: Path, irq: tuple[int, int], used_s: float
) -> None:
    """2 CPUs x 10 s, 2 s idle, 1 s stolen; 0.5 s of soft interrupts."""
    times = []
    for hard, idle, soft, steal in ((irq[0], 0, 100, 0), (irq[1], 200, 150, 100)):
        lines = [
            f"cpu  5 0 5 {idle} 0 {hard} {soft} {steal} 0 0",
            *(f"cpu{n} 0 0 0 0 0 0 0" for n in range(2)),
        ]
        (tmp_path / "stat").write_text("\n".join([*lines, "ctxt 1", ""]))
        times.append(read_box_times(tmp_path))

    assert times[1].used_since(times[0], 10.0) == pytest.approx(used_s)


def test_a_stat_longer_than_one_read_is_read_to_its_end(box: RecordedBox) -> None:
    """Boxes with many cores and interrupts: hundreds of kilobytes before the line that matters."""
    file = box.proc / "stat"
    file.write_text(file.read_text().replace("intr 322257", "intr 322257" + " 0" * 200_000))

    assert read_box_times(box.proc).n_context_switches == 468670
    with box.sampler().watching(box.launch, frozenset()) as watch:
        assert watch.sample(reading()).n_active == 5 + 3


def test_own_and_reaped_ticks_are_the_sums_of_their_two_fields() -> None:
    stat = parse_stat((RECORDED / "before" / "50" / "stat").read_bytes())

    assert (stat.own_ticks, stat.reaped_ticks, stat.started_ticks) == (1000, 500, 5000)
