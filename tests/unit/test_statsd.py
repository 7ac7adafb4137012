"""Packets of statsd, as clients send them and as nobody should."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.statsd import parse_counts

pytestmark = pytest.mark.pythons

NAMES = (b"items", b"a.b")


def counts(packet: bytes) -> list[tuple[bytes, float]]:
    return list(parse_counts(packet, NAMES))


@pytest.mark.parametrize(
    ("packet", "n"),
    [
        (b"items:1|c", 1),
        (b"items:25|c", 25),
        (b"items:2|c|@0.1", 20),
        (b"items:2|c|@1.0", 2),
        (b"items:2|c|@.5|#service:web,worker:3", 4),
        (b"items:2|c|#service:web|@0.5", 4),
        (b"items:1|c|#a:b|c:4f3a|T1656581400", 1),
        (b"items:1.5|c", 1.5),
        (b"items:1|c\r", 1),
    ],
)
def test_a_counter_counts(packet: bytes, n: float) -> None:
    assert counts(packet) == [(b"items", pytest.approx(n))]


def test_a_packet_may_hold_several_metrics() -> None:
    packet = b"items:1|c\nduration:12|ms\na.b:4|c\n\nitems:2|c\n"

    assert counts(packet) == [(b"items", 1), (b"a.b", 4), (b"items", 2)]


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        b"items",
        b"items:",
        b"items:|c",
        b"items:-1|c",
        b"items:nan|c",
        b"items:1e300|c",
        b"items:9999999999999999999|c",
        b"items:1|g",
        b"items:1|ms",
        b"items:1|count",
        b"items:1|c|@0",
        b"items:1|c|@2",
        b"items:1|c|@x",
        b"items:1|c|@0.1x",
        b"other:1|c",
        b"itemsx:1|c",
        b"\xff\x00\xfe",
    ],
)
def test_what_is_no_count_of_ours_is_passed_over(packet: bytes) -> None:
    assert counts(packet) == []


@given(st.lists(st.integers(0, 10**6)), st.binary().filter(lambda junk: b"items" not in junk))
def test_garbage_between_them_costs_no_count(values: list[int], junk: bytes) -> None:
    packet = b"\n".join(b"items:%d|c\n%b" % (value, junk) for value in values)

    assert sum(n for name, n in counts(packet) if name == b"items") == sum(values)


@given(st.binary())
def test_no_packet_raises_or_gives_less_than_nothing(packet: bytes) -> None:
    assert all(n >= 0 for _, n in counts(b"items:" + packet))
