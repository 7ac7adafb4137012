"""What is read from others: whatever they write, it is a count or it is refused in words."""

from __future__ import annotations

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tuner.adapters.probes.log import FollowedLog
from tuner.adapters.probes.uwsgi import parse_stats
from tuner.core.errors import MeasurementError
from tuner.core.text.figures import LARGEST_COUNT, parse_json
from tuner.core.text.prometheus_text import MOST_LINES, MOST_SAMPLES, parse_samples
from tuner.core.text.statsd import StatsdTally
from tuner.probe.counter import SUFFIX, CounterError, open_counter, read_totals

from ..raising import raises
from ..wording import key_of, wording

pytestmark = pytest.mark.pythons

SAMPLE_PIECES = st.sampled_from(
    [
        '{q="a"}',
        "{",
        "}",
        '"',
        "\\",
        " ",
        "\t",
        "\n",
        "1",
        "-1",
        "1e308",
        "NaN",
        "+Inf",
        "# x",
        ",",
        "q=",
        "é",
    ]
)


@given(st.lists(SAMPLE_PIECES | st.text(max_size=3)).map("".join))
@example('{q="a"} 1e308')
@example("1" * 70_000)
def test_a_page_gives_counts_or_says_what_is_wrong(junk: str) -> None:
    found, refused = {}, ""
    try:
        found = parse_samples(f"items {junk}\nitems{junk}", "items", {})
    except ValueError as error:
        refused = str(error)

    assert all(math.isfinite(n) and 0 <= n <= LARGEST_COUNT for n in found.values())
    assert len(refused) < 500


@pytest.mark.parametrize(
    ("n", "label", "said"),
    [
        (MOST_SAMPLES + 2, "a", wording("probes.too-many-samples")),
        (MOST_LINES + 1, "b", wording("probes.too-many-samples-of-all-labels")),
    ],
    ids=key_of,
)
def test_a_page_of_more_samples_than_any_service_has_is_refused(n: int, label: str, said: str) -> None:
    page = "\n".join(f'items{{q="{label}",n="{i}"}} 1' for i in range(n))

    with raises(ValueError, said):
        parse_samples(page, "items", {"q": "a"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1, "b": 2, "a": 3}', wording("probes.key-twice-in-json")),
        ("[" * 1_000_000, wording("probes.nested-too-deeply")),
        ('{"a":' * 1_000_000, wording("probes.nested-too-deeply")),
        ("NaN", wording("probes.no-number-of-json", text="NaN")),
        ("-Infinity", wording("probes.no-number-of-json", text="-Infinity")),
        ("9" * 5000, "Exceeds the limit"),
        ("[1", "Expecting"),
    ],
    ids=key_of,
)
def test_json_that_can_be_read_in_two_ways_or_not_at_all_is_refused(text: str, said: str) -> None:
    with raises(ValueError, said):
        parse_json(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["workers", "id", "requests", "exceptions"]) | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
)


@given(st.binary() | JSON.map(lambda value: json.dumps({"workers": value}).encode()))
@example(
    b'{"workers": [{"id": 1, "requests": 5, "exceptions": 0}, {"id": 1, "requests": 7, "exceptions": 0}]}'
)
@example(b'{"workers": [{"id": true, "requests": 5, "exceptions": 0}]}')
def test_stats_of_uwsgi_give_one_count_a_worker_or_say_what_is_wrong(answer: bytes) -> None:
    try:
        counts = parse_stats(answer)
    except MeasurementError:
        return

    assert len(counts.done) == len(json.loads(answer)["workers"])
    assert all(n >= 0 for n in counts.done.values())


@given(st.lists(st.sampled_from([b"items:", b"1", b"|c", b"|@", b"0.1", b"|#", b"\n", b"-", b"e9", b"\xff"])))
def test_no_packet_of_statsd_counts_what_is_no_number(pieces: list[bytes]) -> None:
    tally = StatsdTally([b"items"])
    tally.add(b"".join(pieces))

    assert math.isfinite(tally.totals[b"items"])


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"bc\n", b"\0", b"\xff"])), st.integers(1, 5))
def test_a_log_is_the_same_lines_however_it_is_written(pieces: list[bytes], n_at_once: int) -> None:
    with TemporaryDirectory() as name:
        path = Path(name, "log")
        path.touch()
        log = FollowedLog(path, from_end=False)
        found = []
        for at in range(0, len(pieces), n_at_once):
            with path.open("ab") as file:
                file.write(b"".join(pieces[at : at + n_at_once]))
            found += log.new_lines()
        log.close()

    *ended, _ = b"".join(pieces).split(b"\n")
    assert found == [line.removesuffix(b"\r") for line in ended]


WORDS = st.sampled_from([0, 1, 2, 63, 64, 2**16, 2**32, 2**60, 2**63, 2**64 - 1])


@given(st.sampled_from([64, 67, 72, 128, 200, 4096]), st.dictionaries(st.integers(0, 10), WORDS, max_size=3))
def test_a_damaged_counter_is_refused_or_read_and_nothing_else(n_bytes: int, words: dict[int, int]) -> None:
    with TemporaryDirectory() as name:
        data = bytearray(_counter_file()[:n_bytes])
        for word, value in words.items():
            if 8 * word + 8 <= len(data):
                data[8 * word : 8 * word + 8] = value.to_bytes(8, "little")
        Path(name, f"1{SUFFIX}").write_bytes(data)
        try:
            totals = read_totals(name)
        except CounterError:
            return

    assert totals.n_slots < 4096 // 64


def _counter_file() -> bytes:
    with TemporaryDirectory() as name:
        open_counter(name).slot().done()
        (path,) = Path(name).iterdir()
        return path.read_bytes()
