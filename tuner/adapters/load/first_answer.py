"""Wait for the first answer of a service, with detection of its address and of TLS."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from tuner.adapters.load.answer import Answer, GarbageError
from tuner.adapters.load.order import Order, Request, read_workers, write_problem
from tuner.adapters.load.workers import Address, listening_at

if TYPE_CHECKING:
    import ssl

_SLOW_S = 1.0  #: time without the first answer after which a problem is reported
_TRY_EVERY_S = 0.1  #: time between two attempts to reach a service that does not answer
_HANDSHAKE_S = 2.0  #: time limit of a handshake; a server without TLS may never answer it
_ASK_EVERY_S = 10.0  #: time between two checks whether a port uses TLS


class NoAnswerError(Exception):
    """The service did not answer; the text describes the response."""


@dataclass(frozen=True, slots=True)
class Place:
    """Address that receives the requests."""

    host: str  #: host name, or the whole path of a unix socket
    port: int
    is_tls: bool = False

    @property
    def is_socket(self) -> bool:
        """Whether the host is the path of a unix socket."""
        return self.host.startswith("/")

    @property
    def authority(self) -> str:
        """Host and port as in a Host header."""
        if self.is_socket:
            return "localhost"
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def url(self) -> str:
        """URL as in a config."""
        if self.is_socket:
            return f"http+unix://{quote(self.host, safe='')}"
        return f"{'https' if self.is_tls else 'http'}://{self.authority}"


@dataclass(frozen=True, slots=True)
class Reached:
    """The service's first answer."""

    place: Place
    host: str  #: IP address, so that the name is resolved only once
    tls: ssl.SSLContext | None  #: None: unencrypted
    status: int
    n_bytes: int
    began_ns: int  #: time at which its request was sent
    is_elsewhere: bool  #: whether its address differs from that of the order


class FirstAnswer:
    """Tries to get one answer until the time limit."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._asked = Place(order.host, order.port, order.is_tls)
        self._problem = ""  #: reason for the lack of an answer, as last written
        self._n_tries = 0
        self._patient_until_s = time.monotonic() + order.wait_s / 2
        self._note = ""  #: further facts about the port, for the message
        self._asks_s = 0.0  #: time of the next check whether the port uses TLS
        self._otherwise: dict[
            Place, bool
        ] = {}  #: whether TLS is tried next, for places with a protocol error

    async def come(self, request: Request) -> Reached:
        """Return the first answer to *request*.

        Raises:
            NoAnswerError: there was none; the text describes the response.
        """
        order = self._order
        ends_s = time.monotonic() + order.wait_s
        came, place = "", self._asked
        while True:
            began_ns = time.monotonic_ns()
            left_s = ends_s - time.monotonic()
            if left_s <= 0:
                said = came or "nothing"
                raise NoAnswerError(f"{_name_of(place)} did not answer within {order.wait_s:g} s: {said}")
            if (found := self._next_place()) is None:
                await asyncio.sleep(_TRY_EVERY_S)
                continue
            place = found
            is_otherwise = False
            slow = f"{_name_of(place)} has not answered for more than {_SLOW_S:g} s"
            slowly = asyncio.get_running_loop().call_later(_SLOW_S, self._write_problem, slow)
            try:
                async with asyncio.timeout(min(left_s, order.timeout_s)):
                    reached = await self._exchange(place, request, began_ns)
            except TimeoutError:
                if not came or left_s >= order.timeout_s:  # otherwise it was cut short
                    came = "it took the connection and sent no whole answer"
            except (GarbageError, EOFError, OSError) as error:
                came = _in_words(error)
                is_otherwise = not isinstance(error, OSError) or _is_spoken_otherwise(error)
            else:
                self._write_problem("")
                return reached
            finally:
                slowly.cancel()
            came += self._listens_elsewhere(place)
            self._write_problem(f"{_name_of(place)} did not answer: {came}{self._note}")
            if is_otherwise:
                await self._speak_otherwise(place)
                came += self._note
                self._write_problem(f"{_name_of(place)} did not answer: {came}")
            await asyncio.sleep(_TRY_EVERY_S)

    def _next_place(self) -> Place | None:
        """Return the address to try now; None: the workers are not known yet, so no address can be found."""
        if not self._order.finds_address:
            return self._asked
        pids = self._workers()
        if not pids:  # a slow start, or the pids will never be known
            return None if time.monotonic() < self._patient_until_s else self._asked
        places = [self._asked]
        if (found := listening_at(pids)) and not any(map(self._is_asked, found)):
            places = [Place(one.host, one.port, self._asked.is_tls and one.port > 0) for one in found]
        place = places[self._n_tries % len(places)]
        self._n_tries += 1
        return replace(place, is_tls=self._otherwise.get(_in_the_clear(place), place.is_tls))

    def _workers(self) -> Sequence[int]:
        return () if self._order.workers_file is None else read_workers(self._order.workers_file)

    def _is_asked(self, address: Address) -> bool:
        return address.answers_at(self._asked.host, self._asked.port)

    async def _speak_otherwise(self, place: Place) -> None:
        """Switch TLS on or off for the next attempt; if the address is fixed, note that the port speaks
        TLS.
        """
        if place.is_socket:
            return
        if self._order.finds_address:
            self._otherwise[_in_the_clear(place)] = not place.is_tls
        elif not place.is_tls and time.monotonic() >= self._asks_s:
            other = replace(place, is_tls=True)
            self._note = f"; it speaks TLS: use {other.url}" if await speaks_tls(place) else ""
            self._asks_s = time.monotonic() + _ASK_EVERY_S

    def _listens_elsewhere(self, place: Place) -> str:
        """Return a note on where the service listens, if that is not at *place*."""
        if self._order.finds_address:
            return ""
        found = listening_at(self._workers())
        if not found or any(one.answers_at(place.host, place.port) for one in found):
            return ""
        return f"; the service listens at {', '.join(map(str, found))}"

    async def _exchange(self, place: Place, request: Request, began_ns: int) -> Reached:
        """Make one request on a separate connection.

        Raises:
            EOFError: the connection ended before the answer.
        """
        tls = tls_context(checks_certificate=self._order.checks_certificate) if place.is_tls else None
        if place.is_socket:
            reader, writer = await asyncio.open_unix_connection(place.host)
        elif tls is None:
            reader, writer = await asyncio.open_connection(place.host, place.port)
        else:
            reader, writer = await asyncio.open_connection(
                place.host,
                place.port,
                ssl=tls,
                server_hostname=place.host,
                ssl_handshake_timeout=_HANDSHAKE_S,
            )
        is_elsewhere = place != self._asked
        sent = request.to(self._order.authority, place.authority) if is_elsewhere else request
        try:
            writer.write(sent.wire)
            answer = Answer(is_head=request.method == "HEAD")
            while data := await reader.read(65_536):
                if answer.feed(data):
                    break
            if not data and not answer.ended():
                raise EOFError
            host = place.host if place.is_socket else writer.get_extra_info("peername")[0]
            return Reached(place, host, tls, answer.status, answer.n_bytes, began_ns, is_elsewhere)
        finally:
            close_at_once(writer)

    def _write_problem(self, problem: str) -> None:
        if self._order.problem_file is not None and problem != self._problem:
            self._problem = problem
            write_problem(self._order.problem_file, problem)


def close_at_once(writer: asyncio.StreamWriter) -> None:
    """Close a connection without waiting for the peer, even if it was closed before.

    In Python 3.11.2 (Debian 12) a TLS transport that was closed twice raises AttributeError at ``abort``.
    """
    with contextlib.suppress(AttributeError):
        writer.transport.abort()


def tls_context(*, checks_certificate: bool) -> ssl.SSLContext:
    """Return the TLS settings of connections, which allow HTTP/1.1 only."""
    import ssl

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if not checks_certificate:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _in_the_clear(place: Place) -> Place:
    return replace(place, is_tls=False)


def _name_of(place: Place) -> str:
    return place.host if place.is_socket else place.url


def _in_words(error: GarbageError | EOFError | OSError) -> str:
    if not isinstance(error, OSError):
        return str(error) or "it closed the connection without a whole answer"
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted here: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"it speaks no TLS ({(error.reason or 'no reason').replace('_', ' ').lower()})"
    return error.strerror or str(error)


def _is_spoken_otherwise(error: OSError) -> bool:
    """Return whether *error* may come from a mismatch of TLS between client and server."""
    import ssl

    if isinstance(error, ssl.SSLError):
        return not isinstance(error, ssl.SSLCertVerificationError)
    return isinstance(error, ConnectionResetError | ConnectionAbortedError)


async def speaks_tls(place: Place) -> bool:
    """Return whether a TLS handshake succeeds there, with any certificate."""
    try:
        async with asyncio.timeout(_HANDSHAKE_S):
            _, writer = await asyncio.open_connection(
                place.host,
                place.port,
                ssl=tls_context(checks_certificate=False),
                server_hostname=place.host,
            )
    except (OSError, TimeoutError):
        return False
    close_at_once(writer)
    return True
