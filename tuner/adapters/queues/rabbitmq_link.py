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

# A connection to RabbitMQ whose server has so long and may send so much, whatever it turns out to be.

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


_QUIET_S = 0.2  #: without a delivery: see whether any is left
_SIFTED_WITHIN_S = 120.0
_PUSHED_WITHIN_S = 120.0  #: all messages of a push; each piece of one has the usual time
_SAMPLE_S = 600.0  #: all messages of a sample, likewise
_LARGEST_BYTES = 129 << 20  #: of one answer: the largest message that RabbitMQ takes as it comes, and more
_LARGEST_SAMPLE_BYTES = 1 << 30
_ITS_HEADERS = "application_headers"  #: as the client calls them


@dataclass(frozen=True, slots=True)
class Waiting:
    """A queue as the broker tells of it to anybody."""

    n_messages: int  #: that no consumer has in hand
    n_consumers: int


@dataclass(frozen=True, slots=True)
class Parcel:
    """A message to publish."""

    queue: str
    body: bytes
    properties: bytes  #: JSON


class Link:
    """Connects when it is first asked; an error ends the connection, and the next question makes a new one.

    Within ``asking`` the client's errors are BrokerErrors.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        """ConfigError when the client is not installed; *timeout_s* is for one answer."""
        try:
            import amqp  # noqa: F401  # an extra; found out before anything starts
        except ImportError as error:
            raise ConfigError(
                "queues in RabbitMQ need the client amqp, which is not installed",
                hint="pip install 'proctuner[rabbitmq]'",
            ) from error
        self._url, self._timeout_s = url, timeout_s
        self._bound = Bound(timeout_s, _LARGEST_BYTES)  #: of one question
        self._connection: Connection | None = None
        self._questions: Channel | None = None
        self._publishing: Channel | None = None  #: in transactions, which would hold up what others do

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Errors of the client become BrokerError, in one line.

        The client trusts the server: it may stumble in any way over an answer that is none.
        """
        from amqp import AMQPError

        try:
            yield
        except (BrokerError, TunerError):
            raise
        except (AMQPError, OSError) as error:  # OSError: no connection, lost ones, limits of time and size
            self._drop()
            kind = BrokerAway if _is_away(error) else BrokerError
            raise kind(f"{without_password(self._url)}: {_describe_error(error)}") from error
        except Exception as error:
            self._drop()
            raise BrokerError(
                f"{without_password(self._url)}: the answer is none of RabbitMQ: {_describe_error(error)}"
            ) from error

    def close(self) -> None:
        """Let go of the connection; what is in hand goes back."""
        if self._connection is not None:
            self._bound.renew()
            with suppress(Exception):  # the broker may be gone or lie, and nobody asks any more
                self._connection.close()
        self._drop()

    def reach(self) -> None:
        """Connect and open a channel, and ask for nothing."""
        self._asked()

    def waiting(self, queue: str) -> Waiting | None:
        """How *queue* is; None when there is none."""
        from amqp import NotFound

        try:
            found = self._asked().queue_declare(queue, passive=True)
        except NotFound:
            self._questions = None  # the broker closed it
            return None
        return Waiting(found.message_count, found.consumer_count)

    def first(self, queue: str) -> bytes | None:
        """The body of the first message, which stays there; None where none waits, or there is no queue.

        While one looks, another one sees none.
        """
        from amqp import NotFound

        channel = self._asked()
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
        """*n_most* of the first *n_looked_at* messages, evenly spread; all of these are put back in order.

        Consumers do not get them meanwhile; and afterwards they are marked as redelivered.
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
        channel.close()  # what was not acknowledged goes back to where it was
        return [found[place] for place in spread_places(len(found), n_most)]

    def sift(self, queue: str, tag: str) -> None:
        """Remove the messages that hold *tag*; others go back to where they were, marked as redelivered."""
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
        """Make *queue*, which holds one message, the latest; a restart of the broker does not lose it.

        It is a classic queue wherever others are usual: quorum queues drop what is looked at too often.
        """
        arguments = {"x-max-length": 1, "x-queue-type": "classic"}
        self._asked().queue_declare(queue, durable=True, auto_delete=False, arguments=arguments)

    def delete(self, queue: str) -> None:
        """Delete it, if it is there."""
        self._asked().queue_delete(queue)

    def publish(self, parcels: Iterable[Parcel]) -> None:
        """Put all into their queues; once this returns they are there, and counted where they wait."""
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

    def _asked(self) -> Channel:
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
    """As it is kept in a sample."""
    properties = dict(delivery.properties)
    if _ITS_HEADERS in properties:
        properties[HEADERS] = properties.pop(_ITS_HEADERS)
    odd: set[str] = set()

    def name(value: Any) -> str:
        odd.add(type(value).__name__)
        return ""

    try:
        reported = json.dumps(properties, default=name).encode()
    except (TypeError, RecursionError) as error:  # a name that is no text; a table in a table in a table ...
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
    """The client gives an empty one as text."""
    return bytes(delivery.body or b"")


def _holds(delivery: Delivery, tag: str) -> bool:
    properties = delivery.properties
    texts = (properties.get("correlation_id"), *properties.get(_ITS_HEADERS, {}).values())
    return tag.encode() in _body(delivery) or any(isinstance(text, str) and tag in text for text in texts)
