"""Accuracy of the measured time that threads wait for the GIL, and its cost, on known cases.

    python bench/gil_waits.py [--seconds 30] [--repeats 3]

Of T threads that never sleep and compute in Python (or hold the GIL in C), one has the GIL and the others
wait: (T - 1) / T of their time. Threads that sleep, or compute in C without the GIL, do not wait. Cases run
one at a time. The figure of a case is the median over repeats of the mean of a run, with the largest error of
a run. The cost is the CPU of this process, as a share of the worker's CPU.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from tabulate import tabulate

from tuner.adapters.proc.gil_waits import LOOKS_PER_S, GilWaits, GilWatch, process_cpu_s

LOAD = Path(__file__).resolve().parent.parent / "tests" / "integration" / "sampler" / "load.py"
CASES = [
    *(("python", n) for n in (1, 2, 3, 4, 6, 8)),
    *(("held", n) for n in (1, 2, 4, 8)),
    *(("free", n) for n in (1, 2, 4)),
    *(("asleep", n) for n in (1, 4, 8)),
]


def truth(kind: str, threads: int) -> float:
    return (threads - 1) / threads if kind in ("python", "held") else 0.0


def run(python: str, kind: str, threads: int, seconds: float) -> tuple[float, float, float]:
    """The part of their time that threads wait; CPU of looking, and of the worker, in cores."""
    worker = subprocess.Popen([python, LOAD, "gil", kind, str(threads)], text=True, stdout=subprocess.PIPE)
    try:
        assert worker.stdout is not None
        worker.stdout.readline()
        watch = GilWatch(GilWaits(Path("/proc")), time.monotonic)
        watch.follow([worker.pid])
        watch.look()
        before = watch.waited_s()
        began_s, own_s, its_s = time.monotonic(), time.process_time(), process_cpu_s(worker.pid)
        watch.start()
        time.sleep(seconds)
        after, elapsed_s = watch.waited_s(), time.monotonic() - began_s
        own_s, its_s = time.process_time() - own_s, process_cpu_s(worker.pid) - its_s
        watch.close()
        assert before is not None
        assert after is not None
        return (after[0] - before[0]) / elapsed_s / threads, own_s / elapsed_s, its_s / elapsed_s
    finally:
        worker.kill()
        worker.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pythons", nargs="+", default=[sys.executable], help="interpreters of the workers")
    options = parser.parse_args()
    rows = []
    for python in options.pythons:
        runs: dict[tuple[str, int], list[tuple[float, float, float]]] = {case: [] for case in CASES}
        for _ in range(options.repeats):
            for case in CASES:
                runs[case].append(run(python, *case, options.seconds))
        version = subprocess.check_output([python, "-c", "import platform as p; print(p.python_version())"])
        for (kind, threads), of_case in runs.items():
            found = [one[0] for one in of_case]
            expected = truth(kind, threads)
            cost, used = (median(one[n] for one in of_case) for n in (1, 2))
            rows.append(
                (
                    version.decode().strip(),
                    kind,
                    threads,
                    f"{100 * expected:.1f}",
                    f"{100 * median(found):.1f}",
                    f"{100 * max(abs(one - expected) for one in found):.1f}",
                    f"{100 * cost:.3f}",
                    f"{100 * cost / used:.2f}" if used > 0.005 else "-",
                )
            )
            print(*rows[-1], file=sys.stderr)
    headers = (
        "Python",
        "threads",
        "n",
        "waits %",
        "seen %",
        "worst error",
        "cost, % of a core",
        "% of worker",
    )
    print(f"{LOOKS_PER_S:g} looks a second, {options.seconds:g} s, {options.repeats} repeats")
    print(tabulate(rows, headers, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
