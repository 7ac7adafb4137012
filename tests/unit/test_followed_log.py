"""A log is read on, line by line, whatever becomes of its file."""

from __future__ import annotations

import os
import re
import tracemalloc
from pathlib import Path

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.probes.log import LONGEST_LINE_BYTES, FollowedLog, LogProbe, logs_of_user
from tuner.adapters.processes.log_tail import truncate_log
from tuner.core.domain.layout import Layout
from tuner.core.errors import MeasurementError

from ..holes import need_holes
from ..raising import raises
from ..wording import wording

_MB = 1 << 20


def add(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def lines(log: FollowedLog) -> list[bytes]:
    return list(log.new_lines())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.log"


def test_a_line_counts_once_it_is_ended(path: Path) -> None:
    add(path, b"one\ntw")
    log = FollowedLog(path, from_end=False)

    assert lines(log) == [b"one"]
    add(path, b"o\r\n\nthree")
    assert lines(log) == [b"two", b""]
    assert lines(log) == []
    log.close()


def test_what_a_file_holds_already_is_left_out_when_it_is_read_from_its_end(path: Path) -> None:
    add(path, b"old\nhalf")
    log = FollowedLog(path, from_end=True)
    add(path, b"-new\nnew\n")

    assert lines(log) == [b"-new", b"new"]
    log.close()


def test_a_file_that_comes_later_is_read_as_a_whole_and_missed_until_then(path: Path) -> None:
    log = FollowedLog(path, from_end=True)
    with raises(MeasurementError, wording("probes.log-cannot-be-read")):
        lines(log)
    add(path, b"first\n")

    assert lines(log) == [b"first"]
    log.close()


def test_a_file_that_was_renamed_is_read_to_its_end_though_its_writer_is_late_to_leave_it(path: Path) -> None:
    add(path, b"a\n")
    log = FollowedLog(path, from_end=False)
    assert lines(log) == [b"a"]
    add(path, b"b\n")
    old = path.rename(path.with_suffix(".1"))

    assert lines(log) == [b"b"]  # the next one is not there yet
    add(path, b"c\n")
    assert lines(log) == [b"c"]
    add(old, b"late\n")
    add(path, b"d\n")
    assert lines(log) == [b"late", b"d"]
    assert log.n_cuts == 0
    log.close()


def test_what_was_not_read_of_a_file_before_it_was_replaced_is_not_lost(path: Path) -> None:
    log = FollowedLog(path, from_end=True)
    for number in range(5):
        add(path, b"first of %d\n" % number)
        lines(log)
        add(path, b"last of %d\n" % number)
        path.unlink()
    add(path, b"end\n")

    assert lines(log) == [b"last of 4", b"end"]
    log.close()


@pytest.mark.parametrize("after", [b"x\n", b"longer than all that stood here before\n"])
def test_a_file_that_was_cut_off_is_read_anew_and_that_is_reported(path: Path, after: bytes) -> None:
    add(path, b"a\nb\nhalf")
    log = FollowedLog(path, from_end=False)
    assert lines(log) == [b"a", b"b"]
    path.write_bytes(after)  # as logrotate's copytruncate does: the same file

    assert lines(log) == [after.removesuffix(b"\n")]
    assert log.n_cuts == 1
    assert lines(log) == []
    assert log.n_cuts == 1
    log.close()


def test_a_writer_that_does_not_append_leaves_a_hole_and_the_lines_after_it_count(path: Path) -> None:
    with path.open("wb", buffering=0) as writer:
        writer.write(b"a" * 100 + b"\n")
        log = FollowedLog(path, from_end=False)
        lines(log)
        os.truncate(path, 0)
        writer.write(b"b\n")

        assert [line[-1:] for line in lines(log)] == [b"b"]
    log.close()


def numbered(first: int, end: int) -> bytes:
    return b"".join(b"%09d\n" % n for n in range(first, end))


def test_a_reader_who_is_behind_what_was_given_back_continues_after_it_and_tells_one_cut(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.adapters.probes.log.MOST_AT_A_LOOK_BYTES", _MB // 4)  # the hole is no text
    need_holes(path.parent)
    add(path, numbered(0, 1000))
    log = FollowedLog(path, from_end=False)
    assert len(lines(log)) == 1000
    add(path, numbered(1000, 50_000))
    assert truncate_log(path, _MB // 16)

    *found, last = [int(line) for line in lines(log)[1:]]  # of the first one, the end may be left only
    assert last == 49_999
    assert [*found, last] == list(range(found[0], 50_000))
    assert _MB // 16 - 20 <= 10 * (50_000 - found[0]) <= _MB // 4
    assert log.n_cuts == 1
    add(path, b"later\n")
    assert lines(log) == [b"later"]
    assert log.n_cuts == 1
    log.close()


def test_a_reader_who_has_read_what_is_given_back_loses_nothing(path: Path) -> None:
    need_holes(path.parent)
    add(path, numbered(0, 20_484))
    log = FollowedLog(path, from_end=False)
    assert len(lines(log)) == 20_484
    assert truncate_log(
        path, 32
    )  # up to 40 bytes before the end: within the text by which the log is known again

    add(path, b"later\n")
    assert lines(log) == [b"later"]
    assert log.n_cuts == 0
    log.close()


def test_what_is_given_back_during_a_look_is_not_read_as_zeros(path: Path) -> None:
    need_holes(path.parent)
    add(path, numbered(0, 150_000))
    log = FollowedLog(path, from_end=False)
    looking = log.new_lines()
    assert next(looking) == b"000000000"
    assert truncate_log(path, _MB // 16)

    rest = list(looking)
    assert not any(b"\0" in line for line in rest)
    assert rest[-1] == b"000149999"
    assert len(rest) < 120_000
    assert log.n_cuts == 1
    log.close()


def test_a_giant_line_is_one_line_and_takes_no_memory(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"begin")
        file.seek(1 << 28)  # a hole: no disk is filled
        file.write(b"end\nnext\n")
    log = FollowedLog(path, from_end=False)
    tracemalloc.start()
    try:
        found = lines(log)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert [line[:5] for line in found] == [b"begin", b"next"]
    assert len(found[0]) == LONGEST_LINE_BYTES
    assert peak_bytes < 16 * _MB
    log.close()


def test_more_than_can_be_read_in_a_look_is_no_answer_until_it_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.adapters.probes.log.MOST_AT_A_LOOK_BYTES", 3 * _MB)
    add(path, b"a" * 7 * _MB + b"\n")
    log = FollowedLog(path, from_end=False)

    for n_left in (4, 1):
        with raises(MeasurementError, wording("probes.log-not-read-yet", n=n_left)):
            lines(log)
    assert [len(line) for line in lines(log)] == [LONGEST_LINE_BYTES]
    log.close()


def test_garbage_is_lines_of_bytes(path: Path) -> None:
    add(path, bytes(range(256)) * 2 + b"\n")
    log = FollowedLog(path, from_end=False)

    assert len(lines(log)) == 3
    log.close()


def test_a_pipe_or_a_folder_is_no_log_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        log = FollowedLog(path, from_end=True)
        with raises(MeasurementError, wording("probes.no-log-file")):
            lines(log)
        log.close()


def test_every_file_is_closed_in_the_end(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    log = FollowedLog(path, from_end=True)
    for _ in range(4):
        add(path, b"a\n")
        lines(log)
        path.unlink()
    log.close()

    assert len(os.listdir("/proc/self/fd")) == before


def test_lines_of_more_than_64_kib_are_counted(path: Path) -> None:
    log = FollowedLog(path, from_end=False)
    add(
        path,
        b"x" * LONGEST_LINE_BYTES
        + b"\r\n"
        + b"y" * (LONGEST_LINE_BYTES + 1)
        + b"\n"
        + b"z" * LONGEST_LINE_BYTES,
    )

    assert [line[:1] for line in lines(log)] == [b"x", b"y"]
    assert log.n_long == 1
    add(path, b"z" * LONGEST_LINE_BYTES)
    add(path, b"\nshort\n")
    assert [len(line) for line in lines(log)] == [LONGEST_LINE_BYTES, 5]
    assert log.n_long == 2
    log.close()


def test_lines_that_are_not_searched_to_their_end_are_reported(path: Path) -> None:
    add(path, b"")
    warned: list[tuple[str, str]] = []
    probe = LogProbe(
        SystemClock(),
        re.compile(b"done$"),
        None,
        lambda: logs_of_user([path]),
        lambda slug, text: warned.append((slug, text)),
    )
    with probe.counting(Layout(1, 2)) as counting:
        asked_s = counting.read().at_s
        while counting.read().at_s <= asked_s:
            pass
        add(path, b"x" * LONGEST_LINE_BYTES + b"done\ndone\n")
        while counting.read().n_done_total < 1:
            pass

    assert warned == [("log-lines-long", wording("probes.lines-too-long", path=path))]
