"""The counter under kill -9, in every Python it is made for, against a file that has a byte for each item."""

from __future__ import annotations

import collections
import os
import random
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tuner.probe import counter
from tuner.probe.counter import Reader, read_totals

from ..processes import is_running

pytestmark = [pytest.mark.pythons, pytest.mark.integration]

WORKER = Path(__file__).with_name("counter_worker.py")
VERSIONS = ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13"]
LIMIT_S = 60.0
SOME_ITEMS = 2000


@cache
def interpreter(version: str) -> str | None:
    """The path of a Python of *version* that really runs; a shim may only say that it does not."""
    name = f"python{version}"
    environments: list[dict[str, str]] = [{}]
    if shutil.which("pyenv"):
        known = subprocess.run(["pyenv", "whence", name], capture_output=True, text=True, check=False)
        environments += [{"PYENV_VERSION": line.strip()} for line in known.stdout.splitlines()]
    for environment in environments if shutil.which(name) else []:
        result = subprocess.run(
            [name, "-c", "import sys; print(sys.executable, *sys.version_info[:2])"],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode == 0 and result.stdout.split()[1:] == version.split("."):
            return result.stdout.split()[0]
    return None


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> str:
    path = interpreter(request.param)
    if path is None:
        pytest.skip(f"no python{request.param} on the PATH that runs")
    return path


@contextmanager
def working(python: str, folder: Path, truth: Path, mode: str, count: int) -> Iterator[tuple[int, list[int]]]:
    """Start a worker in a session of its own; its pid and its children's once they have counted."""
    command = [python, str(WORKER), counter.__file__, str(folder), str(truth), mode, str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            ready, *pids = process.stdout.readline().split()
            assert ready == "ready"
            wait_until_larger(truth, SOME_ITEMS)
            yield process.pid, [int(pid) for pid in pids]
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def wait_until_larger(path: Path, n_bytes: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not path.exists() or path.stat().st_size < n_bytes:
        assert time.monotonic() < deadline, f"{path} never got {n_bytes} bytes"
        time.sleep(0.001)


def wait_until_counting(truth: Path, number: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while truth.read_bytes().count(bytes([number])) < 100:
        assert time.monotonic() < deadline, f"number {number} never counted"
        time.sleep(0.01)


def wait_until_dead(pids: list[int]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def slots_as_documented(path: Path) -> tuple[int, list[tuple[int, ...]]]:
    """The writer's pid and the words of each slot, read by the byte layout of the documentation alone."""
    data = path.read_bytes()
    magic, version, pid, _, n_slots, slot_bytes = struct.unpack_from("8s5Q", data)
    assert (magic, version) in {(b"tunercnt", 1), (b"tncrenut", 1)}
    return pid, [struct.unpack_from("5Q", data, 64 + index * slot_bytes) for index in range(n_slots)]


def assert_counted(slot: tuple[int, ...], truth: collections.Counter[int], number: int) -> None:
    n_done, n_failed, python_ns, child_ns, waiting_ns = slot
    n_missing = truth[number] + truth[number + 128] - n_done - n_failed
    assert n_missing in {0, 1}
    assert 0 <= truth[number] - n_done <= 1
    assert 0 <= truth[number + 128] - n_failed <= 1
    # The clocks of the item in hand may be missing, the last word of an item first.
    n_items = n_done + n_failed
    assert n_items - 1 <= waiting_ns <= child_ns / 2 <= python_ns / 3 <= n_items


@pytest.mark.parametrize("n_threads", [1, 5])
def test_kill_9_costs_each_thread_at_most_the_item_in_hand(
    python: str, n_threads: int, tmp_path: Path
) -> None:
    moments = random.Random(n_threads)
    for round_ in range(5):
        folder, truth_path = tmp_path / f"{round_}", tmp_path / f"{round_}.truth"
        folder.mkdir()
        with working(python, folder, truth_path, "threads", n_threads) as (pid, _):
            time.sleep(moments.uniform(0, 0.03))
            os.kill(pid, signal.SIGKILL)
            wait_until_dead([pid])
        truth = collections.Counter(truth_path.read_bytes())

        [file] = folder.iterdir()
        written_by, slots = slots_as_documented(file)
        assert written_by == pid
        assert len(slots) == n_threads
        for number, slot in enumerate(slots):
            assert_counted(slot, truth, number)
        assert read_totals(str(folder)).n_done == sum(slot[0] for slot in slots)


def test_a_slot_taken_before_a_fork_counts_into_the_childs_own_file(python: str, tmp_path: Path) -> None:
    folder, truth_path = tmp_path / "counts", tmp_path / "truth"
    folder.mkdir()
    moments = random.Random(1)
    with working(python, folder, truth_path, "prefork", 4) as (master, children):
        for number in range(4):
            wait_until_counting(truth_path, number)
        for pid in children[1:] + children[:1]:  # the master waits for the first
            os.kill(pid, signal.SIGKILL)
            time.sleep(moments.uniform(0, 0.01))
        wait_until_dead([master, *children])
    truth = collections.Counter(truth_path.read_bytes())

    slots = dict(slots_as_documented(file) for file in folder.iterdir())
    assert slots.pop(master) == [(3, 0, 0, 0, 0)]
    assert slots.keys() == set(children)
    for number, pid in enumerate(children):
        [slot] = slots[pid]
        assert_counted(slot, truth, number)


def test_a_reader_beside_48_counting_threads_is_never_more_than_the_items_in_hand_behind(
    tmp_path: Path,
) -> None:
    folder, truth_path = tmp_path / "counts", tmp_path / "truth"
    folder.mkdir()
    n_threads, n_looks, last = 48, 0, 0
    python = interpreter("3.11") or interpreter("3.12") or interpreter("3.13")
    assert python is not None
    with working(python, folder, truth_path, "threads", n_threads), Reader(str(folder)) as reader:
        deadline = time.monotonic() + LIMIT_S
        while n_looks < 300 or last < 20 * SOME_ITEMS:
            at_least = truth_path.stat().st_size - n_threads
            totals = reader.totals()
            at_most = truth_path.stat().st_size
            n_items = totals.n_done + totals.n_failed

            assert at_least <= n_items <= at_most
            assert n_items >= last
            assert (totals.n_slots, totals.n_processes) == (n_threads, 1)
            n_looks, last = n_looks + 1, n_items
            assert time.monotonic() < deadline
