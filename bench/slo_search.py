"""The highest rate that keeps a p95, as found by `rate: p95=300ms`, compared with queueing theory.

    python bench/slo_search.py [--searches 8] [--p95-ms 300] [--mean-ms 20]

The service answers one request at a time, in order of arrival, and sleeps for an exponential time in each.
With Poisson arrivals this is M/M/1, whose latency is exponential with the rate mu - lambda, so 95 % are
answered within T up to lambda = mu - ln(20) / T. The service measures mu from its sleeps, which end a little
late. Each search is a launch of an ordinary study, from the command line. A ratio of 1 is right. A search
takes two minutes, mostly asleep.
"""

from __future__ import annotations

import argparse
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_SERVER = """\
import asyncio, os, random, signal, sys, time
ANSWER = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nContent-Length: 2\\r\\n\\r\\nok"
port, mean_s, chance, seen = int(sys.argv[1]), float(sys.argv[2]), random.Random(), [0, 0.0]
async def main():
    turn, ended = asyncio.Lock(), asyncio.Event()
    async def serve(reader, writer):
        try:
            while await reader.readuntil(b"\\r\\n\\r\\n"):
                async with turn:
                    began_s = time.monotonic()
                    await asyncio.sleep(chance.expovariate(1 / mean_s))
                    seen[0], seen[1] = seen[0] + 1, seen[1] + time.monotonic() - began_s
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=1024)
    await ended.wait()
    with open("seen", "a") as file:
        file.write(f"{seen[0]} {seen[1]}\\n")
    os._exit(0)
asyncio.run(main())
"""
_STUDY = """\
service:
  kind: script
  name: one-at-a-time
  command: ['{python}', server.py, '{port}', '{mean_s}']
  directory: '{folder}'
  ready: {{kind: tcp, address: '127.0.0.1:{port}'}}
  probe: {{kind: generator}}
  feeder: {{kind: http, url: 'http://127.0.0.1:{port}/', clients: 4, rate: 'p95={p95_ms:g}ms'}}
study:
  {{strategy: all, layouts: [1x1], repeats: {searches}, window: 10s, warmup: 3s, warm_cache: no,
    foreign_limit: 64}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--searches", type=int, default=8)
    parser.add_argument("--p95-ms", type=float, default=300.0)
    parser.add_argument("--mean-ms", type=float, default=20.0, help="that a request takes when alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slo-") as name, socket.create_server(("127.0.0.1", 0)) as free:
        folder, port = Path(name), free.getsockname()[1]
        free.close()
        (folder / "server.py").write_text(_SERVER)
        text = _STUDY.format(
            python=sys.executable, folder=folder, port=port, mean_s=options.mean_ms / 1e3, **vars(options)
        )
        (folder / "study.yaml").write_text(text)
        tuner = (sys.executable, "-c", "from tuner.cli import main; main()")
        study = ("--study", str(folder / "s.tuner.db"))
        done = subprocess.run([*tuner, "grid", str(folder / "study.yaml"), *study], env={**os.environ})
        if done.returncode not in (0, 5):
            sys.exit("the study failed")
        rates = found_in(folder / "s.tuner.db")
        seen = [line.split() for line in (folder / "seen").read_text().splitlines()]
    served_s = math.fsum(float(lasted) for _, lasted in seen) / sum(int(n) for n, _ in seen)
    truth = 1 / served_s - math.log(20) / (options.p95_ms / 1e3)
    ratios = sorted(rate / truth for rate in rates)
    print(f"{1e3 * served_s:.1f} ms a request: p95 is {options.p95_ms:g} ms at {truth:.1f} requests/s")
    print(f"found: {', '.join(f'{rate:.1f}' for rate in rates)}")
    print(f"over the true one: median {statistics.median(ratios):.3f}, {ratios[0]:.3f} to {ratios[-1]:.3f}")


def found_in(study: Path) -> list[float]:
    """The rate of each window."""
    from tuner.bootstrap.stores import open_store

    with open_store(study, read_only=True) as store:
        requests = [window.requests for window in store.windows() if not window.void]
    return [one.rate_per_s for one in requests if one is not None and one.rate_per_s is not None]


if __name__ == "__main__":
    main()
