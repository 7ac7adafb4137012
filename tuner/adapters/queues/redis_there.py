"""Which queues of a Redis hold messages, whoever's they are: by the keys that libraries name them with."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.adapters.queues.redis_forms import FORMS

if TYPE_CHECKING:
    from redis import Redis

_WITHIN_S = 5.0  #: of a Redis with many keys, those that are found until then
_AT_ONCE = 1000
_NO_QUEUES = re.compile(
    r"tuner:|unacked|_kombu\.|celery-task-meta-|rq:(?!queue:)|.*:intermediate$|saq:(?!.*:queued$)"
    r"|streaq:(?!.*:queues:(?!delayed:))|dramatiq:(?!.*\.msgs$)|.*\.XQ\.msgs$|huey\.(?!redis\.)"
)
_NAMED = {  #: by the type of their key: the form, and the queue's name within the key
    "list": {
        "rq": re.compile(r"rq:queue:(.+)"),
        "huey": re.compile(r"huey\.redis\.(.+)"),
        "saq": re.compile(r"saq:(.+):queued"),
    },
    "hash": {"dramatiq": re.compile(r"dramatiq:(.+)\.msgs")},
    "stream": {"streaq": re.compile(r"streaq:(.+(?=:queues:normal$)|.+:queues:.+)(?::queues:normal)?")},
}
_OWN_NAMES = {"list": ("celery", "taskiq", "list"), "zset": ("arq",), "stream": ("stream",)}
_PRIORITY = "\x06\x16"  #: before a priority in the names of Celery's lists


@dataclass(frozen=True, slots=True)
class Holding:
    """A queue that holds messages."""

    queue: str
    form: str
    n_messages: int


def queues_there(client: Redis) -> list[Holding]:
    """Those that hold messages, the fullest first."""
    found: dict[tuple[str, str], int] = {}
    for kind, key, n in _lengths(client):
        for form, queue in _queue_of_key(client, kind, key):
            found[queue, form] = found.get((queue, form), 0) + n
    holding = [Holding(queue, form, n) for (queue, form), n in found.items() if n]
    return sorted(holding, key=lambda one: (-one.n_messages, one.queue))


def _lengths(client: Redis) -> Iterator[tuple[str, str, int]]:
    """The type and the name of each key that may be a queue, and how much it holds."""
    lengths: dict[str, Callable[..., object]] = {
        "list": client.llen,
        "hash": client.hlen,
        "zset": client.zcard,
        "stream": client.xlen,
    }
    ends_s = time.monotonic() + _WITHIN_S
    for kind, length in lengths.items():
        for name in client.scan_iter(count=_AT_ONCE, _type=kind):
            key = name.decode("utf-8", "replace")
            if _NO_QUEUES.match(key) is None and (kind != "hash" or key.endswith(".msgs")):
                yield kind, key, int(str(length(name)))
            if time.monotonic() > ends_s:
                return


def _queue_of_key(client: Redis, kind: str, key: str) -> Iterator[tuple[str, str]]:
    """The form, and the queue's name, of a key; nothing where it is no queue."""
    for form, pattern in _NAMED.get(kind, {}).items():
        if (match := pattern.fullmatch(key)) is not None:
            yield form, match[1]
            return
    queue = key.partition(_PRIORITY)[0]
    for form in _OWN_NAMES.get(kind, ()):
        if FORMS[form].is_there(client, key):
            yield form, queue
            return
