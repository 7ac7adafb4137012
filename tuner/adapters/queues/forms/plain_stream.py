"""Messages of a worker without a queue library, in a Redis stream that it reads with XREADGROUP.

A clone is identified by its stream id: the second number of the id begins with the mark of the study and
ends with eight zero bits. Ids that Redis assigns do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tuner.adapters.queues.forms.message import (
    BrokerError,
    Clone,
    Cut,
    Left,
    Message,
    UnclonableError,
    spread_places,
)

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline

_AT_ONCE = 1000
#: hexadecimal digits (40 bits) of the study's tag in an id; 16 bits number a push, and 8 bits are zero
_MARK_DIGITS = 10
_OTHERS = "streaq:"  #: prefix of the keys of streaQ, which stores its tasks elsewhere
#: ARGV: number of messages; for each message the end of its id, the number of its words, and the words
_PUSH = """
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
if redis.call('EXISTS', KEYS[1]) == 1 then
  local info = redis.call('XINFO', 'STREAM', KEYS[1])
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      ms = math.max(ms, tonumber(string.match(info[i + 1], '^%d+')) + 1)
    end
  end
end
local at = 2
for _ = 1, tonumber(ARGV[1]) do
  local n = tonumber(ARGV[at + 1])
  redis.call('XADD', KEYS[1], string.format('%.0f', ms) .. '-' .. ARGV[at], unpack(ARGV, at + 2, at + 1 + n))
  at = at + 2 + n
end
return 1
"""
#: returns the numbers of waiting messages, of taken messages, and of groups; without a group, all messages
#: wait
_LOOK = """
if redis.call('EXISTS', KEYS[1]) == 0 then return {0, 0, 0} end
local groups = redis.call('XINFO', 'GROUPS', KEYS[1])
local n = redis.call('XLEN', KEYS[1])
if #groups == 0 then return {n, 0, 0} end
local of = {}
for i = 1, #groups[1], 2 do of[groups[1][i]] = groups[1][i + 1] end
local ready = of['lag']
if not ready or ready > n then
  ready = #redis.call('XRANGE', KEYS[1], '(' .. of['last-delivered-id'], '+')
end
return {ready, of['pending'], #groups}
"""
#: Redis 7.0 counts deleted entries as waiting; if no message waits, set the group to the end of the stream
_SETTLE = """
local info = redis.call('XINFO', 'STREAM', KEYS[1])
local of = {}
for i = 1, #info, 2 do of[info[i]] = info[i + 1] end
if not of['entries-added'] then return 0 end
local groups = redis.call('XINFO', 'GROUPS', KEYS[1])
for _, group in ipairs(groups) do
  local one = {}
  for i = 1, #group, 2 do one[group[i]] = group[i + 1] end
  if #redis.call('XRANGE', KEYS[1], '(' .. one['last-delivered-id'], '+', 'COUNT', 1) == 0 then
    redis.call('XGROUP', 'SETID', KEYS[1], one['name'], of['last-generated-id'],
      'ENTRIESREAD', of['entries-added'])
  end
end
return 1
"""


class PlainStream:
    """Format of a plain stream: a message is counted when the worker acknowledges it (XACK), or when it is
    read by a worker that never does.
    """

    name = "stream"
    default_queue = ""  #: a plain stream has no default name
    counts: Literal["started", "finished"] = "finished"
    separates_taken_items = True

    def keys(self, queue: str) -> list[str]:
        """Return the key, which is the queue's name."""
        return [queue]

    def is_there(self, client: Redis, queue: str) -> bool:
        """Return whether a stream of that name holds any entry; a processed entry is good enough for a
        sample.
        """
        return bool(queue) and client.type(queue) == b"stream" and client.xlen(queue) > 0

    def sample(self, client: Redis, queue: str, n_most: int) -> list[Message]:
        """Return the newest messages, whether they wait or not."""
        if client.type(queue) != b"stream":
            return []
        found: Any = client.xrevrange(queue, count=max(n_most, _AT_ONCE))
        newest = found[::-1]
        return [
            {name.decode("utf-8", "replace"): value for name, value in newest[place][1].items()}
            for place in spread_places(len(newest), n_most)
        ]

    def cut(self, message: Message, queue: str) -> Cut:
        """Return the message unchanged as the template: its id is its position in the stream."""
        if queue.startswith(_OTHERS):
            raise UnclonableError("is of streaq, which keeps its tasks outside the stream (form: streaq)")
        if any("�" in name for name in message):
            raise UnclonableError("has a field whose name is no text")
        return Cut({name: (value,) for name, value in message.items()})

    def push(self, pipe: Pipeline, queue: str, clones: Sequence[Clone]) -> None:
        """Add the command that appends all clones in one millisecond, later than all earlier entries."""
        words: list[bytes | str | int] = [len(clones)]
        for number, (new_id, parts) in enumerate(clones):
            flat = [part for one in parts.items() for part in one]
            words += [_mark(new_id) << 24 | number << 8, len(flat), *flat]
        pipe.eval(_PUSH, 1, queue, *words)

    def look(self, pipe: Pipeline, queue: str) -> None:
        """Add the command that reads the counts of the only consumer group."""
        pipe.eval(_LOOK, 1, queue)

    def left(self, answers: Sequence[Any], tag: bytes) -> Left:  # noqa: ARG002  # required by the protocol
        """Return the counts; BrokerError if several groups read the stream, because tuner counts only one."""
        ready, in_hand, n_groups = answers[0]
        if n_groups > 1:
            raise BrokerError(f"{n_groups} groups of consumers read the stream, and tuner counts one")
        return Left(ready, in_hand)

    def purge(self, client: Redis, queue: str, tag: bytes) -> None:
        """Remove this study's messages: waiting, acknowledged, and taken ones."""
        if client.type(queue) != b"stream":
            return
        groups = [group["name"] for group in client.xinfo_groups(queue)]
        for ours in self._study_messages(client, queue, _mark(tag)):
            for group in groups:
                client.xack(queue, group, *ours)
            client.xdel(queue, *ours)
        client.eval(_SETTLE, 1, queue)

    def _study_messages(self, client: Redis, queue: str, mark: int) -> Iterator[list[bytes]]:
        """Yield the ids of this study's messages, page by page."""
        page = self._page(client, queue, "-")
        while page:
            if ours := [one for one, _ in page if _is_marked(one, mark)]:
                yield ours
            page = self._page(client, queue, f"({page[-1][0].decode()}")

    def _page(self, client: Redis, queue: str, after: str) -> Any:
        return client.xrange(queue, min=after, count=_AT_ONCE)


def _mark(new_id: bytes) -> int:
    """Return the study's number, from an id or from the tag at its beginning."""
    return int(new_id.replace(b"-", b"")[:_MARK_DIGITS], 16)


def _is_marked(entry_id: bytes, mark: int) -> bool:
    number = int(entry_id.partition(b"-")[2])
    return number >> 24 == mark and number & 0xFF == 0
