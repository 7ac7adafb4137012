"""Probes that ask a server: what they make of answers that are wrong, endless or slow."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.probes import prometheus, uwsgi
from tuner.adapters.probes.prometheus import Metric, PrometheusProbe
from tuner.adapters.probes.uwsgi import UwsgiProbe, parse_stats
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Reading
from tuner.core.errors import MeasurementError
from tuner.ports import Counting, Probe

from ..answering_server import Address, Send, dripping, endlessly, page, sending, server
from ..wording import key_of, wording

pytestmark = pytest.mark.integration
HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
COUNTED = b'all_total{q="a"} 5\n'
PROTOBUF = wording("probes.page-in-protobuf")


def typed(content_type: bytes, text: bytes) -> bytes:
    return page(text).replace(b"\r\n", b"\r\nContent-Type: %b\r\n" % content_type, 1)


def no_warning(slug: str, text: str) -> None:
    pytest.fail(f"{slug}: {text}")


def stats(*workers: tuple[int, int]) -> bytes:
    reported = [{"id": n, "requests": all_, "exceptions": bad} for n, (all_, bad) in enumerate(workers, 1)]
    return json.dumps({"workers": reported}).encode()


def read_for_ever(counting: Counting) -> None:
    while True:
        counting.read()


def error_of(probe: Probe) -> str:
    with probe.counting(Layout(1, 1)) as counting, pytest.raises(MeasurementError) as caught:
        read_for_ever(counting)
    return caught.value.problem


def first_and_next(probe: Probe, may_change: threading.Event) -> tuple[Reading, Reading]:
    """The first answer, and the one after *may_change*."""
    with probe.counting(Layout(1, 1)) as counting:
        asked_s = counting.read().at_s
        while (first := counting.read()).at_s <= asked_s:
            pass
        may_change.set()
        while (later := counting.read()).n_failed_total == first.n_failed_total:
            pass
    return first, later


@pytest.fixture
def _fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.adapters.probes.polled.MOST_FAILURES_AT_FIRST", 1)


def prometheus_probe(address: Address, timeout_s: float = 30.0, **more: bool) -> PrometheusProbe:
    host, port = address
    failed = Metric("bad_total")
    url = f"http://{host}:{port}"
    return PrometheusProbe(
        SystemClock(), url, Metric("all_total", {"q": "a"}), failed, timeout_s, no_warning, **more
    )


@pytest.mark.usefixtures("_fails_at_once")
@pytest.mark.parametrize(
    ("send", "said"),
    [
        (sending(page(b'all_total{q="b"} 1\n')), wording("probes.no-sample-with-labels")),
        (sending(page(b'all_total{q="a"} x\n')), wording("probes.no-sample")),
        (sending(page(b"all_total_total 1\nall 2\n")), wording("probes.similar-samples")),
        (sending(typed(b"application/openmetrics-text", COUNTED)), wording("probes.page-without-eof")),
        (
            sending(typed(b"application/openmetrics-text", b"# EOF\n" + COUNTED)),
            wording("probes.page-without-eof"),
        ),
        (sending(typed(b"application/vnd.google.protobuf; encoding=delimited", b"\x08\n")), PROTOBUF),
        (sending(typed(b"text/plain; charset=UTF-16", b"\x08\n")), wording("probes.page-in-charset")),
        (sending(HEAD[:-2] + b"Content-Encoding: GZIP\r\n\r\n" + COUNTED), wording("probes.page-packed")),
        (sending(page(b"", b"404 Not Found")), wording("probes.no-page-because", status="404 Not Found")),
        (sending(b"SSH-2.0-OpenSSH\r\n"), wording("probes.no-page")),
        (sending(b""), wording("probes.no-page")),
        (sending(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nx"), wording("probes.page-breaks-off", n=1)),
        (sending(HEAD + b'all_total{q="a"} 12'), wording("probes.page-breaks-off", n=19)),
        (sending(page(b"")), wording("probes.page-breaks-off", n=0)),
        (endlessly(HEAD, b"x" * 65536), wording("probes.page-too-large")),
        (endlessly(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"), wording("probes.no-page")),
        (endlessly(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"), wording("probes.no-page")),
    ],
    ids=key_of,
)
def test_a_page_that_does_not_count_is_said_to_be_so(send: Send, said: str) -> None:
    with server(send, http=True) as address:
        assert said in error_of(prometheus_probe(address))


@pytest.mark.usefixtures("_fails_at_once")
def test_a_page_that_comes_drop_by_drop_is_not_waited_for() -> None:
    with server(dripping(HEAD), http=True) as address:
        assert wording("probes.no-whole-page") in error_of(prometheus_probe(address, 0.2))


def test_a_page_that_tells_its_length_may_leave_out_the_last_line_s_end() -> None:
    later = threading.Event()

    def send(connection: socket.socket) -> None:
        connection.sendall(
            page(b'bad_total 1\nall_total{q="a"} 15' if later.is_set() else b'all_total{q="a"} 5')
        )

    with server(send, http=True) as address:
        _, then = first_and_next(prometheus_probe(address), later)

    assert (then.n_done_total, then.n_failed_total) == (10, 1)


@pytest.mark.parametrize(
    ("wrap", "content_type"),
    [
        (b"%b", b"text/plain; version=0.0.4; charset=utf-8"),
        (b"%b", b'TEXT/PLAIN; version="1.0.0"; escaping=allow-utf-8'),
        (b"%b", b"text/plain; charset=ISO-8859-1"),
        (b"%b# EOF\n", b"application/openmetrics-text; version=1.0.0; charset=utf-8"),
        (b"%b# EOF", b"application/openmetrics-text"),
        (b"\xef\xbb\xbf%b", b"text/plain"),
        (b'x{a="\xff"} 1\n%b', b"text/plain"),
        (b"  %b", b"application/json"),
    ],
)
def test_a_page_may_be_of_any_text_format(wrap: bytes, content_type: bytes) -> None:
    later = threading.Event()

    def send(connection: socket.socket) -> None:
        counts = b'all_total{q="a"} 15\nbad_total 1\n' if later.is_set() else COUNTED
        connection.sendall(typed(content_type, wrap % counts))

    with server(send, http=True) as address:
        _, then = first_and_next(prometheus_probe(address), later)

    assert (then.n_done_total, then.n_failed_total) == (10, 1)


def test_interim_answers_come_before_a_page() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 2
    later = threading.Event()

    def send(connection: socket.socket) -> None:
        counts = b'all_total{q="a"} 15\nbad_total 1\n' if later.is_set() else COUNTED
        connection.sendall(interim + page(counts))

    with server(send, http=True) as address:
        _, then = first_and_next(prometheus_probe(address), later)

    assert then.n_done_total == 10


def test_labels_that_change_their_order_are_no_new_series() -> None:
    later = threading.Event()

    def send(connection: socket.socket) -> None:
        more = b'all_total{w="1",q="a"} 15\nbad_total 1\n'
        connection.sendall(page(more if later.is_set() else b'all_total{q="a",w="1"} 5\n'))

    with server(send, http=True) as address:
        _, then = first_and_next(prometheus_probe(address), later)

    assert then.n_done_total == 10


@pytest.mark.parametrize(
    ("metric", "asked"),
    [
        (Metric("all_total"), b"text/plain;version=0.0.4, */*;q=0.1"),
        (
            Metric("all.total"),
            b"text/plain;version=1.0.0;escaping=allow-utf-8, text/plain;version=0.0.4, */*;q=0.1",
        ),
        (
            Metric("all_total", {"the queue": "a"}),
            b"text/plain;version=1.0.0;escaping=allow-utf-8, text/plain;version=0.0.4, */*;q=0.1",
        ),
    ],
)
@pytest.mark.usefixtures("_fails_at_once")
def test_names_that_need_quotes_are_requested(metric: Metric, asked: bytes) -> None:
    heard: list[bytes] = []

    def send(connection: socket.socket) -> None:
        heard.append(connection.recv(65536))
        connection.sendall(page(b"", b"503 Not Now"))

    with server(send) as (host, port):
        probe = PrometheusProbe(SystemClock(), f"http://{host}:{port}", metric, None, 30.0, no_warning)
        error_of(probe)

    assert b"\r\nAccept: %b\r\n" % asked in heard[0]


def test_failed_items_of_a_page_are_kept_apart_and_may_come_later() -> None:
    later = threading.Event()

    def send(connection: socket.socket) -> None:
        more = b'all_total{q="a"} 15\nbad_total{why="x"} 2\n'
        connection.sendall(page(more if later.is_set() else b'all_total{q="a"} 5\n'))

    with server(send, http=True) as address:
        first, then = first_and_next(prometheus_probe(address, failed_included=True), later)

    assert (first.n_done_total, first.n_failed_total) == (0, 0)
    assert (then.n_done_total, then.n_failed_total) == (8, 2)


def uwsgi_probe(address: str | tuple[str, int], timeout_s: float) -> UwsgiProbe:
    stats = address if isinstance(address, str) else f"{address[0]}:{address[1]}"
    return UwsgiProbe(SystemClock(), stats, timeout_s, no_warning)


@pytest.mark.usefixtures("_fails_at_once")
@pytest.mark.parametrize(
    ("send", "said"),
    [
        (sending(b""), wording("probes.no-json")),
        (sending(b"[" * 100_000), wording("probes.no-json")),
        (sending(b"[]"), wording("probes.no-workers")),
        (sending(b'{"workers": []}'), wording("probes.no-workers")),
        (sending(b'{"workers": [{"id": 1}]}'), wording("probes.worker-without-count")),
        (sending(b'{"workers": [7]}'), wording("probes.worker-without-count")),
        (sending(b'{"workers": [{"id": 1, "requests": -1}]}'), wording("probes.worker-without-count")),
        (endlessly(b"[", b"1," * 32768), wording("probes.answer-too-large")),
    ],
    ids=key_of,
)
def test_stats_that_do_not_count_are_said_to_be_so(send: Send, said: str) -> None:
    with server(send) as address:
        assert said in error_of(uwsgi_probe(address, 30.0))


@pytest.mark.usefixtures("_fails_at_once")
def test_stats_that_come_drop_by_drop_are_not_waited_for() -> None:
    with server(dripping(b"{")) as address:
        said = error_of(uwsgi_probe(address, 0.2))

    assert wording("probes.no-whole-answer") in said


def test_requests_with_an_exception_are_failed_and_a_unix_socket_tells_as_well(tmp_path: Path) -> None:
    later = threading.Event()

    def send(connection: socket.socket) -> None:
        connection.sendall(stats((15, 2), (7, 1)) if later.is_set() else stats((10, 1), (0, 0)))

    with server(send, tmp_path / "s") as address:
        first, then = first_and_next(uwsgi_probe(address, 30.0), later)

    assert (first.n_done_total, first.n_failed_total) == (0, 0)
    assert (then.n_done_total, then.n_failed_total) == (10, 2)


@pytest.mark.usefixtures("_fails_at_once")
def test_requests_under_way_may_hold_any_bytes() -> None:
    """As uWSGI 2.0 shows a request for /caf%E9%01."""
    answer = stats((5, 1)).replace(b"{", b'{"vars": ["PATH_INFO=/caf\xe9\x01"], ', 1)

    assert parse_stats(answer).done == {"requests of worker 1": 5}


def test_nobody_there_is_said_to_be_so(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and never listens
        address = closed.getsockname()

        assert "Connection refused" in error_of(prometheus_probe(address))
        assert "Connection refused" in error_of(uwsgi_probe(address, 30.0))
    assert "No such file" in error_of(uwsgi_probe(str(tmp_path / "s"), 30.0))


def test_both_read_no_more_than_they_say() -> None:
    assert prometheus.LARGEST_BYTES == uwsgi.LARGEST_BYTES == 8 << 20
