"""Lines of statsd, production by production of its grammar and of its dialects, and lines that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.text.statsd import StatsdTally

pytestmark = pytest.mark.pythons

NAMES = (b"items", b"a.b")


def tally(packet: bytes, *names: bytes) -> StatsdTally:
    counted = StatsdTally(names or NAMES)
    counted.add(packet)
    return counted


def n_passed(packet: bytes) -> dict[str, int]:
    return {passed: n for passed, n in tally(packet).n_passed.items() if n}


@pytest.mark.parametrize(
    ("line", "n"),
    [
        # Etsy's docs/metric_types.md and stats.js
        (b"items:1|c", 1),
        (b"items:25|c", 25),
        (b"items:1.5|c", 1.5),
        (b"items:.5|c", 0.5),
        (b"items:5.|c", 5),
        (b"items:+5|c", 5),
        (b"items:1e3|c", 1000),
        (b"items:1E+3|c", 1000),
        (b"items: 7 | c ", 7),
        (b"items:2|c|@0.1", 20),
        (b"items:2|c|@1", 2),
        (b"items:2|c|@1.0", 2),
        (b"items:2|c|@.5", 4),
        (b"items:2|c|@1e-05", 200_000),  # as Python's client writes a rate of 0.00001
        (b"items:1|c:2|c", 3),  # a sample is repeated as a whole
        (b"items:1|c|@0.1:2|c:3|c|@0.5", 18),
        (b"items:3|m", 3),  # a meter is a counter that only grows
        # DogStatsD 1.0: tags and rate in any order
        (b"items:1|c|#service:web,worker:3", 1),
        (b"items:2|c|@.5|#service:web,worker:3", 4),
        (b"items:2|c|#service:web|@0.5", 4),
        (b"items:1|c|#", 1),
        # 1.1: packed values share type, rate and tags
        (b"items:1:2:3|c", 6),
        (b"items:1:2:3|c|@0.5|#a:b", 12),
        (b"items:21::22|c", 43),
        # 1.2: the container; 1.3: the time; later: external data and cardinality; and what is not known yet
        (b"items:1|c|#a:b|c:ci-4f3a,in-12", 1),
        (b"items:1|c|c:4f3a", 1),
        (b"items:2|c|c:4f3a|@0.5", 4),
        (b"items:1|c|T1656581400", 1),
        (b"items:1|c|@0.5|#a:b|c:4f3a|T1656581400", 2),
        (b"items:1|c|e:it-false,cn-x,pu-y|card:low", 1),
        (b"items:1|c|new:field", 1),
        (b"items:1|c|", 1),
        # tags in the name: InfluxDB and Telegraf, Librato, SignalFx, Graphite
        (b"items,service=web,worker=3:1|c", 1),
        (b"items#service=web:2|c|@0.5", 4),
        (b"items[service=web,worker=3]:1|c", 1),
        (b"[service=web]items:1|c", 1),
        (b"it[service=web]ems:1|c", 1),
        (b"items;service=web:1|c", 1),
        # line ends
        (b"items:1|c\r", 1),
        (b"items:1|c|@0.5\r\n", 2),
        (b"\nitems:1|c\n\n", 1),
    ],
)
def test_a_counter_counts_in_every_form(line: bytes, n: float) -> None:
    counted = tally(line)

    assert counted.totals == {b"items": pytest.approx(n), b"a.b": 0}
    assert n_passed(line) == {}


def test_a_name_is_also_known_as_etsy_s_server_calls_it() -> None:
    counted = tally(b"web site/items@host:1|c\n", b"web_site-itemshost")

    assert counted.totals == {b"web_site-itemshost": 1}


def test_a_name_with_signs_of_tags_is_first_of_all_a_name() -> None:
    assert tally(b"a,b=c:1|c\na:1|c", b"a,b=c").totals == {b"a,b=c": 1}


def test_a_negative_value_takes_away() -> None:
    assert tally(b"items:5|c\nitems:-2|c").totals[b"items"] == 3


def test_a_packet_may_hold_several_metrics() -> None:
    counted = tally(b"items:1|c\nduration:12|ms\na.b:4|c\n\nitems:2|c\n")

    assert counted.totals == {b"items": 3, b"a.b": 4}
    assert counted.other_names == {b"duration": b"ms"}


@pytest.mark.parametrize(
    "line",
    [
        b"items",
        b"items:",
        b"items:1",
        b"items:|c",
        b"items:x|c",
        b"items:nan|c",
        b"items:inf|c",
        b"items:0x10|c",
        b"items:1_000|c",
        b"items:1e300|c",
        b"items:9999999999999999999|c",
        b"items:1|",
        b"items:1|count",
        b"items:1|c|@0",
        b"items:1|c|@2",
        b"items:1|c|@-0.5",
        b"items:1|c|@x",
        b"items:1|c|@",
        b"items:1|c|@0.1x",
        b"items:1:x:3|c",
        b"items,a=b:x|c",
    ],
)
def test_a_line_of_ours_that_cannot_be_read_is_counted_as_such(line: bytes) -> None:
    assert n_passed(line) == {"unreadable": 1}
    assert tally(line).examples == {"unreadable": line}


def test_what_can_be_read_of_a_line_counts_all_the_same() -> None:
    assert tally(b"items:1|c:x|c:3|c").totals[b"items"] == 4
    assert n_passed(b"items:1|c:x|c:y|c") == {"unreadable": 1}


@pytest.mark.parametrize(
    "line",
    [
        b"items:333|g",
        b"items:+4|g",
        b"items:-10|g",
        b"items:320|ms",
        b"items:320|ms|@0.1",
        b"items:1:2:3|h|#a:b",
        b"items:1|d",
        b"items:765|s",
        b"items:anybody|s",
    ],
)
def test_a_metric_of_ours_that_is_no_counter_is_counted_as_such(line: bytes) -> None:
    assert tally(line).totals[b"items"] == 0
    assert n_passed(line) == {"other-type": 1}


@pytest.mark.parametrize(
    "line", [b"hello", b"\xff\x00\xfe", b"a:b", b"a|c", b":1|c", b"GET / HTTP/1.1\r", b"other:1|"]
)
def test_what_is_no_metric_is_counted_as_such(line: bytes) -> None:
    assert n_passed(line) == {"no-metric": 1}


@pytest.mark.parametrize(
    ("line", "others"),
    [
        (b"", {}),
        (b" \r\n", {}),
        (b"other:1|c", {b"other": b"c"}),
        (b"itemsx:1|c:2|c", {b"itemsx": b"c"}),
        (b"other:4.2|ms|@0.1", {b"other": b"ms"}),
        (b"other,a=1:1|c\nother,a=2:1|c\nother[a=3]:1|c", {b"other": b"c"}),
        (b"_e{5,4}:title|text|t:warning|#items:1", {}),
        (b"_sc|Redis connection|2|d:1656581400|#env:dev|m:items:1|c", {}),
    ],
)
def test_metrics_events_and_checks_of_others_are_passed_over(line: bytes, others: dict[bytes, bytes]) -> None:
    counted = tally(line)

    assert counted.totals == {b"items": 0, b"a.b": 0}
    assert counted.other_names == others
    assert n_passed(line) == {}


def test_names_without_end_are_not_kept() -> None:
    counted = tally(b"\n".join(b"n%d:1|c" % n for n in range(1000)))

    assert len(counted.other_names) == 20


@given(st.lists(st.integers(0, 10**6)), st.binary().filter(lambda junk: b"items" not in junk))
def test_garbage_between_them_costs_no_count(values: list[int], junk: bytes) -> None:
    packet = b"\n".join(b"items:%d|c\n%b" % (value, junk) for value in values)

    assert tally(packet, b"items").totals[b"items"] == sum(values)


@given(st.binary())
def test_a_line_of_ours_counts_or_is_reported(line: bytes) -> None:
    line = b"items:" + line.replace(b"\n", b"")
    counted = tally(line)

    counts = counted.totals[b"items"] != 0 or b"0" in line
    assert counts or sum(counted.n_passed.values()) == 1


def test_a_packet_of_64_kib_may_be_one_line() -> None:
    assert tally(b"items:" + b"1:" * 32_000 + b"1|c").totals[b"items"] == 32_001
    assert tally(b"items:" + b"1|c:" * 16_000 + b"1|c").totals[b"items"] == 16_001
