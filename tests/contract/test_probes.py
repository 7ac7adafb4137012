"""What every probe promises of one launch, whoever keeps the counts."""

from __future__ import annotations

import json
import re
import socket
import socketserver
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from redis import Redis

from tuner.adapters.clock import SystemClock
from tuner.adapters.probes.command import CommandProbe
from tuner.adapters.probes.log import LogProbe, logs_of_user
from tuner.adapters.probes.mmap_counter import CounterProbe
from tuner.adapters.probes.postgres_database import PostgresDatabase
from tuner.adapters.probes.prometheus import Metric, PrometheusProbe
from tuner.adapters.probes.queue import QueueProbe
from tuner.adapters.probes.redis import RedisProbe, Term
from tuner.adapters.probes.sql import SqliteDatabase, SqlProbe
from tuner.adapters.probes.statsd import ADDRESS_VARIABLE, StatsdProbe
from tuner.adapters.probes.uwsgi import UwsgiProbe
from tuner.adapters.queues.forms.message import BODY
from tuner.adapters.queues.queue import Claim
from tuner.adapters.queues.redis_queue import RedisQueue
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Reading
from tuner.ports import Counting, Probe
from tuner.probe.counter import DIRECTORY_VARIABLE, Slot, open_counter

from ..postgres_server import running_postgres
from ..redis_server import running_redis

pytestmark = pytest.mark.integration
PATIENCE_S = 30.0
CLOCK = SystemClock()


def no_warning(slug: str, text: str) -> None:
    pytest.fail(f"{slug}: {text}")


@dataclass
class Counted:
    """A probe, and the service that it looks at."""

    probe: Probe
    begin: Callable[[Counting], None]  #: the service starts
    finish: Callable[[int], None]  #: it finishes so many items


def counter(folder: Path, stack: ExitStack) -> Counted:
    slots: list[Slot] = []

    def finish(n: int) -> None:
        for _ in range(n):
            slots[0].done()

    def begin(counting: Counting) -> None:
        slots.append(open_counter(counting.environment[DIRECTORY_VARIABLE]).slot())

    return Counted(CounterProbe(CLOCK, folder), begin, finish)


def command(folder: Path, stack: ExitStack) -> Counted:
    count = Kept(folder / "count")
    probe = CommandProbe(CLOCK, ["cat", str(folder / "count")], 30.0, None, no_warning)
    return Counted(probe, lambda _: None, count.add)


class Kept:
    """A number in a file, always a whole one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._n = 0
        self.add(1000)

    def add(self, n: int) -> None:
        self._n += n
        new = self._path.with_suffix(".new")
        new.write_text(f"{self._n}\n")
        new.replace(self._path)


def statsd(folder: Path, stack: ExitStack) -> Counted:
    sender = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))

    def begin(counting: Counting) -> None:
        host, port = counting.environment[ADDRESS_VARIABLE].split(":")
        sender.connect((host, int(port)))

    def finish(n: int) -> None:
        sender.send(b"other:7|c\nitems:%d|c|#tag:a" % n)

    return Counted(StatsdProbe(CLOCK, "items", None, no_warning), begin, finish)


class Site(ThreadingHTTPServer):
    """Shows Prometheus how much was done by each of two workers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Page)
        self.done = [1000, 0]


class Page(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        lines = [f'items_total{{worker="{n}"}} {count}\n' for n, count in enumerate(self.server.done)]
        page = ("# TYPE items counter\n" + "".join(lines)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class StatsServer(socketserver.ThreadingTCPServer):
    """Tells what each of two workers did, as uWSGI does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Stats)
        self.done = [1000, 0]


class Stats(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, StatsServer)
        workers = [
            {"id": n + 1, "requests": count, "exceptions": 0} for n, count in enumerate(self.server.done)
        ]
        self.request.sendall(json.dumps({"version": "2.0", "workers": workers}).encode())


def serving(server: Site | StatsServer, stack: ExitStack) -> tuple[int, Callable[[int], None]]:
    """The port, and what makes both workers finish their shares."""
    stack.enter_context(server)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    stack.callback(thread.join)
    stack.callback(server.shutdown)

    def finish(n: int) -> None:
        server.done = [server.done[0] + n // 2, server.done[1] + n - n // 2]

    return server.server_address[1], finish


def prometheus(folder: Path, stack: ExitStack) -> Counted:
    port, finish = serving(Site(), stack)
    url = f"http://127.0.0.1:{port}/metrics"
    probe = PrometheusProbe(CLOCK, url, Metric("items_total"), None, 30.0, no_warning)
    return Counted(probe, lambda _: None, finish)


def uwsgi(folder: Path, stack: ExitStack) -> Counted:
    port, finish = serving(StatsServer(), stack)
    return Counted(UwsgiProbe(CLOCK, f"127.0.0.1:{port}", 30.0, no_warning), lambda _: None, finish)


def redis(folder: Path, stack: ExitStack) -> Counted:
    server = stack.enter_context(running_redis())
    client = stack.enter_context(Redis.from_url(server.url))
    client.hset("worker:1", "done", 1000)
    client.sadd("workers", "worker:1", "worker:2")
    terms = [Term("smembers_hget", "workers", "done")]
    probe = RedisProbe(CLOCK, server.url, terms, [], 30.0, no_warning)

    def finish(n: int) -> None:
        with client.pipeline(transaction=True) as both:
            both.hincrby("worker:1", "done", n // 2)
            both.hincrby("worker:2", "done", n - n // 2)
            both.execute()

    return Counted(probe, lambda _: None, finish)


def log(folder: Path, stack: ExitStack) -> Counted:
    path = folder / "app.log"
    path.write_bytes(b"done\n" * 1000)
    probe = LogProbe(CLOCK, re.compile(b"^done"), None, lambda: logs_of_user([path]), no_warning)

    def finish(n: int) -> None:
        with path.open("ab") as file:
            file.write(b"done\nunrelated\n" * n)

    return Counted(probe, lambda _: None, finish)


def sqlite(folder: Path, stack: ExitStack) -> Counted:
    path = folder / "jobs.db"
    connection = stack.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
    connection.execute("create table job (n int)")
    connection.execute("insert into job values (1000)")
    probe = SqlProbe(CLOCK, lambda: SqliteDatabase(path, 30.0), "select sum(n) from job", None, no_warning)
    return Counted(
        probe, lambda _: None, lambda n: void(connection.execute("insert into job values (?)", (n,)))
    )


def postgresql(folder: Path, stack: ExitStack) -> Counted:
    server = stack.enter_context(running_postgres())
    admin = stack.enter_context(server.connect())
    admin.execute("create table job (n int)")
    admin.execute("insert into job values (1000)")
    probe = SqlProbe(
        CLOCK, lambda: PostgresDatabase(server.url, 30.0), "select sum(n) from job", None, no_warning
    )
    return Counted(probe, lambda _: None, lambda n: void(admin.execute("insert into job values (%s)", (n,))))


def void(_: object) -> None:
    """Forget what was given back."""


def queue(folder: Path, stack: ExitStack) -> Counted:
    server = stack.enter_context(running_redis())
    client = stack.enter_context(Redis.from_url(server.url))
    claim = Claim("study", "study.tuner.db", "here")
    fed = stack.enter_context(closing(RedisQueue(server.url, "taskiq", "jobs", claim, 30.0)))
    fed.claim()
    fed.push([(b"%d" % n, {BODY: b"message"}) for n in range(1000)])
    probe = QueueProbe(CLOCK, server.url, "taskiq", "jobs", claim, 30.0, no_warning)
    return Counted(probe, lambda _: None, lambda n: None if client.rpop("jobs", n) else pytest.fail("empty"))


SERVICES: dict[str, Callable[[Path, ExitStack], Counted]] = {
    "mmap-counter": counter,
    "command": command,
    "statsd": statsd,
    "prometheus": prometheus,
    "uwsgi": uwsgi,
    "redis": redis,
    "log": log,
    "sqlite": sqlite,
    "postgresql": postgresql,
    "queue": queue,
}


@contextmanager
def launched(kind: str, folder: Path) -> Iterator[tuple[Counting, Counted]]:
    with ExitStack() as stack:
        counted = SERVICES[kind](folder, stack)
        counting = stack.enter_context(counted.probe.counting(Layout(2, 3)))
        counted.begin(counting)
        yield counting, counted


@pytest.fixture(params=list(SERVICES))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def read_until(counting: Counting, enough: Callable[[Reading], bool]) -> Reading:
    deadline_s = time.monotonic() + PATIENCE_S
    while not enough(reading := counting.read()):
        assert time.monotonic() < deadline_s, f"still {reading}"
    return reading


def fresh(counting: Counting) -> Reading:
    counting.read()  # the first one is 0, and of now, where the answer takes its time
    asked_s = CLOCK.monotonic_s()
    return read_until(counting, lambda reading: reading.at_s > asked_s)


def test_items_finished_between_two_readings_are_their_difference(kind: str, tmp_path: Path) -> None:
    with launched(kind, tmp_path) as (counting, service):
        service.finish(3)
        before = fresh(counting)
        service.finish(40)
        after = read_until(counting, lambda reading: reading.n_done_total >= before.n_done_total + 40)
        last = fresh(counting)

    assert after.n_done_total - before.n_done_total == 40
    assert (last.n_done_total, last.n_failed_total) == (after.n_done_total, 0)


def test_a_reading_carries_the_time_it_was_taken_at_and_none_goes_back(kind: str, tmp_path: Path) -> None:
    began_s = CLOCK.monotonic_s()
    with launched(kind, tmp_path) as (counting, service):
        readings = [fresh(counting) for _ in range(3)]
        service.finish(1)
        readings.append(fresh(counting))
    ended_s = CLOCK.monotonic_s()

    times_s = [reading.at_s for reading in readings]
    assert times_s == sorted(times_s)
    assert began_s < times_s[0]
    assert times_s[-1] < ended_s


def test_every_launch_begins_to_count_anew(kind: str, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with launched(kind, tmp_path / name) as (counting, service):
            fresh(counting)
            service.finish(2)
            seen = read_until(counting, lambda reading: reading.n_done_total >= 2)

        assert seen.n_done_total == 2


def test_no_thread_outlives_its_launch(kind: str, tmp_path: Path) -> None:
    before = threading.active_count()
    with launched(kind, tmp_path) as (counting, _):
        fresh(counting)

    assert threading.active_count() == before
