"""What `tuner doctor` says of recorded boxes: cores, clocks, kernel and limits."""

from __future__ import annotations

import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.adapters.host_lock import holder_of
from tuner.adapters.proc.cgroup import Container
from tuner.core.domain.layout import Layout
from tuner.doctor.box import read_cores, read_kernel
from tuner.doctor.cores import CoresSeen, cores_findings, kernel_findings
from tuner.doctor.limits import read_folder, read_limits
from tuner.doctor.room import TaskLimit, disk_findings, limits_findings, sum_needs
from tuner.doctor.service import UNKNOWN, Finding

from ..wording import start_of, wording

RECORDED = Path(__file__).resolve().parent.parent / "proc"
N_CPUS = {"doctor_metal": 8, "doctor_guest": 4, "doctor_container": 4}


def cores_of(box: str, wanted: int | None = None) -> CoresSeen:
    n = N_CPUS[box]
    root = RECORDED / box
    return read_cores(wanted or n, proc=root / "proc", sys=root / "sys", affinity=frozenset(range(n)))


def found_on(box: str, wanted: int | None = None) -> dict[str, Finding]:
    root = RECORDED / box
    kernel = replace(read_kernel(proc=root / "proc", sys=root / "sys"), is_root=False)
    findings = [*cores_findings(cores_of(box, wanted)), *kernel_findings(kernel)]
    assert len({finding.check for finding in findings}) == len(findings)
    return {finding.check: finding for finding in findings}


@pytest.mark.parametrize(
    ("box", "doubtful"),
    [
        ("doctor_metal", {"smt", "governor", "turbo"}),
        (
            "doctor_guest",
            {
                *("cores", "steal-since-boot", "pressure", "memory-figures"),
                *("delay-accounting", "gil-looks", "clock", "memory"),
            },
        ),
        ("doctor_container", {"cores"}),
    ],
)
def test_a_box_is_reported_of_what_spoils_the_answer_there_and_of_nothing_else(
    box: str, doubtful: set[str]
) -> None:
    found = found_on(box)

    assert {check for check, finding in found.items() if finding.level == "warn"} == doubtful
    assert {finding.level for finding in found.values()} == {"ok", "warn"}
    assert all(finding.effect and finding.cure for finding in found.values() if finding.level == "warn")
    assert not any(finding.cure for finding in found.values() if finding.level == "ok")


def test_hardware_with_two_threads_a_core_shows_them_its_governor_and_its_turbo() -> None:
    found = found_on("doctor_metal")

    assert found["smt"].found == wording("doctor.smt-on")
    assert found["governor"].found == "powersave"
    assert found["turbo"].found == "on"
    assert found["clock"].found.startswith("tsc, ")
    assert found["steal-since-boot"].found == "none (none seen)"


def test_workers_on_some_of_the_cpus_share_cores_with_what_runs_beside_them() -> None:
    smt = found_on("doctor_metal", wanted=4)["smt"]

    assert smt.found == wording("doctor.smt-on-shared")
    assert "tuner" in smt.effect


def test_a_quota_is_reported_with_the_group_that_sets_it() -> None:
    guest, container = (found_on(box, wanted=1)["cores"] for box in ("doctor_guest", "doctor_container"))

    assert guest.found == wording("doctor.cores-by-quota")
    assert container.found == wording("doctor.cores-by-quota-of-app")


def test_layouts_for_more_cores_than_there_are_are_reported() -> None:
    cores = found_on("doctor_metal", wanted=24)["cores"]

    assert (cores.level, cores.found) == ("warn", wording("doctor.cores-for-layouts"))


def test_a_quota_and_layouts_for_more_than_it_are_both_told() -> None:
    cores = found_on("doctor_guest", wanted=24)["cores"]

    assert cores.level == "warn"
    assert cores.found == (wording("doctor.cores-by-quota-for-layouts"))
    assert wording("doctor.once-quota-is-used-up") in cores.effect
    assert wording("doctor.more-processes-only-wait") in cores.effect
    assert "Lift the quota" in cores.cure
    assert "--cores 1" in cores.cure


def test_what_the_hypervisor_kept_since_boot_is_reported() -> None:
    assert found_on("doctor_guest")["steal-since-boot"].found == (wording("doctor.steal-since-boot"))


def test_what_a_kernel_does_not_tell_is_unknown_and_never_guessed() -> None:
    found = found_on("doctor_guest")

    assert found["governor"].found == found["turbo"].found == found["smt"].found == UNKNOWN
    assert found["pressure"].found == f"PSI: {UNKNOWN}"
    assert UNKNOWN in found["memory-figures"].found
    assert UNKNOWN in found["delay-accounting"].found
    assert wording("doctor.delay-accounting") in start_of(found_on("doctor_metal")["delay-accounting"].found)


def test_a_box_that_shows_nothing_at_all_is_looked_at_all_the_same(tmp_path: Path) -> None:
    kernel = read_kernel(proc=tmp_path, sys=tmp_path)

    levels = {finding.check: finding.level for finding in kernel_findings(kernel)}
    assert levels["clock"] == levels["memory"] == "ok"
    assert levels["pressure"] == levels["memory-figures"] == levels["gil-looks"] == "warn"


def test_a_container_is_reported_and_its_pressure_is_that_of_its_cgroup(tmp_path: Path) -> None:
    box = RECORDED / "doctor_metal"  # its own /proc/pressure is on
    (tmp_path / "memory.pressure").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")

    def found_in(cgroup: Path | None) -> dict[str, Finding]:
        container = Container(cgroup, frozenset({2, 3, 4, 5}))
        kernel = read_kernel(proc=box / "proc", sys=box / "sys", container=container)
        return {finding.check: finding for finding in kernel_findings(kernel)}

    seen, hidden = found_in(tmp_path), found_in(None)
    assert (seen["pressure"].level, hidden["pressure"].level) == ("ok", "warn")
    assert wording("doctor.this-is-a-container") in start_of(seen["container"].found)
    assert wording("doctor.strangers-looked-for") in seen["container"].found
    assert found_on("doctor_metal")["container"].found.startswith("none")


def test_each_limit_on_processes_and_threads_is_found() -> None:
    guest, container = RECORDED / "doctor_guest", RECORDED / "doctor_container"

    seen = read_limits({}, 0, proc=guest / "proc", sys=guest / "sys")
    assert seen.tasks == (
        TaskLimit("pids.max of cgroup /docker/0f1e", 60, 10),
        TaskLimit("kernel.threads-max", 60000, 120),
        TaskLimit("kernel.pid_max", 32768, 120),
    )
    seen = read_limits({}, 0, proc=container / "proc", sys=container / "sys")
    assert seen.tasks[0] == TaskLimit("pids.max of cgroup /app.slice", 500, 90)


def test_a_group_with_too_few_pids_blocks_the_layout_that_needs_more() -> None:
    guest = RECORDED / "doctor_guest"
    seen = read_limits({}, 0, proc=guest / "proc", sys=guest / "sys")
    need = sum_needs(
        [Layout(1, 4), Layout(8, 4)], extra_threads=0, has_children=False, of_supervisord=64, of_generator=0
    )

    _, processes = limits_findings(seen, need)

    assert processes.level == "blocker"
    assert processes.found == (wording("doctor.processes-left"))


def test_limits_that_a_config_sets_its_workers_go_before_those_of_tuner() -> None:
    metal = RECORDED / "doctor_metal"

    seen = read_limits({"nofile": 7, "nproc": 9}, os.getuid() + 1, proc=metal / "proc", sys=metal / "sys")

    assert seen.files == 7
    assert seen.files_hard in (None, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    assert seen.tasks[0] == TaskLimit("ulimit -u", 9, 0)  # the recorded box runs nothing of that user


def test_a_folder_shows_the_room_that_is_left(tmp_path: Path) -> None:
    seen = read_folder(tmp_path, "the study's file", 1000)
    gone = read_folder(tmp_path / "gone", "the study's file", 1000)

    assert seen.free_bytes is not None
    assert seen.free_bytes > 0
    assert seen.can_write
    assert seen.disk == tmp_path.stat().st_dev
    assert [finding.level for finding in disk_findings([gone])] == ["blocker"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("pid", "device", "line", "is_held"),
    [
        (1, "own", "1: FLOCK  ADVISORY  WRITE {pid} {device}:{inode} 0 EOF", True),
        (
            0,
            "own",
            "1: FLOCK  ADVISORY  WRITE {pid} {device}:{inode} 0 EOF",
            True,
        ),  # it has not said who it is
        (1, "00:1f", "1: FLOCK  ADVISORY  WRITE {pid} {device}:{inode} 0 EOF", True),  # btrfs
        (1 << 30, "00:1f", "1: FLOCK  ADVISORY  WRITE {pid} {device}:{inode} 0 EOF", False),
        (1, "own", "1: -> FLOCK  ADVISORY  WRITE {pid} {device}:{inode} 0 EOF", False),
        (1, "own", "1: POSIX  ADVISORY  WRITE {pid} {device}:{inode} 0 EOF", False),
        (1, "own", "1: FLOCK  ADVISORY  WRITE {pid} {device}:{inode}1 0 EOF", False),
    ],
)
def test_who_holds_the_box_is_read_from_the_table_of_locks(
    tmp_path: Path, pid: int, device: str, line: str, is_held: bool
) -> None:
    lock = tmp_path / "lock"
    lock.write_text(f'{{"pid": {pid}}}' if pid else "")
    status = lock.stat()
    own = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    text = line.format(pid=pid, device=own if device == "own" else device, inode=status.st_ino)
    (tmp_path / "locks").write_text(f"{text}\n")

    assert bool(holder_of(lock, proc=tmp_path)) == is_held
    assert holder_of(tmp_path / "none", proc=tmp_path) == ""


@pytest.mark.parametrize("since", ["1e300", "-1e18", "NaN", '"today"'])
def test_a_holder_who_took_the_box_at_no_time_is_reported_all_the_same(tmp_path: Path, since: str) -> None:
    lock = tmp_path / "lock"
    lock.write_text(f'{{"pid": 1, "user": "eve", "study": "s", "since_s": {since}}}')
    status = lock.stat()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    (tmp_path / "locks").write_text(f"1: FLOCK  ADVISORY  WRITE 1 {device}:{status.st_ino} 0 EOF\n")

    assert holder_of(lock, proc=tmp_path) == wording("launch.held-by-user-since")
