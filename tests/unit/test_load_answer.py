from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.adapters.load.answer import Answer, GarbageError

PLAIN = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;why=not\r\nhello\r\n00a\r\n, my\r\nfrie\r\n0\r\nTrailer: yes\r\n\r\n"
)
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"

BARE = b"HTTP/1.1 200 OK\nContent-Length: 10\nServer: by hand\n\nhe\r\n\r\nllo!"
FOLDED = (
    b"HTTP/1.1 200 OK\r\nX: folded\r\n over: two\r\n\tlines\r\nTransfer-Encoding:\r\n Chunked\r\n\r\n"
    b'3 ; a="b"\r\nok\n\r\n000\r\nA: b\r\nC: d\r\n\r\n'
)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[low:high] for low, high in pairwise(edges) if low < high]


@given(
    st.sampled_from([PLAIN, CHUNKED, INTERIM + PLAIN, INTERIM + CHUNKED, BARE, FOLDED]),
    st.lists(st.integers(0, 500)),
)
def test_an_answer_is_whole_with_its_last_byte_however_it_arrives(wire: bytes, cuts: list[int]) -> None:
    answer = Answer()

    *before, last = [answer.feed(piece) for piece in pieces(wire, cuts)]

    assert last
    assert not any(before)
    assert (answer.status, answer.keeps_alive, answer.n_bytes) == (200, True, len(wire))


@pytest.mark.parametrize(
    ("head", "keeps_alive"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", True),
        (b"HTTP/1.1 200\r\nContent-Length: 0\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Close\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n", True),
        (b"HTTP/1.1 204 No Content\r\n", True),
        (b"HTTP/1.1 200 \r\nContent-Length: 0\r\n", True),
        (b"HTTP/1.2 200 OK\r\nContent-Length: 0\r\n", True),
        (b"HTTP/1.1 200 OK\r\ncontent-LENGTH:0\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length:\t0 \t\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0, 0\r\nContent-Length: 0\r\n", True),
        (b"HTTP/1.1 200 OK\r\nX: a\r\n b: c\r\nContent-Length:\r\n\t0\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\nConnection: Upgrade\r\n", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Upgrade , CLOSE\r\n", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: upgrade,\r\n close\r\n", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x-close-early\r\n", True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: x-keep-alive\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive, X\r\n", True),
        (b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n", True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n", True),
    ],
)
def test_a_connection_is_kept_as_the_answer_says(head: bytes, keeps_alive: bool) -> None:
    answer = Answer()

    assert answer.feed(head + b"\r\n")
    assert answer.keeps_alive is keeps_alive


def test_the_answer_to_a_head_has_no_body_whatever_its_length_says() -> None:
    answer = Answer(is_head=True)

    assert answer.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n")
    assert answer.keeps_alive


def test_chunks_of_an_old_server_are_read_and_its_connection_is_not_kept() -> None:
    answer = Answer()

    assert answer.feed(CHUNKED.replace(b"1.1 200 OK", b"1.0 200 OK\r\nConnection: keep-alive", 1))
    assert not answer.keeps_alive


def test_chunks_go_before_a_length() -> None:
    answer = Answer()

    assert answer.feed(CHUNKED.replace(b"OK", b"OK\r\nContent-Length: 3", 1))
    assert answer.keeps_alive


def test_an_answer_without_a_length_is_whole_when_its_connection_ends() -> None:
    answer = Answer()

    assert not answer.feed(b"HTTP/1.1 200 OK\r\n\r\nhello")
    assert answer.ended()
    assert not answer.keeps_alive


@pytest.mark.parametrize("wire", [PLAIN, CHUNKED])
def test_an_answer_that_is_cut_off_anywhere_is_not_whole(wire: bytes) -> None:
    for cut in range(1, len(wire)):
        answer = Answer()

        assert not answer.feed(wire[:cut])
        assert not answer.ended()


@pytest.mark.parametrize("wire", [PLAIN, CHUNKED])
def test_a_connection_with_more_than_was_requested_is_not_kept(wire: bytes) -> None:
    answer = Answer()

    assert answer.feed(wire + b"HTTP/1.1 200 OK\r\n")
    assert not answer.keeps_alive


@pytest.mark.parametrize(
    "wire",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfive\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: at once\r\n\r\n",
        b"http/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
    ],
)
def test_what_is_no_answer_is_garbage(wire: bytes) -> None:
    with pytest.raises(GarbageError):
        Answer().feed(wire)


@given(st.binary(min_size=1, max_size=200))
def test_no_bytes_do_more_than_be_garbage(body: bytes) -> None:
    answer = Answer()

    try:
        answer.feed(CHUNKED[:47] + body)
    except GarbageError:
        return
    assert answer.status == 200
