"""Cost of a probe for a service: its CPU per item with and without the probe, in interleaved pairs.

    python bench/probes.py [CASE ...] [--services .venv-services] [--times 50] [--launches 4] [--pairs 6] ...

The bar: 1 % of the service's CPU per item. Launcher, feeder, probe and server are real. Within each launch,
slices alternate in the order ABBA. In half of them, the probe is read --times as often as in a study (once a
second), in the others never. The cost of one reading a second, and its noise, is this difference divided by
--times. With mmap-counter, the workers count each item --times, or not at all. If the service needs an option
(uWSGI --stats, granian --metrics, Celery's events), launches with and without it alternate as well, with an
empty item; their difference is divided by the CPU of a real item. Items are those that the service records in
a file, in every slice alike. Figures are medians of pairs, with 95 % intervals by order statistics, which are
robust against outliers. It takes about an hour. It needs `make services`, redis-server, and rabbitmq-server
for its case.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from probe_services import CASES, ITEM, Case

from tuner.app import plan_builder
from tuner.bootstrap import configs, wire
from tuner.core.errors import TunerError
from tuner.ports import Counting, Watch

ROOT = Path(__file__).resolve().parents[1]
BAR_RATIO = 0.01
FEWEST_PAIRS = 6  #: that have an interval of 95 %
WARMUP_S = 4.0
TUNER = (sys.executable, "-c", "from tuner.cli import main; main()")


@dataclass(frozen=True, slots=True)
class Slice:
    """Some seconds of a service at work."""

    cpu_s: float  #: of the service, per item
    backend_cpu_s: float  #: of its broker, per item
    asking_s: float  #: CPU of this process, per reading; 0: nobody asked
    readings_per_s: float  #: it takes a little longer to read than not at all


@dataclass(frozen=True, slots=True)
class Difference:
    """How much more it is in the first of each pair, as a share."""

    middle: float
    low: float
    high: float
    n: int


def difference(pairs: Sequence[tuple[float, float]]) -> Difference:
    """The median of first / second - 1, with its interval: from end to end where the pairs are too few."""
    ratios = sorted(math.log(first / second) for first, second in pairs)
    n = len(ratios)
    beyond, k = 0.5**n, 0  # the chance that so few lie below the median
    while beyond <= 0.025 and k < n // 2:
        k += 1
        beyond += math.comb(n, k) * 0.5**n
    k = max(k - 1, 0)
    middle, low, high = (math.expm1(one) for one in (median(ratios), ratios[k], ratios[n - 1 - k]))
    return Difference(middle, low, high, n)


def part_of(whole: Difference, times: int) -> Difference:
    """Return the cost of one of *times* readings or counts."""
    return Difference(whole.middle / times, whole.low / times, whole.high / times, whole.n)


def verdict(*parts: Difference) -> str:
    """Return whether all *parts* together meet the bar, given their intervals."""
    if min(part.n for part in parts) < FEWEST_PAIRS:
        return f"open: it takes {FEWEST_PAIRS} pairs to tell"
    if sum(part.high for part in parts) <= BAR_RATIO:
        return "met"
    return "MISSED" if sum(part.low for part in parts) > BAR_RATIO else "open: more pairs, or a quieter box"


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with a service and its files."""

    case: Case
    folder: Path
    port: int
    broker: str

    def write(self) -> None:
        """The service's files."""
        (self.folder / "item.py").write_text(ITEM)
        (self.folder / "app.py").write_text(self.case.app)
        (self.folder / "counts").write_bytes(b"\1")

    def record_sample(self, python: Path) -> None:
        """``sample.json``, of ten items that the service sent itself; they are gone from the queue again."""
        send = "import app\nfor _ in range(10): app.send()"
        subprocess.run(
            [python, "-c", send], cwd=self.folder, env={**os.environ, "BROKER": self.broker}, check=True
        )
        named = ("--queue", "default", "--form", self.case.form)
        taken = ("sample", "--url", self.broker, *named, "-o", "sample.json")
        subprocess.run([*TUNER, *taken], cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
        empty = f"import app\n{_EMPTY[self.case.broker]}"
        subprocess.run(
            [python, "-c", empty], cwd=self.folder, env={**os.environ, "BROKER": self.broker}, check=True
        )

    def config(self, probe: str, *, bare: bool = False) -> Path:
        """A study of it with that probe; *bare*: its items do nothing."""
        broker = self.broker.replace("unix://", "redis+socket://")
        asked = self.case.service.format(python=sys.executable, port=self.port, broker=broker)
        environment = (
            f"BROKER: '{self.broker}', RQ_REDIS_URL: '{self.broker}', PYTHONPATH: '{ROOT}:{self.folder}'"
            f"{', BARE: yes' if bare else ''}"
        )
        fed = ", sample: sample.json, queue: default" if self.case.broker else ""
        if self.case.broker and "broker:" not in asked:
            fed += f", url: '{self.broker}'"
        path = self.folder / "study.yaml"
        path.write_text(
            f"service: {{{asked}, directory: '{self.folder}', environment: {{{environment}}},"
            f" probe: {probe}{fed}}}\n"
            f"study: {{strategy: all, layouts: [{self.case.layout}], warmup: {WARMUP_S}s}}\n"
        )
        return path

    def n_finished(self) -> int:
        """Items up to now."""
        return (self.folder / "finished").stat().st_size // 8

    def counting(self, times: int) -> None:
        """Let workers that look at the byte count each item so often."""
        with (self.folder / "counts").open("r+b") as file:
            file.write(bytes([times]))


_EMPTY = {
    "redis": "import redis; redis.Redis.from_url(os.environ['BROKER']).flushall()".replace("os.", "app.os."),
    "rabbitmq": "app.dramatiq.get_broker().flush('default')",
}


@contextmanager
def launched(place: Place, probe: str, *, bare: bool = False) -> Iterator[tuple[Counting, Watch]]:
    """Start the service in its layout, with feeder, probe and sampler, and warm it up."""
    settings = configs.settings_of(place.config(probe, bare=bare), {})
    record = plan_builder.plan_record(settings)
    (layout,) = record.layouts

    def warn(slug: str, text: str) -> None:
        if slug not in ("backend-found", "probe-costs"):
            print(f"    warning [{slug}]: {text}", file=sys.stderr)

    with ExitStack() as stack:
        box = stack.enter_context(wire.this_box(settings, record, str(place.folder / "s.tuner.db"), warn))
        counting = stack.enter_context(box.probe.counting(layout))
        stack.enter_context(box.feeder.feeding(layout))
        launch = stack.enter_context(box.launcher.running(layout, counting.environment))
        own = box.feeder.pids() | counting.pids()
        watch = stack.enter_context(box.sampler.watching(launch, own))
        counting.read()
        time.sleep(WARMUP_S)
        yield counting, watch


def taken(place: Place, counting: Counting, watch: Watch, lasts_s: float, times: int) -> Slice:
    """One slice, in which the probe is read so many times a second, at most."""
    place.counting(times)
    spent_s, n_readings = 0.0, 0
    before, n_before = watch.usage(), place.n_finished()
    end_s = time.monotonic() + lasts_s
    while (left_s := end_s - time.monotonic()) > 0:
        if times:
            began_s = time.process_time()
            counting.read()
            spent_s, n_readings = spent_s + time.process_time() - began_s, n_readings + 1
        time.sleep(min(1 / times if times else left_s, left_s))
    after, n = watch.usage(), place.n_finished() - n_before
    if n < 1:
        sys.exit("nothing was finished in a slice: the service does not work")
    return Slice(
        (after.service_cpu_s_total - before.service_cpu_s_total) / n,
        (after.backend_cpu_s_total - before.backend_cpu_s_total) / n,
        spent_s / n_readings if n_readings else 0.0,
        n_readings / lasts_s,
    )


def pairs_of(place: Place, probe: str, options: argparse.Namespace) -> list[tuple[Slice, Slice]]:
    """Return the slices of one launch, with and without readings."""
    found = []
    with launched(place, probe) as (counting, watch):
        for n in range(options.pairs):
            order = (options.times, 0) if n % 2 == 0 else (0, options.times)
            both = {times: taken(place, counting, watch, options.slice, times) for times in order}
            found.append((both[options.times], both[0]))
    return found


def bare_of(place: Place, probe: str, options: argparse.Namespace) -> float:
    """Return the CPU per item of a launch without readings, with empty items."""
    with launched(place, probe, bare=True) as (counting, watch):
        return taken(place, counting, watch, 2 * options.slice, 0).cpu_s


def bare_pairs_of(place: Place, options: argparse.Namespace) -> list[tuple[float, float]]:
    """Return launches with and without the option of the service, in the order ABBA."""
    found = []
    for n in range(options.launches * options.pairs // 2):
        order = (place.case.probe, place.case.without)
        both = {probe: bare_of(place, probe, options) for probe in (order if n % 2 == 0 else order[::-1])}
        found.append((both[place.case.probe], both[place.case.without]))
    return found


def measure(name: str, place: Place, options: argparse.Namespace) -> None:
    """Return the results of all launches of one case."""
    case = place.case
    pairs: list[tuple[Slice, Slice]] = []
    for _ in range(options.launches):
        pairs += pairs_of(place, case.probe, options)
    reported = bare_pairs_of(place, options) if case.without else []
    rate = int(median(first.readings_per_s for first, _ in pairs))
    often = difference([(first.cpu_s, second.cpu_s) for first, second in pairs])
    asked = part_of(often, rate)
    item_s = median(second.cpu_s for _, second in pairs)
    print(f"{name}, {case.layout}: {1e3 * item_s:.3f} ms of the service's CPU per item, not asked")
    _print(f"asked {rate} times a second", often, "pairs of slices")
    _print("that is, once a second", asked, "the same")
    parts = [asked]
    if reported:
        print(f"    {'an item that does nothing':28} {1e3 * median(one for _, one in reported):.3f} ms")
        parts.append(difference([(item_s + one - other, item_s) for one, other in reported]))
        _print("told to count (its option)", parts[-1], "pairs of launches of such")
    if case.broker and all(one.backend_cpu_s for pair in pairs for one in pair):
        broker = difference([(a.backend_cpu_s, b.backend_cpu_s) for a, b in pairs])
        _print("CPU of its broker, of that", part_of(broker, rate), "the same")
    print(f"    {'a reading':28} {1e3 * median(first.asking_s for first, _ in pairs):.2f} ms of tuner's CPU")
    print(f"    the bar of {BAR_RATIO:.0%} is {verdict(*parts)}", flush=True)


def _print(what: str, of: Difference, unit: str) -> None:
    print(f"    {what:28} {of.middle:+.3%} ({of.low:+.3%} to {of.high:+.3%}, {of.n} {unit})")


@contextmanager
def broker_of(case: Case) -> Iterator[str]:
    """The URL of a server of this case's own; empty: it needs none."""
    sys.path.insert(0, str(ROOT))  # the tests know how to start them
    if case.broker == "redis":
        from tests.redis_server import running_redis

        with running_redis() as server:
            yield server.url
    elif case.broker == "rabbitmq":
        from tests.rabbitmq_server import running_rabbitmq

        with running_rabbitmq() as rabbit:
            yield rabbit.url
    else:
        yield ""


def why_not(case: Case, services: Path) -> str:
    """Return why *case* cannot be measured here; empty: it can."""
    if not (services / "bin" / "python").exists():
        return f"no services in {services}: make services, or --services FOLDER"
    program = {"redis": "redis-server", "rabbitmq": "rabbitmq-server", "": "true"}[case.broker]
    return "" if shutil.which(program) else f"{program} is not installed"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--services", type=Path, default=ROOT / ".venv-services")
    parser.add_argument("--times", type=int, default=50, help="readings a second, where it is read")
    parser.add_argument("--launches", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=6, help="of slices, in each launch")
    parser.add_argument("--slice", type=float, default=5.0, help="seconds")
    options = parser.parse_args()
    if unknown := set(options.cases) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    os.environ["PATH"] = f"{options.services.resolve() / 'bin'}:{os.environ['PATH']}"
    for name in options.cases or CASES:
        if reason := why_not(CASES[name], options.services):
            sys.exit(f"{name}: {reason}")
        with broker_of(CASES[name]) as broker, tempfile.TemporaryDirectory(prefix="pb-") as folder:
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            place = Place(CASES[name], Path(folder), port, broker)
            place.write()
            try:
                if broker:
                    place.record_sample(options.services / "bin" / "python")
                measure(name, place, options)
            except TunerError as error:
                sys.exit(f"{name}: {error}")


if __name__ == "__main__":
    main()
