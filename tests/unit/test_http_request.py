from __future__ import annotations

import json
from pathlib import Path

import pytest

from tuner.adapters.load.traffic import read_requests
from tuner.core.errors import ConfigError
from tuner.core.text.http_request import parse_url, render_request

from ..raising import raises
from ..wording import key_of, wording

pytestmark = pytest.mark.pythons

BASE = parse_url("http://127.0.0.1:8000/")


def test_a_request_names_its_host_and_the_length_of_its_body() -> None:
    wire = render_request("POST", parse_url("http://[::1]:81?q=1"), {"Accept": "*/*"}, b"\x00ab")

    assert wire == b"POST /?q=1 HTTP/1.1\r\nHost: [::1]:81\r\nAccept: */*\r\nContent-Length: 3\r\n\r\n\x00ab"


def test_a_get_without_a_body_has_no_length_and_a_post_has() -> None:
    assert b"Content-Length" not in render_request("GET", BASE, {}, b"")
    assert b"Content-Length: 0\r\n" in render_request("POST", BASE, {}, b"")


def test_another_host_may_be_named() -> None:
    wire = render_request("GET", BASE, {"host": "shop.example"}, b"")

    assert wire == b"GET / HTTP/1.1\r\nhost: shop.example\r\n\r\n"


def test_requests_of_a_file_come_in_its_order_with_headers_of_all_and_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"\xff")
    lines = [
        {"url": "/a"},
        {"url": "http://127.0.0.1:8000/b", "method": "POST", "body": "\u00e4", "headers": {"accept": "x"}},
        {"url": "/c", "method": "PUT", "body_file": "body"},
    ]
    (tmp_path / "r.jsonl").write_text("\n\n".join(map(json.dumps, lines)) + "\n")

    requests = read_requests(tmp_path / "r.jsonl", BASE, {"Accept": "*/*"})

    host = b" HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n"
    assert [request.wire for request in requests] == [
        b"GET /a" + host + b"Accept: */*\r\n\r\n",
        b"POST /b" + host + b"accept: x\r\nContent-Length: 2\r\n\r\n\xc3\xa4",
        b"PUT /c" + host + b"Accept: */*\r\nContent-Length: 1\r\n\r\n\xff",
    ]
    assert [request.is_idempotent for request in requests] == [True, False, True]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", wording("feeders.request-no-json")),
        ("[]", wording("feeders.no-request")),
        ('{"method": "GET"}', wording("feeders.no-request")),
        ('{"url": 5}', wording("feeders.no-request")),
        ('{"url": "/", "headers": {"A": 1}}', wording("feeders.no-request")),
        ('{"url": "/", "path": "/"}', "r.jsonl:2: path: " + wording("feeders.request-unknown-key")),
        ('{"url": "/", "body": "a", "body_file": "b"}', wording("feeders.request-two-bodies")),
        ('{"url": "http://127.0.0.1:8001/"}', wording("feeders.request-to-another-service")),
        ('{"url": "/", "method": "get"}', wording("feeders.request-no-method")),
        (
            '{"url": "/", "headers": {"Connection": "close"}}',
            wording("config.header-of-tuner", name="Connection"),
        ),
        ('{"url": "/", "body_file": "gone"}', wording("launch.cannot-be-read")),
    ],
    ids=key_of,
)
def test_a_line_that_is_no_request_is_reported_by_its_number(tmp_path: Path, line: str, what: str) -> None:
    (tmp_path / "r.jsonl").write_text('{"url": "/"}\n' + line)

    with raises(ConfigError, what) as caught:
        read_requests(tmp_path / "r.jsonl", BASE, {})
    assert "r.jsonl:2: " in str(caught.value)


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"\n", wording("feeders.holds-no-request")), (b"\xff", wording("launch.cannot-be-read"))],
    ids=key_of,
)
def test_a_file_without_requests_is_refused(tmp_path: Path, content: bytes, what: str) -> None:
    (tmp_path / "r.jsonl").write_bytes(content)

    with raises(ConfigError, what):
        read_requests(tmp_path / "r.jsonl", BASE, {})


def test_a_unix_socket_is_named_by_its_path_and_requests_of_a_file_go_there(tmp_path: Path) -> None:
    base = parse_url("http+unix://%2Frun%2Fapp.sock/a?b=1")
    (tmp_path / "r.jsonl").write_text('{"url": "/c"}\n')

    assert (base.host, base.authority, base.target) == ("/run/app.sock", "localhost", "/a?b=1")
    request = read_requests(tmp_path / "r.jsonl", base, {})[0]
    assert request.wire == b"GET /c HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "url", ["http+unix://run/", f"http+unix://%2F{'a' * 107}/", "http+unix:///run/a.sock"]
)
def test_what_names_no_unix_socket_is_refused(url: str) -> None:
    with raises(ConfigError, wording("feeders.names-no-unix-socket")):
        parse_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://u:hunter2@h/",
        "http://u:hunter2@h:99999/",
        "ftp://u:hunter2@h/",
        "http://u:hunter2@h/\t",
        "http://h/?token=hunter2#f",
    ],
)
def test_an_error_prints_no_secret_of_a_url(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_url(url)

    assert "hunter2" not in caught.value.problem + (caught.value.hint or "")
