"""A histogram of latencies in a few bytes: for the study file.

zlib around a text of ``GAP:N`` words, shortest latency first: N requests in the bucket of
`tuner.core.domain.latency` that is GAP after the one before (the first: after 0). 60 000 latencies take 5 kB.
"""

from __future__ import annotations

import zlib
from itertools import accumulate, pairwise

from tuner.core.domain.latency import N_BUCKETS, Latencies
from tuner.core.text.counts import LARGEST_COUNT

_LONGEST_WORD_BYTES = 22  #: a bucket of 5 digits and a count of 16
_LARGEST_TEXT_BYTES = 1 << 20  #: every bucket with a count of 20 digits takes 800 kB


def pack_latencies(latencies: Latencies) -> bytes:
    """*latencies* as bytes."""
    gaps = (bucket - before for before, bucket in pairwise((0, *latencies.n_by_bucket)))
    words = (f"{gap}:{n}" for gap, n in zip(gaps, latencies.n_by_bucket.values(), strict=True))
    return zlib.compress(" ".join(words).encode("ascii"))


def unpack_latencies(content: bytes) -> Latencies:
    """What ``packed`` kept; ValueError where it cannot have."""
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(content, _LARGEST_TEXT_BYTES)
    except zlib.error as error:
        raise ValueError(f"no histogram: {error}") from error
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise ValueError("no histogram: it does not end")
    words = text.split()
    if max(map(len, words), default=0) > _LONGEST_WORD_BYTES:
        raise ValueError("no histogram: a number of too many digits")
    try:
        pairs = [(int(gap), int(n)) for gap, n in (word.split(b":") for word in words)]
    except ValueError as error:
        raise ValueError("no histogram: a word that is no GAP:N") from error
    counts = dict(zip(accumulate(gap for gap, _ in pairs), (n for _, n in pairs), strict=True))
    if counts and not (min(counts) >= 0 and max(counts) < N_BUCKETS and min(counts.values()) >= 0):
        raise ValueError("no histogram: a bucket or a count that cannot be")
    if sum(counts.values()) > LARGEST_COUNT:
        raise ValueError(f"no histogram: its counts are beyond {LARGEST_COUNT}")
    return Latencies(counts)
