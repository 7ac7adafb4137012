"""Running totals of the load generator, in a memory-mapped file that other processes can read."""

from __future__ import annotations

import mmap
import os
import struct
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tuner.core.domain.requests import N_BUCKETS, ConnectionSpread, Latencies, bucket_of

#: kinds of failures: no connection; connection lost before the end of the answer; no answer in time; invalid
#: HTTP; status 400 to 499; status 500 and above; not sent, because too many requests were unanswered
KINDS = ("refused", "closed", "timeout", "garbage", "4xx", "5xx", "overdue")
_MAGIC = int.from_bytes(b"tunload4", "little")
_BYTES, _DONE, _FAILED = 1, 2, 3  #: positions in words of 8 bytes; the first word is the magic number
_UNANSWERED = _FAILED + len(KINDS)  #: failures by kind since the last successful request was sent
_REDIRECTED = _UNANSWERED + len(KINDS)  #: answers with a status of 300 to 399, except 304
_LAST_STATUS = _REDIRECTED + 1  #: last status of these, and of 400 to 499, and of 500 and above; 0: none
_LATENCIES = _LAST_STATUS + 3
#: ns counted, ns starved, ns waiting, number of workers; then ns of each worker
_SPREAD = _LATENCIES + N_BUCKETS
#: after the workers, one word for each client: the time at which its request was due, or 0
_HELD = _SPREAD + 4
_HEAD = struct.Struct(f"={_LATENCIES}Q")


def totals_file(scratch: Path) -> Path:
    """Return the totals file of the load generator of a study with this *scratch* folder."""
    return scratch / "load.totals"


class DamagedTotalsError(Exception):
    """The file contains no totals."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Results of all requests so far."""

    n_done: int  #: requests answered with a status below 400
    n_failed: Mapping[str, int]  #: failed requests by kind; kinds without a failure are left out
    #: failed requests after which no successful request was sent; usually they failed when the service
    #: stopped
    n_failed_since_done: Mapping[str, int]
    n_bytes: int  #: bytes of complete answers
    n_redirected: int  #: part of n_done answered by a redirect
    #: last status of each class that is no success: 3 (redirects), 4 and 5
    last_status: Mapping[int, int]
    latencies: Latencies  #: latencies of successful requests
    #: due times of the requests under way, in ns of ``time.monotonic_ns()``
    due_ns: tuple[int, ...] = ()
    #: spread of connections over the workers
    spread: ConnectionSpread = field(default_factory=ConnectionSpread)

    @property
    def n_failed_total(self) -> int:
        """Number of failures of every kind."""
        return sum(self.n_failed.values())

    def unfinished(self, now_ns: int) -> Latencies:
        """Return how long the requests under way have waited up to *now_ns*."""
        return Latencies(dict(sorted(Counter(bucket_of(now_ns - due) for due in self.due_ns).items())))


class TotalsWriter:
    """Counts into a new file; readers find each count at once."""

    def __init__(self, path: Path, n_clients: int = 0, n_workers: int = 0) -> None:
        """Create the file under its name only when it is complete, so that readers find all of it or none.

        *n_clients* may have a request under way at once; *n_workers* may hold their connections.
        """
        self._under_way = _HELD + n_workers
        n_bytes = 8 * (self._under_way + n_clients)
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.truncate(descriptor, n_bytes)
            self._mapped = mmap.mmap(descriptor, n_bytes)
        finally:
            os.close(descriptor)
        self._words = memoryview(self._mapped).cast("Q")
        self._words[0] = _MAGIC
        self._words[_SPREAD + 3] = n_workers
        os.replace(draft, path)
        self._unanswered: deque[tuple[int, int]] = deque()  #: time and kind of each failure

    def sent(self, client: int, due_ns: int) -> None:
        """Count a request that was due at *due_ns* as under way; clients are numbered from 0 on."""
        self._words[self._under_way + client] = due_ns

    def ended(self, client: int) -> None:
        """Record that the client has no request under way."""
        self._words[self._under_way + client] = 0

    def answered(self, status: int, n_bytes: int, due_ns: int, now_ns: int) -> None:
        """Count one complete answer, received at *now_ns*, to a request that was due at *due_ns*."""
        words = self._words
        words[_BYTES] += n_bytes
        if status >= 300 and status != 304:
            words[_LAST_STATUS + min(status // 100, 5) - 3] = status
        if status < 400:
            words[_REDIRECTED] += status >= 300 and status != 304
            words[_DONE] += 1
            words[_LATENCIES + bucket_of(now_ns - due_ns)] += 1
            while self._unanswered and self._unanswered[0][0] < due_ns:
                words[_UNANSWERED + self._unanswered.popleft()[1]] -= 1
        else:
            self.failed("4xx" if status < 500 else "5xx", now_ns)

    def spread(self, for_ns: int, held: Sequence[int], n_starved: int, n_waiting: int) -> None:
        """Record that for *for_ns* each worker *held* this many connections, and *n_waiting* were not
        accepted.
        """
        words = self._words
        words[_SPREAD] += for_ns
        words[_SPREAD + 1] += n_starved * for_ns
        words[_SPREAD + 2] += n_waiting * for_ns
        for place, n in zip(range(_HELD, self._under_way), held, strict=False):
            words[place] += n * for_ns

    def failed(self, kind: str, now_ns: int) -> None:
        """Count one failure of *kind*, detected at *now_ns*."""
        place = KINDS.index(kind)
        self._words[_FAILED + place] += 1
        self._words[_UNANSWERED + place] += 1
        self._unanswered.append((now_ns, place))

    def close(self) -> None:
        """Unmap the file, which stays."""
        self._words.release()
        self._mapped.close()


def read_counts(path: Path) -> tuple[int, int]:
    """Return the numbers of finished and of failed requests so far, at low cost.

    Raises:
        FileNotFoundError: the generator has not started.
        DamagedTotalsError: this is not a totals file.
    """
    with path.open("rb") as file:
        words = _unpack(path, file.read(_HEAD.size))
    return words[_DONE], sum(words[_FAILED:_UNANSWERED])


def read_totals(path: Path) -> Totals:
    """Return all totals so far; raises the same errors as ``read_counts``."""
    content = path.read_bytes()
    words = _unpack(path, content)
    if len(content) < 8 * _HELD or len(content) % 8:
        raise DamagedTotalsError(f"{path} ends too early")
    counts = memoryview(content).cast("Q")
    looked_ns, starved_ns, waiting_ns, n_workers = counts[_SPREAD:_HELD]
    under_way = _HELD + n_workers
    return Totals(
        n_done=words[_DONE],
        n_failed=_by_kind(words[_FAILED:_UNANSWERED]),
        n_failed_since_done=_by_kind(words[_UNANSWERED:_REDIRECTED]),
        n_bytes=words[_BYTES],
        n_redirected=words[_REDIRECTED],
        last_status={
            place: status for place, status in enumerate(words[_LAST_STATUS:_LATENCIES], start=3) if status
        },
        latencies=Latencies.of(counts[_LATENCIES:_SPREAD]),
        due_ns=tuple(due for due in counts[under_way:] if due),
        spread=ConnectionSpread(
            looked_ns / 1e9,
            starved_ns / 1e9,
            tuple(held_ns / 1e9 for held_ns in counts[_HELD:under_way]),
            waiting_ns / 1e9,
        ),
    )


def _unpack(path: Path, content: bytes) -> tuple[int, ...]:
    if len(content) < _HEAD.size:
        raise DamagedTotalsError(f"{path} ends too early")
    words = _HEAD.unpack_from(content)
    if words[0] != _MAGIC:
        raise DamagedTotalsError(f"{path} holds no totals of a load generator")
    return words


def _by_kind(counts: tuple[int, ...]) -> dict[str, int]:
    return {kind: n for kind, n in zip(KINDS, counts, strict=True) if n}
