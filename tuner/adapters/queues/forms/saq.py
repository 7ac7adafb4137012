"""SAQ jobs in Redis: a list of ids, a JSON text for each job, and a sorted set of all incomplete jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from tuner.adapters.queues.forms.message import (
    BODY,
    HOLE,
    STAMP,
    Clone,
    Cut,
    Left,
    Message,
    UnclonableError,
    cut_json,
    json_of,
    spread_places,
)
from tuner.adapters.queues.forms.redis_parts import remove_members, scan_keys, sift_list

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline

#: fields that a job has after its first attempt; a clone has none of them
_OF_ATTEMPTS = (
    *("attempts", "completed", "started", "touched", "progress", "result", "error", "worker_id"),
    "status",
)


class Saq:
    """Format of SAQ: a job is counted when it succeeds or finally fails; until then, it is in the set of
    incomplete jobs.
    """

    name = "saq"
    default_queue = "default"
    counts: Literal["started", "finished"] = "finished"
    separates_taken_items = True

    def keys(self, queue: str) -> list[str]:
        """Return the key of the list of waiting ids."""
        return [f"saq:{queue}:queued"]

    def is_there(self, client: Redis, queue: str) -> bool:
        """Return whether a job waits."""
        return client.type(f"saq:{queue}:queued") == b"list"

    def sample(self, client: Redis, queue: str, n_most: int) -> list[Message]:
        """Return waiting messages, without those that were taken meanwhile."""
        (key,) = self.keys(queue)
        with client.pipeline(transaction=False) as pipe:
            for place in spread_places(int(client.llen(key)), n_most):
                pipe.lindex(key, place)
            ids = [found for found in pipe.execute() if found is not None]
        jobs: list[Any] = client.mget(ids) if ids else []
        return [{BODY: job} for job in jobs if job is not None]

    def cut(self, message: Message, queue: str) -> Cut:
        """Return the template: its key is the id, and it is queued now in *queue* with no attempts."""
        document = json_of(message)
        if not isinstance(document.get("key"), str) or not isinstance(document.get("function"), str):
            raise UnclonableError("is no job of SAQ's")
        if document.get("scheduled"):
            raise UnclonableError("waits for its time (scheduled)")
        kept = {name: value for name, value in document.items() if name not in _OF_ATTEMPTS}
        return cut_json({**kept, "key": HOLE, "queue": queue, "queued": STAMP, "status": "queued"})

    def push(self, pipe: Pipeline, queue: str, clones: Sequence[Clone]) -> None:
        """Add commands that enqueue the clones as ``enqueue`` does, due now."""
        jobs = {f"saq:job:{queue}:".encode() + new_id: parts[BODY] for new_id, parts in clones}
        pipe.mset(jobs)
        pipe.zadd(f"saq:{queue}:incomplete", dict.fromkeys(jobs, 0))
        pipe.rpush(f"saq:{queue}:queued", *jobs)

    def look(self, pipe: Pipeline, queue: str) -> None:
        """Add commands that count waiting and incomplete jobs; incomplete ones include taken and retried
        jobs.
        """
        pipe.llen(f"saq:{queue}:queued")
        pipe.zcard(f"saq:{queue}:incomplete")

    def left(self, answers: Sequence[Any], tag: bytes) -> Left:  # noqa: ARG002  # required by the protocol
        """Return the counts; an incomplete job that does not wait has been taken."""
        ready, incomplete = answers
        return Left(ready, incomplete - ready)

    def purge(self, client: Redis, queue: str, tag: bytes) -> None:
        """Remove this study's jobs, also those of killed workers, and finished ones, which SAQ keeps ten
        minutes.
        """
        for key in (*self.keys(queue), f"saq:{queue}:active"):
            sift_list(client, key, tag)
        remove_members(client, f"saq:{queue}:incomplete", tag)
        for keys in scan_keys(client, f"saq:job:{queue}:{tag.decode()}*"):
            client.unlink(*keys)
