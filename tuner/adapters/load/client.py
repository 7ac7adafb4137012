"""HTTP/1.1 client for one request at a time, on new connections or on a connection that it keeps."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tuner.adapters.load.answer import Answer, GarbageError
from tuner.adapters.load.order import Request
from tuner.adapters.load.totals import TotalsWriter
from tuner.adapters.load.workers import Peer, peer_of

if TYPE_CHECKING:
    import ssl

#: Time for the server to close a connection after its last request. If the server closes first, the client's
#: port is free at once; otherwise each port would be in TIME_WAIT for a minute, until none is left.
_CLOSING_S = 0.25


class Client:
    """Sends one request after another and counts each result; ``ended`` is called after each one.

    If the server closed a kept connection meanwhile, the client opens another one and repeats an idempotent
    request that was under way, as HTTP requires (RFC 9112, 9.3.1).
    """

    def __init__(
        self,
        host: str,
        port: int,
        totals: TotalsWriter,
        number: int,
        ended: Callable[[Client, str | None], None],
        *,
        reuse: int | None = None,
        tls: tuple[ssl.SSLContext, str] | None = None,
    ) -> None:
        """Set up the client; *ended* is called with the kind of failure, or None for an answer of any status.

        *number* identifies it among the clients of *totals*, from 0 on. *reuse* is the maximum of requests
        per connection; None: no maximum. *tls* encrypts connections and names the host that a certificate
        must be for.
        """
        self._reuse = reuse
        self._host = host
        self._port = port
        self._tls = tls
        self._totals = totals
        self._number = number
        self._ended = ended
        self._connection: _Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._request: Request | None = None
        self._due_ns = 0
        self._is_retry = False
        self._moves = False
        self.gives_up_ns = 0  #: monotonic time at which the present request fails

    @property
    def is_busy(self) -> bool:
        """Whether a request is under way."""
        return self._request is not None

    @property
    def peer(self) -> Peer | None:
        """Identity of its connection; None: it has none."""
        return None if self._connection is None else self._connection.peer

    def move(self) -> None:
        """Use another connection for the next request."""
        self._moves = True
        if not self.is_busy:
            self._drop()

    def send(self, request: Request, due_ns: int, gives_up_ns: int) -> None:
        """Send *request*; latency counts from *due_ns* of ``time.monotonic_ns()``, when it was due."""
        self._request = request
        self._due_ns = due_ns
        self.gives_up_ns = gives_up_ns
        self._is_retry = False
        self._totals.sent(self._number, due_ns)
        self._go()

    def give_up(self) -> None:
        """Count a timeout, and close the connection."""
        self._drop()
        self._fail("timeout")

    def close(self) -> None:
        """Close the connection; a request under way is not counted."""
        self._request = None
        self._totals.ended(self._number)
        self._drop()

    def answered(self, answer: Answer) -> None:
        """Process a complete answer of its connection."""
        now_ns = time.monotonic_ns()
        self._request = None
        if self._connection is not None and self._connection.n_answered == self._reuse:
            self._connection.leave()
            self._connection = None
        elif self._moves or not answer.keeps_alive:
            self._drop()
        self._totals.answered(answer.status, answer.n_bytes, self._due_ns, now_ns)
        self._totals.ended(self._number)
        self._ended(self, None)

    def lost(self, connection: _Connection, kind: str) -> None:
        """Process the loss of *connection*, because of *kind*."""
        if connection is not self._connection:
            return
        self._drop()
        if self._request is None:
            return
        was_idle = connection.n_answered > 0 and not connection.has_started
        if kind == "closed" and was_idle and self._request.is_idempotent and not self._is_retry:
            self._is_retry = True
            self._go()
        else:
            self._fail(kind)

    def _go(self) -> None:
        if self._request is None:
            return
        if self._connection is not None:
            is_last = self._connection.n_answered + 1 == self._reuse
            self._connection.send(self._request, is_last=is_last)
        else:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            if self._host.startswith("/"):  # a unix socket
                _, self._connection = await loop.create_unix_connection(lambda: _Connection(self), self._host)
            elif self._tls is None:
                _, self._connection = await loop.create_connection(
                    lambda: _Connection(self), self._host, self._port
                )
            else:
                context, name = self._tls
                _, self._connection = await loop.create_connection(
                    lambda: _Connection(self), self._host, self._port, ssl=context, server_hostname=name
                )
        except OSError:  # counted by kind; the wait for the first answer reports details
            self._connecting = None
            self._fail("refused")
            return
        self._connecting = None
        self._go()

    def _drop(self) -> None:
        self._moves = False
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    def _fail(self, kind: str) -> None:
        self._request = None
        self._totals.failed(kind, time.monotonic_ns())
        self._totals.ended(self._number)
        self._ended(self, kind)


class _Connection(asyncio.Protocol):
    """The network connection."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._is_lost = False
        self.peer: Peer | None = None
        self.n_answered = 0
        self.has_started = False  #: whether any byte of the present answer has come

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        with contextlib.suppress(OSError):  # it is already lost
            self.peer = peer_of(transport.get_extra_info("socket"))

    def send(self, request: Request, *, is_last: bool) -> None:
        assert self._transport is not None
        self.has_started = False
        if self._is_lost:
            self._client.lost(self, "closed")
            return
        self._answer = Answer(is_head=request.method == "HEAD")
        self._transport.write(request.last_wire if is_last else request.wire)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:  # not requested: the server closes, or sends invalid data
            self._client.lost(self, "garbage")
            return
        self.has_started = True
        try:
            is_whole = answer.feed(data)
        except GarbageError:
            self._client.lost(self, "garbage")
            return
        if is_whole:
            self._whole(answer)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # closed is closed
        self._is_lost = True
        answer = self._answer
        if answer is not None and answer.ended():
            self._whole(answer)
        else:
            self._client.lost(self, "closed")

    def leave(self) -> None:
        """Let the server close the connection; close it here if that takes too long."""
        if not self._is_lost:
            asyncio.get_running_loop().call_later(_CLOSING_S, self.abort)

    def abort(self) -> None:
        self._answer = None  # else an answer that ends with its connection would look complete
        if self._transport is not None and not self._is_lost:
            self._transport.abort()

    def _whole(self, answer: Answer) -> None:
        self._answer = None
        self.n_answered += 1
        self._client.answered(answer)
