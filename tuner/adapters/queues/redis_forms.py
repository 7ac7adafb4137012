"""The forms of messages that are known on Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tuner.adapters.queues.forms.arq import Arq
from tuner.adapters.queues.forms.celery import Celery
from tuner.adapters.queues.forms.dramatiq import Dramatiq
from tuner.adapters.queues.forms.huey import Huey
from tuner.adapters.queues.forms.plain_list import PlainList
from tuner.adapters.queues.forms.plain_stream import PlainStream
from tuner.adapters.queues.forms.rq import Rq
from tuner.adapters.queues.forms.saq import Saq
from tuner.adapters.queues.forms.streaq import Streaq
from tuner.adapters.queues.forms.taskiq import Taskiq
from tuner.adapters.queues.message import Clone, Cut, Message
from tuner.adapters.queues.queue import Left

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline


class RedisForm(Protocol):
    """How one library keeps a queue in Redis."""

    name: str
    default_queue: str  #: the library's own, where none is named
    counts: Literal["started", "finished"]  #: when a message is neither waiting nor in hand any more
    separates_taken_items: bool  #: what is worked on does not count as waiting

    def keys(self, queue: str) -> list[str]:
        """The keys that hold what waits, by which the queue is named in messages for people."""

    def is_there(self, client: Redis, queue: str) -> bool:
        """Whether messages of this form wait in *queue*."""

    def sample(self, client: Redis, queue: str, n_most: int) -> list[Message]:
        """As ``MessageQueue.sample``."""

    def cut(self, message: Message, queue: str) -> Cut:
        """As ``MessageQueue.cut``."""

    def push(self, pipe: Pipeline, queue: str, clones: Sequence[Clone]) -> None:
        """Put the commands that send these into *pipe*."""

    def look(self, pipe: Pipeline, queue: str) -> None:
        """Put the questions whose answers ``left`` takes into *pipe*."""

    def left(self, answers: Sequence[Any], tag: bytes) -> Left:
        """What the answers say; *tag* begins the ids of whoever asks."""

    def purge(self, client: Redis, queue: str, tag: bytes) -> None:
        """Remove the messages whose ids begin with *tag*, in hand, failed or waiting, and nothing else."""


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
PLAIN = ("list", "stream")  #: forms of no library: of a queue that is of a library's form, too, they are none


def forms_of(client: Redis, queue: str | None) -> list[tuple[RedisForm, str]]:
    """Which forms have messages in *queue*, or with None in the queue that is each library's own."""
    asked = [(form, queue or form.default_queue) for form in FORMS.values()]
    found = [(form, name) for form, name in asked if form.is_there(client, name)]
    return [one for one in found if one[0].name not in PLAIN] or found
