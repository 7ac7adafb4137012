"""taskiq messages in Redis: a list of JSON texts (``ListQueueBroker``)."""

from __future__ import annotations

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
from tuner.adapters.queues.forms.redis_parts import sample_lists, sift_list

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline


class Taskiq:
    """Gone from the list, and so counted, as a worker takes it."""

    name = "taskiq"
    default_queue = "taskiq"
    counts: Literal["started", "finished"] = "started"
    separates_taken_items = True  # all of it is gone

    def keys(self, queue: str) -> list[str]:
        """The queue's name is its key."""
        return [queue]

    def is_there(self, client: Redis, queue: str) -> bool:
        """Whether a message of this form waits."""
        found = sample_lists(client, [queue], 1) if client.type(queue) == b"list" else []
        try:
            return bool(found) and "task_name" in json_of(found[0])
        except UnclonableError:
            return False

    def sample(self, client: Redis, queue: str, n_most: int) -> list[Message]:
        """Of those that wait."""
        return sample_lists(client, [queue], n_most)

    def cut(self, message: Message, queue: str) -> Cut:
        """Its id is the task's."""
        document = json_of(message)
        if not isinstance(document.get("task_id"), str):
            raise UnclonableError("has no task_id")
        document["task_id"] = HOLE
        labels = entry(document, "labels")
        if "queue_name" in labels:
            labels["queue_name"] = queue
        return cut_json(document)

    def push(self, pipe: Pipeline, queue: str, clones: Sequence[Clone]) -> None:
        """As its ``kick``."""
        pipe.lpush(queue, *(parts[BODY] for _, parts in clones))

    def look(self, pipe: Pipeline, queue: str) -> None:
        """Its length."""
        pipe.llen(queue)

    def left(self, answers: Sequence[Any], tag: bytes) -> Left:  # noqa: ARG002  # of the protocol
        """Nothing is known of what is in hand."""
        return Left(answers[0], 0)

    def purge(self, client: Redis, queue: str, tag: bytes) -> None:
        """What waits."""
        sift_list(client, queue, tag)
