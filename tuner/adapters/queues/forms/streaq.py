"""streaq tasks in Redis: a stream of the ids of unfinished tasks, and a key with the data of each."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tuner.adapters.queues.forms.message import (
    BODY,
    Clone,
    Cut,
    Left,
    Message,
    UnclonableError,
    spread_places,
)
from tuner.adapters.queues.forms.redis_parts import read_inert, remove_members, scan_keys

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline

_AT_ONCE = 1000
_PREFIX = "streaq:"
_BEFORE_PRIORITY = ":queues:"
_USUAL_PRIORITY = "normal"
#: fields of a task that needs the result of another task or passes its own to one
_OF_OTHERS = ("A", "F", "T", "O")
#: returns the numbers of messages in the stream, of those in work, and of later retries (and cron jobs)
_LOOK = """
if redis.call('EXISTS', KEYS[1]) == 0 then return {0, 0, redis.call('ZCARD', KEYS[2])} end
local in_hand = 0
for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  for i = 1, #group, 2 do
    if group[i] == 'pending' then in_hand = in_hand + group[i + 1] end
  end
end
local later = redis.call('ZCARD', KEYS[2]) - redis.call('ZCARD', KEYS[3])
return {redis.call('XLEN', KEYS[1]), in_hand, math.max(0, later)}
"""


class Streaq:
    """Format of streaq: a task is counted when it succeeds or finally fails; until then, its id is in the
    stream.

    A queue's name stands for its tasks of the default priority; ``NAME:queues:PRIORITY`` selects another one.
    """

    name = "streaq"
    default_queue = "default"
    counts: Literal["started", "finished"] = "finished"
    separates_taken_items = True

    def keys(self, queue: str) -> list[str]:
        """Return the key of the stream."""
        name, priority = _parts(queue)
        return [f"{_PREFIX}{name}{_BEFORE_PRIORITY}{priority}"]

    def is_there(self, client: Redis, queue: str) -> bool:
        """Return whether the stream holds a task."""
        (stream,) = self.keys(queue)
        return client.type(stream) == b"stream" and client.xlen(stream) > 0

    def sample(self, client: Redis, queue: str, n_most: int) -> list[Message]:
        """Return messages in the stream, without those that ended meanwhile."""
        (stream,) = self.keys(queue)
        if client.type(stream) != b"stream":
            return []
        ids = [task_id for page in _pages(client, stream) for _, task_id in page]
        keys = [_key_prefix(queue, "data").encode() + ids[place] for place in spread_places(len(ids), n_most)]
        tasks: list[Any] = client.mget(keys) if keys else []
        return [{BODY: task} for task in tasks if task is not None]

    def cut(self, message: Message, queue: str) -> Cut:  # noqa: ARG002  # required by the protocol
        """Return the message unchanged as the template, signed or not: the id is only in its key."""
        body = message[BODY]
        task = _task_fields(body)
        if not isinstance(task.get("f"), str):
            raise UnclonableError("is no task of streaq's")
        if any(task.get(name) for name in _OF_OTHERS):
            raise UnclonableError("needs or starts other tasks (then, pipeline, fallback)")
        return Cut({BODY: (body,)})

    def push(self, pipe: Pipeline, queue: str, clones: Sequence[Clone]) -> None:
        """Add commands that enqueue the clones as ``enqueue`` does, due now."""
        (stream,) = self.keys(queue)
        data = _key_prefix(queue, "data").encode()
        pipe.mset({data + new_id: parts[BODY] for new_id, parts in clones})
        now_ms = int(time.time() * 1000)
        for new_id, _ in clones:
            pipe.xadd(stream, {"task_id": new_id, "enqueue_time": now_ms})

    def look(self, pipe: Pipeline, queue: str) -> None:
        """Add commands that count all tasks, started tasks, and those that wait for a retry."""
        (stream,) = self.keys(queue)
        pipe.eval(_LOOK, 3, stream, _delayed_key(queue), f"{_PREFIX}{_parts(queue)[0]}:cron:schedule")

    def left(self, answers: Sequence[Any], tag: bytes) -> Left:  # noqa: ARG002  # required by the protocol
        """Return the counts; started tasks stay in the stream."""
        n, in_hand, later = answers[0]
        return Left(max(0, n - in_hand), in_hand + later)

    def purge(self, client: Redis, queue: str, tag: bytes) -> None:
        """Remove this study's tasks and their keys: data, retry counts, results, locks of killed workers."""
        (stream,) = self.keys(queue)
        if client.type(stream) == b"stream":
            groups = [group["name"] for group in client.xinfo_groups(stream)]
            for page in _pages(client, stream):
                if ours := [entry_id for entry_id, task_id in page if task_id.startswith(tag)]:
                    for group in groups:
                        client.xack(stream, group, *ours)
                    client.xdel(stream, *ours)
        name, _ = _parts(queue)
        remove_members(client, _delayed_key(queue), tag)
        remove_members(client, f"{_PREFIX}{name}:index:results", tag)
        for ids in ("index:running", "aborted"):
            remove_members(client, f"{_PREFIX}{name}:{ids}", tag, sorted_set=False)
        for keys in scan_keys(client, f"{_key_prefix(queue, '*')}{tag.decode()}*"):
            client.unlink(*keys)
        for locks in scan_keys(client, f"{_key_prefix(queue, 'lock')}*"):
            task_ids: Any = client.mget(locks)
            held = zip(locks, task_ids, strict=True)
            if ours := [lock for lock, task_id in held if task_id is not None and task_id.startswith(tag)]:
                client.unlink(*ours)


def _parts(queue: str) -> tuple[str, str]:
    """Return the name and the priority of the queue."""
    if _BEFORE_PRIORITY not in queue:
        return queue, _USUAL_PRIORITY
    name, _, priority = queue.removeprefix(_PREFIX).partition(_BEFORE_PRIORITY)
    return name, priority


def _delayed_key(queue: str) -> str:
    name, priority = _parts(queue)
    return f"{_PREFIX}{name}{_BEFORE_PRIORITY}delayed:{priority}"


def _key_prefix(queue: str, what: str) -> str:
    """Return the prefix of the keys that contain *what* for each task id."""
    return f"{_PREFIX}{_parts(queue)[0]}:task:{what}:"


def _pages(client: Redis, stream: str) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield the entries of the stream, page by page: entry id and task id."""
    after = "-"
    while found := client.xrange(stream, min=after, count=_AT_ONCE):
        entries: Any = found
        yield [(entry_id, fields.get(b"task_id", b"")) for entry_id, fields in entries]
        after = f"({entries[-1][0].decode()}"


def _task_fields(body: bytes) -> dict[Any, Any]:
    """Return the fields of a task; if it is signed, 32 bytes follow them."""
    try:
        if body.startswith(b"{"):
            found, _ = json.JSONDecoder().raw_decode(body.decode("utf-8", "replace"))
        else:
            found = read_inert(body)
    except Exception as error:  # a damaged pickle may raise any exception
        raise UnclonableError("is neither a pickle nor JSON (another serializer, perhaps)") from error
    if not isinstance(found, dict):
        raise UnclonableError("is no task of streaq's")
    return found
