"""Messages as a broker keeps them, and how new ones are made of a recorded one."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Message = Mapping[str, bytes]  #: its parts by name: one, ``body``, or the fields that the broker keeps
BODY = "body"
Clone = tuple[bytes, dict[str, bytes]]  #: a new id, and the parts of the message that has it
#: stand in a text for the id of a clone, and for the time it is made at: no message holds these by chance
HOLE = f"tuner-id-{uuid.uuid4().hex}"
STAMP = f"tuner-now-{uuid.uuid4().hex}"


class UnclonableError(Exception):
    """Why no message can be made of this one, as a clause: ``waits for its time (eta)``."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A message without its ids: a clone is made by joining the pieces with a new one."""

    pieces: Mapping[str, tuple[bytes, ...]]  #: of each part; one piece where it holds no id

    def clone(self, new_id: bytes) -> dict[str, bytes]:
        """The message with *new_id* wherever it had its own."""
        return {name: new_id.join(pieces) for name, pieces in self.pieces.items()}

    def stamped(self, now_s: float) -> Cut:
        """The same, with the time of Unix where the message says when it was sent, in ms."""
        now = b"%d" % (now_s * 1000)
        stamp = f'"{STAMP}"'.encode()
        return Cut(
            {name: tuple(piece.replace(stamp, now) for piece in all_) for name, all_ in self.pieces.items()}
        )

    @property
    def says_when(self) -> bool:
        """Whether ``stamped`` changes anything."""
        return any(STAMP.encode() in piece for pieces in self.pieces.values() for piece in pieces)

    @property
    def n_bytes(self) -> int:
        """Of one clone, its ids left out."""
        return sum(len(piece) for pieces in self.pieces.values() for piece in pieces)


def json_of(message: Message) -> dict[str, Any]:
    """The JSON object that is the body; UnclonableError when it is none."""
    try:
        document = json.loads(message[BODY])
    except (KeyError, ValueError, RecursionError) as error:
        raise UnclonableError("is no JSON") from error
    if not isinstance(document, dict):
        raise UnclonableError("is no JSON object")
    return document


def cut_json(document: dict[str, Any]) -> Cut:
    """*document* as a body, cut at every ``HOLE``."""
    text = json.dumps(document, separators=(",", ":"))
    return Cut({BODY: tuple(piece.encode() for piece in text.split(HOLE))})


def entry(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The mapping *name* within *document*; UnclonableError when there is none."""
    found = document.get(name)
    if not isinstance(found, dict):
        raise UnclonableError(f"has no {name}")
    return found


def spread_places(n_there: int, n_most: int) -> list[int]:
    """At most *n_most* places of *n_there*, evenly spread, in order."""
    n = min(n_there, n_most)
    return [place * n_there // n for place in range(n)]
