"""Small HTTP server: GET and HEAD only, one request per connection, a bounded number at a time.

At a loopback address it answers only requests whose Host header names this host. Without this check, a
foreign web page whose name resolves to this host (DNS rebinding) could read the pages through a browser.
"""

from __future__ import annotations

import errno
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tuner import __version__
from tuner.core.errors import ConfigError
from tuner.core.text.address import Address

MOST_AT_A_TIME = 16  #: connections; further ones get the answer to retry later
LASTS_S = 30.0  #: time limit of a connection
_SILENCE_S = 10.0  #: time without a byte after which a connection is closed
_MOST_PATH, _MOST_HEADERS = 2048, 16384  #: limits in characters
_METHODS = "GET, HEAD"
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})  #: accepted host names in addition to the address
_POLL_S = 0.5  #: interval of the accepting loop; a shutdown takes at most this time
#: headers of every answer; a page replaces the policy
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache, private",
}


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Path and headers of a request."""

    path: str  #: decoded; begins with a slash
    query: Mapping[str, str]  #: the last value of each name
    headers: Mapping[str, str]  #: by name in lower case


@dataclass(frozen=True, slots=True)
class Response:
    """Status, headers and body of a response."""

    body: bytes = b""
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


Respond = Callable[[PageRequest], Response]


def plain(status: HTTPStatus, text: str, **headers: str) -> Response:
    """Return a response with *text* only; underscores in names of *headers* stand for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(f"{text}\n".encode(errors="replace"), status, headers=named)


@contextmanager
def serving(
    address: Address, respond: Respond, *, option: str, of_host: str | None = None
) -> Iterator[Address]:
    """Serve at *address* in threads within the ``with`` block; yield the address with its port.

    Args:
        address: port 0 selects any free port.
        respond: called by several threads at a time; its exceptions are printed to stderr, and the
            reader gets a plain error.
        option: the option that set the address, for errors.
        of_host: the option that set the host alone, if it is another one.

    Raises:
        ConfigError: the address cannot be used.
    """
    server = _bind(address, respond, option, of_host or option)
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_S,), name="web", daemon=True)
    thread.start()
    try:
        yield Address(address.host, int(server.server_address[1]))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _bind(address: Address, respond: Respond, option: str, of_host: str) -> _Server:
    try:
        (family, _, _, _, where), *_ = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return _Server(family, where, respond, is_local=address.is_loopback)
    except (OSError, UnicodeError) as error:  # UnicodeError: an invalid name
        raise _bind_error(address, error, option, of_host) from error


def _bind_error(address: Address, error: Exception, option: str, of_host: str) -> ConfigError:
    match getattr(error, "errno", None):
        case errno.EADDRINUSE:
            return ConfigError(
                f"{option}: port {address.port} of {address.host} is taken",
                hint=f"Stop the program there (ss -ltnp 'sport = :{address.port}'), or use another port.",
            )
        case errno.EACCES:
            return ConfigError(
                f"{option}: only root may listen at port {address.port}", hint="Use a port from 1024."
            )
        case errno.EADDRNOTAVAIL | socket.EAI_NONAME | socket.EAI_AGAIN | None:
            return ConfigError(
                f"{of_host}: {address.host} is no address of this host",
                hint="Use an address that `ip address` lists.",
            )
        case _:
            return ConfigError(f"{option}: nobody can listen at {address}: {error}")


class _Server(HTTPServer):
    request_queue_size = 32

    def __init__(self, family: int, where: Any, respond: Respond, *, is_local: bool) -> None:
        self.address_family = family  # before the socket is created
        self.respond, self.is_local = respond, is_local
        self._lock = threading.Lock()
        #: open connections, with the times at which they were accepted
        self._open: dict[socket.socket, float] = {}
        super().__init__(where, _Handler)

    def server_bind(self) -> None:
        """Bind as HTTPServer does, but without a DNS query for our name, which may take seconds."""
        if self.allow_reuse_address:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            is_full = len(self._open) >= MOST_AT_A_TIME
            if not is_full:
                self._open[request] = time.monotonic()
        if is_full:
            with suppress(OSError):
                request.settimeout(0)
                request.send(
                    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nConnection: close\r\n\r\n"
                )
            self.shutdown_request(request)
            return
        try:
            threading.Thread(target=self._answer, args=(request, client_address), daemon=True).start()
        except RuntimeError:  # the host has no thread left
            self._close(request)

    def service_actions(self) -> None:
        """Close connections that take too long; the server's loop calls this regularly."""
        late_s = time.monotonic() - LASTS_S
        with self._lock:
            late = [one for one, since_s in self._open.items() if since_s < late_s]
        for one in late:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def server_close(self) -> None:
        super().server_close()
        with self._lock:
            still = list(self._open)
        for one in still:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _answer(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except OSError:
            pass  # the reader has gone
        finally:
            self._close(request)

    def _close(self, request: Any) -> None:
        with self._lock:
            del self._open[request]
        self.shutdown_request(request)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = f"tuner/{__version__}", ""
    timeout = _SILENCE_S

    def do_GET(self) -> None:
        self._send(self._response())

    do_HEAD = do_GET

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Answer an invalid request with the code only, because http.server's message quotes the request."""
        status = HTTPStatus(code)
        self.request_version = self.protocol_version  # the error may come before the version is parsed
        if status == HTTPStatus.NOT_IMPLEMENTED:  # there is no do_POST and the like
            self._send(plain(HTTPStatus.METHOD_NOT_ALLOWED, f"only {_METHODS}", Allow=_METHODS))
        else:
            self._send(plain(status, status.phrase))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: no one reads a log of requests."""

    def _response(self) -> Response:
        headers = {name.lower(): value for name, value in self.headers.items()}
        if len(self.path) > _MOST_PATH:
            return plain(HTTPStatus.REQUEST_URI_TOO_LONG, "too long a path")
        if sum(len(name) + len(value) for name, value in headers.items()) > _MOST_HEADERS:
            return plain(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too many headers")
        if self.server.is_local and _host_name(headers.get("host", "")) not in {
            *_LOCAL_NAMES,
            self.server.server_address[0],
        }:
            return plain(HTTPStatus.MISDIRECTED_REQUEST, "this is not the host that is asked for")
        try:
            request = _parse(self.path, headers)
        except ValueError:
            return plain(HTTPStatus.BAD_REQUEST, "no path")
        try:
            return self.server.respond(request)
        except Exception:  # a bug in tuner: print its traceback; the server continues
            with suppress(OSError, ValueError):
                sys.stderr.write(traceback.format_exc())
            return plain(
                HTTPStatus.INTERNAL_SERVER_ERROR, "internal error of tuner; details are in its terminal"
            )

    def _send(self, response: Response) -> None:
        if self.request_version == "HTTP/0.9":  # it has no headers, and no client uses it
            self.close_connection = True
            return
        self.send_response(response.status)
        shown = {
            **_HEADERS,
            "Content-Type": response.content_type,
            "Content-Length": str(len(response.body)),
            **response.headers,
            "Connection": "close",
        }
        if response.status == HTTPStatus.NOT_MODIFIED:
            del shown["Content-Length"], shown["Content-Type"]
        for name, value in shown.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)


def _parse(path: str, headers: Mapping[str, str]) -> PageRequest:
    """Return the parsed request; ValueError if *path* is not one of tuner's."""
    split = urlsplit(path)
    if not path.startswith("/") or split.netloc:
        raise ValueError(path)
    query = dict(parse_qsl(split.query, max_num_fields=16))
    return PageRequest(unquote(split.path, errors="surrogateescape"), query, headers)


def _host_name(host: str) -> str:
    """Return the name in a Host header without the port, which a tunnel may change."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
