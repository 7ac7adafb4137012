"""A log that grows without end takes a bounded part of the disk, and nobody who uses it notices."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from tuner.adapters.processes.log_tail import last_lines, truncate_log

from ..holes import need_holes

KEPT_BYTES = 1 << 20
LINE = b"the same line again and again\n" * 4096


def used_bytes(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_a_log_that_grows_without_end_takes_a_bounded_part_of_the_disk(tmp_path: Path) -> None:
    need_holes(tmp_path)
    log = tmp_path / "worker_0.log"
    most_bytes, was_bound = 0, False
    with log.open("ab", buffering=0) as writer, log.open("rb") as reader:
        for n in range(100):
            writer.write(LINE)
            writer.write(b"line %d\n" % n)
            was_bound = truncate_log(log, KEPT_BYTES) or was_bound
            most_bytes = max(most_bytes, used_bytes(log))
            assert reader.read().endswith(b"again\nline %d\n" % n)  # who follows it goes on where it was

    assert was_bound
    assert log.stat().st_size > 10 * KEPT_BYTES
    assert most_bytes < log.stat().st_size / 2  # some file systems (XFS) take space ahead of what is written
    assert last_lines(log, 1) == ["line 99"]


def test_a_short_log_and_one_that_is_not_there_are_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "worker_0.log"
    log.write_bytes(b"short\n")

    assert not truncate_log(log, KEPT_BYTES)
    assert not truncate_log(tmp_path / "none", KEPT_BYTES)
    assert log.read_bytes() == b"short\n"


def test_on_a_file_system_without_holes_a_long_log_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoHoles:
        """A C library on such a file system."""

        def fallocate64(self, *_: object) -> int:
            ctypes.set_errno(95)  # EOPNOTSUPP
            return -1

    log = tmp_path / "worker_0.log"
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: NoHoles())
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, bytes(3 * KEPT_BYTES))

    assert truncate_log(log, KEPT_BYTES)
    os.write(descriptor, b"goes on\n")
    os.close(descriptor)
    assert log.read_bytes() == b"goes on\n"


def test_a_c_library_that_has_only_fallocate_punches_the_hole_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[int, ...]] = []

    class Musl:
        """The C library of Alpine."""

        def fallocate(self, _: int, mode: int, offset: ctypes.c_int64, n_bytes: ctypes.c_int64) -> int:
            given.append((mode, offset.value, n_bytes.value))
            return 0

    log = tmp_path / "worker_0.log"
    log.write_bytes(bytes(3 * KEPT_BYTES))
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Musl())

    assert truncate_log(log, KEPT_BYTES)
    assert given == [(0x03, 0, 2 * KEPT_BYTES)]  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
    assert log.stat().st_size == 3 * KEPT_BYTES


def test_with_a_c_library_that_knows_no_holes_a_long_log_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "worker_0.log"
    log.write_bytes(bytes(3 * KEPT_BYTES))
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())

    assert truncate_log(log, KEPT_BYTES)
    assert log.read_bytes() == b""
