"""Protocol and registry of the message formats in Redis, and a search for queues with messages."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tuner.adapters.queues.forms.arq import Arq
from tuner.adapters.queues.forms.celery import Celery
from tuner.adapters.queues.forms.dramatiq import Dramatiq
from tuner.adapters.queues.forms.huey import Huey
from tuner.adapters.queues.forms.message import Clone, Cut, Left, Message
from tuner.adapters.queues.forms.plain_list import PlainList
from tuner.adapters.queues.forms.plain_stream import PlainStream
from tuner.adapters.queues.forms.rq import Rq
from tuner.adapters.queues.forms.saq import Saq
from tuner.adapters.queues.forms.streaq import Streaq
from tuner.adapters.queues.forms.taskiq import Taskiq

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline


class RedisForm(Protocol):
    """Storage of a queue in Redis by one library."""

    name: str
    default_queue: str  #: the library's default queue
    #: whether an item counts when it is started or when it is finished
    counts: Literal["started", "finished"]
    separates_taken_items: bool  #: whether items in work do not count as waiting

    def keys(self, queue: str) -> list[str]:
        """Return the keys of the waiting messages, which name the queue in messages to users."""

    def is_there(self, client: Redis, queue: str) -> bool:
        """Return whether messages of this form wait in *queue*."""

    def sample(self, client: Redis, queue: str, n_most: int) -> list[Message]:
        """See ``MessageQueue.sample``."""

    def cut(self, message: Message, queue: str) -> Cut:
        """See ``MessageQueue.cut``."""

    def push(self, pipe: Pipeline, queue: str, clones: Sequence[Clone]) -> None:
        """Add the commands that send the clones to *pipe*."""

    def look(self, pipe: Pipeline, queue: str) -> None:
        """Add the commands whose answers ``left`` parses to *pipe*."""

    def left(self, answers: Sequence[Any], tag: bytes) -> Left:
        """Return the counts in *answers*; *tag* is the prefix of the calling study's ids."""

    def purge(self, client: Redis, queue: str, tag: bytes) -> None:
        """Remove exactly the messages whose ids begin with *tag*: waiting, taken or failed."""


FORMS: dict[str, RedisForm] = {
    form.name: form
    for form in (
        Dramatiq(),
        Rq(),
        Huey(),
        Celery(),
        Taskiq(),
        Arq(),
        Saq(),
        Streaq(),
        PlainList(),
        PlainStream(),
    )
}
#: forms without a library; they do not apply to a queue that has the form of a library
PLAIN = ("list", "stream")


def forms_of(client: Redis, queue: str | None) -> list[tuple[RedisForm, str]]:
    """Return the forms that have messages in *queue*; None stands for the default queue of each library."""
    asked = [(form, queue or form.default_queue) for form in FORMS.values()]
    found = [(form, name) for form, name in asked if form.is_there(client, name)]
    return [one for one in found if one[0].name not in PLAIN] or found


# Queues of a Redis that hold messages, found by the key names that libraries use.

_WITHIN_S = 5.0  #: time limit of the search in a Redis with many keys; queues found by then are returned
_AT_ONCE = 1000
_NO_QUEUES = re.compile(
    r"tuner:|unacked|_kombu\.|celery-task-meta-|rq:(?!queue:)|.*:intermediate$|saq:(?!.*:queued$)"
    r"|streaq:(?!.*:queues:(?!delayed:))|dramatiq:(?!.*\.msgs$)|.*\.XQ\.msgs$|huey\.(?!redis\.)"
)
_NAMED = {  #: by type of the key: form, and pattern of the queue's name in the key
    "list": {
        "rq": re.compile(r"rq:queue:(.+)"),
        "huey": re.compile(r"huey\.redis\.(.+)"),
        "saq": re.compile(r"saq:(.+):queued"),
    },
    "hash": {"dramatiq": re.compile(r"dramatiq:(.+)\.msgs")},
    "stream": {"streaq": re.compile(r"streaq:(.+(?=:queues:normal$)|.+:queues:.+)(?::queues:normal)?")},
}
_OWN_NAMES = {"list": ("celery", "taskiq", "list"), "zset": ("arq",), "stream": ("stream",)}
_PRIORITY = "\x06\x16"  #: precedes the priority in the names of Celery's lists


@dataclass(frozen=True, slots=True)
class Holding:
    """A queue that holds messages."""

    queue: str
    form: str
    n_messages: int


def list_queues(client: Redis) -> list[Holding]:
    """Return the queues that hold messages, the fullest first."""
    found: dict[tuple[str, str], int] = {}
    for kind, key, n in _lengths(client):
        for form, queue in _queue_of_key(client, kind, key):
            found[queue, form] = found.get((queue, form), 0) + n
    holding = [Holding(queue, form, n) for (queue, form), n in found.items() if n]
    return sorted(holding, key=lambda one: (-one.n_messages, one.queue))


def _lengths(client: Redis) -> Iterator[tuple[str, str, int]]:
    """Yield type, name and length of each key that may be a queue."""
    lengths: dict[str, Callable[..., object]] = {
        "list": client.llen,
        "hash": client.hlen,
        "zset": client.zcard,
        "stream": client.xlen,
    }
    ends_s = time.monotonic() + _WITHIN_S
    for kind, length in lengths.items():
        for name in _keys_of(client, kind):
            key = name.decode("utf-8", "replace")
            if _NO_QUEUES.match(key) is None and (kind != "hash" or key.endswith(".msgs")):
                yield kind, key, int(str(length(name)))
            if time.monotonic() > ends_s:
                return


def _keys_of(client: Redis, kind: str) -> Iterator[bytes]:
    """Yield the keys of one type."""
    from redis import ResponseError

    try:
        yield from client.scan_iter(count=_AT_ONCE, _type=kind)
    except ResponseError:  # Redis before version 6 cannot select by type
        for name in client.scan_iter(count=_AT_ONCE):
            if client.type(name) == kind.encode():
                yield name


def _queue_of_key(client: Redis, kind: str, key: str) -> Iterator[tuple[str, str]]:
    """Yield the form and the queue name of a key; nothing if the key is not a queue."""
    for form, pattern in _NAMED.get(kind, {}).items():
        if (match := pattern.fullmatch(key)) is not None:
            yield form, match[1]
            return
    queue = key.partition(_PRIORITY)[0]
    for form in _OWN_NAMES.get(kind, ()):
        if FORMS[form].is_there(client, key):
            yield form, queue
            return
