"""What a packet of statsd counts, DogStatsD's additions included."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

#: value, "|c", then a sample rate and DogStatsD's tags, container and time, in any order
_COUNT = re.compile(rb"([0-9]{1,15}(?:\.[0-9]{1,15})?)\|c((?:\|[^|]*)*)")
_RATE = re.compile(rb"\|@(0?\.[0-9]{1,15}|[01](?:\.0*)?)(?:\||$)")


def parse_counts(packet: bytes, names: Collection[bytes]) -> Iterator[tuple[bytes, float]]:
    """The counts in *packet* of the metrics called *names*, a sampled one as what it stands for.

    Everything else is passed over: other metrics, other types, and lines that are no metric, with a negative
    count or a rate outside of (0, 1].
    """
    for line in packet.split(b"\n"):
        name, _, rest = line.partition(b":")
        if name not in names:
            continue
        match = _COUNT.fullmatch(rest.rstrip(b"\r"))
        if match is None:
            continue
        rate = 1.0
        if b"|@" in match[2]:
            sampled = _RATE.search(match[2])
            rate = float(sampled[1]) if sampled is not None else 0.0
        if 0.0 < rate <= 1.0:
            yield name, float(match[1]) / rate
