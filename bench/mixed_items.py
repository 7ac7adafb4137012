"""Rate of windows of a queue worker that are taken for a mix of short and long items, by simulation.

    python bench/mixed_items.py [--windows 200] [--seed 1] [--processes N]

Each thread always has an item, and the lengths of items are independent. The window has the end times of
items. (Threads that share cores equally give the same result, on a longer time scale.) A column is a length
of the window. A line is a kind of item, over 1, 4, 16 and 64 threads and items of 50 ms, 0.5 s and 5 s on
average. *Constant* items begin at the same time on all threads, which is the worst case. *Noise*: in each
second, the whole service is faster or slower (sd 10 %). Of items *mixed 2 % x 200*, 2 % take 200 times as
long as the others. Items of one kind must not cause a warning; a mix must be detected, in this window or in a
later one.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from itertools import accumulate
from math import log, sqrt
from random import Random

from tabulate import tabulate

from tuner.adapters.processes.worker_processes import each_in_processes
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Reading, Sample, Window
from tuner.core.windows.validity import mixed_items_warning

LENGTHS_S = (20, 60, 300)
THREADS = (1, 4, 16, 64)
MEANS_S = (0.05, 0.5, 5.0)
MOST_ITEMS = 60_000  #: of a window; more are left out
Draw = Callable[[Random], float]  #: the length of an item, of mean 1


def lognormal(cv: float) -> Draw:
    """Lengths whose sd is *cv* times their mean."""
    variance = log(1 + cv * cv)
    return lambda random: random.lognormvariate(-variance / 2, sqrt(variance))


def mixed(share: float, times: float) -> Draw:
    """A *share* of items takes so many *times* as long as the others."""
    short = 1 / (1 - share + share * times)
    return lambda random: short * (times if random.random() < share else 1.0)


def exponential(random: Random) -> float:
    """Lengths whose sd is their mean."""
    return random.expovariate(1.0)


KINDS: dict[str, tuple[Draw, bool]] = {  #: and whether the service as a whole is noisy
    "constant": (lambda _: 1.0, False),
    "exponential": (exponential, False),
    "lognormal, cv 1": (lognormal(1.0), False),
    "exponential, noise": (exponential, True),
    "lognormal, cv 1, noise": (lognormal(1.0), True),
    "lognormal, cv 2": (lognormal(2.0), False),
    "mixed 10 % x 20": (mixed(0.1, 20.0), False),
    "mixed 2 % x 200": (mixed(0.02, 200.0), False),
    "mixed 0.5 % x 1000": (mixed(0.005, 1000.0), False),
}


def window(kind: str, n_threads: int, mean_s: float, length_s: int, seed: str) -> Window:
    """One window of items of *kind*."""
    draw, is_noisy = KINDS[kind]
    random, ends = Random(f"{seed} {kind} {n_threads} {mean_s} {length_s}"), [0] * (length_s + 1)
    noise = Random(f"{seed} noise")
    speeds = [max(0.1, noise.gauss(1.0, 0.1)) if is_noisy else 1.0 for _ in range(length_s)]
    work_s = list(accumulate(speeds, initial=0.0))  # that a thread has done by the end of each second
    for _ in range(n_threads):
        at_s, second = (0.0 if kind == "constant" else -60.0 * mean_s * random.random()), 0
        while True:
            at_s += mean_s * draw(random)
            while second < length_s and work_s[second + 1] <= at_s:
                second += 1
            if second >= length_s:
                break
            if at_s >= 0:
                ends[second + 1] += 1
    totals = list(accumulate(ends))
    samples = tuple(Sample(float(n), k, 0, 0.0, 0.0, 0.0, None) for n, k in enumerate(totals))
    edges = Reading(0.0, 0, 0), Reading(float(length_s), totals[-1], 0)
    return Window(
        Layout(n_threads, 1), 0, 1, 0.0, float(length_s), totals[-1], 0, samples, (), readings=edges
    )


def seen(asked: tuple[int, int], cell: tuple[str, int]) -> tuple[int, int]:
    """How many windows of a kind and length are warned of, and how many there are."""
    (n_windows, seed), (kind, length_s) = asked, cell
    n_seen = n_all = 0
    for n_threads in THREADS:
        for mean_s in MEANS_S:
            if n_threads * length_s / mean_s > MOST_ITEMS:
                continue
            for n in range(n_windows):
                one = window(kind, n_threads, mean_s, length_s, f"{seed} {n}")
                n_seen += mixed_items_warning(one) is not None
                n_all += 1
    return n_seen, n_all


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--windows", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    cells = [(kind, length_s) for kind in KINDS for length_s in LENGTHS_S]
    results = each_in_processes(seen, (asked.windows, asked.seed), cells, asked.processes)
    found = dict(zip(cells, results, strict=True))
    rows = [
        [kind, *(f"{n} of {of}" for n, of in (found[kind, length_s] for length_s in LENGTHS_S))]
        for kind in KINDS
    ]
    print(tabulate(rows, headers=["items", *(f"{length_s} s" for length_s in LENGTHS_S)]))


if __name__ == "__main__":
    main()
