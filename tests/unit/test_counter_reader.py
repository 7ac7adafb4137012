from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tuner.probe.counter import Counter, CounterError, Reader, read_totals

from ..raising import raises
from ..wording import key_of, wording

pytestmark = pytest.mark.pythons


def counted(folder: Path, n_slots: int = 1) -> Path:
    """A folder with one counter of *n_slots* slots; each has one item done."""
    leases = []
    counter = Counter(str(folder))
    for _ in range(n_slots):
        slot = counter.slot()
        slot.done()
        leases.append(slot)
        del counter._local.slot  # the next one is another thread's
    [path] = folder.glob("*.counter")
    return path


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_the_bytes_are_where_the_documentation_has_them(tmp_path: Path) -> None:
    path = counted(tmp_path, n_slots=2)
    data = path.read_bytes()
    magic, version, pid, start_time, n_slots, slot_bytes = struct.unpack_from("=6Q", data)
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])

    assert struct.pack("=Q", magic) == b"tunercnt"
    assert (version, pid, start_time, n_slots, slot_bytes) == (1, os.getpid(), started, 2, 64)
    assert [struct.unpack_from("=5Q", data, 64 + slot * 64) for slot in range(2)] == [(1, 0, 0, 0, 0)] * 2
    assert not any(data[64 + 2 * 64 :])


def test_a_file_that_is_being_created_counts_from_the_next_look_on(tmp_path: Path) -> None:
    path = counted(tmp_path)
    whole = path.read_bytes()
    with Reader(str(tmp_path)) as reader:
        for half in (b"", whole[:32], bytes(len(whole)), bytes(8) + whole[8:]):
            path.write_bytes(half)
            assert reader.totals().n_processes == 0
        path.write_bytes(whole)

        assert reader.totals().n_done == 1


def test_files_of_other_names_are_left_alone(tmp_path: Path) -> None:
    counted(tmp_path)
    (tmp_path / "notes.txt").write_text("not a counter")
    (tmp_path / "worker.counter.swp").write_bytes(b"\xff" * 4096)

    assert read_totals(str(tmp_path)).n_processes == 1


@pytest.mark.parametrize(
    ("offset", "data", "problem"),
    [
        (0, b"SQLite f", wording("probes.no-counter-of-tuner")),
        (8, struct.pack("=Q", 2), wording("probes.counter-of-another-version")),
        (40, struct.pack("=Q", 72), wording("probes.counter-damaged")),
        (32, struct.pack("=Q", 64), wording("probes.counter-too-short")),
        (32, b"\xff" * 8, wording("probes.counter-of-too-many-threads")),
    ],
    ids=key_of,
)
def test_a_wrong_or_damaged_counter_is_named(tmp_path: Path, offset: int, data: bytes, problem: str) -> None:
    path = counted(tmp_path)
    overwrite(path, offset, data)

    with raises(CounterError, problem) as caught:
        read_totals(str(tmp_path))
    assert path.name in str(caught.value)


def test_a_counter_that_shrinks_under_the_reader_is_an_error_not_a_bus_error(tmp_path: Path) -> None:
    path = counted(tmp_path)
    with Reader(str(tmp_path)) as reader:
        reader.totals()
        os.truncate(path, 0)

        with raises(CounterError, wording("probes.counter-has-shrunk")):
            reader.totals()


def test_a_reader_follows_a_file_that_grows_and_one_that_comes_later(tmp_path: Path) -> None:
    first, second = Counter(str(tmp_path)), Counter(str(tmp_path))
    held = []
    with Reader(str(tmp_path)) as reader:
        assert reader.totals().n_processes == 0
        for n_slots in range(1, 201):
            slot = first.slot()
            slot.done()
            held.append(slot)
            del first._local.slot
            assert reader.totals()[0] == reader.totals().n_slots == n_slots
        second.slot().done()

        assert (reader.totals().n_done, reader.totals().n_processes) == (201, 2)


def test_a_deleted_file_stays_in_the_totals(tmp_path: Path) -> None:
    counter = Counter(str(tmp_path))
    slot = counter.slot()
    slot.done()
    with Reader(str(tmp_path)) as reader:
        assert reader.totals().n_done == 1
        next(tmp_path.iterdir()).unlink()
        slot.done()

        assert reader.totals().n_done == 2


@contextmanager
def worker(folder: Path) -> Iterator[None]:
    """A process that has done an item, until the block ends."""
    script = (
        "import sys; from tuner.probe.counter import open_counter\n"
        "open_counter(sys.argv[1]).slot().done(); print('done', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        yield
        process.stdin.close()
        assert process.wait(60) == 0


def n_open() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_workers_that_come_and_go_leave_their_counts_and_no_descriptor(tmp_path: Path) -> None:
    before = n_open()
    with Reader(str(tmp_path)) as reader:
        opened, counts = [], []
        for _ in range(6):
            with worker(tmp_path):
                counts.append(reader.totals()[0])
                opened.append(n_open() - before)
        last = reader.totals()

    assert counts == [1, 2, 3, 4, 5, 6]
    assert (last.n_done, last.n_slots, last.n_processes) == (6, 6, 6)
    assert len(set(opened)) == 1


def test_workers_that_ended_before_anybody_looked_leave_no_descriptor_either(tmp_path: Path) -> None:
    for _ in range(3):
        with worker(tmp_path):
            pass
    before = n_open()
    with Reader(str(tmp_path)) as reader:
        first, second = reader.totals(), reader.totals()
        opened = n_open()
        for path in tmp_path.iterdir():
            path.unlink()
        third = reader.totals()

    assert first.n_done == first.n_processes == 3
    assert first == second == third
    assert opened == before


def test_a_worker_that_is_not_to_be_seen_from_here_is_followed_all_the_same(tmp_path: Path) -> None:
    """In a container of its own it has another pid there."""
    path = counted(tmp_path)
    overwrite(path, 16, struct.pack("=Q", 2**22 + 1))  # above any pid
    with Reader(str(tmp_path)) as reader:
        before = reader.totals().n_done
        overwrite(path, 64, struct.pack("=Q", 5))

        assert (before, reader.totals().n_done) == (1, 5)


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with raises(CounterError, wording("probes.cannot-read-counters", folder=tmp_path / "gone")):
        read_totals(str(tmp_path / "gone"))


def test_a_counter_file_that_is_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.counter").mkdir()

    with raises(CounterError, wording("probes.cannot-read-counter", file=tmp_path / "odd.counter")):
        read_totals(str(tmp_path))
