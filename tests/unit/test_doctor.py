"""The rules of `tuner doctor`: from what was seen to what it does to the answer."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.adapters.proc.cgroup import Container
from tuner.core.domain.layout import Layout
from tuner.core.text.address import bound_ports
from tuner.doctor.box import measure_neighbours
from tuner.doctor.cores import Busy, Neighbours, neighbours_findings
from tuner.doctor.report import render_findings, render_findings_json
from tuner.doctor.room import (
    LOGS_BYTES,
    FolderSeen,
    LimitsSeen,
    Planned,
    TaskLimit,
    copied_spool_bytes,
    disk_findings,
    limits_findings,
    study_bytes,
    sum_needs,
    synthetic_spool_bytes,
)
from tuner.doctor.service import (
    Finding,
    InterpreterSeen,
    LockSeen,
    PortSeen,
    ServerSeen,
    ToolSeen,
    blockers,
    blocking,
    doubtful,
    fine,
    interpreter_findings,
    lock_finding,
    port_finding,
    server_finding,
    tool_finding,
    worst_first,
)

from ..permitted import closed
from ..wording import key_of, wording

BUSY_BOX = Path(__file__).resolve().parent.parent / "proc" / "busy_box"
NEED = sum_needs(
    [Layout(24, 1), Layout(4, 6)], extra_threads=2, has_children=True, of_supervisord=128, of_generator=0
)


class ChangingBox:
    """Time that passes while one sleeps, and a box that is another one then."""

    def __init__(self, proc: Path, moments: Path = BUSY_BOX) -> None:
        self.proc, self.moments, self.now_s = proc, moments, 1000.0
        proc.symlink_to(moments / "before")

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_s(self) -> float:
        return self.now_s

    def sleep_until(self, at_s: float) -> None:
        self.now_s = at_s
        self.proc.unlink()
        self.proc.symlink_to(self.moments / "after")


def test_what_others_use_is_measured_as_in_a_window_and_the_busiest_are_named(tmp_path: Path) -> None:
    box = ChangingBox(tmp_path / "proc")

    seen = measure_neighbours(box, 10.0, 0.15, proc=box.proc, own_pid=30)

    (found, steal) = neighbours_findings(seen)
    assert seen.seconds == 10.0
    assert 0.15 < seen.foreign_cores < 2.0
    assert [one.cores for one in seen.busiest] == sorted((one.cores for one in seen.busiest), reverse=True)
    assert 30 not in {one.pid for one in seen.busiest}
    assert found.level == "warn"
    assert f"{seen.busiest[0].name} (process {seen.busiest[0].pid})" in found.found
    assert steal.check == "steal"


def test_backends_of_the_service_are_no_neighbours(tmp_path: Path) -> None:
    by_name = ChangingBox(tmp_path / "one")
    by_pid = ChangingBox(tmp_path / "two")
    all_foreign = ChangingBox(tmp_path / "three")

    named = measure_neighbours(by_name, 10.0, 0.15, proc=by_name.proc, own_pid=30, backends=["redis-server"])
    found = measure_neighbours(by_pid, 10.0, 0.15, proc=by_pid.proc, own_pid=30, found=frozenset({70}))
    without = measure_neighbours(all_foreign, 10.0, 0.15, proc=all_foreign.proc, own_pid=30)

    assert named.foreign_cores == found.foreign_cores == pytest.approx(without.foreign_cores - 0.07)
    assert 70 in {one.pid for one in without.busiest}
    assert 70 not in {one.pid for one in (*named.busiest, *found.busiest)}


def test_children_of_a_backend_are_no_neighbours_either(tmp_path: Path) -> None:
    box, all_foreign = ChangingBox(tmp_path / "one"), ChangingBox(tmp_path / "two")
    without = measure_neighbours(all_foreign, 10.0, 0.15, proc=all_foreign.proc, own_pid=30)

    seen = measure_neighbours(box, 10.0, 0.15, proc=box.proc, own_pid=30, backends=["supervisord"])

    busiest = {one.pid for one in without.busiest}
    assert {50, 51} < busiest  # its children, who do the work
    assert {one.pid for one in seen.busiest} == busiest - {40, 50, 51}


def test_neighbours_that_are_hidden_from_us_are_not_named_but_counted(tmp_path: Path) -> None:
    """hidepid=1 lists processes of other users, and shows nothing of them."""
    moments = tmp_path / "moments"
    shutil.copytree(BUSY_BOX, moments)
    shown, hidden = ChangingBox(tmp_path / "one"), ChangingBox(tmp_path / "two", moments)
    seen = measure_neighbours(shown, 10.0, 0.15, proc=shown.proc, own_pid=30)
    strangers = {1, seen.busiest[0].pid}

    with closed(*(moments / moment / str(pid) for moment in ("before", "after") for pid in strangers)):
        left = measure_neighbours(hidden, 10.0, 0.15, proc=hidden.proc, own_pid=30)

    assert left.foreign_cores == seen.foreign_cores
    assert {one.pid for one in left.busiest} == {one.pid for one in seen.busiest} - strangers


def test_in_a_container_neighbours_are_looked_for_on_its_own_cpus(tmp_path: Path) -> None:
    inside, outside = ChangingBox(tmp_path / "one"), ChangingBox(tmp_path / "two")

    own = measure_neighbours(
        inside, 10.0, 0.15, proc=inside.proc, own_pid=30, container=Container(None, frozenset({0}))
    )
    all_of_it = measure_neighbours(outside, 10.0, 0.15, proc=outside.proc, own_pid=30)

    assert 0 <= own.foreign_cores < all_of_it.foreign_cores


def test_neighbours_may_use_the_cpus_on_which_the_study_may_not_run(tmp_path: Path) -> None:
    box, other = ChangingBox(tmp_path / "one"), ChangingBox(tmp_path / "two")

    seen = measure_neighbours(box, 10.0, 0.15, proc=box.proc, own_pid=30, elsewhere=frozenset({1}))
    named = measure_neighbours(
        other, 10.0, 0.15, proc=other.proc, own_pid=30, elsewhere=frozenset({1}), backends=["redis-server"]
    )

    assert seen.room_cores == pytest.approx(0.84)
    assert named.room_cores == pytest.approx(0.84 - 0.07)


@pytest.mark.parametrize(("cores", "level"), [(0.15, "ok"), (0.16, "warn")])
def test_neighbours_are_doubtful_from_what_voids_a_window_on(cores: float, level: str) -> None:
    foreign, stolen = neighbours_findings(Neighbours(5.0, cores, cores, 0.15, ()))

    assert (foreign.level, stolen.level) == (level, level)
    assert ("disturbed" in foreign.effect, "stolen" in stolen.effect) == (level == "warn", level == "warn")


def test_neighbours_may_use_the_cores_beyond_a_quota_as_well() -> None:
    foreign, stolen = neighbours_findings(Neighbours(5.0, 50.0, 0.2, 0.15, (), room_cores=53.6))

    assert (foreign.level, stolen.level) == ("ok", "warn")


@pytest.mark.parametrize("used", [(), (0.5,), (0.5, 0.2, 0.104), (0.5, 0.2, 0.1, 0.05)])
def test_the_cpu_of_the_named_neighbours_and_of_the_rest_adds_up(used: tuple[float, ...]) -> None:
    busiest = tuple(Busy(100 + n, f"job{n}", cores) for n, cores in enumerate(used))

    found, _ = neighbours_findings(Neighbours(5.0, 1.3, 0.0, 0.15, busiest))

    parts = [re.search(r"(.*) (\d\.\d\d)$", part) for part in found.found.split(": ")[1].split(", ")]
    named = [part[1] for part in parts if part is not None]
    assert len(named) == len(parts) == min(3, len(used)) + 1
    assert named[-1] == wording("doctor.rest-of-neighbours")
    assert sum(float(part[2]) for part in parts if part is not None) == pytest.approx(1.3)


def test_nothing_is_left_of_the_neighbours_if_the_named_ones_used_all() -> None:
    busiest = (Busy(100, "job", 1.0), Busy(101, "cron", 0.301))

    found, _ = neighbours_findings(Neighbours(5.0, 1.3, 0.0, 0.15, busiest))

    assert found.found.endswith(": job (process 100) 1.00, cron (process 101) 0.30")


def test_the_largest_layout_sets_what_is_needed() -> None:
    assert NEED.largest == Layout(24, 1)
    assert NEED.tasks == 24 * (1 + 2) + 24 + 24 + 16
    assert NEED.of_worker == 10 + 7 * 6


@pytest.mark.parametrize(
    ("most", "level"), [(NEED.tasks - 1, "blocker"), (2 * NEED.tasks - 1, "warn"), (2 * NEED.tasks, "ok")]
)
def test_the_tightest_limit_on_processes_and_threads_decides(most: int, level: str) -> None:
    limits = (TaskLimit("kernel.pid_max", 100_000, 100), TaskLimit("ulimit -u", most + 5, 5))

    _, processes = limits_findings(LimitsSeen(1024, 4096, limits), NEED)

    assert processes.level == level
    assert "ulimit -u" in processes.found


@pytest.mark.parametrize(
    ("soft", "hard", "generator", "level"),
    [
        (1024, 4096, 0, "ok"),
        (None, None, 2000, "ok"),
        (20, 4096, 0, "warn"),
        (64, 127, 0, "blocker"),
        (1024, 1024, 2000, "blocker"),
    ],
)
def test_open_files_are_judged_for_workers_supervisord_and_the_load_generator(
    soft: int | None, hard: int | None, generator: int, level: str
) -> None:
    files, _ = limits_findings(LimitsSeen(soft, hard, ()), replace(NEED, of_generator=generator))

    assert files.level == level


def test_a_study_is_as_large_as_its_time() -> None:
    grid = Planned(n_layouts=4, n_blocks=12, windows_per_launch=1, window_s=600.0, budget_s=None)
    race = replace(grid, n_blocks=0, budget_s=9 * 3600.0)

    # A simulated study of these 48 windows takes 1 916 928 bytes; a measured one up to 3.5 times as much.
    assert 1_916_928 < study_bytes(grid) < 10_000_000
    assert study_bytes(race) == 100_000 + 250 * 9 * 3600
    assert study_bytes(replace(grid, budget_s=600.0)) == 100_000 + 250 * 600


def test_a_spool_is_as_large_as_what_it_is_filled_with() -> None:
    """Measured: the most that was there while 100 crashes were filled in, and 20 with larger symbols; what 50
    copies of 5 dumps took."""
    assert synthetic_spool_bytes(100) > 7328 * 1024
    assert synthetic_spool_bytes(20, 5_600_000) > 25_568 * 1024
    assert copied_spool_bytes([12_000, 12_000, 28_000, 12_000, 20_000], 10) > 1268 * 1024


@pytest.mark.parametrize(
    ("free", "can_write", "level"),
    [
        (999, True, "blocker"),
        (1000, True, "warn"),
        (1000 + LOGS_BYTES, True, "ok"),
        (1000 + LOGS_BYTES, False, "blocker"),
        (None, False, "blocker"),
    ],
)
def test_a_disk_has_room_for_the_spool_and_for_logs(free: int | None, can_write: bool, level: str) -> None:
    seen = FolderSeen("/tmp", "the spool", 1000, free, can_write, has_logs=True)

    assert [finding.level for finding in disk_findings([seen])] == [level]


def test_what_needs_an_unknown_room_is_reported_in_a_whole_sentence() -> None:
    logs = FolderSeen("/tmp", "files and logs of launches", 0, 1024**3, True, has_logs=True)
    filled = FolderSeen("/spool", "the spool", 0, 1024**3, True)

    (finding,) = disk_findings([filled, logs])
    assert finding.found == (wording("doctor.room-on-disk"))


def test_a_folder_that_nobody_logs_to_needs_no_room_for_logs() -> None:
    shared_memory = FolderSeen("/dev/shm", "counters of the workers", 65_536, 64 * 1024**2, True)

    assert [finding.level for finding in disk_findings([shared_memory])] == ["ok"]
    assert [finding.level for finding in disk_findings([replace(shared_memory, has_logs=True)])] == ["warn"]


def test_folders_on_one_disk_share_its_room() -> None:
    study = FolderSeen("/data", "the study's file", 600, 1000, True, disk=7)
    spool = FolderSeen("/tmp", "the spool", 600, 1000, True, disk=7)

    (together,) = disk_findings([study, spool])
    apart = disk_findings([study, replace(spool, disk=8)])

    assert together.level == "blocker"
    assert "/data and /tmp" in together.found
    assert [finding.level for finding in apart] == ["ok", "ok"]


PORT = PortSeen("127.0.0.1:8000", "feeder.url", False, False, "gunicorn (process 7)")


@pytest.mark.parametrize(
    ("seen", "level"),
    [
        (replace(PORT, is_bound_by_command=True), "blocker"),
        (replace(PORT, is_bound_by_command=True, listener=""), "ok"),
        (PORT, "warn"),
        (replace(PORT, listener=""), "ok"),
        (replace(PORT, is_elsewhere=True), "ok"),  # a proxy before the service
        (replace(PORT, is_elsewhere=True, listener=""), "warn"),
    ],
)
def test_a_port_blocks_where_the_service_itself_has_to_listen(seen: PortSeen, level: str) -> None:
    finding = port_finding(seen)

    assert finding.level == level
    assert "127.0.0.1:8000 (feeder.url)" in finding.found


@pytest.mark.parametrize(
    ("by_hook", "by_tuner", "level"), [(False, True, "blocker"), (True, True, "warn"), (False, False, "warn")]
)
def test_a_server_that_does_not_answer_blocks_where_tuner_needs_it(
    by_hook: bool, by_tuner: bool, level: str
) -> None:
    silent = ServerSeen("redis://127.0.0.1:6379/0", "probe.url", "refused", "answers", by_hook, by_tuner)

    assert server_finding(silent).level == level
    assert server_finding(replace(silent, problem="")).found == "redis://127.0.0.1:6379/0 (probe.url) answers"


@pytest.mark.parametrize(
    ("seen", "levels"),
    [
        (InterpreterSeen("CPython 3.11.7", "on", False, "vfork+exec", True), ("ok", "ok")),
        (InterpreterSeen("CPython 3.13.1", "on", False, "posix_spawn", True), ("ok", "warn")),
        (InterpreterSeen("CPython 3.13.1", "off", False, "posix_spawn", True), ("ok", "ok")),
        (InterpreterSeen("CPython 3.13.1", "on", False, "posix_spawn", False), ("ok", "ok")),
        (InterpreterSeen("CPython 3.11.7", "on", True, "fork+exec", True), ("warn", "warn")),
        (InterpreterSeen(), ("ok", "ok")),
    ],
)
def test_an_interpreter_is_judged_by_its_build_and_how_it_starts_children(
    seen: InterpreterSeen, levels: tuple[str, str]
) -> None:
    assert tuple(finding.level for finding in interpreter_findings({"": seen})) == levels
    assert all("(variant a)" in finding.found for finding in interpreter_findings({"a": seen}))


@pytest.mark.parametrize(
    ("packages", "variables", "n_cores", "said"),
    [
        (("numpy", "torch"), {}, 4, wording("doctor.numeric-threads-not-set")),
        (("numpy",), {"OMP_NUM_THREADS": "1"}, 4, wording("doctor.numeric-threads-set")),
        (("numpy",), {}, 1, None),
        ((), {}, 4, None),
    ],
    ids=key_of,
)
def test_what_sets_the_threads_of_numeric_packages_is_reported_where_there_are_some(
    packages: tuple[str, ...], variables: dict[str, str], n_cores: int, said: str | None
) -> None:
    seen = InterpreterSeen("CPython 3.11.7", "on", numeric_packages=packages, set_variables=variables)
    found = [one for one in interpreter_findings({"a": seen}, n_cores) if one.check == "numeric-threads"]

    assert [f"{one.found}: {one.effect}" for one in found] == ([] if said is None else [said])
    assert all(one.level == "ok" for one in found)


def test_what_is_not_there_and_who_is_there_already_block() -> None:
    missing = tool_finding(
        ToolSeen("supervisord", "", "supervisor is not installed", "pip install supervisor")
    )
    taken = lock_finding(LockSeen("/run/lock/tuner-box.lock", "pid 7 of user root"))

    assert (missing.level, taken.level) == ("blocker", "blocker")
    assert lock_finding(LockSeen("/run/lock/tuner-box.lock", "")).level == "ok"


@pytest.mark.parametrize(
    ("words", "ports"),
    [
        ("gunicorn app:app --bind 127.0.0.1:8000", {8000}),
        ("gunicorn app:app -b :80 --bind=[::1]:81", {80, 81}),
        ("uvicorn app:app --host 0.0.0.0 --port 9000 --workers 4", {9000}),
        ("server --http-port=9001 --threads 8000", {9001}),
        ("uwsgi --http11-socket=:8080 -p 4 --stats 127.0.0.1:1717", {8080}),
        ("gunicorn -b:80 app:app", {80}),
        ("gunicorn --statsd-host=localhost:8125 -c conf.py app:app", set()),
        ("server --metrics-port 9100 --broker redis:6379 -p 4", set()),
        ("server --report 5 --import 5 --transport 5 --metrics-port=9100", set()),
        ("server localhost:8000", set()),
        ("celery -A app worker --broker redis://127.0.0.1:6379/0", set()),
        ("server --port 99999 --port 0", set()),
    ],
)
def test_a_command_names_the_ports_that_it_listens_at(words: str, ports: set[int]) -> None:
    assert bound_ports(words.split()) == ports


SOME = (
    fine("cores", "2 cores"),
    doubtful("smt", "on", "less", "echo off"),
    blocking("disk", "full", "ends", "rm"),
)


def test_the_worst_comes_first_and_only_blockers_block() -> None:
    assert [finding.level for finding in worst_first(SOME)] == ["blocker", "warn", "ok"]
    assert blockers(SOME) == (SOME[2],)
    assert blockers(SOME[:2]) == ()


def test_the_table_tells_effect_and_cure_of_what_is_not_in_order() -> None:
    text = render_findings(worst_first(SOME))

    assert text.splitlines() == [
        wording("doctor.blocker-and-warning"),
        "",
        "BLOCKER  disk   full",
        "                effect: ends",
        "                cure: rm",
        "",
        "warn     smt    on",
        "                effect: less",
        "                cure: echo off",
        "",
        "ok       cores  2 cores",
    ]


def test_the_table_keeps_to_its_width_and_lets_nothing_steer_the_terminal() -> None:
    evil = Finding("neighbours", "warn", "\x1b[2J" + "a few words " * 40, "", "none\nhere")

    lines = render_findings([evil], width=80).splitlines()

    assert all(len(line) <= 80 and "\x1b" not in line for line in lines)


def test_the_json_has_five_fields_a_finding() -> None:
    data = json.loads(render_findings_json(SOME))

    assert data == {
        "schema_version": 1,
        "findings": [
            {"check": "cores", "level": "ok", "found": "2 cores", "effect": "", "cure": ""},
            {"check": "smt", "level": "warn", "found": "on", "effect": "less", "cure": "echo off"},
            {"check": "disk", "level": "blocker", "found": "full", "effect": "ends", "cure": "rm"},
        ],
    }
