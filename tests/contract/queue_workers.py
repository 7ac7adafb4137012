"""What workers of each library do to their queue in Redis, command by command, without the library."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis import Redis, ResponseError

MESSAGES = Path(__file__).parents[1] / "golden" / "messages"


@dataclass
class Worker:
    """Takes messages, and finishes what it took; *counted_as_taken*: these go through as they are taken."""

    client: Redis
    queue: str
    counted_as_taken = False
    taken: list[Any] = field(default_factory=list)

    def take(self) -> None:
        self.taken.append(self._take())

    def finish(self) -> None:
        self._finish(self.taken.pop())

    def _take(self) -> Any:
        raise NotImplementedError

    def _finish(self, one: Any) -> None:
        raise NotImplementedError


class CeleryWorker(Worker):
    def _take(self) -> Any:
        body = self.client.rpop(self.queue)
        tag = body.split(b'"delivery_tag":"')[1][:36]
        self.client.hset("unacked", tag, b'["%b", "", "celery"]' % body.replace(b'"', b"'"))
        self.client.zadd("unacked_index", {tag: 1.0})
        return tag

    def _finish(self, one: Any) -> None:
        self.client.zrem("unacked_index", one)
        self.client.hdel("unacked", one)


class DramatiqWorker(Worker):
    def _take(self) -> Any:
        key = f"dramatiq:{self.queue}"
        message_id = self.client.lpop(key)
        self.client.zadd("dramatiq:__heartbeats__", {"w": 1.0})
        self.client.sadd(f"dramatiq:__acks__.w.{self.queue}", message_id)
        return message_id

    def _finish(self, one: Any) -> None:
        self.client.srem(f"dramatiq:__acks__.w.{self.queue}", one)
        self.client.hdel(f"dramatiq:{self.queue}.msgs", one)


class RqWorker(Worker):
    def _take(self) -> Any:
        key = f"rq:queue:{self.queue}"
        job_id = self.client.lmove(key, f"{key}:intermediate")
        self.client.zadd(f"rq:wip:{self.queue}", {job_id + b":e1": 1.0})  # now it is in both
        return job_id

    def _finish(self, one: Any) -> None:
        self.client.lrem(f"rq:queue:{self.queue}:intermediate", 1, one)
        self.client.zadd(f"rq:finished:{self.queue}", {one: 1.0})
        self.client.zrem(f"rq:wip:{self.queue}", one + b":e1")


class ListWorker(Worker):
    counted_as_taken = True

    def _take(self) -> Any:
        return self.client.rpop(self.key)

    @property
    def key(self) -> str:
        return self.queue

    def _finish(self, one: Any) -> None:
        """Nobody is told."""


class HueyWorker(ListWorker):
    @property
    def key(self) -> str:
        return f"huey.redis.{self.queue}"


class ArqWorker(Worker):
    def _take(self) -> Any:
        (job_id,) = self.client.zrange(self.queue, len(self.taken), len(self.taken))
        self.client.psetex(b"arq:in-progress:" + job_id, 60_000, b"1")
        return job_id

    def _finish(self, one: Any) -> None:
        self.client.zrem(self.queue, one)
        self.client.delete(b"arq:job:" + one, b"arq:in-progress:" + one)


class SaqWorker(Worker):
    def _take(self) -> Any:
        return self.client.lmove(f"saq:{self.queue}:queued", f"saq:{self.queue}:active", "LEFT", "RIGHT")

    def _finish(self, one: Any) -> None:
        with self.client.pipeline(transaction=True) as pipe:
            pipe.lrem(f"saq:{self.queue}:active", 1, one)
            pipe.zrem(f"saq:{self.queue}:incomplete", one)
            pipe.set(one, b"{}", ex=600)  # its result
            pipe.execute()


class StreaqWorker(Worker):
    @property
    def stream(self) -> str:
        return f"streaq:{self.queue}:queues:normal"

    def _take(self) -> Any:
        with suppress(ResponseError):  # the group is there
            self.client.xgroup_create(self.stream, "workers", id="0", mkstream=True)
        ((_, ((entry_id, fields),)),) = self.client.xreadgroup("workers", "w", {self.stream: ">"}, count=1)
        self.client.incr(b"streaq:%b:task:retry:" % self.queue.encode() + fields[b"task_id"])
        self.client.sadd(f"streaq:{self.queue}:index:running", fields[b"task_id"])
        return entry_id, fields[b"task_id"]

    def _finish(self, one: Any) -> None:
        entry_id, task_id = one
        before = f"streaq:{self.queue}:task".encode()
        with self.client.pipeline(transaction=True) as pipe:
            pipe.xack(self.stream, "workers", entry_id)
            pipe.xdel(self.stream, entry_id)
            pipe.srem(f"streaq:{self.queue}:index:running", task_id)
            pipe.zadd(f"streaq:{self.queue}:index:results", {task_id: 1.0})
            pipe.set(before + b":results:" + task_id, b"{}", ex=300)
            pipe.delete(before + b":retry:" + task_id, before + b":data:" + task_id)
            pipe.execute()


class StreamWorker(Worker):
    def _take(self) -> Any:
        with suppress(ResponseError):  # the group is there
            self.client.xgroup_create(self.queue, "workers", id="0", mkstream=True)
        ((_, ((entry_id, _),)),) = self.client.xreadgroup("workers", "w", {self.queue: ">"}, count=1)
        return entry_id

    def _finish(self, one: Any) -> None:
        self.client.xack(self.queue, "workers", one)


WORKERS: dict[str, Callable[[Redis, str], Worker]] = {
    "celery": CeleryWorker,
    "dramatiq": DramatiqWorker,
    "rq": RqWorker,
    "huey": HueyWorker,
    "taskiq": ListWorker,
    "arq": ArqWorker,
    "saq": SaqWorker,
    "streaq": StreaqWorker,
    "list": ListWorker,
    "stream": StreamWorker,
}
