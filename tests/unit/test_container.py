"""What a sampler tells in a container, where /proc tells of the host: on a recorded box, made one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tuner.adapters.proc.cgroup import find_container
from tuner.adapters.proc.cores import describe_host
from tuner.adapters.proc.procfs import ProcSampler, ProcWatch
from tuner.adapters.virtual.box import VirtualClock
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Reading, VoidReason
from tuner.reports.ranking.ranking_words import LOAD_TOLD, OWN_LOAD_TOLD

from ..wording import key_of, start_of, wording

RECORDED = Path(__file__).resolve().parent.parent / "proc"
FIRST_NAMESPACE, ANOTHER_NAMESPACE = "pid:[4026531836]", "pid:[4026532179]"
TUNER = 30
READING = Reading(1000.0, 12, 3)


class RecordedLaunch:
    running_after_s = 0.5
    shape = Layout(2, 64)  # of which all threads work on items

    def worker_pids(self) -> frozenset[int]:
        return frozenset({50, 51})

    def overhead_pids(self) -> frozenset[int]:
        return frozenset({40, 41})

    def problems(self, *, threads: bool = True) -> tuple[VoidReason, ...]:
        return ()


class RecordedContainer:
    """The busy box, seen from a pid namespace and a cgroup of version 2 of one's own."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.cgroup = folder / "proc", folder / "cgroup"
        self.clock = VirtualClock()
        self.warnings: list[tuple[str, str]] = []
        shutil.copytree(RECORDED / "busy_box" / "before", self.proc)
        self.lives_in(ANOTHER_NAMESPACE)
        (self.cgroup).mkdir()
        (self.cgroup / "cgroup.procs").write_text("1\n30\n")

    def lives_in(self, namespace: str) -> None:
        ns = self.proc / "self" / "ns"
        shutil.rmtree(self.proc / "self", ignore_errors=True)
        ns.mkdir(parents=True)
        (ns / "pid").symlink_to(namespace)
        (self.proc / "self" / "cgroup").write_text("0::/../../kubepods.slice/pod7\n")

    def ten_seconds_later(self) -> None:
        shutil.rmtree(self.proc)
        shutil.copytree(RECORDED / "busy_box" / "after", self.proc)
        self.clock.sleep_until(self.clock.monotonic_s() + 10)

    def waited(self, resource: str, seconds: float) -> None:
        """Tasks of the container waited for so long, since it is there."""
        lines = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={seconds * 1e6:.0f}\n"
        (self.cgroup / f"{resource}.pressure").write_text(lines + lines.replace("some", "full"))

    @contextmanager
    def watch(self) -> Iterator[ProcWatch]:
        def warn(slug: str, text: str) -> None:
            self.warnings.append((slug, text))

        sampler = ProcSampler(self.clock, proc=self.proc, cgroup=self.cgroup, own_pid=TUNER, warn=warn)
        with sampler.watching(RecordedLaunch(), frozenset()) as watch:
            yield watch


@pytest.fixture
def container(tmp_path: Path) -> RecordedContainer:
    return RecordedContainer(tmp_path)


def test_active_are_the_tasks_of_the_service_alone(container: RecordedContainer) -> None:
    """Of the workers one thread is in R and two in D; their children are in R, R and D."""
    with container.watch() as watch:
        assert watch.sample(READING).n_active == 3 + 3


def test_load_is_that_of_these_tasks_from_the_beginning_of_a_launch(container: RecordedContainer) -> None:
    """An average that begins at 0 would be too low in the first minutes, which a short window is made of."""
    with container.watch() as watch:
        first = watch.sample(READING)
        container.clock.sleep_until(container.clock.monotonic_s() + 60)
        after_a_minute = watch.sample(READING)

    assert (first.load1, first.load5, first.load15) == (6.0, 6.0, 6.0)
    assert (after_a_minute.load1, after_a_minute.load5) == (pytest.approx(6.0), pytest.approx(6.0))


def test_a_container_is_reported_once_and_a_host_never(container: RecordedContainer) -> None:
    with container.watch(), container.watch():
        pass
    ((slug, text),) = container.warnings[:1]
    container.warnings.clear()
    container.lives_in(FIRST_NAMESPACE)
    with container.watch() as watch:
        load1 = watch.sample(READING).load1

    assert slug == "container-load"
    assert "/proc/loadavg is that of the host" in text
    assert container.warnings == []
    assert load1 == 3.21


def test_pressure_is_that_of_the_containers_own_cgroup(container: RecordedContainer) -> None:
    container.waited("cpu", 12.5)
    container.waited("memory", 0.25)
    with container.watch() as watch:
        usage = watch.usage()

    assert (usage.cpu_pressure_s_total, usage.memory_pressure_s_total) == (12.5, 0.25)
    assert usage.io_pressure_s_total is None


def test_pressure_of_the_host_is_not_taken_for_the_containers(container: RecordedContainer) -> None:
    shutil.rmtree(container.cgroup)
    with container.watch() as watch:
        usage = watch.usage()

    assert (container.proc / "pressure" / "cpu").is_file()
    assert usage.cpu_pressure_s_total is None
    assert wording("doctor.pressure-unknown") in container.warnings[0][1]


@pytest.mark.parametrize(
    ("cpus", "used_s", "stolen_s"), [({0, 1}, 16.8, 0.1), ({1}, 8.4, 0.05), ({0}, 8.4, 0.05)]
)
def test_strangers_are_looked_for_on_the_cpus_of_the_container_only(
    container: RecordedContainer,
    monkeypatch: pytest.MonkeyPatch,
    cpus: set[int],
    used_s: float,
    stolen_s: float,
) -> None:
    """Each CPU has 10 s, of which it is idle for 1.55 s and stolen for 0.05 s."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: cpus)
    with container.watch() as watch:
        before = watch.usage()
        container.ten_seconds_later()
        after = watch.usage()

    assert after.box_cpu_s_total - before.box_cpu_s_total == pytest.approx(used_s)
    assert after.steal_s_total - before.steal_s_total == pytest.approx(stolen_s)


LXCFS = "611 587 0:52 /proc/stat /proc/stat rw,nosuid - fuse.lxcfs lxcfs rw,user_id=0,allow_other\n"
PLAIN = "590 587 0:55 / /proc rw,nosuid - proc proc rw\n"


@pytest.mark.parametrize(
    ("cpus", "mounts", "why"),
    [
        ({0, 1}, PLAIN + LXCFS, "lxcfs"),
        ({1, 5}, PLAIN, wording("doctor.cpus-numbered-anew", n=1)),
        ({4, 5}, PLAIN, wording("doctor.cpus-numbered-anew", n=0)),
    ],
    ids=key_of,
)
def test_where_cpus_are_numbered_anew_strangers_are_said_to_be_hidden_and_not_half_counted(
    container: RecordedContainer, monkeypatch: pytest.MonkeyPatch, cpus: set[int], mounts: str, why: str
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: cpus)
    (container.proc / "self" / "mountinfo").write_text(mounts)
    with container.watch() as watch:
        before = watch.usage()
        container.ten_seconds_later()
        after = watch.usage()

    result = container.warnings[0][1]
    assert wording("doctor.strangers-void-no-window") in result
    assert why in result
    assert after.service_cpu_s_total > before.service_cpu_s_total
    assert after.foreign_cpu_s_total == pytest.approx(before.foreign_cpu_s_total) == pytest.approx(0.0)
    assert after.steal_s_total == before.steal_s_total
    assert after.interrupt_s_total == before.interrupt_s_total == 0.0


def test_where_cpus_have_no_times_strangers_are_hidden_and_use_nothing(
    container: RecordedContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in gVisor. Without idle time, 20 s of CPU would seem to be used in 10 s."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1})

    def without_times() -> None:
        lines = (container.proc / "stat").read_text().splitlines()
        lines = [line.split()[0] + " 0" * 10 if line.startswith("cpu") else line for line in lines]
        (container.proc / "stat").write_text("\n".join([*lines, ""]))

    without_times()
    with container.watch() as watch:
        before = watch.usage()
        container.ten_seconds_later()
        without_times()
        after = watch.usage()

    result = container.warnings[0][1]
    assert wording("doctor.strangers-void-no-window") in result
    assert wording("doctor.cpus-without-times") in result
    assert after.service_cpu_s_total > before.service_cpu_s_total
    assert after.foreign_cpu_s_total == pytest.approx(before.foreign_cpu_s_total) == pytest.approx(0.0)


def test_a_study_keeps_that_strangers_could_not_be_seen(container: RecordedContainer) -> None:
    for name in ("cpuinfo", "meminfo"):
        shutil.copy(RECORDED / "virtual_host" / "proc" / name, container.proc / name)
    seen = describe_host(proc=container.proc, sys=container.cgroup, affinity=frozenset({0, 1}))
    (container.proc / "self" / "mountinfo").write_text(PLAIN + LXCFS)
    hidden = describe_host(proc=container.proc, sys=container.cgroup, affinity=frozenset({0, 1}))

    assert "strangers" not in seen
    assert wording("doctor.strangers-unseen-by-lxcfs") in start_of(hidden["strangers"])


def test_a_kernel_without_pid_namespaces_has_no_containers(tmp_path: Path) -> None:
    assert find_container(tmp_path, tmp_path) is None


def test_a_study_keeps_that_its_load_is_of_the_service_alone(container: RecordedContainer) -> None:
    for name in ("cpuinfo", "meminfo"):
        shutil.copy(RECORDED / "virtual_host" / "proc" / name, container.proc / name)
    within = describe_host(proc=container.proc, sys=container.cgroup, affinity=frozenset({0, 1}))
    container.lives_in(FIRST_NAMESPACE)
    outside = describe_host(proc=container.proc, sys=container.cgroup, affinity=frozenset({0, 1}))

    assert within["load_of"] == wording("doctor.loadavg-of-the-host")
    assert "load_of" not in outside
    assert wording("doctor.load-of-the-kernel") in LOAD_TOLD
    assert wording("doctor.of-the-service-alone") in OWN_LOAD_TOLD
