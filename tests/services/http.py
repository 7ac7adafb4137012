"""What tests of HTTP servers share: an application, and clients that are asking when the stop comes."""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..ports import free_port
from .measured import (
    COUNTED,
    KILLED,
    WARMUP_S,
    WINDOW_S,
    check_counts,
    check_ideal,
    check_kills,
    check_stop,
    tell,
    tuner,
)

APP = """\
import asyncio
from item import WAIT_S, begin, finish, item


def app(environ, start_response):
    item()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\\n"]


async def asgi(scope, receive, send, sleep=asyncio.sleep):
    if scope["type"] != "http":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    begin()
    await sleep(WAIT_S)
    finish()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
    await send({"type": "http.response.body", "body": b"ok\\n"})


async def on_trio(scope, receive, send):
    import trio

    await asgi(scope, receive, send, trio.sleep)
"""
LONG_ITEM = {"ITEM_S": "3"}


def counts_are_the_truth(
    folder: Path, services_venv: Path, command: str, layouts: str, *settings: str, step_s: float = 0.0
) -> str:
    """A study of *command* (``{port}`` is filled in) counts what was finished; returns what tuner said.

    Event loops are given a number of *clients*: then so many requests are under way, in every layout.
    """
    (folder / "app.py").write_text(APP)
    said = tuner(
        folder,
        services_venv,
        *("grid", *COUNTED, "--window", f"{WINDOW_S}s", "--warmup", f"{WARMUP_S}s", "--layouts", layouts),
        *(word for setting in settings for word in ("--set", setting)),
        *("--study", "s.tuner.db", "--", *command.format(port=free_port()).split()),
    )
    tell(said)
    check_counts(folder, folder / "s.tuner.db", layouts.split(","), step_s)
    clients = [int(one.removeprefix("clients=")) for one in settings if one.startswith("clients=")]
    check_ideal(
        folder, folder / "s.tuner.db", lambda layout: clients[0] if clients else layout.total_threads, step_s
    )
    return said


def a_stop_answers_what_was_accepted(
    folder: Path,
    services_venv: Path,
    command: str,
    layout: str,
    n_clients: int,
    *,
    kind: str | None = None,
    port: int | None = None,
) -> None:
    """Requests of 3 s are in hand when the study ends: each that was begun is finished and answered."""
    (folder / "app.py").write_text(APP)
    port = port or free_port()
    (folder / "s.yaml").write_text(
        f"service:\n  kind: {kind or command.split()[0]}\n  command: {command.format(port=port)}\n"
        "  environment: {ITEM_S: '3'}\n"
        "  probe: {kind: command, command: [sh, -c, 'cat finished 2>/dev/null | wc -c'], timeout: 20s}\n"
        "  feeder: {kind: none}\n"
        f"study: {{strategy: all, layouts: [{layout}], window: 7s, warmup: 5s, repeats: 1, warm_cache: no,"
        " foreign_limit: 1000, memory_pressure_limit: 1, max_attempts: 1}\n"
    )
    with clients(port, n_clients) as answers:
        tuner(folder, services_venv, "grid", "s.yaml", "--study", "s.tuner.db")
    tell(str(dict(answers)))
    check_stop(folder, folder / "s.tuner.db")
    assert answers[200] == len((folder / "begun").read_bytes()) // 8, answers


def nobody_survives(folder: Path, services_venv: Path, command: str, layout: str, victim: str) -> None:
    """kill -9 of *victim* while the service answers."""
    (folder / "app.py").write_text(APP)
    arguments = ["grid", *KILLED, "--layouts", layout, "--study", "s.tuner.db"]
    command = command.format(port=free_port())
    check_kills(folder, services_venv, [*arguments, "--", *command.split()], victim)


@contextmanager
def clients(port: int, n: int) -> Iterator[Counter[object]]:
    """So many clients, each with a connection per request and the next one after each answer; what they got.

    What the server never accepted, or closed without having begun it, is no answer: it counts by its error.
    """
    got: Counter[object] = Counter()
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                connection.request("GET", "/")
                answer = connection.getresponse()
                answer.read()
            except ConnectionRefusedError:
                over.wait(0.05)
            except (OSError, http.client.HTTPException) as error:
                got[type(error).__name__] += 1
            else:
                got[answer.status] += 1
            finally:
                connection.close()

    threads = [threading.Thread(target=ask) for _ in range(n)]
    for thread in threads:
        thread.start()
    try:
        yield got
    finally:
        over.set()
        for thread in threads:
            thread.join()
