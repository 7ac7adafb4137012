"""tuner grid with workers that do not count by themselves: the counts are the truth."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest

from tuner.adapters.sqlite import SqliteStore

from ..redis_server import RedisServer

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


def test_what_a_service_tells_statsd_is_what_it_finished(tuner) -> None:
    (tuner.folder / "worker.py").write_text(_WORKER)
    (tuner.folder / "s.yaml").write_text(
        f"service:\n  kind: script\n  name: teller\n  directory: {tuner.folder}\n"
        f"  command: [{sys.executable}, worker.py, '{{TUNER_STATSD}}', finished]\n"
        "  environment: {STATSD: 'statsd://{TUNER_STATSD}'}\n"
        "  probe: {kind: statsd, name: worker.items}\n"
        "study: {strategy: all, layouts: [1x1, 2x3], window: 2s, warmup: 1s, repeats: 1, warm_cache: no,"
        " foreign_limit: 1000, memory_pressure_limit: 1}\n"
    )

    done = tuner("grid", "s.yaml")

    assert done.returncode == 0, done.stderr
    assert "packets-lost" not in done.stderr
    finished_s = [moment for (moment,) in struct.iter_unpack("d", (tuner.folder / "finished").read_bytes())]
    with SqliteStore.open(tuner.folder / "teller.tuner.db", read_only=True) as store:
        windows = [store.window(one.launch_id, one.index, one.attempt) for one in store.windows()]
    for window in windows:
        begin, end = window.readings
        n_true = sum(begin.at_s < moment <= end.at_s for moment in finished_s)
        # an item in hand at an edge is told just before it is kept, or just after
        assert abs(window.n_done - n_true) <= window.layout.total_threads
        assert window.n_done > 10
    assert {str(window.layout) for window in windows} == {"1x1", "2x3"}


@pytest.mark.long
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
