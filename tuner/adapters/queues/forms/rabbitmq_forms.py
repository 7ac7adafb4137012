"""Message formats of Celery and dramatiq in RabbitMQ: how to clone a message, and its related queues."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from tuner.adapters.queues.forms.celery import FOLLOWED
from tuner.adapters.queues.forms.dramatiq import split_document
from tuner.adapters.queues.forms.message import (
    BODY,
    HOLE,
    Cut,
    Message,
    UnclonableError,
    cut_json,
    entry,
    json_of,
)

PROPERTIES = "properties"  #: part with AMQP's properties as JSON, among them ``headers``
UNKEPT = "unkept"  #: part that names properties which JSON cannot represent, if there are any
HEADERS = "headers"


class RabbitForm(Protocol):
    """Use of RabbitMQ's queues by one library."""

    name: str
    default_queue: str  #: the library's default queue

    def cut(self, message: Message, queue: str) -> Cut:
        """See ``MessageQueue.cut``."""

    def is_of(self, message: Message) -> bool:
        """Return whether *message* looks like a message of this form."""

    def delayed(self, queue: str) -> list[str]:
        """Return the queues where messages of *queue* wait for a retry."""

    def dead(self, queue: str) -> list[str]:
        """Return the queues for messages of *queue* that failed."""


class CeleryOnRabbitmq:
    """Format of Celery: the ids are in headers and properties; the body (arguments) stays unchanged."""

    name = "celery"
    default_queue = "celery"

    def is_of(self, message: Message) -> bool:
        """Return whether the message names a task."""
        try:
            return "task" in entry(_properties(message), HEADERS)
        except UnclonableError:
            return False

    def cut(self, message: Message, queue: str) -> Cut:  # noqa: ARG002  # required by the protocol
        """Return the template: it replaces the ids of task, root and correlation, and drops reply address
        and expiry.
        """
        properties = _properties(message)
        headers = entry(properties, HEADERS)
        if not isinstance(headers.get("id"), str):
            raise UnclonableError("is of Celery's first message protocol")
        if headers.get("eta"):
            raise UnclonableError("waits for its time (eta)")
        if _is_followed(message[BODY]):
            raise UnclonableError("sends further messages when it is done (chain, chord, callbacks)")
        if headers.get("root_id") == headers["id"]:
            headers["root_id"] = HOLE
        headers["id"] = properties["correlation_id"] = HOLE
        if headers.get("expires"):
            headers["expires"] = None
        return _cut((message[BODY],), properties)

    def delayed(self, queue: str) -> list[str]:  # noqa: ARG002  # required by the protocol
        """Return no queue: Celery nodes keep delayed messages themselves."""
        return []

    def dead(self, queue: str) -> list[str]:  # noqa: ARG002
        """Return no queue."""
        return []


class DramatiqOnRabbitmq:
    """Format of dramatiq: ids and all other data are in the body, as JSON."""

    name = "dramatiq"
    default_queue = "default"

    def is_of(self, message: Message) -> bool:
        """Return whether the message names an actor."""
        try:
            return "actor_name" in json_of(message)
        except UnclonableError:
            return False

    def cut(self, message: Message, queue: str) -> Cut:
        """Return the template: it has a new id and is marked as sent now to *queue*, as workers may skip
        old ones.
        """
        document = split_document(message, queue)
        return _cut(cut_json(document).pieces[BODY], _properties(message))

    def delayed(self, queue: str) -> list[str]:
        """Return the delay queue."""
        return [f"{queue}.DQ"]

    def dead(self, queue: str) -> list[str]:
        """Return the dead-letter queue."""
        return [f"{queue}.XQ"]


FORMS: dict[str, RabbitForm] = {form.name: form for form in (DramatiqOnRabbitmq(), CeleryOnRabbitmq())}


def _properties(message: Message) -> dict[str, Any]:
    """Return the AMQP properties to send with each clone.

    Raises:
        UnclonableError: there are no properties, or they hold values that JSON cannot express.
    """
    if UNKEPT in message:
        raise UnclonableError(
            f"has properties or headers that tuner cannot keep ({message[UNKEPT].decode()})"
        )
    if PROPERTIES not in message:
        raise UnclonableError("was not recorded from RabbitMQ")
    try:
        data = json.loads(message[PROPERTIES])
    except (ValueError, RecursionError) as error:
        raise UnclonableError("has properties that are no JSON") from error
    if not isinstance(data, dict):
        raise UnclonableError("has properties that are no JSON object")
    return data


def _cut(body: tuple[bytes, ...], properties: Mapping[str, Any]) -> Cut:
    """Return the template of a body and its properties, both cut at every ``HOLE``.

    It drops the priority (with several, only the most urgent would be consumed), the expiry, the sending
    user, and headers that the broker added.
    """
    left_out = ("priority", "expiration", "user_id")
    kept = {name: value for name, value in properties.items() if name not in left_out}
    if kept.get("reply_to"):
        kept["reply_to"] = HOLE  # a queue without readers
    if HEADERS in kept:
        headers = entry(kept, HEADERS)
        kept[HEADERS] = {name: value for name, value in headers.items() if not _is_brokers(name)}
    reported = json.dumps(kept, separators=(",", ":"))
    return Cut({BODY: body, PROPERTIES: tuple(piece.encode() for piece in reported.split(HOLE))})


def _is_brokers(header: str) -> bool:
    return header.startswith(("x-death", "x-first-death-", "x-last-death-")) or header == "x-delivery-count"


def _is_followed(body: bytes) -> bool:
    """Return whether the body, if it is JSON, names tasks to run afterwards."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return False  # another serializer, which only the worker can decode
    follow = data[2] if isinstance(data, list) and len(data) == 3 else None
    return isinstance(follow, dict) and any(follow.get(name) for name in FOLLOWED)
