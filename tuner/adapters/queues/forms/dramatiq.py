"""dramatiq messages in Redis: a list of ids, and a hash of JSON texts until acknowledgement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from tuner.adapters.queues.forms.message import (
    BODY,
    HOLE,
    STAMP,
    Clone,
    Cut,
    Left,
    Message,
    UnclonableError,
    cut_json,
    entry,
    json_of,
    spread_places,
)
from tuner.adapters.queues.forms.redis_parts import remove_entries, remove_members, sift_ids

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline

_NAMESPACE = "dramatiq"
_FOLLOWED = ("pipe_target", "group_callbacks", "group_completion_uuid")


def split_document(message: Message, queue: str) -> dict[str, Any]:
    """Return the body with a placeholder as its id, marked as sent now to *queue*; UnclonableError if
    impossible.
    """
    document = json_of(message)
    options = entry(document, "options")
    if not isinstance(document.get("message_id"), str):
        raise UnclonableError("has no message_id")
    if any(options.get(name) for name in _FOLLOWED):
        raise UnclonableError("sends further messages when it is done (pipeline, group)")
    document["message_id"] = HOLE
    document["message_timestamp"] = STAMP
    document["queue_name"] = queue
    return document


class Dramatiq:
    """Format of dramatiq: a message is acknowledged, and so counted, when its item ends; retries wait in the
    delay queue.
    """

    name = "dramatiq"
    default_queue = "default"
    counts: Literal["started", "finished"] = "finished"
    separates_taken_items = True

    def keys(self, queue: str) -> list[str]:
        """Return the key of the list of waiting ids."""
        return [f"{_NAMESPACE}:{queue}"]

    def is_there(self, client: Redis, queue: str) -> bool:
        """Return whether a message of this form waits."""
        return bool(client.hlen(f"{_NAMESPACE}:{queue}.msgs"))

    def sample(self, client: Redis, queue: str, n_most: int) -> list[Message]:
        """Return waiting messages, without those that were taken meanwhile."""
        key = f"{_NAMESPACE}:{queue}"
        with client.pipeline(transaction=False) as pipe:
            for place in spread_places(int(client.llen(key)), n_most):
                pipe.lindex(key, place)
            ids = [found for found in pipe.execute() if found is not None]
        bodies: list[Any] = client.hmget(f"{key}.msgs", ids) if ids else []
        return [{BODY: body} for body in bodies if body is not None]

    def cut(self, message: Message, queue: str) -> Cut:
        """Return the template: it replaces dramatiq's and Redis's ids, and marks the clone as sent now to
        *queue*, because workers may skip old messages.
        """
        document = split_document(message, queue)
        document["options"]["redis_message_id"] = HOLE
        return cut_json(document)

    def push(self, pipe: Pipeline, queue: str, clones: Sequence[Clone]) -> None:
        """Add commands that enqueue the clones as ``enqueue`` does."""
        key = f"{_NAMESPACE}:{queue}"
        pipe.hset(f"{key}.msgs", mapping={new_id: parts[BODY] for new_id, parts in clones})
        pipe.rpush(key, *(new_id for new_id, _ in clones))

    def look(self, pipe: Pipeline, queue: str) -> None:
        """Add commands that read the lengths, also of the delay queue and of the dead-letter queue."""
        key = f"{_NAMESPACE}:{queue}"
        pipe.llen(key)
        pipe.hlen(f"{key}.msgs")
        pipe.hlen(f"{key}.DQ.msgs")
        pipe.zcard(f"{key}.XQ")

    def left(self, answers: Sequence[Any], tag: bytes) -> Left:  # noqa: ARG002  # required by the protocol
        """Return the counts; a stored message that does not wait has been taken."""
        ready, kept, delayed, dead = answers
        return Left(ready, kept + delayed - ready, dead)

    def purge(self, client: Redis, queue: str, tag: bytes) -> None:
        """Remove messages that contain this study's id: a retry has another id in Redis."""
        key = f"{_NAMESPACE}:{queue}"
        for one in (key, f"{key}.DQ"):
            remove_entries(client, f"{one}.msgs", tag)
            sift_ids(client, one, f"{one}.msgs")
        dead = remove_entries(client, f"{key}.XQ.msgs", tag)
        if dead:
            client.zrem(f"{key}.XQ", *dead)
        workers: list[Any] = client.zrange(f"{_NAMESPACE}:__heartbeats__", 0, -1)
        for worker in workers:
            for name in (queue, f"{queue}.DQ"):
                taken = f"{_NAMESPACE}:__acks__.{worker.decode()}.{name}"
                remove_members(client, taken, tag, sorted_set=False)
