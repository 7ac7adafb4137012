"""Cost of `tuner box` on its host, between launches and during a launch.

    python bench/fleet_box.py [--seconds 60] [--repeats 5] [--json]

A scheduler, a box and a study of the built-in service run on loopback, as a user would start them, with keys
(TLS) and without. Shares are the CPU seconds of `tuner box` per second, without the launch, which is a
separate process. Then the bench measures the time from the end of each launch to the start of the next one,
for launches with windows of five seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from fleet_scheduler import cpu_s, rss_mb

from tuner.bootstrap.stores import open_store

TUNER = str(Path(sys.executable).with_name("tuner"))
PATIENCE_S = 120.0
SETTLES_S = 10.0


@dataclass(frozen=True)
class Line:
    """Cost of a host."""

    keys: str  #: "TLS" or "none"
    idle_share: float  #: of a core
    measuring_share: float
    rss_mb: float
    between_launches_s: float  #: median


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {PATIENCE_S:.0f} s: {what}")
        time.sleep(0.2)


@contextlib.contextmanager
def running(words: Sequence[str], folder: Path, log: str) -> Iterator[subprocess.Popen[bytes]]:
    """`tuner` with *words*, stopped at the end."""
    with (folder / log).open("wb") as result:
        process = subprocess.Popen([TUNER, *words], cwd=folder, stdout=result, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            for ends in (signal.SIGINT, signal.SIGINT, signal.SIGKILL):
                if process.poll() is None:
                    process.send_signal(ends)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(30)


def share(pid: int, seconds: float) -> float:
    began_s, before_s = time.monotonic(), cpu_s(pid)
    time.sleep(seconds)
    return (cpu_s(pid) - before_s) / (time.monotonic() - began_s)


def said(file: Path, words: str) -> str | None:
    """The line of *file* that has *words*."""
    return next((line for line in file.read_text().splitlines() if words in line), None)


def grid(address: str, keys: Sequence[str], study: str, window: str, repeats: int) -> list[str]:
    asked = ["--cores", "2", "--layouts", "1x1", "--strategy", "all", "--repeats", str(repeats)]
    return ["grid", *asked, "--window", window, "--warmup", "2s", "--fleet", address, *keys, "--study", study]


def gaps(file: Path) -> list[float]:
    with open_store(file, read_only=True) as store:
        launches = [launch for _, launch in store.launches()]
    return [
        after.started_wall_s - before.ended_wall_s
        for before, after in pairwise(launches)
        if before.ended_wall_s is not None
    ]


def measured(*, has_keys: bool, seconds: float, repeats: int) -> Line:
    with tempfile.TemporaryDirectory(prefix="bench-box-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        os.environ["TUNER_LOCK"] = str(folder / "lock")
        keys: list[str] = []
        if has_keys:
            subprocess.run([TUNER, "fleet", "certs", "keys", "--host", "127.0.0.1"], cwd=folder, check=True)
            keys = ["--certs", "keys"]
        stack.enter_context(running(["fleet", "scheduler", "--port", "0", *keys], folder, "scheduler.log"))
        until(lambda: said(folder / "scheduler.log", "tuner box "), "a scheduler that says where it is")
        line = said(folder / "scheduler.log", "tuner box ") or ""
        address = line.split("tuner box ")[1].split()[0]
        box = stack.enter_context(running(["box", address, *keys], folder, "box.log"))

        def boxes() -> list[dict[str, object]]:
            asked = [TUNER, "fleet", "boxes", address, *keys, "--json"]
            result = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=True).stdout
            found: list[dict[str, object]] = json.loads(result)["boxes"]
            return found

        until(boxes, "a box")
        time.sleep(SETTLES_S)
        idle = share(box.pid, seconds)

        with running(grid(address, keys, "long.tuner.db", f"{seconds + 60:.0f}s", 1), folder, "long.log"):
            until(lambda: any(one["busy"] for one in boxes()), "a launch")
            time.sleep(SETTLES_S)
            busy = share(box.pid, seconds)
            peak = rss_mb(box.pid)
        with running(grid(address, keys, "short.tuner.db", "5s", repeats), folder, "short.log") as study:
            study.wait(PATIENCE_S + 60 * repeats)
        found = gaps(folder / "short.tuner.db")
        return Line("TLS" if has_keys else "none", idle, busy, peak, median(found))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    lines = []
    for has_keys in (True, False):
        line = measured(has_keys=has_keys, seconds=options.seconds, repeats=options.repeats)
        lines.append(asdict(line))
        if not options.json:
            print(
                f"keys: {line.keys:5} between launches {100 * line.idle_share:.2f} % of a core,"
                f" while one runs {100 * line.measuring_share:.2f} %; {line.rss_mb:.0f} MB;"
                f" {line.between_launches_s:.1f} s from one launch to the next",
                flush=True,
            )
    if options.json:
        print(json.dumps(lines, indent=2))


if __name__ == "__main__":
    main()
