"""A histogram of latencies in a few bytes: for the study file.

zlib around a text of ``GAP:N`` words, shortest latency first: N requests in the bucket of
`tuner.core.latency` that is GAP after the one before (the first: after 0). 60 000 latencies take 5 kB.
"""

from __future__ import annotations

import zlib
from itertools import accumulate, pairwise

from tuner.core.latency import Latencies


def packed(latencies: Latencies) -> bytes:
    """*latencies* as bytes."""
    gaps = (bucket - before for before, bucket in pairwise((0, *latencies.n_by_bucket)))
    words = (f"{gap}:{n}" for gap, n in zip(gaps, latencies.n_by_bucket.values(), strict=True))
    return zlib.compress(" ".join(words).encode("ascii"))


def unpacked(content: bytes) -> Latencies:
    """What ``packed`` kept."""
    words = [word.split(b":") for word in zlib.decompress(content).split()]
    buckets = accumulate(int(gap) for gap, _ in words)
    return Latencies({bucket: int(n) for bucket, (_, n) in zip(buckets, words, strict=True)})
