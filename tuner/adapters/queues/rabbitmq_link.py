"""RabbitMQ connection with limits on time and size: inspect a queue, remove messages, publish."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from tuner.adapters.bounded_socket import Bound, BoundedSocket, TooMuchError
from tuner.adapters.queues.forms.message import BODY, BrokerAway, BrokerError, Message, spread_places
from tuner.adapters.queues.forms.rabbitmq_forms import HEADERS, PROPERTIES, UNKEPT
from tuner.adapters.queues.queue import without_password
from tuner.core.errors import ConfigError, TunerError
from tuner.core.text.safe_text import one_line

if TYPE_CHECKING:
    from amqp import Channel, Connection
    from amqp import Message as Delivery

# RabbitMQ connection with limits on time and size, because the server is not trusted.

_MOST_FRAME_BYTES = 128 << 10  #: RabbitMQ's default; larger frames that a server offers are declined
_LEAST_FRAME_BYTES = 4096  #: minimum of the protocol
_COST_BYTES = 256  #: memory for each frame in addition to its content


def open_connection(url: str, timeout_s: float, bound: Bound) -> Connection:
    """Return an open connection; *bound* limits each answer, and *timeout_s* each read."""
    parts = urlsplit(url)
    connection: Connection = _with_limits(bound)(
        host=f"{parts.hostname}:{parts.port or 5672}",
        userid=unquote(parts.username or "guest"),
        password=unquote(parts.password or "guest"),
        virtual_host=unquote(parts.path[1:]) or "/",
        connect_timeout=timeout_s,
        heartbeat=0,  # no heartbeats, because none are read while a launch runs
    )
    try:
        connection.connect()
        connection.sock.settimeout(timeout_s)
    except BaseException:
        connection.collect()  # the client itself does so after few errors only
        raise
    return connection


def _with_limits(bound: Bound) -> Any:
    """Return a subclass, with limits, of the client's connection, which has none."""
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

        def _read(self, n_bytes: int, initial: bool = False) -> Any:  # override
            if n_bytes > _MOST_FRAME_BYTES:
                raise TooMuchError(f"a frame of {n_bytes} bytes, and {_MOST_FRAME_BYTES} are the most")
            return super()._read(n_bytes, initial)

    class Bounded(Connection):  # type: ignore[misc]
        def Transport(self, host: str, connect_timeout: float, *_: Any, **_settings: Any) -> Any:
            return Transport(host, connect_timeout=connect_timeout)

        def _on_tune(self, channel_max: int, frame_max: int, heartbeat: int) -> None:
            """Limit the frame size: the client allocates a buffer of the size that the server requests."""
            frame_max = min(frame_max or _MOST_FRAME_BYTES, _MOST_FRAME_BYTES)
            if frame_max < _LEAST_FRAME_BYTES:
                raise FrameSyntaxError(f"frames of {frame_max} bytes, and {_LEAST_FRAME_BYTES} are the least")
            super()._on_tune(channel_max, frame_max, heartbeat)

        def _warn_force_connect(self, _asked_for: str) -> None:
            """Raise an error: the client would reconnect repeatedly, in the middle of an answer."""
            raise RecoverableConnectionError("the server closed the connection")

    return Bounded


_QUIET_S = 0.2  #: time without a delivery after which the number of remaining messages is read
_SIFTED_WITHIN_S = 120.0
_PUSHED_WITHIN_S = 120.0  #: time limit for all messages of a push; each piece of it has the usual limit
_SAMPLE_S = 600.0  #: time limit for all messages of a sample; each piece of it has the usual limit
#: limit for one answer; more than the largest message that RabbitMQ accepts by default
_LARGEST_BYTES = 129 << 20
_LARGEST_SAMPLE_BYTES = 1 << 30
_ITS_HEADERS = "application_headers"  #: the client's name for AMQP's headers


@dataclass(frozen=True, slots=True)
class Waiting:
    """State of a queue, as the broker reports it to every client."""

    n_messages: int  #: messages that no consumer has taken
    n_consumers: int


@dataclass(frozen=True, slots=True)
class Parcel:
    """A message to publish."""

    queue: str
    body: bytes
    properties: bytes  #: JSON


class Link:
    """RabbitMQ client that connects on first use; an error closes the connection, and the next call
    reconnects.

    Within ``asking``, the client's errors become BrokerError.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        """Raise ConfigError if the client is not installed; *timeout_s* is the limit for one answer."""
        try:
            import amqp  # noqa: F401  # optional dependency; fail before anything starts
        except ImportError as error:
            raise ConfigError(
                "queues in RabbitMQ need the client amqp, which is not installed",
                hint="pip install 'proctuner[rabbitmq]'",
            ) from error
        self._url, self._timeout_s = url, timeout_s
        self._bound = Bound(timeout_s, _LARGEST_BYTES)  #: limits of one request
        self._connection: Connection | None = None
        self._questions: Channel | None = None
        #: channel with transactions, which would delay other requests
        self._publishing: Channel | None = None

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Convert errors of the client to BrokerError with a one-line text.

        The client trusts the server, so an invalid answer may raise any exception.
        """
        from amqp import AMQPError

        try:
            yield
        except (BrokerError, TunerError):
            raise
        except (AMQPError, OSError) as error:  # OSError: failed or lost connections, limits of time and size
            self._drop()
            kind = BrokerAway if _is_away(error) else BrokerError
            raise kind(f"{without_password(self._url)}: {_describe_error(error)}") from error
        except Exception as error:
            self._drop()
            raise BrokerError(
                f"{without_password(self._url)}: the answer is none of RabbitMQ: {_describe_error(error)}"
            ) from error

    def close(self) -> None:
        """Close the connection; the broker requeues unacknowledged messages."""
        if self._connection is not None:
            self._bound.renew()
            with suppress(Exception):  # the broker may have ended, and its errors do not matter any more
                self._connection.close()
        self._drop()

    def reach(self) -> None:
        """Connect and open a channel, without a request."""
        self._query_channel()

    def waiting(self, queue: str) -> Waiting | None:
        """Return the state of *queue*; None if it does not exist."""
        from amqp import NotFound

        try:
            found = self._query_channel().queue_declare(queue, passive=True)
        except NotFound:
            self._questions = None  # the broker closed it
            return None
        return Waiting(found.message_count, found.consumer_count)

    def first(self, queue: str) -> bytes | None:
        """Return the body of the first message, which stays in the queue; None if the queue is empty or
        missing.

        During the call, other clients do not find the message.
        """
        from amqp import NotFound

        channel = self._query_channel()
        try:
            found = channel.basic_get(queue)
        except NotFound:
            self._questions = None
            return None
        if found is None:
            return None
        channel.basic_reject(found.delivery_tag, requeue=True)
        return _body(found)

    def taken(self, queue: str, n_looked_at: int, n_most: int) -> list[Message]:
        """Return *n_most* of the first *n_looked_at* messages, evenly spread, and put all of these back in
        order.

        Consumers do not get them meanwhile; afterwards they are marked as redelivered.
        """
        channel = self._channel()
        found = []
        with self._bound.raised(_SAMPLE_S, _LARGEST_SAMPLE_BYTES):
            self._bound.renew()
            for _ in range(n_looked_at):
                delivery = channel.basic_get(queue)
                if delivery is None:
                    break
                found.append(_message(delivery))
        self._bound.renew()
        channel.close()  # the broker requeues unacknowledged messages at their old positions
        return [found[place] for place in spread_places(len(found), n_most)]

    def sift(self, queue: str, tag: str) -> None:
        """Remove the messages that contain *tag*; put back others in their places, marked as redelivered."""
        waiting = self.waiting(queue)
        if waiting is None or not waiting.n_messages:
            return
        channel = self._channel()

        def take(delivery: Delivery) -> None:
            if _holds(delivery, tag):
                channel.basic_ack(delivery.delivery_tag)

        ends_s = time.monotonic() + _SIFTED_WITHIN_S
        channel.basic_consume(queue, callback=take)
        assert self._connection is not None
        while time.monotonic() < ends_s:
            self._bound.renew()
            try:
                self._connection.drain_events(timeout=_QUIET_S)
            except TimeoutError:
                waiting = self.waiting(queue)
                if waiting is None or not waiting.n_messages:
                    break
        else:
            raise BrokerError(
                f"{without_password(self._url)}: {queue} was not sifted within {_SIFTED_WITHIN_S:g} s"
            )
        self._bound.renew()
        channel.close()

    def keep_one(self, queue: str) -> None:
        """Declare a durable *queue* that keeps only the latest message.

        It is a classic queue even if another type is the default: quorum queues drop messages read too often.
        """
        arguments = {"x-max-length": 1, "x-queue-type": "classic"}
        self._query_channel().queue_declare(queue, durable=True, auto_delete=False, arguments=arguments)

    def delete(self, queue: str) -> None:
        """Delete *queue* if it exists."""
        self._query_channel().queue_delete(queue)

    def publish(self, parcels: Iterable[Parcel]) -> None:
        """Publish all parcels; when this returns, the broker counts them in their queues."""
        from amqp import Message as Delivery

        if self._publishing is None:
            self._publishing = self._channel()
            self._publishing.tx_select()
        with self._bound.raised(_PUSHED_WITHIN_S, _LARGEST_BYTES):
            self._bound.renew()
            for parcel in parcels:
                data = json.loads(parcel.properties)
                if HEADERS in data:
                    data[_ITS_HEADERS] = data.pop(HEADERS)
                self._publishing.basic_publish(Delivery(parcel.body, **data), routing_key=parcel.queue)
            self._publishing.tx_commit()

    def _query_channel(self) -> Channel:
        self._bound.renew()
        if self._questions is None:
            self._questions = self._channel()
        return self._questions

    def _channel(self) -> Channel:
        self._bound.renew()
        if self._connection is None:
            self._connection = open_connection(self._url, self._timeout_s, self._bound)
        channel = self._connection.channel()
        channel.auto_decode = False  # bodies are bytes
        return channel

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.collect()
        self._connection = self._questions = self._publishing = None


def _message(delivery: Delivery) -> Message:
    """Return a delivery in the format of a sample."""
    properties = dict(delivery.properties)
    if _ITS_HEADERS in properties:
        properties[HEADERS] = properties.pop(_ITS_HEADERS)
    odd: set[str] = set()

    def name(value: Any) -> str:
        odd.add(type(value).__name__)
        return ""

    try:
        reported = json.dumps(properties, default=name).encode()
    except (TypeError, RecursionError) as error:  # a name that is not text; deeply nested tables
        odd.add(type(error).__name__)
        reported = b"{}"
    unkept = {UNKEPT: ", ".join(sorted(odd)).encode()} if odd else {}
    return {BODY: _body(delivery), PROPERTIES: reported, **unkept}


def _is_away(error: Exception) -> bool:
    from amqp.exceptions import RecoverableConnectionError

    return isinstance(error, OSError | RecoverableConnectionError)


def _describe_error(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}")


def _body(delivery: Delivery) -> bytes:
    """Return the body as bytes; the client returns an empty body as text."""
    return bytes(delivery.body or b"")


def _holds(delivery: Delivery, tag: str) -> bool:
    properties = delivery.properties
    texts = (properties.get("correlation_id"), *properties.get(_ITS_HEADERS, {}).values())
    return tag.encode() in _body(delivery) or any(isinstance(text, str) and tag in text for text in texts)
