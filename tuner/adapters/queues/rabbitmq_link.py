"""A connection to RabbitMQ: what waits in a queue, looking at it, sifting it, and publishing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuner.adapters.bounded_socket import Bound
from tuner.adapters.queues.message import BODY, Message, spread_places
from tuner.adapters.queues.queue import BrokerAway, BrokerError, without_password
from tuner.adapters.queues.rabbitmq_connection import open_connection
from tuner.adapters.queues.rabbitmq_forms import HEADERS, PROPERTIES, UNKEPT
from tuner.core.errors import ConfigError, TunerError
from tuner.core.text.one_line import one_line

if TYPE_CHECKING:
    from amqp import Channel, Connection
    from amqp import Message as Delivery

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
