"""The first hour of a new user: the time until the first results, and whether these are right.

    python bench/first_hour.py [SERVICE/KIND ...] [--at-once 1] [--into RESULTS.json]

The bench runs `tuner grid` without options for each service in `SERVICES`. The applications are those of
`truth.py`, so the best layouts are known by arithmetic. The table has the seconds until the first estimate of
the duration, the seconds until the provisional ranking, the longest time without a new line, and whether one
of the layouts that may be the best has an ideal throughput within 5 % of the highest ideal of all measured
layouts. Then the bench interrupts tuner, like Ctrl-C. A service takes about ten minutes; services whose items
only wait may run at the same time. The bench needs `make services`, redis-server and a C compiler.

Bars: an estimate within 15 s, a ranking within 10 minutes, 11 of 12 rankings right.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from tabulate import tabulate
from truth import ENDED_WELL, ROOT, TUNER, Place, build_child, ideal_of, running_broker, start_of
from truth_ideal import Start
from truth_services import SERVICES as ALL

#: service and kind of item
SERVICES = (
    "gunicorn sync/wait",
    "uvicorn/wait",
    "granian wsgi/wait",
    "waitress/wait",
    "celery threads/wait",
    "rq fork/wait",
    "huey thread/wait",
    "gunicorn gthread/cpu",
    "uwsgi/cpu",
    "celery prefork/cpu",
    "dramatiq/cpu",
    "script/cpu",
)
ESTIMATE_BAR_S, RANKING_BAR_S, RIGHT_BAR = 15.0, 600.0, 11 / 12
NEAR_RATIO = 0.95  #: of the highest ideal: such a layout counts as best
LONGEST_S = 1200.0
INTERRUPTED = 130
LAST_LINE = "Not known yet"
_ROW = re.compile(r"(?:^|\s)(\d+x[\d-]+(?:@\S+)?) +\d[\d ]* items/10 min")
ESTIMATE, RANKING, BEST_GROUP = "It takes about", "PROVISIONAL:", re.compile(r"May be the best: (.+)\.$")


@dataclass(frozen=True, slots=True)
class Row:
    """Results of the first minutes of one study."""

    service: str
    estimate_s: float | None  #: until the first estimate was printed; None: none was
    ranking_s: float | None  #: until the first ranking was printed
    named: Sequence[str]  #: its best group
    best: Sequence[str]  #: by arithmetic, of the layouts that were measured
    silent_s: float  #: the longest time without a line

    @property
    def is_right(self) -> bool:
        """Whether the best group holds one of the best."""
        return bool(set(self.named) & set(self.best))


def first_minutes(named: str, child: Path, start: Start, options: argparse.Namespace) -> Row:
    """Run one study until its first ranking."""
    name, _, kind = named.partition("/")
    service = ALL[name]
    with tempfile.TemporaryDirectory(prefix="fh-") as given:
        folder = Path(given)
        with running_broker(folder) as broker:
            place = Place(service, kind, folder, broker, child, f"{os.getpid()}-{name}-{kind}")
            place.config("foreign_limit: 64")
            if service.messages:
                place.record_sample(options.services / "bin" / "python")
            seen = _watch(place)
    ideals = {layout: ideal_of(service, kind, start, layout).items_per_s for layout in seen.ranked}
    highest = max(ideals.values(), default=0.0)
    best = [layout for layout, per_s in ideals.items() if per_s >= NEAR_RATIO * highest]
    return Row(named, seen.estimate_s, seen.ranking_s, seen.named, best, seen.silent_s)


@dataclass(slots=True)
class _Seen:
    """Output until the end of the provisional ranking."""

    estimate_s: float | None = None
    ranking_s: float | None = None
    silent_s: float = 0.0
    named: tuple[str, ...] = ()
    ranked: tuple[str, ...] = ()


def _watch(place: Place) -> _Seen:
    """Read tuner's output until its provisional ranking, then send Ctrl-C."""
    seen = _Seen()
    began_s = last_s = time.monotonic()
    words = [*TUNER, "grid", "study.yaml", "--study", "s.tuner.db"]
    with (place.folder / "stdout").open("w") as stdout:
        running = subprocess.Popen(
            words,
            cwd=place.folder,
            env=place.tuners_environment,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )
    with running:
        assert running.stderr is not None
        is_over = False
        for line in running.stderr:
            now_s = time.monotonic()
            if not is_over:
                seen.silent_s, last_s = max(seen.silent_s, now_s - last_s), now_s
            if seen.estimate_s is None and ESTIMATE in line:
                seen.estimate_s = now_s - began_s
            if seen.ranking_s is None and RANKING in line:
                seen.ranking_s = now_s - began_s
            if found := BEST_GROUP.search(line.rstrip()):
                seen.named = tuple(found[1].split(", "))
            if seen.ranking_s is not None and (row := _ROW.search(line)):
                seen.ranked += (row[1],)
            is_ranked = seen.ranking_s is not None and LAST_LINE in line
            if not is_over and (is_ranked or now_s - began_s > LONGEST_S):
                is_over = True
                running.send_signal(signal.SIGINT)
    if running.returncode not in (*ENDED_WELL, INTERRUPTED):
        raise RuntimeError(f"tuner grid ended with {running.returncode}: see {place.folder}")
    return seen


def _print(rows: Sequence[Row]) -> None:
    def seconds(value: float | None) -> str:
        return "-" if value is None else f"{value:.0f}"

    print(
        tabulate(
            [
                (
                    row.service,
                    seconds(row.estimate_s),
                    seconds(row.ranking_s),
                    seconds(row.silent_s),
                    " ".join(row.named),
                    " ".join(row.best),
                    "yes" if row.is_right else "no",
                )
                for row in rows
            ],
            ("service", "estimate, s", "ranking, s", "silence, s", "may be the best", "best", "right"),
        )
    )
    early = [row.estimate_s is not None and row.estimate_s <= ESTIMATE_BAR_S for row in rows]
    ranked = [row.ranking_s is not None and row.ranking_s <= RANKING_BAR_S for row in rows]
    right = [row.is_right for row in rows]
    print(f"\nestimate within {ESTIMATE_BAR_S:.0f} s: {sum(early)} of {len(rows)}")
    print(f"ranking within {RANKING_BAR_S / 60:.0f} minutes: {sum(ranked)} of {len(rows)}")
    print(f"a best layout among those named: {sum(right)} of {len(rows)} (bar: {RIGHT_BAR:.0%})")


def main() -> None:
    parser = argparse.ArgumentParser(description="The first hour with tuner.")
    parser.add_argument("names", nargs="*", metavar="SERVICE/KIND", help=", ".join(SERVICES))
    parser.add_argument("--services", type=Path, default=ROOT / ".venv-services")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="studies that run at once")
    parser.add_argument("--into", type=Path, metavar="FILE", help="keep the rows as JSON")
    options = parser.parse_args()
    options.services = options.services.resolve()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background ignores it
    os.environ["PATH"] = f"{options.services / 'bin'}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="fh-") as given, ThreadPoolExecutor(options.at_once) as pool:
        child = build_child(Path(given))
        start = start_of(child, options.services / "bin" / "python")
        names = options.names or SERVICES
        rows = list(pool.map(lambda named: first_minutes(named, child, start, options), names))
    _print(rows)
    if options.into:
        options.into.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
