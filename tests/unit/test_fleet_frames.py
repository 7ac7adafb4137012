from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tuner.adapters.fleet.frames import (
    Frame,
    FrameReader,
    OrderEvent,
    frame_bytes,
    pack_news,
    parse_event,
    unpack_news,
)
from tuner.core.domain.fleet import Lost, WarmedUp
from tuner.core.domain.window import Sample

FRAMES = st.lists(st.builds(Frame, st.floats(0, 1e10, allow_nan=False), st.binary(max_size=200)), max_size=20)


@given(FRAMES, st.integers(1, 50))
def test_frames_come_out_as_they_went_in_however_the_pipe_cuts_them(frames: list[Frame], cut: int) -> None:
    reader = FrameReader()
    stream = b"".join(map(frame_bytes, frames))

    found = [frame for at in range(0, len(stream), cut) for frame in reader.feed(stream[at : at + cut])]

    assert found == frames


def test_half_a_frame_is_none() -> None:
    reader = FrameReader()

    assert list(reader.feed(frame_bytes(Frame(1.0, b"abc"))[:-1])) == []


def test_news_travel_as_they_are() -> None:
    samples = tuple(Sample(float(n), n, 0, 1.0, 1.0, 1.0, None) for n in range(600))

    assert unpack_news(pack_news(WarmedUp("one", samples))) == WarmedUp("one", samples)


def test_an_event_says_which_order_and_which_of_its_news_it_is() -> None:
    for result in (
        OrderEvent("one", 3, Frame(5.0, pack_news(Lost("one", "why")))),
        OrderEvent("one", 4, None, "why"),
    ):
        assert parse_event({**result.event(), "worker": "tcp://127.0.0.1:1"}) == result


def test_an_event_of_somebody_else_is_none_of_ours() -> None:
    assert parse_event({"action": "add-worker"}) is None
    assert parse_event("hello") is None
