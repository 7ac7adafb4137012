"""Celery messages in Redis: a list of JSON texts per priority, and one hash of unacknowledged messages."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from tuner.adapters.queues.forms.message import (
    BODY,
    HOLE,
    Clone,
    Cut,
    Left,
    Message,
    UnclonableError,
    cut_json,
    entry,
    json_of,
)
from tuner.adapters.queues.forms.redis_parts import (
    remove_entries,
    remove_fields,
    remove_members,
    sample_lists,
    sift_list,
)

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline

_PRIORITIES = ("", "\x06\x163", "\x06\x166", "\x06\x169")  #: kombu: the least urgent last
_UNACKED, _UNACKED_INDEX = "unacked", "unacked_index"
FOLLOWED = ("callbacks", "errbacks", "chain", "chord")  #: what sends further messages when a task is done


class Celery:
    """Acknowledged, and so counted, as a task starts; as it ends with ``acks_late``."""

    name = "celery"
    default_queue = "celery"
    counts: Literal["started", "finished"] = "started"
    separates_taken_items = True

    def keys(self, queue: str) -> list[str]:
        """One list for each priority."""
        return [queue + priority for priority in _PRIORITIES]

    def is_there(self, client: Redis, queue: str) -> bool:
        """Whether a message of this form waits."""
        found = sample_lists(client, [queue], 1) if client.type(queue) == b"list" else []
        try:
            return bool(found) and "task" in entry(json_of(found[0]), "headers")
        except UnclonableError:
            return False

    def sample(self, client: Redis, queue: str, n_most: int) -> list[Message]:
        """Of all priorities."""
        return sample_lists(client, self.keys(queue), n_most)

    def cut(self, message: Message, queue: str) -> Cut:
        """Its ids are the task's, as root and correlation too, and the delivery's; an expiry is left out."""
        document = json_of(message)
        headers, properties = entry(document, "headers"), entry(document, "properties")
        if not isinstance(headers.get("id"), str):
            raise UnclonableError("is of Celery's first message protocol")
        if headers.get("eta"):
            raise UnclonableError("waits for its time (eta)")
        if _is_followed(document.get("body"), properties.get("body_encoding")):
            raise UnclonableError("sends further messages when it is done (chain, chord, callbacks)")
        if headers.get("root_id") == headers["id"]:
            headers["root_id"] = HOLE
        headers["id"] = HOLE
        if headers.get("expires"):
            headers["expires"] = None
        headers.pop("redelivered", None)
        if properties.get("reply_to"):
            properties["reply_to"] = HOLE  # of a client that waits for the recorded one
        properties["correlation_id"] = properties["delivery_tag"] = HOLE
        # where a worker that ends puts back what it had not begun
        properties["delivery_info"] = {"exchange": "", "routing_key": queue}
        return cut_json(document)

    def push(self, pipe: Pipeline, queue: str, clones: Sequence[Clone]) -> None:
        """All to the usual list: of several, the urgent one alone would be worked on."""
        pipe.lpush(queue, *(parts[BODY] for _, parts in clones))

    def look(self, pipe: Pipeline, queue: str) -> None:
        """Lengths, and the tags of what is in hand."""
        for key in self.keys(queue):
            pipe.llen(key)
        pipe.hkeys(_UNACKED)

    def left(self, answers: Sequence[Any], tag: bytes) -> Left:
        """In hand is what carries *tag*: other queues share the hash."""
        *lengths, in_hand = answers
        return Left(sum(lengths), sum(one.startswith(tag) for one in in_hand))

    def purge(self, client: Redis, queue: str, tag: bytes) -> None:
        """What a worker that was killed had in hand would come back after an hour."""
        for key in self.keys(queue):
            sift_list(client, key, tag)
        remove_members(client, _UNACKED_INDEX, tag)
        remove_fields(client, _UNACKED, tag)
        if retried := remove_entries(client, _UNACKED, tag):  # their delivery tags are Celery's own
            client.zrem(_UNACKED_INDEX, *retried)


def _is_followed(body: Any, encoding: Any) -> bool:
    """Whether the body, where it is JSON, names tasks that come after."""
    try:
        text = base64.b64decode(body) if encoding == "base64" else body
        data = json.loads(text)
    except (TypeError, ValueError, binascii.Error):
        return False  # of another serializer: nobody but its worker can tell
    follow = data[2] if isinstance(data, list) and len(data) == 3 else None
    return isinstance(follow, dict) and any(follow.get(name) for name in FOLLOWED)
