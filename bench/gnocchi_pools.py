"""Gain of Gnocchi's parallel operations for eight metrics of one sack: a loop compared with pools.

    python bench/gnocchi_pools.py [--metrics 8] [--rounds 40] [--operations 1,4,8] [--beside 0]
                                  [--services .venv-services]

One process handles one measure of each metric with Gnocchi's own code: read the series, aggregate, write. The
number of parallel operations alternates. PostgreSQL contains the index, Redis the waiting measures, and files
the aggregates. Both servers are started by the bench and must be installed; `make services` installs Gnocchi.
With --beside N, N other processes compute meanwhile, as on a busy host.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles

from tabulate import tabulate

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
sys.path.insert(0, str(ROOT))  # the tests know how to start servers

WORKER = BENCH / "gnocchi_pools_worker.py"
LONG_S = 1800.0


def measured(options: argparse.Namespace, folder: Path) -> dict[int, list[tuple[float, float]]]:
    """Seconds, and CPU seconds of the process, of each time, by parallel operations."""
    from tests.postgres_server import running_postgres
    from tests.redis_server import running_redis
    from tests.services.test_gnocchi import Gnocchi

    with running_postgres() as postgres, running_redis() as redis:
        Gnocchi(folder, options.services, postgres, redis)
        with busy(options.beside):
            result = run(
                folder,
                *(str(options.services / "bin" / "python"), str(WORKER), str(options.metrics)),
                *(str(options.rounds), options.operations, "--config-file", "gnocchi.conf"),
            )
    found: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for line in result.splitlines():
        n, took_s, used_s = line.split()
        found[int(n)].append((float(took_s), float(used_s)))
    return found


@contextmanager
def busy(n: int) -> Iterator[None]:
    """So many processes that compute, for the block."""
    with ExitStack() as stack:
        for _ in range(n):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LONG_S)
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--metrics", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--operations", default="1,4,8")
    parser.add_argument("--beside", type=int, default=0)
    parser.add_argument("--services", type=Path, default=ROOT / ".venv-services")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gp-") as name:
        found = measured(options, Path(name))
    rows = []
    for n, times in sorted(found.items()):
        took, used = zip(*times, strict=True)
        low, _, high = quantiles(took, n=4)
        rows.append(
            [n, len(took), f"{1e3 * median(took):.0f} ms", f"{1e3 * low:.0f} to {1e3 * high:.0f} ms",
             f"{1e3 * median(used):.0f} ms"]
        )  # fmt: skip
    print(tabulate(rows, ["parallel operations", "times", "median", "quarters", "CPU of the process"]))


if __name__ == "__main__":
    main()
