"""Which process holds which connection, by the kernel's tables, at TCP ports and at unix sockets."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tuner.adapters.load.workers import Workers, peer_of

pytestmark = pytest.mark.integration


@contextmanager
def listening(kind: str, folder: Path) -> Iterator[tuple[socket.socket, Workers]]:
    if kind == "unix":
        path = Path(os.environ["TMPDIR"], "w")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
            server.listen(8)
            try:
                yield server, Workers([])
            finally:
                path.unlink()
    else:
        family, host = (socket.AF_INET6, "::1") if kind == "tcp6" else (socket.AF_INET, "127.0.0.1")
        try:
            server = socket.create_server((host, 0), family=family)
        except OSError as error:
            pytest.skip(f"{kind}: {error}")
        with server:
            yield server, Workers([server.getsockname()[1]])


@pytest.mark.parametrize("kind", ["tcp", "tcp6", "unix"])
def test_accepted_connections_are_their_workers_and_a_child_that_does_not_listen_is_none(
    tmp_path: Path, kind: str
) -> None:
    with ExitStack() as stack:
        server, workers = stack.enter_context(listening(kind, tmp_path))
        other = subprocess.Popen(["sleep", "60"])  # as Python's resource tracker beside uvicorn's workers
        stack.callback(other.wait)
        stack.callback(other.kill)
        clients = []
        for _ in range(3):
            client = stack.enter_context(socket.socket(server.family))
            client.connect(server.getsockname())
            clients.append(client)
        stack.enter_context(server.accept()[0])
        stack.enter_context(server.accept()[0])
        pids = [os.getpid(), other.pid]

        held = workers.holders(pids, [peer_of(client) for client in clients])

        assert [held.get(peer_of(client), 0) for client in clients] == [os.getpid(), os.getpid(), 0]
        assert workers.accepting == (os.getpid(),)
        stack.enter_context(server.accept()[0])
        assert set(workers.holders(pids, [peer_of(client) for client in clients]).values()) == {os.getpid()}


def test_connections_that_another_process_took_are_not_known(tmp_path: Path) -> None:
    with listening("tcp", tmp_path) as (server, workers), socket.socket() as client:
        client.connect(server.getsockname())
        with server.accept()[0]:
            assert workers.holders([1], [peer_of(client)]) == {}
