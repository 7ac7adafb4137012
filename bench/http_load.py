"""Capacity of the load generator and its CPU per request, compared with wrk on the same server.

    python bench/http_load.py [--rounds 7] [--seconds 3] [--connections 16]

The server is a small asyncio program in a separate process, which answers without reading the request.
Generators alternate, so that a disturbance of the host affects both; ratios are those of consecutive rounds.
tuner's generator is measured from its first answer, wrk from its start. The bench omits wrk if it is not
installed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tuner.adapters.load.order import Order, Request
from tuner.adapters.load.totals import read_totals

_SERVER = """\
import asyncio
ANSWER = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nContent-Length: 2\\r\\n\\r\\nok"
class Trivial(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        self.transport.write(ANSWER)
async def main():
    server = await asyncio.get_running_loop().create_server(Trivial, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""
Turn = Callable[[int], tuple[int, float, float]]  #: port -> requests, seconds, CPU seconds


@contextmanager
def server() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def cpu_s(pid: int) -> float:
    """The CPU that *pid* has used by now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_s_of_child(process: subprocess.Popen[str]) -> float:
    """Wait for *process*, and give the CPU that it used."""
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime


def ours(seconds: float, connections: int, rate_per_s: float | None = None) -> Turn:
    def turn(port: int) -> tuple[int, float, float]:
        request = Request("GET", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            Order("127.0.0.1", port, (request,), connections, rate_per_s=rate_per_s).write(folder / "order")
            command = [
                sys.executable,
                "-m",
                "tuner.adapters.load",
                str(folder / "order"),
                str(folder / "totals"),
            ]
            process = subprocess.Popen(command, text=True)
            while not (folder / "totals").exists() or read_totals(folder / "totals").n_done < 1:
                time.sleep(0.01)
            n_before, cpu_before_s = read_totals(folder / "totals").n_done, cpu_s(process.pid)
            began_s = time.monotonic()
            time.sleep(seconds)
            n_done, used_s = (
                read_totals(folder / "totals").n_done - n_before,
                cpu_s(process.pid) - cpu_before_s,
            )
            lasted_s = time.monotonic() - began_s
            process.send_signal(signal.SIGTERM)
            process.wait()
            return n_done, lasted_s, used_s

    return turn


def wrk(seconds: float, connections: int) -> Turn:
    def turn(port: int) -> tuple[int, float, float]:
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:.0f}s", f"http://127.0.0.1:{port}/"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        said = process.stdout.read()
        process.stdout.close()
        used_s = cpu_s_of_child(process)
        found = re.search(r"(\d+) requests in ([\d.]+)s", said)
        assert found is not None, said
        return int(found[1]), float(found[2]), used_s

    return turn


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=16)
    asked = parser.parse_args()
    turns = {
        "tuner, closed loop": ours(asked.seconds, asked.connections),
        "tuner, 500 requests/s": ours(asked.seconds, asked.connections, 500.0),
    }
    if shutil.which("wrk"):
        turns["wrk, closed loop"] = wrk(asked.seconds, asked.connections)
    else:
        print("wrk is not installed: nothing to compare with", file=sys.stderr)
    rates: dict[str, list[float]] = {name: [] for name in turns}
    costs: dict[str, list[float]] = {name: [] for name in turns}
    with server() as port:
        for number in range(asked.rounds):
            names = list(turns)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                n_done, lasted_s, used_s = turns[name](port)
                rates[name].append(n_done / lasted_s)
                costs[name].append(used_s / n_done * 1e6)
    print(f"{'':24}{'requests/s':>12}{'us CPU/request':>16}{'core':>8}")
    for name in turns:
        rate, cost = statistics.median(rates[name]), statistics.median(costs[name])
        print(f"{name:24}{rate:12.0f}{cost:16.1f}{rate * cost / 1e6:8.2f}")
    if "wrk, closed loop" in turns:
        for what, of in (("requests/s", rates), ("CPU/request", costs)):
            pairs = zip(of["tuner, closed loop"], of["wrk, closed loop"], strict=True)
            ratios = sorted(ours / theirs for ours, theirs in pairs)
            middle = statistics.median(ratios)
            print(f"tuner / wrk, {what}: {middle:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")


if __name__ == "__main__":
    main()
