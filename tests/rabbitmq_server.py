"""A RabbitMQ of the tests' own: one node and its epmd on free ports of 127.0.0.1, nothing kept."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from .ports import free_port

LONG_S = 120.0
ATTEMPTS = 3  # a port that was free may be taken before the node binds it
SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"  # Debian's; the wrapper in /usr/sbin changes user and folder
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
CONNECTION_START = b"\x00\x0a\x00\x0a"  # class 10, method 10: the server's first word, after 7 bytes of frame


class EndedAtStartError(Exception):
    """The server ended instead of answering; the message is the end of its output."""


@dataclass(frozen=True)
class RabbitServer:
    """A node that answers; user and password are "guest", the virtual host is "/"."""

    port: int
    management_url: str | None  #: where the management API answers; None without it
    metrics_url: str | None = None  #: of the page for Prometheus; None without it

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def answers(self) -> bool:
        """Whether an AMQP client would be heard, and the pages that are wanted are served."""
        pages = (self.management_url, self.metrics_url)
        return _speaks_amqp(self.port) and all(url is None or _serves(url) for url in pages)


@contextmanager
def running_rabbitmq(*, management: bool = False, metrics: bool = False) -> Iterator[RabbitServer]:
    """A server for one test; its start takes 6 s of CPU. Skips at home where none is installed,
    fails in CI."""
    if not Path(SERVER).exists():
        if os.environ.get("CI"):
            pytest.fail("rabbitmq-server is not installed, and CI must test with it")
        pytest.skip("rabbitmq-server is not installed")
    with ExitStack() as stack:
        for attempt in range(1, ATTEMPTS + 1):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rq-")))
            try:
                server = stack.enter_context(_running(folder, management=management, metrics=metrics))
            except EndedAtStartError as error:
                if attempt == ATTEMPTS or "eaddrinuse" not in str(error):
                    raise
            else:
                break
        yield server


@contextmanager
def _running(folder: Path, *, management: bool, metrics: bool) -> Iterator[RabbitServer]:
    port, management_port, metrics_port, node_port, epmd_port = (free_port() for _ in range(5))
    server = RabbitServer(
        port,
        f"http://127.0.0.1:{management_port}" if management else None,
        f"http://127.0.0.1:{metrics_port}/metrics" if metrics else None,
    )
    pages = {"management": (management, management_port), "prometheus": (metrics, metrics_port)}
    plugins = [f"rabbitmq_{name}" for name, (wanted, _) in pages.items() if wanted]
    (folder / "plugins").write_text(f"[{','.join(plugins)}].")
    (folder / "rabbitmq.conf").write_text(
        "".join(
            f"{name}.tcp.ip = 127.0.0.1\n{name}.tcp.port = {at}\n"
            for name, (wanted, at) in pages.items()
            if wanted
        )
    )
    (folder / "env.conf").touch()
    environment = {
        **os.environ,
        "HOME": str(folder),  # of the cookie
        "ERL_EPMD_PORT": str(epmd_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"tuner{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(node_port),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "env.conf"),  # instead of the box's own
    }
    # An epmd of ours, before the node looks for one: what Erlang starts by itself would stay for good.
    with (
        _process(["epmd"], folder, environment, lambda: _listens(epmd_port)),
        _process([SERVER], folder, environment, server.answers),
    ):
        yield server


@contextmanager
def _process(
    command: list[str], folder: Path, environment: dict[str, str], answers: Callable[[], bool]
) -> Iterator[None]:
    """*command*, from the moment it answers until the end of the block."""
    output = folder / "output"
    with output.open("ab") as file:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
    try:
        deadline_s = time.monotonic() + LONG_S
        while not answers():
            said = output.read_text(errors="replace")[-4000:]
            if process.poll() is not None:
                raise EndedAtStartError(f"{command} ended with {process.returncode}: {said}")
            assert time.monotonic() < deadline_s, f"{command} did not answer: {said}"
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=LONG_S).close()
    except OSError:
        return False
    return True


def _speaks_amqp(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=LONG_S) as connection:
            connection.sendall(PROTOCOL_HEADER)
            return connection.recv(64)[7:11] == CONNECTION_START
    except OSError:
        return False


def _serves(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=LONG_S):
            return True
    except OSError:
        return False
