"""Binary frames that carry the news of a launch process through a pipe and Dask to the coordinator.

A frame in the pipe is the host's time, a length and a payload of that many bytes. An empty payload is a sign
of life. Processes that forward frames do not decode them.
"""

from __future__ import annotations

import pickle
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from tuner.core.domain.fleet import News

_HEAD = struct.Struct(">dI")
LONGEST_BYTES = 1 << 30  #: limit for news; a larger length field is not from tuner


class Frame(NamedTuple):
    """News in transit."""

    at_wall_s: float  #: wall time by the clock of the host
    data: bytes  #: empty: a sign of life


def pack_news(news: News) -> bytes:
    """Return *news* as the payload of a frame; a window of ten minutes takes about 10 kB."""
    return zlib.compress(pickle.dumps(news), level=1)


def unpack_news(data: bytes) -> News:
    """Return the news of a payload. A sender can run any code here, as everywhere in Dask."""
    news: News = pickle.loads(zlib.decompress(data))
    return news


def frame_bytes(frame: Frame) -> bytes:
    """Return *frame* as bytes for a pipe."""
    return _HEAD.pack(frame.at_wall_s, len(frame.data)) + frame.data


class FrameReader:
    """Parser of frames from a pipe, in pieces of any size."""

    def __init__(self) -> None:
        self._heard = b""

    def feed(self, piece: bytes) -> Iterator[Frame]:
        """Take the next *piece* and yield the frames that are now complete.

        Raises:
            ValueError: the bytes are not frames.
        """
        self._heard += piece
        while len(self._heard) >= _HEAD.size:
            at_wall_s, length = _HEAD.unpack_from(self._heard)
            if length > LONGEST_BYTES:
                raise ValueError(f"a frame of {length} bytes")
            end = _HEAD.size + length
            if len(self._heard) < end:
                return
            data, self._heard = self._heard[_HEAD.size : end], self._heard[end:]
            yield Frame(at_wall_s, data)


class OrderEvent(NamedTuple):
    """One news item of an order; as a Dask event, it is a mapping."""

    order: str
    n: int  #: number of the event in its order: 0, 1, ...
    frame: Frame | None  #: None: the process of the launch has ended, and the host is free
    why: str | None = None  #: problem, if there was one; only in the last event

    def event(self) -> dict[str, Any]:
        """Return a mapping of values that every version of msgpack accepts."""
        at_wall_s, data = self.frame or (None, b"")
        return {"order": self.order, "n": self.n, "at_wall_s": at_wall_s, "data": data, "why": self.why}


def parse_event(event: Any) -> OrderEvent | None:
    """Return the parsed event; None if it is not one of tuner's."""
    try:
        at_wall_s = event["at_wall_s"]
        frame = None if at_wall_s is None else Frame(float(at_wall_s), bytes(event["data"]))
        return OrderEvent(str(event["order"]), int(event["n"]), frame, event["why"])
    except (TypeError, KeyError, ValueError):
        return None
