"""The web server that metrics and pages share: whom it answers, and whom not."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from http import HTTPStatus

import pytest

from tuner.adapters.web import server
from tuner.adapters.web.server import MOST_AT_A_TIME, PageRequest, Response, plain, serving
from tuner.core.errors import ConfigError
from tuner.core.text.address import LOOPBACK, Address

from ..raising import raises
from ..wording import wording

pytestmark = pytest.mark.pythons

LONG_S = 60.0
HERE = Address(LOOPBACK, 0)


def echo(request: PageRequest) -> Response:
    return plain(HTTPStatus.OK, f"{request.path} {dict(request.query)}")


@pytest.fixture
def address() -> Iterator[Address]:
    with serving(HERE, echo, option="--port") as where:
        yield where


def asked(
    address: Address, path: str = "/", method: str = "GET", headers: dict[str, str] | None = None
) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(address.host, address.port, timeout=LONG_S)
    connection.request(method, path, headers=headers or {})
    response = connection.getresponse()
    response.text = response.read().decode()  # type: ignore[attr-defined]
    connection.close()
    return response


def sent(address: Address, text: bytes) -> bytes:
    with closing(socket.create_connection((address.host, address.port), timeout=LONG_S)) as connection:
        connection.sendall(text)
        parts = []
        try:
            while part := connection.recv(65536):
                parts.append(part)
        except ConnectionResetError:
            pass
        return b"".join(parts)


def test_a_page_is_answered_with_headers_that_keep_it_here(address: Address) -> None:
    response = asked(address, "/a%20b?x=1&y=%3C")

    assert (response.status, response.text) == (200, "/a b {'x': '1', 'y': '<'}\n")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert "Python" not in response.headers["Server"]


def test_head_has_the_headers_and_no_body(address: Address) -> None:
    response = asked(address, "/", "HEAD")

    assert (response.status, response.text) == (200, "")
    assert int(response.headers["Content-Length"]) > 0


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT"])
def test_other_methods_are_refused(address: Address, method: str) -> None:
    response = asked(address, "/", method)

    assert (response.status, response.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", "[::2]:1", ""]
)
def test_a_name_that_is_not_this_box_is_not_answered(address: Address, host: str) -> None:
    assert asked(address, "/", headers={"Host": host}).status == 421


def test_the_address_that_is_listened_at_is_answered() -> None:
    with serving(Address("127.0.0.2", 0), echo, option="--port") as address:
        assert asked(address, "/", headers={"Host": f"127.0.0.2:{address.port}"}).status == 200
        assert asked(address, "/", headers={"Host": "127.0.0.3"}).status == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:1", "[::1]:7"])
def test_this_box_s_names_are_answered_whatever_the_port_of_a_tunnel_is(address: Address, host: str) -> None:
    assert asked(address, "/", headers={"Host": host}).status == 200


def test_a_request_without_a_host_is_not_answered(address: Address) -> None:
    assert sent(address, b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 421 ")


@pytest.mark.parametrize(
    "line", [b"GET http://127.0.0.1/x HTTP/1.1", b"GET x HTTP/1.1",
             b"GET /\x00 HTTP/1.1", b"\xff\xff\xff", b"GET / HTTP/9.9.9",
             b"GET /" + b"a" * 5000 + b" HTTP/1.1", b"GET /" + b"a" * 80_000 + b" HTTP/1.1"],
)  # fmt: skip
def test_lines_that_are_no_request_are_refused_and_the_next_reader_is_served(
    address: Address, line: bytes
) -> None:
    answer = sent(address, line + b"\r\nHost: localhost\r\n\r\n")

    assert answer == b"" or answer.split()[1][:1] in (b"4", b"5") or b"\x00" in line
    assert b"aaaa" not in answer
    assert asked(address).status == 200


def test_headers_without_end_are_refused(address: Address) -> None:
    many = b"".join(b"X-%d: %s\r\n" % (n, b"a" * 1000) for n in range(50))

    assert b" 431 " in sent(address, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n")


def test_an_error_of_ours_is_reported_here_and_not_to_the_reader(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(_: PageRequest) -> Response:
        raise RuntimeError("a secret")

    with serving(HERE, broken, option="--port") as address:
        response = asked(address)

    assert response.status == 500
    assert "secret" not in response.text
    assert "RuntimeError: a secret" in capsys.readouterr().err


def test_a_port_that_is_taken_is_reported_in_a_line(address: Address) -> None:
    with (
        pytest.raises(ConfigError, match=f"--port: port {address.port} of 127.0.0.1 is taken"),
        serving(address, echo, option="--port"),
    ):
        pass


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "x" * 70])
def test_an_address_that_is_not_this_box_s_is_reported_in_a_line(host: str) -> None:
    with (
        raises(ConfigError, wording("watch.no-address-of-this-box", host=host)),
        serving(Address(host, 0), echo, option="--port", of_host="--host"),
    ):
        pass


def test_more_readers_than_there_is_room_for_are_reported_to_come_again(address: Address) -> None:
    silent: list[socket.socket] = []
    try:
        deadline_s = time.monotonic() + LONG_S
        answer = b""
        while b" 503 " not in answer:
            assert time.monotonic() < deadline_s
            silent += [  # again: those before may have been cut off for their silence
                socket.create_connection((address.host, address.port), timeout=LONG_S)
                for _ in range(MOST_AT_A_TIME)
            ]
            answer = sent(address, b"")
    finally:
        for one in silent:
            one.close()
    while asked_or_503(address) != 200:
        assert time.monotonic() < deadline_s


def asked_or_503(address: Address) -> int:
    try:
        return asked(address).status
    except (ConnectionError, http.client.HTTPException):
        return 503


def test_whoever_takes_too_long_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LASTS_S", 0.0)
    with serving(HERE, echo, option="--port") as address:
        assert sent(address, b"GET / HTTP/1.1\r\nHost: local") == b""  # ends before the silence does


def test_the_end_does_not_wait_for_readers() -> None:
    with serving(HERE, echo, option="--port") as address:
        connection = socket.create_connection((address.host, address.port), timeout=LONG_S)
        connection.sendall(b"GET ")
    with connection, suppress(ConnectionResetError):
        assert connection.recv(10) == b""
    assert [one for one in threading.enumerate() if one.name == "web"] == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.host, address.port), timeout=LONG_S)
