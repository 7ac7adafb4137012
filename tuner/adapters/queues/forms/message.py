"""Recorded messages, clones of them with new ids, and the sample file that stores them."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from tuner.core.errors import ConfigError

# Ids by which the messages of a study are known, wherever they turn up.


def study_tag(study_id: str) -> str:
    """What every id of this study begins with: 48 bits, in the form of a UUID of version 4."""
    digest = hashlib.sha256(study_id.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4"


class Ids:
    """New ids, all different, also from those of another run: 36 characters, each a UUID to whoever looks."""

    def __init__(self, tag: str) -> None:
        run = os.urandom(3).hex()
        self._head = f"{tag}{run[:3]}-8{run[3:]}-".encode()
        self._numbers = count()

    def next(self) -> bytes:
        """The next one."""
        return b"%b%012x" % (self._head, next(self._numbers))


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


# A recorded sample of messages: JSON that people may read, and cut down.

_VERSION = 1


def write_sample(path: Path, form: str, messages: Sequence[Message]) -> None:
    """Keep *messages* in a new file that only this user reads: they hold what users sent.

    Raises:
        ConfigError: the file is there, or cannot be written.
    """
    kept = [{name: _to_json(value) for name, value in message.items()} for message in messages]
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump({"tuner_sample": _VERSION, "form": form, "messages": kept}, file, indent=1)
            file.write("\n")
    except FileExistsError as error:
        raise ConfigError(f"{path} is there already", hint="Remove it, or name another with -o.") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error


def read_sample(path: Path, form: str) -> list[Message]:
    """The messages of a file, which are of *form*.

    Raises:
        ConfigError: it cannot be read, is damaged, holds no message, or is of another form.
    """
    hint = "Record one: tuner sample --help."
    try:
        data = json.loads(path.read_bytes())
        if not isinstance(data, dict) or data.get("tuner_sample") != _VERSION:
            raise ConfigError(f"{path} is no sample of messages", hint=hint)
        messages: list[Message] = [
            {name: _bytes(value) for name, value in message.items()} for message in data["messages"]
        ]
        is_of = data["form"]
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}", hint=hint) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} is no sample of messages, or damaged: {error}", hint=hint) from error
    if is_of != form:
        raise ConfigError(
            f"{path} holds messages of {is_of}, not of {form}", hint="Set form, or name another."
        )
    if not messages:
        raise ConfigError(f"{path} holds no message", hint=hint)
    return messages


def _to_json(value: bytes) -> Any:
    """Text as it is; what is none in base64, as a mapping."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode("ascii")}


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return base64.b64decode(value["base64"], validate=True)


# What every form says of a queue.


@dataclass(frozen=True, slots=True)
class Left:
    """What there is in a queue, all seen in one moment."""

    ready: int  #: messages that wait for a worker
    in_hand: int  #: taken and not acknowledged, as far as the broker tells
    failed: int = 0  #: put aside as failed, those of others included; 0 where the broker does not tell


class BrokerError(Exception):
    """The broker cannot be asked, or forgot what it knew; says what happened."""


class BrokerAway(BrokerError):
    """The broker cannot be reached, is starting, or was started anew: it may be back in a while."""
