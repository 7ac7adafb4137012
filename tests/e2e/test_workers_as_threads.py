"""granian whose workers are threads: a stand-in of its shape, by a Python that says that its GIL is off."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ..ports import free_port
from ..wording import wording
from .typed import Typed

pytestmark = pytest.mark.integration

#: answers tuner's question; all else is run by the real one
PYTHON = """\
#!/bin/sh
if [ "$1" = -c ]; then echo '["CPython", "3.14.2", false]'; else exec {real} "$@"; fi
"""
#: one process; each worker is a thread that answers one request after the other
GRANIAN = """\
#!{python}
import os, signal, socketserver, sys, threading, time
from http.server import BaseHTTPRequestHandler


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.005)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(socketserver.TCPServer):
    allow_reuse_address = True
    request_queue_size = 256


def work(n):
    print(f"[INFO] Started worker-{{n}}", flush=True)
    while True:
        server.handle_request()


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
server = Server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler)
for n in range(int(os.environ["GRANIAN_WORKERS"])):
    threading.Thread(target=work, args=(n + 1,), daemon=True).start()
signal.pause()
"""


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_workers_that_are_threads_are_measured_as_one_process(typed: Typed) -> None:
    python = program(typed.folder / "python3.14t", PYTHON.format(real=sys.executable))
    granian = program(typed.folder / "granian", GRANIAN.format(python=python))
    (typed.folder / "s.yaml").write_text(
        f"service: {{kind: granian, command: '{granian} --interface wsgi --port {free_port()} app:app',"
        " clients: 4}\n"
        "study: {strategy: all, layouts: [1x1, 1x2], window: 2s, warmup: 1s, repeats: 1, warm_cache: no,"
        " foreign_limit: 1000, memory_pressure_limit: 1}\n"
    )

    done = typed("grid", "s.yaml", "--json")

    assert done.returncode == 0, done.stderr
    assert "wrong-layout" not in done.stderr
    assert wording("services.workers-are-threads") in done.stderr
    ranked = json.loads(done.stdout)
    assert {(row["layout"], row["n_windows"]) for row in ranked["layouts"]} == {("1x1", 1), ("1x2", 1)}
    with closing(sqlite3.connect(typed.folder / "granian.tuner.db")) as connection:
        (config,) = connection.execute("SELECT config FROM study").fetchone()
    assert json.loads(config)["service"]["workers"] == "threads"
