"""Accuracy of tuner's figures: services of known capacity, measured from the command line.

    python bench/truth.py [SERVICE ...] [--kinds wait,cpu,child,mixed] [--into RESULTS.json] [--at-once 3]
    python bench/truth.py --from RESULTS.json|docs/truth.csv [...] [--csv | --ranges]

SERVICE is a name in `truth_services.py` or its beginning, such as gunicorn; all of them by default. The
application of each service has an item that waits, computes in Python, computes in a child, or does all
three. `tuner grid` measures it in five layouts or more. The table has, for each layout, the throughput
divided by the ideal, the bottleneck and the largest error of a share that `tuner explain` prints, and the
memory divided by that of a sampler that reads `smaps_rollup` of the service's processes in the same window.
It also has the CPU of the service and of everything else, which explains a low ratio. `--neighbour` keeps one
core busy meanwhile. Waits need no core, so `--at-once` of those studies run at the same time. Each service
and kind takes 2 to 3 minutes. It needs `make services`, redis-server and a C compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from truth_ideal import Ideal, Start, ideal, of_event_loop
from truth_memory import MemorySampler
from truth_services import CHILD, ITEM, KINDS, SERVICES, Service
from truth_table import Row, Uses, print_csv, print_ranges, print_table, read_csv

from tuner.adapters.sqlite.store import SqliteStore
from tuner.core.domain.layout import parse_layout
from tuner.core.domain.window import Window

ROOT = Path(__file__).resolve().parents[1]
TUNER = (sys.executable, "-c", "from tuner.cli import main; main()")
PATIENCE_S = 60.0
N_STARTS = 300  #: of a child that does nothing, to find what a start takes
#: exit codes of a study that ended well: 5 says that the answer is weaker than asked for
ENDED_WELL = (0, 5)


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with a service and its files."""

    service: Service
    kind: str
    folder: Path
    broker: str
    child: Path
    mark: str  #: in the environment of the service's processes, and of no others

    def config(self, study: str) -> None:
        """Write the application's files, and a config with the keys of *study*."""
        (self.folder / "item.py").write_text(ITEM)
        (self.folder / "app.py").write_text(self.service.app)
        section = self.service.section.format(port=_free_port(), broker=self.broker, python=sys.executable)
        environment = json.dumps(self._environment() | {"PYTHONPATH": f"{self.folder}:{ROOT}"})
        fed = f", sample: '{self.folder}/sample.json'" if self.service.messages else ""
        probe = ", probe: {kind: mmap-counter}" if "kind: script" in section else ""
        (self.folder / "study.yaml").write_text(
            f"service: {{{section}, directory: '{self.folder}', environment: {environment}{fed}{probe}}}\n"
            f"study: {{{study}}}\n"
        )

    def record_sample(self, python: Path) -> None:
        """``sample.json``, of ten items that the application sent itself; the queue is empty again."""
        send = "import app\nfor _ in range(10): app.send()"
        environment = {**os.environ, **self._environment()}
        subprocess.run([python, "-c", send], cwd=self.folder, env=environment, check=True)
        named = ("--url", self.broker, "--form", self.service.messages, "-o", "sample.json")
        subprocess.run([*TUNER, "sample", *named], cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
        port = self.broker.rpartition(":")[2].partition("/")[0]
        subprocess.run(["redis-cli", "-p", port, "FLUSHALL"], check=True, stdout=subprocess.DEVNULL)

    def tuner(self, *words: str) -> Any:
        """Return the output of `tuner WORDS --json`."""
        done = subprocess.run(
            [*TUNER, *words, "--json"],
            cwd=self.folder,
            env=self.tuners_environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in ENDED_WELL:
            raise RuntimeError(f"tuner {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        return json.loads(done.stdout)

    @property
    def tuners_environment(self) -> dict[str, str]:
        """Of a tuner that shares the host with others of this bench."""
        return {**os.environ, "TUNER_LOCK": str(self.folder / "lock"), "RQ_REDIS_URL": self.broker}

    def _environment(self) -> dict[str, str]:
        demand = self.service.demand(self.kind)
        sizes = {"PYTHON_S": demand.python_s, "CHILD_S": demand.child_s, "WAIT_S": demand.wait_s}
        named = {name: repr(value) for name, value in sizes.items()}
        return named | {
            "CHILD": str(self.child),
            "BROKER": self.broker,
            "RQ_REDIS_URL": self.broker,
            "TRUTH": self.mark,
        }


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """The URL of a Redis that keeps nothing."""
    port = _free_port()
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL) as server:
        try:
            deadline_s = time.monotonic() + PATIENCE_S
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except ConnectionRefusedError:
                    if time.monotonic() > deadline_s or server.poll() is not None:
                        raise RuntimeError("redis-server does not answer") from None
                    time.sleep(0.02)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()


@contextmanager
def neighbour(cores: int) -> Iterator[None]:
    """So many processes that compute all the time."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def build_child(folder: Path) -> Path:
    """The C child, compiled."""
    source, program = folder / "child.c", folder / "child"
    source.write_text(CHILD)
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        sys.exit("cannot find a C compiler: install gcc, or set CC")
    subprocess.run([compiler, "-O2", "-o", program, source], check=True)
    return program


def start_of(child: Path, python: Path) -> Start:
    """Return the mean cost of a start of *python* and *child*."""
    script = (
        "import resource, subprocess, sys\n"
        "def used(who): return sum(resource.getrusage(who)[:2])\n"
        "both = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN\n"
        "before = [used(who) for who in both]\n"
        f"for _ in range({N_STARTS}): subprocess.run([sys.argv[1], '0'], check=True)\n"
        f"print(*((used(who) - was) / {N_STARTS} for who, was in zip(both, before)))\n"
    )
    words = [str(python), "-c", script, str(child)]
    python_s, child_s = map(float, subprocess.run(words, capture_output=True, check=True).stdout.split())
    return Start(python_s, child_s)


def measure(name: str, kind: str, child: Path, start: Start, options: argparse.Namespace) -> list[Row]:
    """The rows of one service and kind of item."""
    service = SERVICES[name]
    with tempfile.TemporaryDirectory(prefix="tr-") as given:
        folder = Path(given)
        with running_broker(folder) as broker:
            place = Place(service, kind, folder, broker, child, f"{os.getpid()}-{name}-{kind}")
            place.config(
                f"strategy: all, layouts: '{service.layouts}', window: {options.window}s,"
                f" warmup: {options.warmup}s, repeats: 1, foreign_limit: 64"
            )
            if service.messages:
                place.record_sample(options.services / "bin" / "python")
            with MemorySampler("TRUTH", place.mark) as memory:
                ranked = place.tuner("grid", "study.yaml", "--study", "s.tuner.db")
            explained = place.tuner("explain", "s.tuner.db")
            windows = _windows(folder / "s.tuner.db")
            true_bytes = {
                layout: memory.mean_bytes(*(reading.at_s for reading in window.readings))
                for layout, window in windows.items()
            }
    return _rows(name, kind, start, ranked, explained, true_bytes, windows)


def _windows(study: Path) -> dict[str, Window]:
    """The last valid window of each layout."""
    with SqliteStore.open(study, read_only=True) as store:
        windows = [store.window(one.launch_id, one.index, one.attempt) for one in store.windows()]
    return {str(window.layout): window for window in windows if not window.void}


def _uses(window: Window) -> Uses:
    """The CPU that the service and all else used during the window."""
    first, last = window.usage[0], window.usage[-1]
    length_s = last.at_s - first.at_s
    service_s = last.service_cpu_s_total - first.service_cpu_s_total
    box_s = last.box_cpu_s_total - first.box_cpu_s_total + last.steal_s_total - first.steal_s_total
    return Uses(service_s / length_s, (box_s - service_s) / length_s, service_s / max(1, window.n_done))


def _rows(
    name: str,
    kind: str,
    start: Start,
    ranked: Any,
    explained: Any,
    true_bytes: dict[str, float | None],
    windows: dict[str, Window],
) -> list[Row]:
    of_explain = {one["layout"]: one for one in explained["layouts"]}
    rows = []
    for one in ranked["layouts"]:
        ideal_there = ideal_of(SERVICES[name], kind, start, one["layout"])
        throughput = one["throughput_per_10min"]
        memory, found = true_bytes.get(one["layout"]), of_explain.get(one["layout"])
        rows.append(
            Row(
                service=name,
                kind=kind,
                layout=one["layout"].partition("@")[0],
                ideal_per_s=ideal_there.items_per_s,
                ratio=throughput["mean"] / 600 / ideal_there.items_per_s if throughput else None,
                bottleneck=sorted(found["bound_by"]) if found else [],
                true_bottleneck=sorted(ideal_there.bottleneck),
                share_error=_largest_error(found["shares"], ideal_there) if found else None,
                memory_ratio=one["pss_bytes"] / memory if one["pss_bytes"] and memory else None,
                uses=_uses(windows[one["layout"]]) if one["layout"] in windows else None,
            )
        )
    return sorted(rows, key=lambda row: (parse_layout(row.layout).processes, row.layout))


def ideal_of(service: Service, kind: str, start: Start, named: str) -> Ideal:
    """The ideal of the layout *named*."""
    layout = parse_layout(named)
    at_once = service.at_once(layout.processes, layout.threads)
    demand = service.demand(kind).with_start(start)
    demand = demand.in_child if service.forks else demand
    found = ideal(demand, layout.processes, at_once, os.cpu_count() or 1)
    if service.in_one_loop:
        return replace(found, divides_lines=False)
    return of_event_loop(found, demand, layout.processes) if service.form == "loop" else found


def _largest_error(shares: dict[str, Any], truth: Ideal) -> tuple[str, float]:
    """The share that is most in error, and by how much; what is printed in sum is held against the sum.

    `elsewhere` is a wait that nothing divides: asleep, or in a line that is not measured.
    """
    printed = {name: share["value"] for name, share in shares.items() if share is not None}
    child = printed.pop("child", 0.0) + printed.pop("master", 0.0)
    errors = {
        "python": printed.pop("python", 0.0) - truth.shares["python"],
        "child": child - truth.shares["child"],
    }
    if not truth.divides_lines:
        in_line = sum(printed.pop(name, 0.0) for name in ("gil_line", "core_line", "contended"))
        errors["in line"] = in_line - truth.shares["gil_line"] - truth.shares["core_line"]
        errors["asleep"] = printed.pop("asleep", 0.0) - truth.shares["asleep"]
        errors |= printed
    elif "elsewhere" in printed:
        waiting = sum(printed.values())
        errors["waiting"] = waiting - sum(truth.shares[name] for name in ("asleep", "gil_line", "core_line"))
    else:
        for name in ("asleep", "gil_line", "core_line"):
            errors[name] = printed.pop(name, 0.0) - truth.shares[name]
        errors |= printed  # blocked, contended: no item of ours is
    return max(errors.items(), key=lambda one: abs(one[1]))


def _chosen(words: Sequence[str]) -> list[str]:
    if not words:
        return list(SERVICES)
    for word in words:
        if not any(name.startswith(word) for name in SERVICES):
            sys.exit(f"no service begins with {word!r}; there are {', '.join(SERVICES)}")
    return [name for name in SERVICES if name.startswith(tuple(words))]


def _measure_all(options: argparse.Namespace) -> list[Row]:
    os.environ["PATH"] = f"{options.services.resolve() / 'bin'}:{os.environ['PATH']}"
    asked = [
        (kind, name)
        for kind in options.kinds
        for name in _chosen(options.names)
        if kind in SERVICES[name].kinds
    ]
    rows: list[Row] = []

    def one(kind: str, name: str) -> list[Row]:
        try:
            return measure(name, kind, child, start, options)
        except (RuntimeError, subprocess.CalledProcessError) as error:
            print(f"{name}, {kind}: {error}", file=sys.stderr)
            failed.append((name, kind))
            return []

    failed: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="tr-") as given, neighbour(options.neighbour):
        child = build_child(Path(given))
        start = start_of(child, options.services.resolve() / "bin" / "python")
        took = f"{1000 * start.python_s:.2f} ms of Python and {1000 * start.child_s:.2f} ms of its own"
        print(f"To start a child that does nothing takes {took}; the ideal has it.", file=sys.stderr)
        for at_once, these in ((options.at_once, ("wait",)), (1, ("cpu", "child", "mixed"))):
            with ThreadPoolExecutor(at_once) as pool:
                chosen = [one_asked for one_asked in asked if one_asked[0] in these]
                for found in pool.map(one, *zip(*chosen, strict=True)) if chosen else ():
                    rows += found
                    print_table(found, sys.stderr)
                    if options.into:
                        options.into.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if failed:
        print_table(rows)
        sys.exit(f"{len(failed)} studies failed")
    return rows


def _kept(file: Path) -> list[Row]:
    text = file.read_text()
    if file.suffix == ".csv":
        return read_csv(text.splitlines())
    rows = [Row(**one) for one in json.loads(text)]
    return [replace(row, uses=Uses(**row.uses)) if isinstance(row.uses, dict) else row for row in rows]


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the broker and the study end, too
    parser = argparse.ArgumentParser(description="Whether figures are true.")
    parser.add_argument("names", nargs="*", metavar="SERVICE", help=", ".join(SERVICES))
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--services", type=Path, default=ROOT / ".venv-services")
    parser.add_argument("--window", type=float, default=20.0, help="seconds")
    parser.add_argument("--warmup", type=float, default=5.0, help="seconds")
    parser.add_argument(
        "--at-once", type=int, default=1, metavar="N", help="studies of waits that run at once"
    )
    parser.add_argument(
        "--neighbour", type=int, default=0, metavar="CORES", help="cores that others keep busy"
    )
    parser.add_argument("--into", type=Path, metavar="FILE", help="keep the rows as JSON")
    parser.add_argument(
        "--from", type=Path, nargs="+", dest="read", metavar="FILE", help="print rows that were kept"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print the rows as docs/truth.csv has them")
    form.add_argument("--ranges", action="store_true", help="print the table of docs/truth.md")
    options = parser.parse_args()
    kept = [row for file in options.read or () for row in _kept(file)]
    show = print_csv if options.csv else print_ranges if options.ranges else print_table
    show(kept if options.read else _measure_all(options))


if __name__ == "__main__":
    main()
