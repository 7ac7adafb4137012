"""tuner as the statsd of a service: sampled counts, failed items, packets lost."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.probes.statsd import StatsdCounting, StatsdProbe
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import VoidReason
from tuner.core.errors import MeasurementError
from tuner.core.windows.validity import find_lost_counts

from ..raising import raises
from ..wording import wording

pytestmark = pytest.mark.integration


@contextmanager
def sent_to(
    counting: StatsdCounting,
) -> Iterator[socket.socket]:
    host, port = counting.environment["TUNER_STATSD"].split(":")
    assert host == "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect((host, int(port)))
        yield sender


def probe_of(warned: list[tuple[str, str]], *, failed_included: bool = False) -> StatsdProbe:
    return StatsdProbe(
        SystemClock(),
        "all",
        "bad",
        lambda slug, text: warned.append((slug, text)),
        failed_included=failed_included,
    )


@pytest.mark.parametrize(("failed_included", "n_done"), [(False, 12), (True, 9)])
def test_failed_items_are_kept_apart(failed_included: bool, n_done: int) -> None:
    warned: list[tuple[str, str]] = []
    probe = probe_of(warned, failed_included=failed_included)
    with probe.counting(Layout(1, 1)) as counting, sent_to(counting) as sender:
        sender.send(b"all:2|c\nall:1|c|@0.1")
        sender.send(b"bad:3|c\nother:4|c")
        reading = counting.read()

    assert (reading.n_done_total, reading.n_failed_total) == (n_done, 3)
    assert warned == []


def test_a_failed_item_that_is_reported_before_the_item_takes_nothing_away() -> None:
    with (
        probe_of([], failed_included=True).counting(Layout(1, 1)) as counting,
        sent_to(counting) as sender,
    ):
        sender.send(b"all:5|c")
        before = counting.read()
        sender.send(b"bad:1|c")
        between = counting.read()
        sender.send(b"all:3|c")
        after = counting.read()

    assert [one.n_done_total for one in (before, between, after)] == [5, 5, 7]


def test_packets_that_the_kernel_drops_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.adapters.probes.statsd._BUFFER_BYTES", 4096)
    warned: list[tuple[str, str]] = []
    with probe_of(warned).counting(Layout(2, 3)) as counting, sent_to(counting) as sender:
        with counting._receiving:  # nobody receives: as when tuner is not given a core
            for _ in range(200):
                sender.send(b"all:1|c\n" + b"x" * 1000 + b":1|c")
        n_seen = counting.read().n_done_total

    ((slug, text),) = warned
    assert slug == "packets-lost"
    assert wording("probes.kernel-dropped-packets", value=200 - n_seen) in text


def test_lines_that_cannot_be_read_void_their_window_and_are_reported_once_in_a_study() -> None:
    warned: list[tuple[str, str]] = []
    probe = probe_of(warned)
    for layout in (Layout(1, 1), Layout(2, 1)):
        with probe.counting(layout) as counting, sent_to(counting) as sender:
            sender.send(b"all:2|c")
            before = counting.read()
            sender.send(b"all:x|c\nall:1|c|@0\nall:4|c")
            after = counting.read()
            later = counting.read()

        assert after.n_done_total - before.n_done_total == 4
        assert find_lost_counts(before, after) == (
            VoidReason("counts-unreadable", wording("probes.lines-unreadable")),
        )
        assert find_lost_counts(after, later) == ()
    assert warned == [("statsd-lines", wording("probes.statsd-could-not-read"))]


def test_what_is_sent_and_not_counted_is_reported_with_an_example() -> None:
    warned: list[tuple[str, str]] = []
    with probe_of(warned).counting(Layout(1, 1)) as counting, sent_to(counting) as sender:
        sender.send(b"all:12|ms\nall:1|c\nGET / HTTP/1.1\r\n\xff\xff")
        reading = counting.read()

    assert reading.n_done_total == 1
    assert reading.n_unreadable_total == 0
    assert warned == [
        ("statsd-lines", wording("probes.statsd-other-type")),
        ("statsd-lines", wording("probes.statsd-no-metrics")),
    ]


def test_a_name_that_nobody_sends_is_reported_with_those_that_came() -> None:
    warned: list[tuple[str, str]] = []
    with probe_of(warned).counting(Layout(1, 1)) as counting, sent_to(counting) as sender:
        sender.send(b"\n".join(b"app.n%d:1|c" % n for n in range(6)) + b"\napp.time:1|ms")
        counting.read()

    assert warned == [("statsd-names", wording("probes.statsd-other-names"))]


def test_a_counter_that_nobody_sent_yet_is_the_reason_for_counting_nothing() -> None:
    with probe_of([]).counting(Layout(1, 1)) as counting, sent_to(counting) as sender:
        sender.send(b"other:1|c")
        before = counting.read()
        sender.send(b"all:1|c")
        after = counting.read()

    assert (before.problem, after.problem) == (wording("probes.received-no-counter"), "")


def test_a_counter_that_goes_down_is_no_count_of_items() -> None:
    with probe_of([]).counting(Layout(1, 1)) as counting, sent_to(counting) as sender:
        sender.send(b"all:5|c")
        counting.read()
        sender.send(b"all:-1|c\nall:1|c")
        assert counting.read().n_done_total == 5
        sender.send(b"all:-2|c")

        with raises(MeasurementError, wording("probes.statsd-counter-fell")):
            counting.read()
