"""Servers close idle connections, but keep them with the settings of a launch that stays started."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tuner.bootstrap.configs import settings_of
from tuner.bootstrap.parts.own_sources import keeping_connections

from ..ports import free_port

pytestmark = [pytest.mark.integration, pytest.mark.services]
APP = """\
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\\n"]


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
    await send({"type": "http.response.body", "body": b"ok\\n"})
"""
LIMIT_S = 120.0  #: to wait for a state
COMMANDS = {
    "gunicorn": "gunicorn app:app --bind 127.0.0.1:{port}",
    "uvicorn": "uvicorn app:asgi --port {port}",
    "hypercorn": "hypercorn app:asgi --bind 127.0.0.1:{port}",
    "granian": "granian --interface asgi --port {port} app:asgi",
}


@contextmanager
def served(folder: Path, command: tuple[str, ...], environment: dict[str, str], port: int) -> Iterator[None]:
    with (
        (folder / f"{port}.log").open("w") as log,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            until_s = time.monotonic() + LIMIT_S
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except ConnectionRefusedError:
                    assert process.poll() is None, (folder / f"{port}.log").read_text()
                    assert time.monotonic() < until_s
                    time.sleep(0.05)
            yield
        finally:
            process.terminate()


def ask(connection: socket.socket) -> None:
    connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = b""
    while not answer.endswith(b"ok\n"):
        part = connection.recv(4096)
        assert part, "closed"
        answer += part


@pytest.mark.parametrize("kind", list(COMMANDS))
def test_a_resident_server_keeps_connections_that_it_would_close(
    kind: str, tmp_path: Path, services_venv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.py").write_text(APP)
    monkeypatch.setenv("PATH", f"{services_venv / 'bin'}:{os.environ['PATH']}")
    with ExitStack() as stack:
        connections = []
        for name in ("alone", "resident"):
            port = free_port()
            config = tmp_path / f"{name}.yaml"
            command = COMMANDS[kind].format(port=port)
            config.write_text(f"service: {{kind: {kind}, command: '{command}', probe: generator}}\n")
            settings = settings_of(config, {})
            service = (keeping_connections(settings) if name == "resident" else settings).service
            assert service.kind == "script"
            fields = {"processes": "1", "threads": "2", "layout": "1x2"}
            words = tuple(word.format(**fields) for word in service.command)
            variables = {key: value.format(**fields) for key, value in service.environment.items()}
            stack.enter_context(served(tmp_path, words, {**os.environ, **variables}, port))
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), LIMIT_S))
            ask(connection)
            connections.append(connection)
        alone, resident = connections
        assert alone.recv(1) == b""  # the server closes it
        ask(resident)
