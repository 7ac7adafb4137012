"""Which process holds which connection, by the kernel's tables, at TCP ports and at unix sockets."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tuner.adapters.load.sock_diag import listening_inodes
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


def forbid_netlink(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the system refuse sockets for netlink, as some sandboxes do."""
    monkeypatch.setattr(socket, "AF_NETLINK", 999)


@pytest.mark.parametrize("kind", ["tcp", "tcp6", "unix", "tcp without netlink", "tcp6 without netlink"])
def test_accepted_connections_are_their_workers_and_a_child_that_does_not_listen_is_none(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind.endswith(" without netlink"):
        kind = kind.removesuffix(" without netlink")
        forbid_netlink(monkeypatch)
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


def test_a_connection_to_a_server_for_all_addresses_of_both_kinds_is_found() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6")
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0]:
            workers = Workers([port])
            assert workers.holders([os.getpid()], [peer_of(client)]) == {peer_of(client): os.getpid()}


@pytest.mark.parametrize("has_netlink", [True, False])
def test_many_connections_are_found_and_closed_ones_left_out(
    monkeypatch: pytest.MonkeyPatch, has_netlink: bool
) -> None:
    if not has_netlink:
        forbid_netlink(monkeypatch)
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=200))
        workers = Workers([server.getsockname()[1]])
        clients, accepted = [], []
        for _ in range(200):
            clients.append(stack.enter_context(socket.create_connection(server.getsockname())))
            accepted.append(stack.enter_context(server.accept()[0]))
        peers = [peer_of(client) for client in clients]
        assert workers.holders([os.getpid()], peers) == dict.fromkeys(peers, os.getpid())
        clients[7].close()
        accepted[7].close()
        assert peers[7] not in workers.holders([os.getpid()], peers)


def test_only_sockets_that_listen_at_the_ports_are_listening() -> None:
    with ExitStack() as stack:
        server, _ = (stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2))
        client = stack.enter_context(socket.create_connection(server.getsockname()))
        stack.enter_context(server.accept()[0])
        found = listening_inodes([server.getsockname()[1], client.getsockname()[1]])
        assert found == {str(os.fstat(server.fileno()).st_ino).encode()}
