"""A small HTTP service in a thread of the test's own: it answers as told, and counts what it answered."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tuner.adapters.load.first_answer import close_at_once

Answering = Callable[["Service", asyncio.StreamWriter, int], Awaitable[bool]]
PATIENCE_S = 60.0


@dataclass
class Service:
    """What a test sees of it; *answering* gets a request's number, from 1, and says whether to go on."""

    answering: Answering
    port: int = 0
    n_requests: int = 0
    n_connections: int = 0
    seen: list[tuple[str, bytes]] = field(default_factory=list)  #: request line, body
    heads: list[str] = field(default_factory=list)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _serving: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self._serving[asyncio.get_running_loop().create_task(self._serve(reader, writer))] = writer

    async def end(self) -> None:
        """Close every connection, those that are just being accepted too."""
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others & self._serving.keys():  # others accept, and end by themselves
                task.cancel()
            await asyncio.wait(others)
        for writer in self._serving.values():  # a task that was cancelled before it began has not
            close_at_once(writer)
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.n_connections += 1
        try:
            goes_on = True
            while goes_on:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                lines = head.lower().split("\r\n")
                length = [int(line.partition(":")[2]) for line in lines if line.startswith("content-length:")]
                body = await reader.readexactly(length[0]) if length else b""
                self.n_requests += 1
                self.heads.append(head)
                self.seen.append((head.split("\r\n")[0], body))
                goes_on = await self.answering(self, writer, self.n_requests)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client left
        finally:
            writer.close()


@contextmanager
def running(
    answering: Answering, port: int = 0, path: Path | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[Service]:
    """The service answers within the block, and is gone afterwards."""
    service = Service(answering)
    ready, over = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        if path is not None:
            server = await asyncio.start_unix_server(service.accept, path, backlog=1024)
        else:
            server = await asyncio.start_server(service.accept, "127.0.0.1", port, backlog=1024, ssl=tls)
            service.port = server.sockets[0].getsockname()[1]
        ready.set()
        await over.wait()
        for (
            listening
        ) in server.sockets:  # a server that is closed while it accepts leaves the connection open
            loop.remove_reader(listening.fileno())
        await service.end()
        server.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        yield service
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(PATIENCE_S)
        loop.close()


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that nobody trusts, and its key."""
    certificate, key = folder / "c.pem", folder / "k.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-nodes",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
            ),
            *("-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


def tls_of(folder: Path) -> ssl.SSLContext:
    """What a server encrypts by, with a certificate that nobody trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*self_signed(folder))
    return context


def says(wire: bytes, *, then_closes: bool = False) -> Answering:
    """Every request gets *wire*."""

    async def answering(service: Service, writer: asyncio.StreamWriter, number: int) -> bool:
        writer.write(wire)
        return not then_closes

    return answering


def held_until(let: threading.Event) -> Answering:
    """The first request is answered at once, all others when *let* is set."""

    async def answering(service: Service, writer: asyncio.StreamWriter, number: int) -> bool:
        while number > 1 and not let.is_set():
            await asyncio.sleep(0.01)
        writer.write(answer())
        return True

    return answering


def answer(body: bytes = b"ok", status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body
