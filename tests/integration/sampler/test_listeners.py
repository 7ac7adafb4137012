"""Servers that a config names by an address are found by who listens there; their CPU is a backend's."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.proc.listeners import Listeners
from tuner.adapters.proc.procfs import ProcSampler
from tuner.bootstrap.configs import settings_of
from tuner.bootstrap.parts.services import backend_finder
from tuner.core.domain.service import ServiceSpec
from tuner.core.text.address import BackendAddress, backend_addresses

from ...wording import wording

pytestmark = pytest.mark.integration
#: listens at a port of its own or at a path, says where, and computes from its first word on
SERVER = """
import socket, sys
path = sys.argv[1:]
if path:
    server = socket.socket(socket.AF_UNIX)
    server.bind(path[0])
    server.listen()
else:
    server = socket.create_server(("127.0.0.1", 0))
print(0 if path else server.getsockname()[1], flush=True)
if sys.stdin.readline():
    while True:
        pass
"""


@contextmanager
def server(*path: str, folder: Path | None = None) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that listens, and its port."""
    command = [sys.executable, "-S", "-E", "-c", SERVER, *path]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder)
    try:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def test_a_server_is_found_by_its_port_and_reported_of_once() -> None:
    reported: list[tuple[str, str]] = []
    with server() as (process, port), server():
        listeners = Listeners(
            backend_addresses([f"redis://localhost:{port}/0"]), lambda *say: reported.append(say)
        )

        assert listeners.pids() == listeners.pids() == {process.pid}

    assert listeners.pids() == frozenset()
    ((slug, text),) = reported
    assert slug == "backend-found"
    assert wording("launch.listens-at", pid=process.pid, port=port) in text


def test_a_server_is_found_by_its_unix_socket_whatever_it_calls_it(tmp_path: Path) -> None:
    with server("s", folder=tmp_path) as (process, _):
        listeners = Listeners([BackendAddress(path=str(tmp_path / "s"))], lambda *_: None)

        assert listeners.pids() == {process.pid}


def test_nobody_listens_where_nothing_is(tmp_path: Path) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        nowhere = [
            BackendAddress("127.0.0.1", bound.getsockname()[1]),
            BackendAddress(path=str(tmp_path / "none")),
            BackendAddress(path="/" + "x" * 200),
        ]
        assert Listeners(nowhere, lambda *_: None).pids() == frozenset()


def test_tuner_itself_is_no_backend() -> None:
    with socket.create_server(("127.0.0.1", 0)) as own:
        address = BackendAddress("127.0.0.1", own.getsockname()[1])

        assert Listeners([address], lambda *_: None).pids() == frozenset()


def test_what_a_found_server_computes_is_not_foreign(start: Callable[..., Any]) -> None:
    with server() as (process, port):
        found = Listeners([BackendAddress("127.0.0.1", port)], lambda *_: None).pids
        with ProcSampler(SystemClock(), found=found).watching(start(), frozenset()) as watch:
            before_s = watch.usage().backend_cpu_s_total
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            while (usage := watch.usage()).backend_cpu_s_total < before_s + 0.5:
                pass

    assert usage.service_cpu_s_total == 0


@pytest.mark.parametrize(
    ("backends", "expected"), [("", True), ("backends: []\n", False), ("backends: [other]\n", False)]
)
def test_the_users_own_names_go_before_what_is_found(tmp_path: Path, backends: str, expected: bool) -> None:
    with server() as (process, port):
        (tmp_path / "s.yaml").write_text(
            "service:\n  kind: script\n  name: jobs\n  command: [worker, --threads, '{threads}']\n"
            f"  environment: {{BROKER: 'redis://127.0.0.1:{port}/0'}}\n{backends}"
        )
        settings = settings_of(tmp_path / "s.yaml", {})
        assert settings.service.kind == "script"
        spec = ServiceSpec("jobs", settings.service.command, settings.service.environment)

        found = backend_finder(settings, spec, lambda *_: None)()

    assert found == ({process.pid} if expected else frozenset())
