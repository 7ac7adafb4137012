"""HTTP/1.1 response parser that works on partial input and does no I/O.

It follows RFC 9112 and accepts the deviations that the RFC tolerates: lines that end with LF alone (2.2),
folded headers (5.2), a blank before a colon (5.1). In chunked bodies, which programs generate, it accepts
none of these.
"""

from __future__ import annotations

import http.client
import re

_LARGEST_HEAD = 65_536  #: limit in bytes
_STATUS_LINE = re.compile(rb"HTTP/1\.(\d) ([1-9]\d\d)(?: [^\r\n]*)?")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?", re.DOTALL)
_LENGTH = re.compile(rb"\d{1,18}")
_WITHOUT_BODY = (204, 304)


class GarbageError(ValueError):
    """The bytes received are not an HTTP/1.x response."""


class Answer:
    """A response being parsed: call ``feed`` until it is complete."""

    __slots__ = (
        "_buffer",
        "_chunk_begun",
        "_in_chunks",
        "_is_head",
        "_left",
        "_trailing",
        "keeps_alive",
        "n_bytes",
        "status",
    )

    def __init__(self, *, is_head: bool = False) -> None:
        """Set up the parser; *is_head*: response to HEAD, which has no body regardless of its headers."""
        self.status = 0  #: HTTP status; 0: not known yet
        self.n_bytes = 0  #: bytes of the response so far
        self.keeps_alive = False  #: whether the connection can be used again after the response
        self._is_head = is_head
        self._buffer = b""  #: unfinished part of the head or of a chunk's first line
        self._in_chunks = False
        #: whether a chunk has begun, whose data must be followed by the end of a line
        self._chunk_begun = False
        self._trailing = False  #: whether the last chunk is over, so that trailers follow
        #: remaining bytes of the body or chunk; None: the body ends with the connection
        self._left: int | None = 0

    def feed(self, data: bytes) -> bool:
        """Parse *data*; return True once the response is complete.

        Raises:
            GarbageError: this is not a valid response.
        """
        self.n_bytes += len(data)
        if not self.status:
            data = self._head(data)
            if not self.status:
                return False
        if self._in_chunks:
            return self._chunks(data)
        if self._left is None:
            return False
        self._left -= len(data)
        if self._left < 0:
            self.keeps_alive = False  # further data was not requested, so the connection cannot be trusted
        return self._left <= 0

    def ended(self) -> bool:
        """Process the end of the connection; return whether it completes the response."""
        return bool(self.status) and not self._in_chunks and self._left is None

    def _head(self, data: bytes) -> bytes:
        """Parse the head once it is complete, and return the data after it; interim responses (1xx) are
        skipped.
        """
        data = self._buffer + data
        while True:
            head, found, rest = _head_and_rest(data)
            if not data.startswith(b"HTTP/1."[: len(data)]) or len(head) > _LARGEST_HEAD:
                raise GarbageError(f"not HTTP/1.x: {data[:40]!r}")
            if not found:
                self._buffer = data
                return b""
            status_line, *lines = _lines(head)
            match = _STATUS_LINE.fullmatch(status_line)
            if match is None:
                raise GarbageError(f"no status line: {status_line[:40]!r}")
            status = int(match[2])
            if status >= 200:
                break
            if status == 101:
                raise GarbageError("the server changed to another protocol")
            data = rest
        self._buffer = b""
        self._headers(lines, status, is_1_1=match[1] != b"0")
        self.status = status
        return rest

    def _headers(self, lines: list[bytes], status: int, *, is_1_1: bool) -> None:
        length: int | None = None
        connection = b""
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon:
                raise GarbageError(f"no header: {line[:40]!r}")
            match name.rstrip(b" \t").lower():
                case b"content-length":
                    for one in value.split(b","):  # the header may occur twice, or hold joined values
                        text = one.strip()
                        if _LENGTH.fullmatch(text) is None or length not in (None, int(text)):
                            raise GarbageError(f"no length: {line[:40]!r}")
                        length = int(text)
                case b"connection":
                    connection += b"," + value.lower()
                case b"transfer-encoding":
                    if value.strip().lower() != b"chunked" or self._in_chunks:
                        raise GarbageError(f"not asked for: {line[:40]!r}")
                    self._in_chunks = True
        wishes = [wish.strip() for wish in connection.split(b",")] if connection else ()
        is_wished = is_1_1 or (b"keep-alive" in wishes and not self._in_chunks)
        self.keeps_alive = is_wished and b"close" not in wishes
        if self._is_head or status in _WITHOUT_BODY:
            self._in_chunks, self._left = False, 0
        elif not self._in_chunks:
            self._left = length
            self.keeps_alive = self.keeps_alive and length is not None

    def _chunks(self, data: bytes) -> bool:
        while data:
            if self._left:
                taken = min(self._left, len(data))
                self._left -= taken
                data = data[taken:]
                continue
            line, found, data = (self._buffer + data).partition(b"\r\n")
            if not found:
                if len(line) > _LARGEST_HEAD:
                    raise GarbageError("a chunk's line does not end")
                self._buffer = line
                return False
            self._buffer = b""
            if self._chunk_begun:
                if line:
                    raise GarbageError(f"a chunk is longer than its size: {line[:40]!r}")
                self._chunk_begun = False
                continue
            if self._trailing:
                if not line:
                    self.keeps_alive = self.keeps_alive and not data
                    return True
                continue
            match = _CHUNK_SIZE.fullmatch(line)
            if match is None:
                raise GarbageError(f"no chunk: {line[:40]!r}")
            self._left = int(match[1], 16)
            self._trailing = not self._left
            self._chunk_begun = not self._trailing
        return False


def _head_and_rest(data: bytes) -> tuple[bytes, bool, bytes]:
    """Return the data before the first empty line, whether there is one, and the data after it."""
    crlf = data.find(b"\n\r\n")
    lf = data.find(b"\n\n", 0, len(data) if crlf < 0 else crlf + 1)
    if lf >= 0:
        return data[:lf], True, data[lf + 2 :]
    return (data, False, b"") if crlf < 0 else (data[:crlf], True, data[crlf + 3 :])


def _lines(head: bytes) -> list[bytes]:
    """Return the lines of *head*, each with its continuation lines, which begin with a blank or a tab."""
    lines = head.replace(b"\r\n", b"\n").removesuffix(b"\r").split(b"\n")
    if b"\n " not in head and b"\n\t" not in head:
        return lines
    whole = lines[:1]
    for line in lines[1:]:
        if not line.startswith((b" ", b"\t")):
            whole.append(line)
        elif len(whole) == 1:
            raise GarbageError(f"no header: {line[:40]!r}")
        else:
            whole[-1] += b" " + line.strip()
    return whole


# HTTP responses of http.client, without interim ones.


_MOST_INTERIM = 100  #: interim responses before a response; a server may send several


class FinalResponse(http.client.HTTPResponse):
    """Skips every interim response (1xx), as RFC 9110 requires of clients: http.client itself skips only 100.

    Use it as ``response_class`` of a connection. 101 is not skipped: the server changes the protocol after
    it.
    """

    def begin(self) -> None:
        """Read up to the end of the final response's headers."""
        super().begin()
        n_interim = 0
        while 100 <= self.status < 200 and self.status != http.client.SWITCHING_PROTOCOLS:
            n_interim += 1
            if n_interim > _MOST_INTERIM:
                raise http.client.HTTPException(f"more than {_MOST_INTERIM} interim answers")
            self.headers = None  # type: ignore[assignment]  # otherwise begin() assumes a second call
            super().begin()
