"""Measured latencies compared with known ones: p50, p95 and p99 of services that wait.

    python bench/latencies.py [--launches 3] [--window 20]

One service sleeps 20 ms for 90 of 100 requests, 100 ms for 7 and 300 ms for 3, in a fixed order. The other
service answers after 5 ms, but stops for one second in every ten. A request in that second waits for its end,
so at a steady rate 5 % of the requests take 0.5 s or longer, and 1 % take 0.9 s or longer. The load is a
rate, and then a closed loop, in which few requests arrive during the stop. Each case is a study from the
command line. A launch takes one window and some seconds, mostly asleep.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_SERVER = """\
import itertools, random, socket, sys, threading, time
ANSWER = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nContent-Length: 2\\r\\n\\r\\nok"
port, kind = int(sys.argv[1]), sys.argv[2]
waits_s = [0.02] * 90 + [0.1] * 7 + [0.3] * 3
random.Random(1).shuffle(waits_s)
turn = itertools.cycle(waits_s)
def wait_s():
    if kind == "mixed":
        return next(turn)
    past_s = time.monotonic() % 10
    return 0.005 if past_s > 1 else 1.005 - past_s
def serve(connection):
    try:
        while connection.recv(65536):
            time.sleep(wait_s())  # exact, unlike a timer of asyncio, which is up to 1 ms late
            connection.sendall(ANSWER)
    except ConnectionError:
        pass
    finally:
        connection.close()
with socket.create_server(("127.0.0.1", port), backlog=1024) as server:
    while True:
        threading.Thread(target=serve, args=server.accept()[:1], daemon=True).start()
"""
_STUDY = """\
service:
  kind: script
  name: waits
  command: ['{python}', server.py, '{port}', '{kind}']
  directory: '{folder}'
  ready: {{kind: tcp, address: '127.0.0.1:{port}'}}
  probe: {{kind: generator}}
  feeder: {{kind: http, url: 'http://127.0.0.1:{port}/', {asked}}}
study:
  {{strategy: all, layouts: [1x1], repeats: 1, window: {window_s:g}s, warmup: 3s, warm_cache: no,
    foreign_limit: 64}}
"""
#: what is asked, of which service, at which rate (None: a closed loop), and what p50, p95 and p99 must be
CASES: tuple[tuple[str, str, int | None, tuple[float, float, float] | None], ...] = (
    ("waits of 20, 100 and 300 ms, 50/s", "mixed", 50, (0.02, 0.1, 0.3)),
    ("held a second every ten, 50/s", "held", 50, (0.005, 0.505, 0.905)),
    ("the same in a closed loop of 48", "held", None, None),
)


def latency(kind: str, rate: int | None, window_s: float) -> dict[str, Any]:
    """Return the latencies of a study of one launch."""
    with tempfile.TemporaryDirectory(prefix="la-") as name, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        folder = Path(name)
        (folder / "server.py").write_text(_SERVER)
        (folder / "study.yaml").write_text(
            _STUDY.format(
                python=sys.executable,
                port=port,
                kind=kind,
                folder=folder,
                asked="clients: 48, connections: kept" if rate is None else f"rate: {rate}",
                window_s=window_s,
            )
        )
        tuner = [sys.executable, "-c", "from tuner.cli import main; main()"]
        done = subprocess.run(
            [*tuner, "grid", "study.yaml", "--json"],
            cwd=folder,
            env={**os.environ, "TUNER_LOCK": str(folder / "lock")},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 5):
            raise SystemExit(f"tuner grid failed: {done.stderr[-400:]}")
        data: dict[str, Any] = json.loads(done.stdout)["layouts"][0]["latency"]
        return data


def main() -> None:
    parser = argparse.ArgumentParser(description="Latencies as a study tells them beside known ones.")
    parser.add_argument("--launches", type=int, default=3)
    parser.add_argument("--window", type=float, default=20.0, help="seconds")
    options = parser.parse_args()
    print(f"{'':40}{'p50':>9}{'p95':>9}{'p99':>9} ms  requests")
    for what, kind, rate, known in CASES:
        if known is not None:
            print(f"{f'{what}: by arithmetic':40}" + "".join(f"{1e3 * one:9.1f}" for one in known))
        for _ in range(options.launches):
            result = latency(kind, rate, options.window)
            found = "".join(f"{1e3 * result[f'p{percent}_s']:9.1f}" for percent in (50, 95, 99))
            print(
                f"{f'  {what}' if known is None else '  as told':40}{found}   {result['n_requests']}",
                flush=True,
            )


if __name__ == "__main__":
    main()
