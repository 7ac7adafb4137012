"""Counts of probes, compared with the recorded end time of each item.

    python bench/counts.py [CASE ...] [--services .venv-services] [--windows 6] [--window 10]

The cases are those of `probes.py`, and `rabbitmq-page`, the Prometheus page of RabbitMQ. Each item appends
its end time to a file, on the clock of the probe's readings. The bench needs `make services`, redis-server,
and rabbitmq-server for its cases.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

from probe_services import CASES, Case
from probes import ROOT, Place, broker_of, launched, why_not

from tuner.core.errors import TunerError
from tuner.ports import Counting

PAGE = "{{kind: prometheus, url: '{url}', metric: rabbitmq_global_messages_acknowledged_total}}"
NAMES = (*CASES, "rabbitmq-page")


def finished(folder: Path, after_s: float, until_s: float) -> int:
    """Items that were finished in (after, until], by their own word."""
    times = array("d", (folder / "finished").read_bytes())
    return sum(after_s < one <= until_s for one in times)


def windows(counting: Counting, folder: Path, n_windows: int, window_s: float) -> list[tuple[int, int]]:
    """Return the counted and the finished items, window by window."""
    found = []
    before = counting.read()
    for _ in range(n_windows):
        time.sleep(window_s)
        after = counting.read()
        counted = after.n_done_total - before.n_done_total
        found.append((counted, finished(folder, before.at_s, after.at_s)))
        before = after
    return found


@contextmanager
def case_of(name: str) -> Iterator[tuple[Case, str]]:
    """A case, and where its broker is."""
    if name != "rabbitmq-page":
        with broker_of(CASES[name]) as broker:
            yield CASES[name], broker
        return
    sys.path.insert(0, str(ROOT))
    from tests.rabbitmq_server import running_rabbitmq

    with running_rabbitmq(metrics=True) as server:
        page = PAGE.format(url=server.metrics_url)
        yield replace(CASES["rabbitmq-queue"], probe=page), server.url


def measure(name: str, options: argparse.Namespace) -> None:
    with case_of(name) as (case, broker), tempfile.TemporaryDirectory(prefix="pb-") as folder:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        place = Place(case, Path(folder), port, broker)
        place.write()
        if broker:
            place.record_sample(options.services / "bin" / "python")
        with launched(place, case.probe) as (counting, _):
            pairs = windows(counting, place.folder, options.windows, options.window)
    off = [abs(counted - done) / max(done, 1) for counted, done in pairs]
    print(f"{name}, {case.layout}: off by {median(off):.2%} (median), {max(off):.2%} at most")
    print("    counted  " + " ".join(f"{counted:6}" for counted, _ in pairs))
    print("    finished " + " ".join(f"{done:6}" for _, done in pairs), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Whether what is counted is what was finished.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(NAMES))
    parser.add_argument("--services", type=Path, default=ROOT / ".venv-services")
    parser.add_argument("--windows", type=int, default=6)
    parser.add_argument("--window", type=float, default=10.0, help="seconds")
    options = parser.parse_args()
    if unknown := set(options.cases) - set(NAMES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    os.environ["PATH"] = f"{options.services.resolve() / 'bin'}:{os.environ['PATH']}"
    for name in options.cases or NAMES:
        if reason := why_not(CASES.get(name, CASES["rabbitmq-queue"]), options.services):
            sys.exit(f"{name}: {reason}")
        try:
            measure(name, options)
        except TunerError as error:
            sys.exit(f"{name}: {error}")


if __name__ == "__main__":
    main()
