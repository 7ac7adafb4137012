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
_WITHIN_S = 120.0  #: time limit to search one list, set or hash, or all keys
_SIFTED_AT_ONCE = 5000  #: takes about 5 ms, in which Redis does nothing else
#: takes elements from the left and appends the ones to keep at the right; after one round their order is as
#: before
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
    """Return entries of lists as messages, evenly spread over all lists."""
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
    """Remove the entries that contain *tag*."""
    _sift(client, key, lambda n: client.eval(_SIFT_TAG, 1, key, n, tag))


def sift_ids(client: Redis, key: str, kept: str) -> None:
    """Remove the entries that are not fields of the hash *kept*."""
    _sift(client, key, lambda n: client.eval(_SIFT_IDS, 2, key, kept, n))


def _sift(client: Redis, key: str, removed: Callable[[int], Any]) -> None:
    """Repeat until a pass removes nothing: entries added by other clients may move ours out of a pass."""
    ends_s = time.monotonic() + _WITHIN_S
    n_removed = 1
    while n_removed:
        n_removed = 0
        for n in _rounds(int(client.llen(key))):
            n_removed += int(removed(n))
            _see_time(ends_s)


def _see_time(ends_s: float) -> None:
    """Raise a timeout if the server's answers do not end in time."""
    from redis import TimeoutError as RedisTimeoutError

    if time.monotonic() > ends_s:
        raise RedisTimeoutError(f"looking through it took more than {_WITHIN_S:g} s")


def _rounds(n: int) -> Iterator[int]:
    while n > 0:
        yield min(n, _SIFTED_AT_ONCE)
        n -= _SIFTED_AT_ONCE


def members_of(client: Redis, key: str, tag: bytes, *, sorted_set: bool = True) -> Iterator[list[Any]]:
    """Yield batches of the members of a set that contain *tag*."""
    found = _every(client.zscan if sorted_set else client.sscan, key)
    members = (one[0] for one in found) if sorted_set else found
    yield from _batches(one for one in members if tag in one)


def remove_members(client: Redis, key: str, tag: bytes, *, sorted_set: bool = True) -> None:
    """Remove the members of a set that contain *tag*."""
    remove: Callable[..., Any] = client.zrem if sorted_set else client.srem
    for members in members_of(client, key, tag, sorted_set=sorted_set):
        remove(key, *members)


def remove_fields(client: Redis, key: str, tag: bytes) -> None:
    """Remove the fields of a hash whose names contain *tag*."""
    fields = (name for name, _ in _entries(client, key) if tag in name)
    for names in _batches(fields):
        client.hdel(key, *names)


def remove_entries(client: Redis, key: str, tag: bytes) -> list[Any]:
    """Remove the fields of a hash whose values contain *tag*, and return their names."""
    removed: list[Any] = []
    fields = (name for name, value in _entries(client, key) if tag in value)
    for names in _batches(fields):
        client.hdel(key, *names)
        removed += names
    return removed


def scan_keys(client: Redis, pattern: str) -> Iterator[list[Any]]:
    """Yield batches of keys that match *pattern*."""
    yield from _batches(_every(client.scan, match=pattern))


def _entries(client: Redis, key: str) -> Iterator[tuple[Any, Any]]:
    """Yield fields of a hash with their values."""
    yield from _every(lambda **page: _items(client.hscan(key, **page)))


def _items(page: Any) -> tuple[Any, Any]:
    cursor, fields = page
    return cursor, fields.items()


def _every(scan: Callable[..., Any], *where: Any, **which: Any) -> Iterator[Any]:
    """Yield all results of *scan*, page by page; the client's own iterator has no time limit."""
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


# Parsing of pickles without running code from them: an inert class replaces each class they name.


class Inert(tuple):  # type: ignore[type-arg]  # of any type
    """Replacement for each class that a pickle names: it keeps its arguments and runs nothing."""

    def __new__(cls, *parts: Any, **_: Any) -> Inert:
        """Return a tuple of *parts*."""
        return super().__new__(cls, parts)

    def __call__(self, *parts: Any, **_: Any) -> Inert:
        """Return another inert object, because a pickle may call a function."""
        return Inert(*parts)

    def __setstate__(self, state: Any) -> None:
        """Ignore the state."""

    def append(self, _: Any) -> None:
        """Ignore the item."""

    def extend(self, _: Any) -> None:
        """Ignore the items."""

    def __setitem__(self, _: Any, __: Any) -> None:
        """Ignore the item."""


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:  # noqa: ARG002  # nothing is imported
        return Inert

    def persistent_load(self, _: Any) -> Any:
        return None


def read_inert(body: bytes) -> Any:
    """Return the pickle at the beginning of *body*; a damaged pickle may raise any exception."""
    return _Reader(io.BytesIO(body)).load()
