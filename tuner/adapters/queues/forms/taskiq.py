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
    """Format of taskiq: a message is removed from the list, and so counted, when a worker takes it."""

    name = "taskiq"
    default_queue = "taskiq"
    counts: Literal["started", "finished"] = "started"
    separates_taken_items = True  # they leave the list

    def keys(self, queue: str) -> list[str]:
        """Return the key, which is the queue's name."""
        return [queue]

    def is_there(self, client: Redis, queue: str) -> bool:
        """Return whether a message of this form waits."""
        found = sample_lists(client, [queue], 1) if client.type(queue) == b"list" else []
        try:
            return bool(found) and "task_name" in json_of(found[0])
        except UnclonableError:
            return False

    def sample(self, client: Redis, queue: str, n_most: int) -> list[Message]:
        """Return waiting messages."""
        return sample_lists(client, [queue], n_most)

    def cut(self, message: Message, queue: str) -> Cut:
        """Return the template; the only id is the task's."""
        document = json_of(message)
        if not isinstance(document.get("task_id"), str):
            raise UnclonableError("has no task_id")
        document["task_id"] = HOLE
        labels = entry(document, "labels")
        if "queue_name" in labels:
            labels["queue_name"] = queue
        return cut_json(document)

    def push(self, pipe: Pipeline, queue: str, clones: Sequence[Clone]) -> None:
        """Add commands that enqueue the clones as ``kick`` does."""
        pipe.lpush(queue, *(parts[BODY] for _, parts in clones))

    def look(self, pipe: Pipeline, queue: str) -> None:
        """Add the command that reads the length of the list."""
        pipe.llen(queue)

    def left(self, answers: Sequence[Any], tag: bytes) -> Left:  # noqa: ARG002  # required by the protocol
        """Return the number of waiting messages; taken messages are not known."""
        return Left(answers[0], 0)

    def purge(self, client: Redis, queue: str, tag: bytes) -> None:
        """Remove waiting messages."""
        sift_list(client, queue, tag)
