"""Cost of Dask on a coordinator's host with many hosts: CPU of the scheduler and of the coordinator.

    python bench/fleet_scheduler.py [--boxes 10 100 1000] [--seconds 120] [--processes 4] [--json]

The scheduler is `tuner fleet scheduler`, and the coordinator's part is that of `tuner grid --fleet`. Hosts
are workers of `tuner box`, many in one process, each with its own connections on loopback. A launch is
simulated, and reported at the pace of a real launch: 30 s of warm-up and a window of ten minutes, with all
reports in between. The first launches are spread over the length of a launch, so that the measured seconds
are typical. Shares are CPU seconds per second, without the CPU on the hosts.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from tuner.adapters.fleet.box_plugin import BoxPlugin
from tuner.adapters.fleet.box_worker import FACTS, _DaskWorker
from tuner.adapters.fleet.dask_fleet import DaskFleet
from tuner.adapters.fleet.frames import Frame, pack_news
from tuner.adapters.fleet.scheduler import keep_quiet, security_of
from tuner.adapters.provenance import provenance
from tuner.adapters.virtual.profile import virtual_box_of
from tuner.app.plan_builder import plan_record
from tuner.bootstrap.configs import settings_of
from tuner.bootstrap.fleet_order import FleetOrder
from tuner.config.load import Given
from tuner.config.profile import read_profile
from tuner.core.domain.fleet import BoxCame, Ended, Lost, News, Order, Place
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.strategy import Proposal
from tuner.study.fleet.remote_launch import make_order, report_interval_s

PROFILE = Path(__file__).resolve().parents[1] / "configs" / "profiles" / "waiting-bound.yaml"
LAYOUT = Layout(2, 2)
WINDOW_S, WARMUP_S = 600.0, 30.0
COMES_WITHIN_S = 600.0
BAR = 0.1  #: of a core, for 1000 boxes


@dataclass(frozen=True)
class Line:
    """Cost of a number of hosts."""

    boxes: int
    seconds: float
    launches: int  #: ended in that time
    news: int
    scheduler_share: float  #: of a core
    coordinator_share: float
    scheduler_rss_mb: float


class Paced:
    """A launch that is simulated at once, and reported at the pace of a real one."""

    def __init__(self, asked: bytes) -> None:
        self._asked: FleetOrder = pickle.loads(asked)
        self._ends = threading.Event()

    def frames(self) -> Iterator[Frame]:
        order, began_s = self._asked.order, time.monotonic()
        box = virtual_box_of(self._asked.study, order.place.box, self._asked.at_wall_s)
        found: list[tuple[float, bytes]] = []

        def tell(news: News) -> None:
            found.append((box.clock.wall_s() - self._asked.at_wall_s, pack_news(news)))

        make_order(order, self._asked.study, box, tell, self, report_every_s=self._asked.report_every_s)
        for after_s, data in found:
            if self._ends.wait(max(0.0, began_s + after_s - time.monotonic())):
                return
            yield Frame(time.time(), data)

    def requested(self) -> bool:
        return False

    def finish(self) -> None:
        """Do nothing: the launch runs to its end."""

    def end(self, why: str | None = None) -> None:  # noqa: ARG002
        self._ends.set()

    def problem(self) -> str | None:
        return "it was ended" if self._ends.is_set() else None


async def be_boxes(address: str, first: int, n: int, folder: str) -> None:
    """Be boxes until standard input ends."""
    keep_quiet()
    facts = {"cores": 4, "provenance": provenance()}

    def worker(number: int) -> _DaskWorker:
        name = f"box-{number}"
        return _DaskWorker(
            address,
            BoxPlugin(Paced, lambda _: {}),
            name=name,
            nthreads=1,
            resources={"box": 1},
            memory_limit=0,
            local_directory=folder,
            security=security_of(None),
            startup_information={FACTS: lambda _: {**facts, "name": name, "identity": [name, "", ""]}},
            dashboard=False,
        )

    workers = [worker(number) for number in range(first, first + n)]
    for one in workers:
        await one
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    with contextlib.suppress(OSError, TimeoutError, asyncio.TimeoutError):
        await asyncio.gather(*(one.close(timeout=5) for one in workers), return_exceptions=True)


@contextlib.contextmanager
def scheduler() -> Iterator[tuple[int, str]]:
    """The pid and the address of a scheduler."""
    command = [
        sys.executable,
        "-c",
        "from tuner.cli import main; main()",
        "fleet",
        "scheduler",
        "--port",
        "0",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = next(line for line in process.stderr if "tuner box " in line)
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield process.pid, f"tcp://{line.split('tuner box ')[1].split()[0].removeprefix('tcp://')}"
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def boxes_at(address: str, n: int, n_processes: int) -> Iterator[None]:
    """Start *n* hosts in so many processes."""
    started = []
    with tempfile.TemporaryDirectory(prefix="bench-fleet-") as folder:
        try:
            for place in range(n_processes):
                first, after = n * place // n_processes, n * (place + 1) // n_processes
                words = [__file__, "--be", address, str(first), str(after - first), folder]
                started.append(subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE))
            yield
        finally:
            for process in started:
                assert process.stdin is not None
                process.stdin.close()
            for process in started:
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def a_study() -> StudyRecord:
    asked = {"strategy": "all", "cores": "4", "window": "10m", "warmup": f"{WARMUP_S:.0f}s", "layouts": "2x2"}
    options: dict[tuple[str | int, ...], Given] = {
        ("study", name): Given(f"--{name}", text) for name, text in asked.items()
    }
    return plan_record(settings_of(None, options), profile=read_profile(PROFILE))


class Coordinator:
    """A coordinator that keeps every host busy; first launches have different lengths."""

    def __init__(self, fleet: DaskFleet) -> None:
        self._fleet, self._random, self._n = fleet, Random(1), 0
        self.boxes: set[str] = set()
        self._box_of: dict[str, str] = {}
        self.n_ended = self.n_news = 0

    def go_on(self, until_s: float) -> None:
        while time.monotonic() < until_s:
            news = self._fleet.news(min(until_s, time.monotonic() + 1.0))
            self.n_news += news is not None
            match news:
                case BoxCame(facts):
                    self.boxes.add(facts.name)
                    self._send(facts.name, self._random.uniform(1.0, WINDOW_S))
                case Ended(order, _):
                    self.n_ended += 1
                    self._send(self._box_of.pop(order), WINDOW_S)
                case Lost(order, why):
                    raise SystemExit(f"{self._box_of.pop(order)}: {why}")

    def _send(self, box: str, window_s: float) -> None:
        self._n += 1
        order = f"launch-{self._n}"
        self._box_of[order] = box
        self._fleet.send(Order(order, Place(0, self._n, box, Proposal(LAYOUT, window_s, 1)), 1))


def measured(n: int, seconds: float, n_processes: int) -> Line:
    record = a_study()

    def asks(order: Order, at_wall_s: float, n_boxes: int) -> bytes:
        return pickle.dumps(FleetOrder(order, record, None, "bench", at_wall_s, report_interval_s(n_boxes)))

    with (
        scheduler() as (pid, address),
        boxes_at(address, n, min(n, n_processes)),
        DaskFleet(address, security_of(None), asks, facts_of=lambda facts: facts) as fleet,
    ):
        coordinator, deadline_s = Coordinator(fleet), time.monotonic() + COMES_WITHIN_S
        while len(coordinator.boxes) < n:
            if time.monotonic() > deadline_s:
                raise SystemExit(f"{len(coordinator.boxes)} of {n} boxes came within {COMES_WITHIN_S:.0f} s")
            coordinator.go_on(time.monotonic() + 1.0)
        coordinator.go_on(time.monotonic() + 20.0)  # their first launches have begun
        began_s, cpu_before, own_before = time.monotonic(), cpu_s(pid), time.process_time()
        n_ended, n_news = coordinator.n_ended, coordinator.n_news
        coordinator.go_on(began_s + seconds)
        took_s = time.monotonic() - began_s
        return Line(
            n,
            took_s,
            coordinator.n_ended - n_ended,
            coordinator.n_news - n_news,
            (cpu_s(pid) - cpu_before) / took_s,
            (time.process_time() - own_before) / took_s,
            rss_mb(pid),
        )


def main() -> None:
    if sys.argv[1:2] == ["--be"]:
        address, first, n, folder = sys.argv[2:]
        asyncio.run(be_boxes(address, int(first), int(n), folder))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--boxes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--processes", type=int, default=4, help="that boxes live in")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    keep_quiet()
    lines: list[dict[str, Any]] = []
    for n in options.boxes:
        line = measured(n, options.seconds, options.processes)
        lines.append(asdict(line))
        if not options.json:
            print(
                f"{line.boxes:>5} boxes: scheduler {100 * line.scheduler_share:.2f} %,"
                f" coordinator's end {100 * line.coordinator_share:.2f} % of a core"
                f" (bar for 1000 boxes: {100 * BAR:.0f} %);"
                f" {line.scheduler_rss_mb:.0f} MB; {line.launches} launches ended, {line.news} news"
                f" in {line.seconds:.0f} s",
                flush=True,
            )
    if options.json:
        print(json.dumps(lines, indent=2))


if __name__ == "__main__":
    main()
