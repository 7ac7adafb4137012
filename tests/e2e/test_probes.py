"""tuner grid with workers that do not count by themselves: the counts are the truth."""

from __future__ import annotations

import os
import sqlite3
import struct
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tuner.adapters.sqlite.store import SqliteStore

from ..redis_server import RedisServer
from ..wording import wording
from .typed import Typed

pytestmark = pytest.mark.integration

#: sends one packet for each item, and keeps when it was finished; the file is the truth
_WORKER = """\
import os, signal, socket, struct, sys, threading, time

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
host, port = sys.argv[1].split(":")
assert os.environ["STATSD"] == f"statsd://{host}:{port}"
kept = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def work():
    statsd = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    while not stop.is_set():
        time.sleep(0.004)
        statsd.sendto(b"worker.items:1|c|#queue:a", (host, int(port)))
        os.write(kept, struct.pack("d", time.monotonic()))


threads = [threading.Thread(target=work) for _ in range(int(os.environ["TUNER_THREADS"]))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_what_a_service_tells_statsd_is_what_it_finished(typed: Typed) -> None:
    (typed.folder / "worker.py").write_text(_WORKER)
    (typed.folder / "s.yaml").write_text(
        f"service:\n  kind: script\n  name: teller\n  directory: {typed.folder}\n"
        f"  command: [{sys.executable}, worker.py, '{{TUNER_STATSD}}', finished]\n"
        "  environment: {STATSD: 'statsd://{TUNER_STATSD}'}\n"
        "  probe: {kind: statsd, name: worker.items}\n"
        "study: {strategy: all, layouts: [1x1, 2x3], window: 2s, warmup: 1s, repeats: 1, warm_cache: no,"
        " foreign_limit: 1000, memory_pressure_limit: 1}\n"
    )

    done = typed("grid", "s.yaml")

    assert done.returncode == 0, done.stderr
    assert "packets-lost" not in done.stderr
    finished_s = [moment for (moment,) in struct.iter_unpack("d", (typed.folder / "finished").read_bytes())]
    with SqliteStore.open(typed.folder / "teller.tuner.db", read_only=True) as store:
        windows = [store.window(one.launch_id, one.index, one.attempt) for one in store.windows()]
    for window in windows:
        begin, end = window.readings
        n_true = sum(begin.at_s < moment <= end.at_s for moment in finished_s)
        # an item in hand at an edge is told just before it is kept, or just after
        assert abs(window.n_done - n_true) <= window.layout.total_threads
        assert window.n_done > 10
    assert {str(window.layout) for window in windows} == {"1x1", "2x3"}


#: logs a line and adds a row for each item, and keeps when it was finished; the file is the truth
_KEEPER = """\
import os, signal, sqlite3, struct, sys, threading, time

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
kept = os.open("finished", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
jobs = sqlite3.connect("jobs.db", timeout=60, isolation_level=None)
while not stop.is_set():
    time.sleep(0.01)
    jobs.execute("insert into job values ('done')")
    print("job", os.getpid(), "done", flush=True)
    os.write(kept, struct.pack("d", time.monotonic()))
"""
_PROBES = {
    "log": "{kind: log, pattern: '^job [0-9]+ done$'}",
    "sql": "{kind: sql, url: sqlite:///jobs.db, query: select count(*) from job}",
}


def _keeper(folder: Path, service: str, study: str) -> None:
    """A config for it, and all that it needs."""
    (folder / "worker.py").write_text(_KEEPER)
    with closing(sqlite3.connect(folder / "jobs.db")) as jobs:
        jobs.execute("pragma journal_mode = wal")
        jobs.execute("create table job (state text)")
    (folder / "s.yaml").write_text(
        f"service:\n  kind: script\n  name: keeper\n  directory: {folder}\n"
        f"  command: [{sys.executable}, worker.py]\n  threads: no\n{service}"
        f"study: {{strategy: all, window: 4s, warmup: 1s, repeats: 1, warm_cache: no, {study},"
        " foreign_limit: 1000, memory_pressure_limit: 1}\n"
    )


@pytest.mark.parametrize("kind", list(_PROBES))
def test_what_a_service_logs_or_keeps_in_a_table_is_what_it_finished(kind: str, typed: Typed) -> None:
    _keeper(typed.folder, f"  probe: {_PROBES[kind]}\n", "layouts: [1x-, 3x-]")

    done = typed("grid", "s.yaml")

    assert done.returncode == 0, done.stderr
    finished_s = [moment for (moment,) in struct.iter_unpack("d", (typed.folder / "finished").read_bytes())]
    with SqliteStore.open(typed.folder / "keeper.tuner.db", read_only=True) as store:
        windows = [store.window(one.launch_id, one.index, one.attempt) for one in store.windows()]
    for window in windows:
        begin, end = window.readings
        # when exactly it was counted, only the contract's tests can know: a second is a long time for a look
        least, most = (
            sum(begin.at_s + late_s < moment <= end.at_s - late_s for moment in finished_s)
            for late_s in (1.0, -1.0)
        )
        assert 10 < least <= window.n_done <= most
    assert {str(window.layout) for window in windows} == {"1x-", "3x-"}


@pytest.mark.parametrize("agrees", [True, False])
def test_a_second_probe_is_held_against_the_first_one(agrees: bool, typed: Typed) -> None:
    second = _PROBES["log"] if agrees else "{kind: log, pattern: no such line}"
    # so far apart: a look that is late on a busy box does not matter here
    both = f"  probe: {_PROBES['sql']}\n  cross_check: {second}\n  cross_check_within: 49%\n"
    _keeper(typed.folder, both, "layouts: [2x-], max_attempts: 1")

    done = typed("grid", "s.yaml")

    with SqliteStore.open(typed.folder / "keeper.tuner.db", read_only=True) as store:
        (window,) = store.windows()
    assert [reason.slug for reason in window.void] == ([] if agrees else ["probes-disagree"])
    assert (done.returncode == 0) is agrees, done.stderr
    assert (wording("probes.cross-check-counted-nothing") in done.stderr) is not agrees


@pytest.mark.services
def test_a_study_of_celery_counts_what_its_nodes_did(
    tuner, services_venv: Path, redis_server: RedisServer
) -> None:
    tasks = Path(__file__).parents[1] / "integration" / "celery_tasks.py"
    (tuner.folder / "celery_tasks.py").write_text(tasks.read_text())
    broker = redis_server.url.replace("unix://", "redis+socket://")
    (tuner.folder / "feed.py").write_text(
        "from celery_tasks import app, work\n"
        "with app.producer_pool.acquire() as producer:\n"
        "    while True: work.apply_async(producer=producer)\n"
    )
    (tuner.folder / "s.yaml").write_text(
        f"service:\n  kind: script\n  name: tasks\n  directory: {tuner.folder}\n"
        "  command: [celery, -A, celery_tasks, worker, -P, threads, -c, '{threads}', -n, 'w{process}@%h',"
        " -l, info]\n"
        "  ready: {kind: log, pattern: ' ready\\.$', within: 120s}\n"
        f"  environment: {{PATH: '{services_venv}/bin:{os.environ['PATH']}', TASKS_BROKER: '{broker}',"
        " TRUTH: truth}\n"
        "  probe: {kind: celery, timeout: 20s}\n"
        f"  feeder: {{kind: command, command: [env, 'TASKS_BROKER={broker}', TRUTH=truth,"
        f" '{services_venv}/bin/python', feed.py]}}\n"
        "study: {strategy: all, layouts: [2x2], window: 3s, warmup: 1s, repeats: 1, warm_cache: no,"
        " foreign_limit: 1000, memory_pressure_limit: 1}\n"
    )

    done = tuner("grid", "s.yaml")

    assert done.returncode in (0, 3, 5), done.stderr  # a busy box may void its only window
    with SqliteStore.open(tuner.folder / "tasks.tuner.db", read_only=True) as store:
        windows = [store.window(one.launch_id, one.index, one.attempt) for one in store.windows()]
    assert windows
    n_counted = sum(window.n_done for window in windows)
    assert 10 < n_counted <= (tuner.folder / "truth").stat().st_size + 4 * len(windows)
