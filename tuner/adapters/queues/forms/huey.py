"""huey messages in Redis: a list of pickles, which tuner parses without running code from them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from tuner.adapters.queues.forms.message import BODY, Clone, Cut, Left, Message, UnclonableError
from tuner.adapters.queues.forms.redis_parts import Inert, read_inert, remove_members, sample_lists, sift_list

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline

_ID_BYTES = 36  #: length of a UUID as text; a clone's id must have the same length to fit into the pickle
#: positions in huey's Message: eta; on_complete, on_error, chord_config; expires, expires_resolved
_ETA, _FOLLOWED, _EXPIRES = 2, (8, 9, 13), (10, 11)


class Huey:
    """Format of huey: a message is removed from the list, and so counted, when a worker takes it."""

    name = "huey"
    default_queue = "huey"
    counts: Literal["started", "finished"] = "started"
    separates_taken_items = True  # they leave the list

    def keys(self, queue: str) -> list[str]:
        """Return the key; huey removes all characters but letters, digits and _ from the name."""
        return [f"huey.redis.{re.sub('[^A-Za-z0-9_]', '', queue)}"]

    def is_there(self, client: Redis, queue: str) -> bool:
        """Return whether a message waits."""
        return client.type(self.keys(queue)[0]) == b"list"

    def sample(self, client: Redis, queue: str, n_most: int) -> list[Message]:
        """Return waiting messages."""
        return sample_lists(client, self.keys(queue), n_most)

    def cut(self, message: Message, queue: str) -> Cut:  # noqa: ARG002  # required by the protocol
        """Return the template; the only id is the task's, the first field of the pickle."""
        body = message[BODY]
        reported = _parse_fields(body)
        task_id = reported[0] if reported else None
        if not isinstance(task_id, str) or len(task_id.encode()) != _ID_BYTES:
            raise UnclonableError(f"has an id that is not {_ID_BYTES} characters long")
        if any(place < len(reported) and reported[place] is not None for place in _FOLLOWED):
            raise UnclonableError("sends further messages when it is done (pipeline, chord)")
        if any(place < len(reported) and reported[place] is not None for place in _EXPIRES):
            raise UnclonableError("is dropped when it is old (expires)")
        if len(reported) > _ETA and reported[_ETA] is not None:
            raise UnclonableError("waits for its time (eta)")
        before, found, after = body.partition(task_id.encode())  # the id is the first field
        if not found:
            raise UnclonableError("does not hold its id as text")
        return Cut({BODY: (before, after)})

    def push(self, pipe: Pipeline, queue: str, clones: Sequence[Clone]) -> None:
        """Add commands that enqueue the clones as ``enqueue`` does."""
        pipe.lpush(self.keys(queue)[0], *(parts[BODY] for _, parts in clones))

    def look(self, pipe: Pipeline, queue: str) -> None:
        """Add the command that reads the length of the list."""
        pipe.llen(self.keys(queue)[0])

    def left(self, answers: Sequence[Any], tag: bytes) -> Left:  # noqa: ARG002  # required by the protocol
        """Return the number of waiting messages; taken messages are not known."""
        return Left(answers[0], 0)

    def purge(self, client: Redis, queue: str, tag: bytes) -> None:
        """Remove waiting messages and those scheduled for a retry."""
        (key,) = self.keys(queue)
        sift_list(client, key, tag)
        remove_members(client, key.replace("huey.redis.", "huey.schedule.", 1), tag)


def _parse_fields(body: bytes) -> tuple[Any, ...]:
    """Return the fields of huey's Message."""
    try:
        found = read_inert(body)
    except Exception as error:  # a damaged pickle may raise any exception
        raise UnclonableError("is no pickle of huey's (compressed or signed, perhaps)") from error
    if not isinstance(found, Inert):
        raise UnclonableError("is no message of huey's")
    return tuple(found)
