"""Affinity and cgroup quotas, on recorded trees of cgroup versions 1 and 2."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from tuner.adapters.proc.cores import BoxCores, cpus_elsewhere, describe_host, first_cores, usable_cores
from tuner.adapters.proc.topology import n_physical_cores

from ..wording import wording

RECORDED = Path(__file__).resolve().parent.parent / "proc"
ALL = frozenset(range(8))


def cores_of(box: str, affinity: frozenset[int] = ALL) -> BoxCores:
    return usable_cores(affinity=affinity, proc=RECORDED / box / "proc", cgroup=RECORDED / box / "cgroup")


def test_a_plain_box_offers_all_its_cpus() -> None:
    assert cores_of("cgroup_v2_plain") == BoxCores(8.0, ALL, "all 8 CPUs")


def test_affinity_takes_cpus_away() -> None:
    found = cores_of("cgroup_v2_plain", frozenset({2, 3, 5}))

    assert found == BoxCores(3.0, frozenset({2, 3, 5}), wording("doctor.cpus-by-affinity", n=3))


def test_a_quota_of_a_group_further_up_holds() -> None:
    """systemd: the slice has 250 % while the service below says max."""
    found = cores_of("cgroup_v2_slice")

    assert found == BoxCores(2.5, ALL, wording("doctor.quota", cores="2.5", cgroup="/batch.slice"))


def test_the_smallest_quota_on_the_way_up_holds() -> None:
    found = cores_of("cgroup_v1_docker")

    assert found == BoxCores(1.5, ALL, wording("doctor.quota", cores="1.5", cgroup="/docker/0f1e"))


def test_affinity_below_the_quota_decides() -> None:
    assert cores_of("cgroup_v1_docker", frozenset({0})).why == wording("doctor.cpus-by-affinity", n=1)


def test_within_a_container_the_groups_own_mount_is_asked() -> None:
    """/proc names a path of the host that the mount does not show: the root of the mount is our group."""
    found = cores_of("cgroup_v2_container")

    assert found == BoxCores(0.5, ALL, wording("doctor.quota", cores="0.5", cgroup="/"))


def test_a_name_of_a_group_may_hold_any_character_but_the_line_s_end(tmp_path: Path) -> None:
    odd = "a b\r:c\x0b\x85\u2028d"
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "cpuinfo").write_text("processor\t: 0\n" * 8)
    (tmp_path / "proc" / "self" / "cgroup").write_bytes(f"0::/{odd}\n".encode())
    (tmp_path / "cgroup" / odd).mkdir(parents=True)
    (tmp_path / "cgroup" / odd / "cpu.max").write_text("150000 100000\n")

    found = usable_cores(affinity=ALL, proc=tmp_path / "proc", cgroup=tmp_path / "cgroup")

    assert found.count == 1.5


def test_a_box_of_both_versions_takes_the_quota_of_version_1() -> None:
    found = cores_of("cgroup_hybrid")

    assert found == BoxCores(4.0, ALL, wording("doctor.quota", cores=4, cgroup="/ci"))


def test_this_box_offers_no_more_than_its_affinity() -> None:
    found = usable_cores()

    assert found.cpus == os.sched_getaffinity(0)
    assert 0 < found.count <= len(found.cpus)


def test_fewer_cores_are_the_first_of_ours() -> None:
    assert first_cores(1) == {min(os.sched_getaffinity(0))}
    assert first_cores(10_000) == os.sched_getaffinity(0)


def test_a_host_is_described_by_what_it_shows() -> None:
    box = RECORDED / "virtual_host"
    facts = describe_host(proc=box / "proc", sys=box / "sys", affinity=frozenset(range(4)))

    assert {name: facts[name] for name in facts if name not in ("host", "kernel")} == {
        "cpu": "Example CPU @ 2.60GHz",
        "cores": "4",
        "cores_why": wording("doctor.all-cpus"),
        "cpus": "4",
        "host_cpus": "4",
        "threads_per_core": "2",
        "memory": "15.6 GiB",
        "virtualization": wording("doctor.virtual-machine"),
        "steal_since_boot": "2.50%",
        "governor": "powersave",
        "clock_source": "kvm-clock",
    }


@pytest.mark.parametrize(
    ("cpus", "planned", "of_cpus", "of_workers"),
    [
        (range(8), 8, "4", None),
        (range(8), 4, "4", "4"),  # CPU i shares its core with CPU i + 4: the first four are four cores
        (range(8), 6, "4", "4"),
        (range(4), 4, "4", None),  # held there by taskset or a cpuset
        (range(4), 2, "4", "2"),
        ((0, 1, 4, 5), 4, "2", None),
        ((0, 1, 4, 5), 3, "2", "2"),
        (range(8), None, "4", None),
    ],
)
def test_the_physical_cores_of_the_cpus_are_counted(
    cpus: Iterable[int], planned: int | None, of_cpus: str, of_workers: str | None
) -> None:
    metal = RECORDED / "doctor_metal"
    facts = describe_host(
        proc=metal / "proc", sys=metal / "sys", affinity=frozenset(cpus), planned_cores=planned
    )

    assert facts["physical_cores_of_cpus"] == of_cpus
    assert facts.get("physical_cores_of_workers") == of_workers


@pytest.mark.parametrize(
    ("cpus", "elsewhere"),
    [
        (range(8), ()),
        ((0, 1, 4, 5), (2, 3, 6, 7)),
        (range(6), ()),  # CPUs 6 and 7 are second threads of cores 2 and 3
        ((0, 4, 5), (2, 3, 6, 7)),  # so is CPU 1, of core 1
    ],
)
def test_cpus_elsewhere_share_no_core_with_ours(cpus: Iterable[int], elsewhere: Iterable[int]) -> None:
    metal, ours = RECORDED / "doctor_metal", frozenset(cpus)
    facts = describe_host(proc=metal / "proc", sys=metal / "sys", affinity=ours)

    assert cpus_elsewhere(proc=metal / "proc", sys=metal / "sys", affinity=ours) == frozenset(elsewhere)
    assert facts["host_cpus"] == "8"
    assert facts.get("cpus_elsewhere") == (str(len([*elsewhere])) if elsewhere else None)
    assert cpus_elsewhere(proc=metal / "proc", sys=RECORDED / "nowhere", affinity=ours) == frozenset()


def test_in_a_container_there_are_no_cpus_elsewhere(tmp_path: Path) -> None:
    metal, ours, proc = RECORDED / "doctor_metal", frozenset({0, 4}), tmp_path / "proc"
    shutil.copytree(metal / "proc", proc)
    shutil.rmtree(proc / "self" / "ns", ignore_errors=True)
    (proc / "self" / "ns").mkdir()
    (proc / "self" / "ns" / "pid").symlink_to("pid:[4026532000]")
    facts = describe_host(proc=proc, sys=metal / "sys", affinity=ours)

    assert cpus_elsewhere(proc=proc, sys=metal / "sys", affinity=ours) == frozenset()
    assert not {"host_cpus", "cpus_elsewhere"} & facts.keys()


@pytest.mark.parametrize("reported", [None, "", "?"])
def test_physical_cores_are_unknown_if_one_cpu_does_not_report_its_core(
    tmp_path: Path, reported: str | None
) -> None:
    for cpu, text in enumerate(("0", reported)):
        topology = tmp_path / f"devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        if text is not None:
            (topology / "thread_siblings_list").write_text(f"{text}\n")

    assert n_physical_cores({0}, sys=tmp_path) == 1
    assert n_physical_cores({0, 1}, sys=tmp_path) is None


def test_what_a_host_does_not_show_is_left_out() -> None:
    facts = describe_host(
        proc=RECORDED / "cgroup_v2_plain" / "proc", sys=RECORDED / "nowhere", affinity=frozenset({0})
    )

    assert "governor" not in facts
    assert "virtualization" not in facts


@pytest.mark.parametrize("box", ["cgroup_v2_plain", "cgroup_v1_docker", "virtual_host"])
def test_the_recorded_trees_are_complete(box: str) -> None:
    assert (RECORDED / box / "proc" / "self" / "cgroup").is_file()
