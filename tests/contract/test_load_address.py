"""Where the load generator sends its requests: the sockets of the service's processes say it, and TLS."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.adapters.feeders.http import HttpFeeder
from tuner.adapters.load.first_answer import close_at_once, tls_context
from tuner.adapters.load.order import Order, Request, write_workers
from tuner.adapters.load.totals import Totals, read_totals
from tuner.adapters.load.traffic import Traffic
from tuner.adapters.load.workers import Address, listening_at
from tuner.adapters.supervisord.service_clue import clue_of
from tuner.core.domain.layout import Layout
from tuner.core.text.http_request import parse_url

from ..ports import free_port
from ..wording import wording
from .http_service import PATIENCE_S, answer, running, says, tls_of
from .test_http_feeder import wait_for

pytestmark = pytest.mark.integration
OTHER = """\
import http.server, socketserver
class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *arguments):
        pass
with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answers) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
"""


def order(port: int, folder: Path, **more) -> Order:
    """Requests to *port*, for a service whose worker is this very process."""
    authority = f"127.0.0.1:{port}"
    request = Request("GET", f"GET / HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
    files = {name: str(folder / name) for name in ("workers_file", "problem_file", "found_file")}
    write_workers(folder / "workers_file", [os.getpid()])
    asked = Order("127.0.0.1", port, (request,), clients=4, n_requests=50, wait_s=PATIENCE_S)
    return replace(asked, authority=authority, **{**files, **more})


def run(asked: Order, folder: Path) -> tuple[int, str]:
    """How the generator ended, and what it said."""
    asked.write(folder / "order.json")
    done = subprocess.run(
        [sys.executable, "-m", "tuner.adapters.load", folder / "order.json", folder / "totals"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
    )
    return done.returncode, done.stdout


def sent(asked: Order, folder: Path) -> Totals:
    assert run(asked, folder) == (0, "")
    return read_totals(folder / "totals")


def test_requests_go_over_tls_whoever_signed_the_certificate(tmp_path: Path) -> None:
    with running(says(answer()), tls=tls_of(tmp_path)) as service:
        totals = sent(order(service.port, tmp_path, is_tls=True, checks_certificate=False), tmp_path)

    assert (totals.n_done, totals.n_failed, service.n_requests) == (50, {}, 50)
    assert service.n_connections == 1 + 4


def test_an_answer_that_ends_with_its_tls_connection_is_whole(tmp_path: Path) -> None:
    with running(says(b"HTTP/1.1 200 OK\r\n\r\nhello", then_closes=True), tls=tls_of(tmp_path)) as service:
        totals = sent(order(service.port, tmp_path, is_tls=True, checks_certificate=False), tmp_path)

    assert (totals.n_done, totals.n_failed, service.n_requests) == (50, {}, 50)


def test_a_tls_connection_that_was_closed_can_be_closed_again(tmp_path: Path) -> None:
    async def closed_again(port: int) -> bool:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=tls_context(checks_certificate=False)
        )
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await reader.read()
        writer.close()
        writer.close()  # from here on abort() fails in Python 3.11.2
        close_at_once(writer)
        return writer.is_closing()

    with running(says(answer(), then_closes=True), tls=tls_of(tmp_path)) as service:
        assert asyncio.run(closed_again(service.port))


def test_a_certificate_that_has_to_be_trusted_is_checked(tmp_path: Path) -> None:
    with running(says(answer()), tls=tls_of(tmp_path)) as service:
        code, said = run(order(service.port, tmp_path, is_tls=True, wait_s=0.5), tmp_path)

    assert code == 3
    assert wording("feeders.certificate-not-trusted", port=service.port) in said


def test_a_port_that_speaks_tls_is_named_where_requests_go_in_the_clear(tmp_path: Path) -> None:
    with running(says(answer()), tls=tls_of(tmp_path)) as service:
        code, said = run(order(service.port, tmp_path, wait_s=0.5), tmp_path)

    assert code == 3
    assert wording("feeders.speaks-tls", port=service.port) in said


def test_the_service_is_found_where_it_listens_and_gets_its_own_host(tmp_path: Path) -> None:
    with running(says(answer())) as service:
        totals = sent(order(free_port(), tmp_path, finds_address=True), tmp_path)

    assert (totals.n_done, totals.n_failed, service.n_requests) == (50, {}, 50)
    assert (tmp_path / "found_file").read_text() == service.url
    assert {head.split("\r\n")[1] for head in service.heads} == {f"Host: 127.0.0.1:{service.port}"}


def test_tls_is_found_by_a_handshake_where_the_command_says_nothing_of_it(tmp_path: Path) -> None:
    with running(says(answer()), tls=tls_of(tmp_path)) as service:
        asked = order(service.port, tmp_path, finds_address=True, checks_certificate=False)
        totals = sent(asked, tmp_path)

    assert (totals.n_done, totals.n_failed) == (50, {})
    assert (tmp_path / "found_file").read_text() == f"https://127.0.0.1:{service.port}"


def test_a_service_is_found_at_its_unix_socket(tmp_path: Path) -> None:
    path = Path(os.environ["TMPDIR"], "u")
    with running(says(answer()), path=path) as service:
        totals = sent(order(free_port(), tmp_path, finds_address=True), tmp_path)
        path.unlink()

    assert (totals.n_done, service.n_requests) == (50, 50)
    assert (tmp_path / "found_file").read_text().startswith("http+unix://%2F")


def test_a_stranger_at_the_port_gets_no_request(tmp_path: Path) -> None:
    with ExitStack() as stack:
        stranger = stack.enter_context(running(says(answer())))
        own = subprocess.Popen([sys.executable, "-c", OTHER], stdout=subprocess.PIPE, text=True)
        stack.callback(own.communicate)
        stack.callback(own.kill)
        assert own.stdout is not None
        port = int(own.stdout.readline())
        asked = order(stranger.port, tmp_path, finds_address=True)
        write_workers(tmp_path / "workers_file", [own.pid])

        totals = sent(asked, tmp_path)

    assert (totals.n_done, stranger.n_requests) == (50, 0)
    assert (tmp_path / "found_file").read_text() == f"http://127.0.0.1:{port}"


def test_an_address_that_the_user_wrote_stays_and_the_right_one_is_named(tmp_path: Path) -> None:
    port = free_port()
    with running(says(answer())) as service:
        code, said = run(order(port, tmp_path, wait_s=0.5), tmp_path)

    assert (code, service.n_requests) == (3, 0)
    assert wording("feeders.listens-elsewhere", port=service.port) in said


def test_the_feeder_tells_once_where_it_sends(tmp_path: Path) -> None:
    warnings: list[tuple[str, str]] = []
    with running(says(answer())) as service:
        port = free_port()
        traffic = Traffic(parse_url(f"http://127.0.0.1:{port}/"), clients=1, finds_address=True)
        feeder = HttpFeeder(
            traffic, [Layout(1, 1)], tmp_path / "totals", tmp_path, lambda *one: warnings.append(one)
        )
        feeder.prepare()
        for _ in range(2):
            with feeder.feeding(Layout(1, 1)):
                feeder.follow(lambda: frozenset({os.getpid()}))
                n_before = service.n_requests
                wait_for(lambda before=n_before: service.n_requests > before + 2)

    found = wording("feeders.address-found", url=service.url, asked=f"127.0.0.1:{port}")
    assert warnings == [("address-found", found)]


def test_that_a_certificate_is_not_checked_is_said_before_a_study(tmp_path: Path) -> None:
    warnings: list[tuple[str, str]] = []
    traffic = Traffic(parse_url("https://127.0.0.1:8443/"), clients=1)
    HttpFeeder(
        traffic, [Layout(1, 1)], tmp_path / "totals", tmp_path, lambda *one: warnings.append(one)
    ).prepare()

    assert warnings == [("certificate-unchecked", wording("feeders.certificate-unchecked"))]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_a_listening_socket_is_seen_with_its_address(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError as error:
        if ":" not in host or error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            raise
        pytest.skip(f"{host}: {error}")
    with server:
        port = server.getsockname()[1]
        (found,) = (one for one in listening_at([os.getpid()]) if one.port == port)

        assert found.is_anywhere == (host in ("0.0.0.0", "::"))
        assert found.host in ("127.0.0.1", "::1")
        assert found.answers_at(found.host, port)
        assert not found.answers_at(found.host, port + 1)


def test_a_socket_of_a_child_is_seen_and_one_that_only_connects_is_not(tmp_path: Path) -> None:
    script = (
        "import os, socket, sys; os.chdir(sys.argv[1]); s = socket.socket(socket.AF_UNIX); s.bind('rel');"
        " s.listen(); c = socket.socket(socket.AF_UNIX); c.connect('rel'); print('up', flush=True); input()"
    )
    command = f'{sys.executable} -c "$1" "$2"; true'
    with subprocess.Popen(
        ["sh", "-c", command, "sh", script, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == "up\n"
        found = listening_at([shell.pid])
        shell.communicate("\n")

    assert found == [Address(str(tmp_path / "rel"))]


def test_a_launch_that_nobody_counts_is_helped_by_what_it_runs_or_where_it_answers(tmp_path: Path) -> None:
    def known(command: Sequence[str]) -> str:
        return "gunicorn" if "gunicorn" in command else ""

    assert clue_of([["sh"], ["python", "gunicorn"]], [], known) == wording("feeders.clue-known")
    with running(says(answer())) as service:
        assert clue_of([["sh"]], [os.getpid()], known) == wording("feeders.clue-web", url=service.url)
    with running(says(answer()), tls=tls_of(tmp_path)) as service:
        url = f"https://127.0.0.1:{service.port}"
        assert clue_of([], [os.getpid()], known) == wording("feeders.clue-web", url=url)
    assert clue_of([["sh"]], [os.getpid()], known) == ""
