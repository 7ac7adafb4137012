"""Functions shared by the message formats in Redis: scan lists, sets and hashes, and remove own entries.

Removal is safe for other clients: their entries are never removed or moved, and keep their order. The one
exception is an entry that another client adds at that moment to a list of many thousands.
"""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any

from tuner.adapters.queues.forms.message import BODY, Message, spread_places

if TYPE_CHECKING:
    from redis import Redis

_AT_ONCE = 1000
_WITHIN_S = 120.0  #: to look through one list, set or hash, or all keys, to its end
_SIFTED_AT_ONCE = 5000  #: about 5 ms, in which Redis does nothing else
#: takes so many from the left and puts those to keep back at the right: once round, and all is in order again
_SIFT = """
local removed = 0
for _ = 1, tonumber(ARGV[1]) do
  local one = redis.call('LPOP', KEYS[1])
  if not one then break end
  if {keep} then redis.call('RPUSH', KEYS[1], one) else removed = removed + 1 end
end
return removed
"""
_SIFT_TAG = _SIFT.format(keep="not string.find(one, ARGV[2], 1, true)")
_SIFT_IDS = _SIFT.format(keep="redis.call('HEXISTS', KEYS[2], one) == 1")


def sample_lists(client: Redis, keys: list[str], n_most: int) -> list[Message]:
    """Entries of lists as messages, evenly spread over all of them."""
    with client.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.llen(key)
        lengths = pipe.execute()
        places = spread_places(sum(lengths), n_most)
        for key, begin, n in zip(keys, accumulate(lengths, initial=0), lengths, strict=False):
            for place in places:
                if begin <= place < begin + n:
                    pipe.lindex(key, place - begin)
        found = pipe.execute() if places else []
    return [{BODY: body} for body in found if body is not None]  # None: taken meanwhile


def sift_list(client: Redis, key: str, tag: bytes) -> None:
    """Remove the entries that hold *tag*."""
    _sift(client, key, lambda n: client.eval(_SIFT_TAG, 1, key, n, tag))


def sift_ids(client: Redis, key: str, kept: str) -> None:
    """Remove the entries that are no field of the hash *kept*."""
    _sift(client, key, lambda n: client.eval(_SIFT_IDS, 2, key, kept, n))


def _sift(client: Redis, key: str, removed: Callable[[int], Any]) -> None:
    """Until none was *removed*: others may have added some, and left ours out of the rounds."""
    ends_s = time.monotonic() + _WITHIN_S
    n_removed = 1
    while n_removed:
        n_removed = 0
        for n in _rounds(int(client.llen(key))):
            n_removed += int(removed(n))
            _see_time(ends_s)


def _see_time(ends_s: float) -> None:
    """A server whose answers never come to an end is left."""
    from redis import TimeoutError as RedisTimeoutError

    if time.monotonic() > ends_s:
        raise RedisTimeoutError(f"looking through it took more than {_WITHIN_S:g} s")


def _rounds(n: int) -> Iterator[int]:
    while n > 0:
        yield min(n, _SIFTED_AT_ONCE)
        n -= _SIFTED_AT_ONCE


def members_of(client: Redis, key: str, tag: bytes, *, sorted_set: bool = True) -> Iterator[list[Any]]:
    """Members of a set that hold *tag*, many at a time."""
    found = _every(client.zscan if sorted_set else client.sscan, key)
    members = (one[0] for one in found) if sorted_set else found
    yield from _batches(one for one in members if tag in one)


def remove_members(client: Redis, key: str, tag: bytes, *, sorted_set: bool = True) -> None:
    """Remove the members of a set that hold *tag*."""
    remove: Callable[..., Any] = client.zrem if sorted_set else client.srem
    for members in members_of(client, key, tag, sorted_set=sorted_set):
        remove(key, *members)


def remove_fields(client: Redis, key: str, tag: bytes) -> None:
    """Remove the fields of a hash whose names hold *tag*."""
    fields = (name for name, _ in _entries(client, key) if tag in name)
    for names in _batches(fields):
        client.hdel(key, *names)


def remove_entries(client: Redis, key: str, tag: bytes) -> list[Any]:
    """Remove the fields of a hash whose values hold *tag*; gives their names."""
    removed: list[Any] = []
    fields = (name for name, value in _entries(client, key) if tag in value)
    for names in _batches(fields):
        client.hdel(key, *names)
        removed += names
    return removed


def scan_keys(client: Redis, pattern: str) -> Iterator[list[Any]]:
    """Keys that match, many at a time."""
    yield from _batches(_every(client.scan, match=pattern))


def _entries(client: Redis, key: str) -> Iterator[tuple[Any, Any]]:
    """Fields of a hash with their values."""
    yield from _every(lambda **page: _items(client.hscan(key, **page)))


def _items(page: Any) -> tuple[Any, Any]:
    cursor, fields = page
    return cursor, fields.items()


def _every(scan: Callable[..., Any], *where: Any, **which: Any) -> Iterator[Any]:
    """All that *scan* gives from page to page; its own iterator goes on as long as the server says so."""
    ends_s = time.monotonic() + _WITHIN_S
    cursor: Any = 0
    while True:
        cursor, page = scan(*where, cursor=cursor, count=_AT_ONCE, **which)
        yield from page
        if int(cursor) == 0:
            return
        _see_time(ends_s)


def _batches(found: Iterable[Any]) -> Iterator[list[Any]]:
    every = iter(found)
    while batch := list(islice(every, _AT_ONCE)):
        yield batch


# Pickles that are read without running anything of them: each class they name is a stand-in.


class Inert(tuple):  # type: ignore[type-arg]  # of anything
    """Stands for whatever class a pickle names: keeps its arguments, and runs nothing."""

    def __new__(cls, *parts: Any, **_: Any) -> Inert:
        """Keep *parts*."""
        return super().__new__(cls, parts)

    def __call__(self, *parts: Any, **_: Any) -> Inert:
        """It may stand for a function."""
        return Inert(*parts)

    def __setstate__(self, state: Any) -> None:
        """Forget it."""

    def append(self, _: Any) -> None:
        """Forget it."""

    def extend(self, _: Any) -> None:
        """Forget it."""

    def __setitem__(self, _: Any, __: Any) -> None:
        """Forget it."""


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:  # noqa: ARG002  # none is imported
        return Inert

    def persistent_load(self, _: Any) -> Any:
        return None


def read_inert(body: bytes) -> Any:
    """Return the pickle that *body* begins with; a damaged one raises any exception."""
    return _Reader(io.BytesIO(body)).load()
