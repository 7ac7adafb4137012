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

#: kombu's suffixes for queues by priority, least urgent last; applications may use all steps from 0 to 9
_PRIORITIES = ("", *(f"\x06\x16{step}" for step in range(1, 10)))
_UNACKED, _UNACKED_INDEX = "unacked", "unacked_index"
#: fields that cause further messages when a task is done
FOLLOWED = ("callbacks", "errbacks", "chain", "chord")


class Celery:
    """Format of Celery: a message is acknowledged, and so counted, when its task starts or, with
    ``acks_late``, when it ends.
    """

    name = "celery"
    default_queue = "celery"
    counts: Literal["started", "finished"] = "started"
    separates_taken_items = True

    def keys(self, queue: str) -> list[str]:
        """Return the keys of the lists, one for each priority."""
        return [queue + priority for priority in _PRIORITIES]

    def is_there(self, client: Redis, queue: str) -> bool:
        """Return whether a message of this form waits."""
        found = sample_lists(client, [queue], 1) if client.type(queue) == b"list" else []
        try:
            return bool(found) and "task" in entry(json_of(found[0]), "headers")
        except UnclonableError:
            return False

    def sample(self, client: Redis, queue: str, n_most: int) -> list[Message]:
        """Return messages of all priorities."""
        return sample_lists(client, self.keys(queue), n_most)

    def cut(self, message: Message, queue: str) -> Cut:
        """Return the template: it replaces the ids of task, root, correlation and delivery, and drops expiry
        and priority.
        """
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
            properties["reply_to"] = HOLE  # of a client that waits for the recorded message
        properties["correlation_id"] = properties["delivery_tag"] = HOLE
        # a worker that shuts down puts unstarted messages back here, into the list of their priority
        properties["delivery_info"] = {"exchange": "", "routing_key": queue}
        properties["priority"] = 0
        return cut_json(document)

    def push(self, pipe: Pipeline, queue: str, clones: Sequence[Clone]) -> None:
        """Push all clones to the default list: with several, only the most urgent would be consumed."""
        pipe.lpush(queue, *(parts[BODY] for _, parts in clones))

    def look(self, pipe: Pipeline, queue: str) -> None:
        """Add commands that read the lengths, and the delivery tags of unacknowledged messages."""
        for key in self.keys(queue):
            pipe.llen(key)
        pipe.hkeys(_UNACKED)

    def left(self, answers: Sequence[Any], tag: bytes) -> Left:
        """Return the counts; other queues share the hash, so only delivery tags that begin with *tag*
        count as taken.
        """
        *lengths, in_hand = answers
        return Left(sum(lengths), sum(one.startswith(tag) for one in in_hand))

    def purge(self, client: Redis, queue: str, tag: bytes) -> None:
        """Remove waiting messages and those of killed workers, which Celery would requeue after an hour."""
        for key in self.keys(queue):
            sift_list(client, key, tag)
        remove_members(client, _UNACKED_INDEX, tag)
        remove_fields(client, _UNACKED, tag)
        if retried := remove_entries(client, _UNACKED, tag):  # their delivery tags are Celery's
            client.zrem(_UNACKED_INDEX, *retried)


def _is_followed(body: Any, encoding: Any) -> bool:
    """Return whether the body, if it is JSON, names tasks to run afterwards."""
    try:
        text = base64.b64decode(body) if encoding == "base64" else body
        data = json.loads(text)
    except (TypeError, ValueError, binascii.Error):
        return False  # another serializer, which only the worker can decode
    follow = data[2] if isinstance(data, list) and len(data) == 3 else None
    return isinstance(follow, dict) and any(follow.get(name) for name in FOLLOWED)
