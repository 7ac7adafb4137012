"""Messages of a worker without a queue library, in a Redis list that it pops (BRPOP, BLPOP or BLMOVE).

Such a message has no id. A clone is marked by blanks and tabs after its end, which parsers of JSON and of
pickles ignore.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from tuner.adapters.queues.forms.message import BODY, Clone, Cut, Left, Message, UnclonableError
from tuner.adapters.queues.forms.redis_parts import sample_lists, sift_list

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline

_BITS = bytes.maketrans(b"01", b" \t")
_PICKLES = tuple(bytes([0x80, version]) for version in (2, 3, 4, 5))


class MarkedCut(Cut):
    """Template whose clones carry their id after the end of the message, in blanks."""

    def clone(self, new_id: bytes) -> dict[str, bytes]:
        """Return the message, marked with *new_id*."""
        return {BODY: self.pieces[BODY][0] + blanks(new_id)}


def blanks(new_id: bytes) -> bytes:
    """Return the id, or a prefix of one, as blanks and tabs: four for each hexadecimal digit."""
    digits = new_id.replace(b"-", b"").decode()
    return "".join(f"{int(digit, 16):04b}" for digit in digits).encode().translate(_BITS)


class PlainList:
    """Format of a plain list: a message is removed, and so counted, when a worker takes it."""

    name = "list"
    default_queue = ""  #: a plain list has no default name
    counts: Literal["started", "finished"] = "started"
    separates_taken_items = True  # they leave the list

    def keys(self, queue: str) -> list[str]:
        """Return the key, which is the queue's name."""
        return [queue]

    def is_there(self, client: Redis, queue: str) -> bool:
        """Return whether a list of that name holds any entry."""
        return bool(queue) and client.type(queue) == b"list"

    def sample(self, client: Redis, queue: str, n_most: int) -> list[Message]:
        """Return waiting messages."""
        return sample_lists(client, [queue], n_most)

    def cut(self, message: Message, queue: str) -> Cut:  # noqa: ARG002  # required by the protocol
        """Return the message unchanged as the template; UnclonableError if blanks after its end would
        change it.
        """
        body = message[BODY].rstrip(b" \t")
        if not (body.startswith(_PICKLES) and body.endswith(b".")):
            _check_json(body)
        return MarkedCut({BODY: (body,)})

    def push(self, pipe: Pipeline, queue: str, clones: Sequence[Clone]) -> None:
        """Add commands that push the clones at the left, as most producers do."""
        pipe.lpush(queue, *(parts[BODY] for _, parts in clones))

    def look(self, pipe: Pipeline, queue: str) -> None:
        """Add the command that reads the length of the list."""
        pipe.llen(queue)

    def left(self, answers: Sequence[Any], tag: bytes) -> Left:  # noqa: ARG002  # required by the protocol
        """Return the number of waiting messages; taken messages are not known."""
        return Left(answers[0], 0)

    def purge(self, client: Redis, queue: str, tag: bytes) -> None:
        """Remove waiting messages."""
        sift_list(client, queue, blanks(tag))


def _check_json(body: bytes) -> None:
    """Check that the body is an object, a list or a string: blanks may become part of a bare number."""
    try:
        is_marked = isinstance(json.loads(body), dict | list | str)
    except (ValueError, RecursionError):
        is_marked = False
    if not is_marked:
        raise UnclonableError(
            "is neither a JSON object, list or string nor a pickle, so that tuner could not mark its clones"
            " (feed it with a command of your own: feeder: {kind: command})"
        )
