"""A connection to RabbitMQ whose server has so long and may send so much, whatever it turns out to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from tuner.adapters.bounded_socket import Bound, BoundedSocket, TooMuchError

if TYPE_CHECKING:
    from amqp import Connection

_MOST_FRAME_BYTES = 128 << 10  #: RabbitMQ's own; larger frames that a server offers are declined
_LEAST_FRAME_BYTES = 4096  #: of the protocol
_COST_BYTES = 256  #: of memory for each frame, beside what is in it


def open_connection(url: str, timeout_s: float, bound: Bound) -> Connection:
    """A connection that is ready to be asked, each answer within *bound*, each piece of it in *timeout_s*."""
    parts = urlsplit(url)
    connection: Connection = _with_limits(bound)(
        host=f"{parts.hostname}:{parts.port or 5672}",
        userid=unquote(parts.username or "guest"),
        password=unquote(parts.password or "guest"),
        virtual_host=unquote(parts.path[1:]) or "/",
        connect_timeout=timeout_s,
        heartbeat=0,  # none asks while a launch runs
    )
    try:
        connection.connect()
        connection.sock.settimeout(timeout_s)
    except BaseException:
        connection.collect()  # the client does so after a few errors only
        raise
    return connection


def _with_limits(bound: Bound) -> Any:
    """The client's kind of connection, which trusts its server, with limits."""
    from amqp import Connection
    from amqp.exceptions import FrameSyntaxError, RecoverableConnectionError
    from amqp.transport import TCPTransport

    class Transport(TCPTransport):  # type: ignore[misc]  # the client has no types
        def _setup_transport(self) -> None:
            inner: Any = self.sock
            self.sock: Any = BoundedSocket(inner, bound)
            super()._setup_transport()

        def read_frame(self) -> Any:
            bound.take(_COST_BYTES)
            return super().read_frame()

        def _read(self, n_bytes: int, initial: bool = False) -> Any:  # the client's
            if n_bytes > _MOST_FRAME_BYTES:
                raise TooMuchError(f"a frame of {n_bytes} bytes, and {_MOST_FRAME_BYTES} are the most")
            return super()._read(n_bytes, initial)

    class Bounded(Connection):  # type: ignore[misc]
        def Transport(self, host: str, connect_timeout: float, *_: Any, **_settings: Any) -> Any:
            return Transport(host, connect_timeout=connect_timeout)

        def _on_tune(self, channel_max: int, frame_max: int, heartbeat: int) -> None:
            """The client makes a buffer of as many bytes as the server says."""
            frame_max = min(frame_max or _MOST_FRAME_BYTES, _MOST_FRAME_BYTES)
            if frame_max < _LEAST_FRAME_BYTES:
                raise FrameSyntaxError(f"frames of {frame_max} bytes, and {_LEAST_FRAME_BYTES} are the least")
            super()._on_tune(channel_max, frame_max, heartbeat)

        def _warn_force_connect(self, _asked_for: str) -> None:
            """The client would connect again, and again, in the middle of an answer."""
            raise RecoverableConnectionError("the server closed the connection")

    return Bounded
