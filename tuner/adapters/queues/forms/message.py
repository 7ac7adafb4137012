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

# Ids that identify the messages of a study in every key and queue.


def study_tag(study_id: str) -> str:
    """Return the common prefix of this study's ids: 48 bits, in the form of a UUID of version 4."""
    digest = hashlib.sha256(study_id.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4"


class Ids:
    """Unique ids, also across runs: 36 characters in the form of a UUID."""

    def __init__(self, tag: str) -> None:
        run = os.urandom(3).hex()
        self._head = f"{tag}{run[:3]}-8{run[3:]}-".encode()
        self._numbers = count()

    def next(self) -> bytes:
        """Return a new id."""
        return b"%b%012x" % (self._head, next(self._numbers))


Message = Mapping[str, bytes]  #: parts by name: only ``body``, or the fields that the broker stores
BODY = "body"
Clone = tuple[bytes, dict[str, bytes]]  #: a new id, and the parts of the message with this id
#: placeholders for the id and the time of a clone; random, so that no message contains them by chance
HOLE = f"tuner-id-{uuid.uuid4().hex}"
STAMP = f"tuner-now-{uuid.uuid4().hex}"


class UnclonableError(Exception):
    """The reason why a message cannot be cloned, as a clause: ``waits for its time (eta)``."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Template of a message without its ids: joining the pieces with a new id makes a clone."""

    pieces: Mapping[str, tuple[bytes, ...]]  #: pieces of each part; a part without an id has one piece

    def clone(self, new_id: bytes) -> dict[str, bytes]:
        """Return a clone: the message with *new_id* in place of its id."""
        return {name: new_id.join(pieces) for name, pieces in self.pieces.items()}

    def stamped(self, now_s: float) -> Cut:
        """Return the template with the Unix time, in ms, wherever the message states its send time."""
        now = b"%d" % (now_s * 1000)
        stamp = f'"{STAMP}"'.encode()
        return Cut(
            {name: tuple(piece.replace(stamp, now) for piece in all_) for name, all_ in self.pieces.items()}
        )

    @property
    def says_when(self) -> bool:
        """Return whether the message states its send time, so that ``stamped`` changes it."""
        return any(STAMP.encode() in piece for pieces in self.pieces.values() for piece in pieces)

    @property
    def n_bytes(self) -> int:
        """Size of one clone in bytes, without its ids."""
        return sum(len(piece) for pieces in self.pieces.values() for piece in pieces)


def json_of(message: Message) -> dict[str, Any]:
    """Return the JSON object in the body; UnclonableError if the body is not one."""
    try:
        document = json.loads(message[BODY])
    except (KeyError, ValueError, RecursionError) as error:
        raise UnclonableError("is no JSON") from error
    if not isinstance(document, dict):
        raise UnclonableError("is no JSON object")
    return document


def cut_json(document: dict[str, Any]) -> Cut:
    """Return *document* as the template of a body, cut at every ``HOLE``."""
    text = json.dumps(document, separators=(",", ":"))
    return Cut({BODY: tuple(piece.encode() for piece in text.split(HOLE))})


def entry(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the mapping *name* in *document*; UnclonableError if there is none."""
    found = document.get(name)
    if not isinstance(found, dict):
        raise UnclonableError(f"has no {name}")
    return found


def spread_places(n_there: int, n_most: int) -> list[int]:
    """Return at most *n_most* of *n_there* positions, evenly spread, in order."""
    n = min(n_there, n_most)
    return [place * n_there // n for place in range(n)]


# Recorded sample of messages: JSON that users can read and shorten.

_VERSION = 1


def write_sample(path: Path, form: str, messages: Sequence[Message]) -> None:
    """Write *messages* to a new file that only this user can read: messages contain user data.

    Raises:
        ConfigError: the file exists, or cannot be written.
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
    """Return the messages of a file, which must be of *form*.

    Raises:
        ConfigError: the file cannot be read, is damaged, holds no message, or is of another form.
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
    """Return text unchanged, and other bytes as a mapping with base64."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode("ascii")}


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return base64.b64decode(value["base64"], validate=True)


# State of a queue, for messages of every form.


@dataclass(frozen=True, slots=True)
class Left:
    """Contents of a queue at one moment."""

    ready: int  #: messages that wait for a worker
    in_hand: int  #: messages taken but not acknowledged, if the broker reports them
    failed: int = 0  #: messages stored as failed, also by others; 0 if the broker does not report them


class BrokerError(Exception):
    """The broker cannot be queried, or lost its record of the study; the text describes the failure."""


class BrokerAway(BrokerError):
    """The broker cannot be reached, is starting, or was restarted; it may be back soon."""
