"""arq jobs in Redis: a sorted set of the ids of unfinished jobs, and a pickle for each job."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from tuner.adapters.queues.forms.message import BODY, Clone, Cut, Left, Message, spread_places
from tuner.adapters.queues.forms.redis_parts import members_of

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline

_KEPT_MS = 86_400_000  #: arq's default ``expires_extra_ms``
_KEYS = ("job", "retry", "in-progress", "result")  #: prefixes of the keys that arq stores for each job id


class Arq:
    """Format of arq: a job stays in the set until it is done, so started jobs look like waiting ones."""

    name = "arq"
    default_queue = "arq:queue"
    counts: Literal["started", "finished"] = "finished"
    separates_taken_items = False

    def keys(self, queue: str) -> list[str]:
        """Return the key, which is the queue's name."""
        return [queue]

    def is_there(self, client: Redis, queue: str) -> bool:
        """Return whether a job waits."""
        return client.type(queue) == b"zset"

    def sample(self, client: Redis, queue: str, n_most: int) -> list[Message]:
        """Return messages from the waiting and started jobs."""
        with client.pipeline(transaction=False) as pipe:
            for place in spread_places(int(client.zcard(queue)), n_most):
                pipe.zrange(queue, place, place)
            ids = [found[0] for found in pipe.execute() if found]
        jobs: list[Any] = client.mget([b"arq:job:" + job_id for job_id in ids]) if ids else []
        return [{BODY: job} for job in jobs if job is not None]

    def cut(self, message: Message, queue: str) -> Cut:  # noqa: ARG002  # required by the protocol
        """Return the template; the only id of a job is its name in the set."""
        return Cut({BODY: (message[BODY],)})

    def push(self, pipe: Pipeline, queue: str, clones: Sequence[Clone]) -> None:
        """Add commands that enqueue the clones as ``enqueue_job`` does, due now."""
        for new_id, parts in clones:
            pipe.psetex(b"arq:job:" + new_id, _KEPT_MS, parts[BODY])
        now_ms = int(time.time() * 1000)
        pipe.zadd(queue, {new_id: now_ms for new_id, _ in clones})

    def look(self, pipe: Pipeline, queue: str) -> None:
        """Add the command that reads the length of the set."""
        pipe.zcard(queue)

    def left(self, answers: Sequence[Any], tag: bytes) -> Left:  # noqa: ARG002  # required by the protocol
        """Return the number of unfinished jobs as waiting."""
        return Left(answers[0], 0)

    def purge(self, client: Redis, queue: str, tag: bytes) -> None:
        """Remove the unfinished jobs of this study and all their keys."""
        for ids in members_of(client, queue, tag):
            with client.pipeline(transaction=True) as pipe:
                pipe.zrem(queue, *ids)
                pipe.unlink(*(f"arq:{kept}:".encode() + job_id for kept in _KEYS for job_id in ids))
                pipe.execute()
