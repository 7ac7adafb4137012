"""Cost of one reading of a probe: CPU of this process and its children, for probes that need no server.

    python bench/readings.py [--readings 1000]

Each probe is read as in a study, so many times (a tenth of that if a reading is long or starts a program),
without a pause. Figures are means. A study reads once a second: 1 ms is 0.1 % of a core. A separate process
serves pages and sends packets of statsd. `bench/servers.py` measures the probes that need a server, and
`bench/probes.py` the cost for the service.
"""

from __future__ import annotations

import argparse
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tuner.adapters.clock import SystemClock
from tuner.adapters.probes.command import CommandProbe
from tuner.adapters.probes.log import LogProbe, logs_of_user
from tuner.adapters.probes.mmap_counter import CounterProbe
from tuner.adapters.probes.prometheus import Metric, PrometheusProbe
from tuner.adapters.probes.sql import SqliteDatabase, SqlProbe
from tuner.adapters.probes.statsd import ADDRESS_VARIABLE, StatsdProbe
from tuner.core.domain.layout import Layout
from tuner.ports import Probe
from tuner.probe.counter import DIRECTORY_VARIABLE, Slot, open_counter

CLOCK = SystemClock()
LINE = b"done " + b"x" * 89 + b"\n"
SERVER = """
import http.server, sys
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        page = b"items_total 7\\n" + b'other{a="b"} 1\\n' * ((int(self.path[1:]) - 14) // 15)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
print(server.server_port, flush=True)
server.serve_forever()
"""
SENDER = """
import socket, sys, time
host, port, per_s, lasts_s = sys.argv[1].split(":") + sys.argv[2:]
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
to.connect((host, int(port)))
sent, began_s = 0, time.monotonic()
while (past_s := time.monotonic() - began_s) < float(lasts_s):
    while sent < past_s * int(per_s):
        to.send(b"gunicorn.requests:1|c")
        sent += 1
    time.sleep(0.002)
print(sent)
"""


def warn(slug: str, text: str) -> None:
    print(f"{slug}: {text}", file=sys.stderr)


def measure(name: str, probe: Probe, n_readings: int, before: Callable[[], object] = lambda: None) -> None:
    with probe.counting(Layout(1, 64)) as counting:
        if DIRECTORY_VARIABLE in counting.environment:
            counting_threads(counting.environment[DIRECTORY_VARIABLE])
        counting.read()
        own_s = 0.0
        child = os.times()
        for _ in range(n_readings):
            before()  # what the service does meanwhile is not tuner's
            began_s = time.process_time()
            counting.read()
            own_s += time.process_time() - began_s
        after = os.times()
    child_s = after.children_user + after.children_system - child.children_user - child.children_system
    print(f"{name:48}{1e3 * own_s / n_readings:10.3f} ms{1e3 * child_s / n_readings:10.3f} ms")


def packets(per_s: int, lasts_s: float) -> None:
    """Measure the cost of packets that arrive, while a study reads once a second."""
    probe = StatsdProbe(CLOCK, "gunicorn.requests", None, warn)
    with probe.counting(Layout(1, 1)) as counting:
        address = counting.environment[ADDRESS_VARIABLE]
        began_s = time.process_time()
        command = [sys.executable, "-c", SENDER, address, str(per_s), str(lasts_s)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sender:
            while sender.poll() is None:
                time.sleep(1.0)
                counting.read()
            n_sent = int(sender.stdout.read()) if sender.stdout else 0
        seen = counting.read()
        took_s = time.process_time() - began_s
    what = f"statsd, a packet of {n_sent / lasts_s:.0f} a second"
    print(f"{what:48}{1e6 * took_s / seen.n_done_total:10.1f} us   {seen.n_lost_total} lost")


def counting_threads(directory: str) -> None:
    """Start 64 threads that have counted, each in its own slot."""
    kept: list[Slot] = []

    def count() -> None:
        kept.append(open_counter(directory).slot())
        kept[-1].done()

    threads = [threading.Thread(target=count) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    SLOTS.append(kept)


SLOTS: list[list[Slot]] = []  #: held, so that no slot is taken over


def logs(folder: Path, n_files: int) -> LogProbe:
    paths = [folder / f"{n_files}-{number}.log" for number in range(n_files)]
    for path in paths:
        path.write_bytes(LINE)
    return LogProbe(CLOCK, re.compile(b"^done"), None, lambda: logs_of_user(paths), warn)


def table(folder: Path, n_rows: int) -> SqlProbe:
    path = folder / f"{n_rows}.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE job (id INTEGER PRIMARY KEY, state TEXT)")
        connection.executemany("INSERT INTO job (state) VALUES (?)", [("done",)] * n_rows)
        connection.execute("CREATE INDEX by_state ON job (state)")
    query = "SELECT count(*) FROM job WHERE state = 'done'"
    return SqlProbe(CLOCK, lambda: SqliteDatabase(path, 30.0), query, None, warn)


@contextmanager
def pages() -> Iterator[str]:
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        try:
            yield f"http://127.0.0.1:{(server.stdout.readline() if server.stdout else '').strip()}"
        finally:
            server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description="What one reading of a probe costs.")
    parser.add_argument("--readings", type=int, default=1000)
    n = parser.parse_args().readings
    few = max(1, n // 10)
    print(f"{'one reading of':48}{'tuner':>13}{'children':>13}")
    with tempfile.TemporaryDirectory() as name, pages() as url:
        folder = Path(name)
        measure("mmap-counter, 64 threads in one process", CounterProbe(CLOCK, folder), n)
        measure("log, 8 files without a new line", logs(folder, 8), n)
        measure("log, 1000 new lines of 95 bytes", logs(folder, 1), n, lambda: add_lines(folder, 1000))
        measure("log, 10 000 new lines", logs(folder, 1), few, lambda: add_lines(folder, 10_000))
        measure("sql, SQLite, count(*) of 1000 rows", table(folder, 1000), n)
        measure("sql, SQLite, count(*) of 100 000 rows by an index", table(folder, 100_000), few)
        for size, times in ((1000, n), (72_000, n), (8_000_000, few)):
            page = PrometheusProbe(CLOCK, f"{url}/{size}", Metric("items_total"), None, 30.0, warn)
            measure(f"prometheus, page of {size / 1000:.0f} kB", page, times)
        (folder / "count").write_text("7\n", encoding="utf-8")
        words = {
            "cat of a file": ["cat", str(folder / "count")],
            "python3 -S": ["python3", "-Sc", "print(7)"],
        }
        for what, command in words.items():
            measure(f"command, {what}", CommandProbe(CLOCK, command, 30.0, None, warn), few)
    for per_s in (3000, 30_000):
        packets(per_s, 5.0)


def add_lines(folder: Path, n_lines: int) -> None:
    with (folder / "1-0.log").open("ab") as file:
        file.write(LINE * n_lines)


if __name__ == "__main__":
    main()
