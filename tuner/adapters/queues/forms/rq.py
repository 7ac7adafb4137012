"""RQ jobs in Redis: a list of ids, a hash for each job, and registries of started and failed jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from tuner.adapters.queues.forms.message import Clone, Cut, Left, Message, UnclonableError, spread_places
from tuner.adapters.queues.forms.redis_parts import remove_members, scan_keys, sift_list

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline

_TIED = ("dependency_ids", "dependency_id", "group_id", "repeats_left")
#: fields of jobs that notify other programs, or start other jobs, at their end
_TELLING = ("webhooks", "rate_limit_key")
_REGISTRIES = ("wip", "finished", "failed", "scheduled", "deferred", "canceled")


class Rq:
    """Format of RQ: a job is counted when it ends; while it runs, it is in the registry of started jobs."""

    name = "rq"
    default_queue = "default"
    counts: Literal["started", "finished"] = "finished"
    separates_taken_items = True

    def keys(self, queue: str) -> list[str]:
        """Return the keys of the lists of waiting ids and of ids that a worker is about to start."""
        return [f"rq:queue:{queue}", f"rq:queue:{queue}:intermediate"]

    def is_there(self, client: Redis, queue: str) -> bool:
        """Return whether a job waits."""
        return bool(client.llen(f"rq:queue:{queue}"))

    def sample(self, client: Redis, queue: str, n_most: int) -> list[Message]:
        """Return waiting messages, without those that were taken meanwhile."""
        key = f"rq:queue:{queue}"
        with client.pipeline(transaction=False) as pipe:
            for place in spread_places(int(client.llen(key)), n_most):
                pipe.lindex(key, place)
            ids = [found for found in pipe.execute() if found is not None]
            for job_id in ids:
                pipe.hgetall(b"rq:job:" + job_id)
            jobs = pipe.execute() if ids else []
        return [{name.decode(): value for name, value in job.items()} for job in jobs if job]

    def cut(self, message: Message, queue: str) -> Cut:
        """Return the template; the only id of a job is the name of its hash."""
        if "data" not in message:
            raise UnclonableError("is no job")
        if any(message.get(name) for name in _TIED):
            raise UnclonableError("depends on other jobs, or is to be repeated")
        if any(message.get(name) for name in _TELLING):
            raise UnclonableError("notifies other programs when it is done (webhooks, rate limit)")
        data = {**message, "origin": queue.encode(), "status": b"queued"}
        return Cut({name: (value,) for name, value in data.items()})

    def push(self, pipe: Pipeline, queue: str, clones: Sequence[Clone]) -> None:
        """Add commands that enqueue the clones as ``enqueue`` does."""
        for new_id, parts in clones:
            fields: dict[Any, Any] = {**parts}
            pipe.hset(b"rq:job:" + new_id, mapping=fields)
        pipe.rpush(f"rq:queue:{queue}", *(new_id for new_id, _ in clones))

    def look(self, pipe: Pipeline, queue: str) -> None:
        """Add commands that read the length and the started jobs; for a moment a job is in both lists of
        these.
        """
        waiting, about_to_begin = self.keys(queue)
        pipe.llen(waiting)
        pipe.lrange(about_to_begin, 0, -1)
        pipe.zrange(f"rq:wip:{queue}", 0, -1)
        pipe.zcard(f"rq:failed:{queue}")

    def left(self, answers: Sequence[Any], tag: bytes) -> Left:  # noqa: ARG002  # required by the protocol
        """Return the counts; started jobs are named JOB:EXECUTION, in older versions JOB."""
        ready, about_to_begin, started, failed = answers
        in_hand = {*about_to_begin, *(one.partition(b":")[0] for one in started)}
        return Left(ready, len(in_hand), failed)

    def purge(self, client: Redis, queue: str, tag: bytes) -> None:
        """Remove this study's jobs, also finished and failed ones, which RQ would keep for a year."""
        for key in self.keys(queue):
            sift_list(client, key, tag)
        for registry in _REGISTRIES:
            remove_members(client, f"rq:{registry}:{queue}", tag)
        for keys in scan_keys(client, f"rq:*:{tag.decode()}*"):  # jobs, their results and executions
            client.unlink(*keys)
