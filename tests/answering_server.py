"""A server that answers every connection with the same bytes: too many of them, too few, or too slowly."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Address = str | tuple[str, int]
Send = Callable[[socket.socket], None]


@contextmanager
def server(send: Send, path: Path | None = None, *, http: bool = False) -> Iterator[Address]:
    """Answers every connection by *send*, and closes it."""
    with socket.socket(socket.AF_INET if path is None else socket.AF_UNIX) as listener:
        listener.bind(("127.0.0.1", 0) if path is None else str(path))
        listener.listen()
        address = listener.getsockname()

        def serve() -> None:
            while True:
                connection, _ = listener.accept()
                with connection:
                    if http and not connection.recv(65536):
                        return
                    try:
                        if stopped.is_set():
                            return
                        send(connection)
                    except (BrokenPipeError, ConnectionResetError):
                        continue  # the probe has had enough

        stopped = threading.Event()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield address
        finally:
            stopped.set()
            with socket.socket(listener.family) as last:
                last.connect(address)
            thread.join()
        if path is not None:
            path.unlink()


def sending(answer: bytes) -> Send:
    return lambda connection: connection.sendall(answer)


def endlessly(begin: bytes, part: bytes) -> Send:
    def send(connection: socket.socket) -> None:
        connection.sendall(begin)
        while True:
            connection.sendall(part)

    return send


def dripping(begin: bytes) -> Send:
    def send(connection: socket.socket) -> None:
        connection.sendall(begin)
        connection.settimeout(0.05)
        while True:
            connection.sendall(b" ")
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                continue

    return send


def page(text: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(text), text)
