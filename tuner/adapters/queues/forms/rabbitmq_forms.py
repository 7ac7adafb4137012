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

PROPERTIES = "properties"  #: the part with AMQP's properties, as JSON; ``headers`` is one of them
UNKEPT = "unkept"  #: the part that names what JSON cannot hold, where there is any
HEADERS = "headers"


class RabbitForm(Protocol):
    """How one library uses queues of RabbitMQ."""

    name: str
    default_queue: str  #: the library's own, where none is named

    def cut(self, message: Message, queue: str) -> Cut:
        """As ``MessageQueue.cut``."""

    def is_of(self, message: Message) -> bool:
        """Whether *message* looks like one of this form."""

    def delayed(self, queue: str) -> list[str]:
        """Queues where messages of *queue* wait to be tried again."""

    def dead(self, queue: str) -> list[str]:
        """Queues where messages of *queue* end that failed."""


class CeleryOnRabbitmq:
    """The task's ids are in headers and properties; the body, which holds its arguments, is left as it is."""

    name = "celery"
    default_queue = "celery"

    def is_of(self, message: Message) -> bool:
        """Whether it names a task."""
        try:
            return "task" in entry(_properties(message), HEADERS)
        except UnclonableError:
            return False

    def cut(self, message: Message, queue: str) -> Cut:  # noqa: ARG002  # of the protocol
        """Its ids are the task's, as root and correlation too; nobody gets its answer; no expiry."""
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

    def delayed(self, queue: str) -> list[str]:  # noqa: ARG002  # of the protocol
        """None: its nodes have in hand what waits for its time."""
        return []

    def dead(self, queue: str) -> list[str]:  # noqa: ARG002
        """None."""
        return []


class DramatiqOnRabbitmq:
    """All is in the body, as JSON."""

    name = "dramatiq"
    default_queue = "default"

    def is_of(self, message: Message) -> bool:
        """Whether it names an actor."""
        try:
            return "actor_name" in json_of(message)
        except UnclonableError:
            return False

    def cut(self, message: Message, queue: str) -> Cut:
        """Its id is new; it is sent now, to *queue*: old ones may be passed over."""
        document = split_document(message, queue)
        return _cut(cut_json(document).pieces[BODY], _properties(message))

    def delayed(self, queue: str) -> list[str]:
        """Its delay queue."""
        return [f"{queue}.DQ"]

    def dead(self, queue: str) -> list[str]:
        """Its queue of dead letters."""
        return [f"{queue}.XQ"]


FORMS: dict[str, RabbitForm] = {form.name: form for form in (DramatiqOnRabbitmq(), CeleryOnRabbitmq())}


def _properties(message: Message) -> dict[str, Any]:
    """AMQP's, as they are sent again.

    Raises:
        UnclonableError: there are none, or they hold what JSON cannot.
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
    """A body and its properties, both cut at every ``HOLE``.

    Left out are a priority (of several the urgent one alone would be worked on), the time after which the
    broker drops it, the user that sent it, and what the broker itself wrote into the headers.
    """
    left_out = ("priority", "expiration", "user_id")
    kept = {name: value for name, value in properties.items() if name not in left_out}
    if kept.get("reply_to"):
        kept["reply_to"] = HOLE  # where nobody waits for it
    if HEADERS in kept:
        headers = entry(kept, HEADERS)
        kept[HEADERS] = {name: value for name, value in headers.items() if not _is_brokers(name)}
    reported = json.dumps(kept, separators=(",", ":"))
    return Cut({BODY: body, PROPERTIES: tuple(piece.encode() for piece in reported.split(HOLE))})


def _is_brokers(header: str) -> bool:
    return header.startswith(("x-death", "x-first-death-", "x-last-death-")) or header == "x-delivery-count"


def _is_followed(body: bytes) -> bool:
    """Whether the body, where it is JSON, names tasks that come after."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return False  # of another serializer: nobody but its worker can tell
    follow = data[2] if isinstance(data, list) and len(data) == 3 else None
    return isinstance(follow, dict) and any(follow.get(name) for name in FOLLOWED)
