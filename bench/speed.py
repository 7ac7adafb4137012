"""How much of the noise of a study the speed of the host explains.

    python bench/speed.py STUDY.tuner.db ...

tuner measures the CPU time of a fixed computation in each window, and before each launch while no layout
works. For each study the table has three rows: windows of a launch (throughput and fixed work in the window,
both less the means of the launch), launches of a layout (the means of launches, less the means of the
layout), and launches of a layout by the fixed work before their start. Each row has the standard deviation
of the throughput, that of the fixed work, the slope with its standard error (-1: throughput falls by 1 % if
the fixed work takes 1 % longer), the share of the variance that the fixed work explains (adjusted for the
number of values; below 0: none), and the standard deviation that would be left.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Hashable, Sequence
from math import log, sqrt
from pathlib import Path
from statistics import fmean

from tabulate import tabulate

from tuner.adapters.sqlite.store import SqliteStore
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord, WindowRecord

Pair = tuple[Hashable, float, float]  #: what it is one of, log of fixed work, log of throughput


def explained(pairs: Sequence[Pair]) -> list[str | int]:
    """The cells of a row; *pairs* are compared with others of the same group only."""
    groups: defaultdict[Hashable, list[tuple[float, float]]] = defaultdict(list)
    for of, work, rate in pairs:
        groups[of].append((work, rate))
    works, rates, n = [], [], 0
    for own in groups.values():
        if len(own) < 2:
            continue
        mean_work, mean_rate = (fmean(column) for column in zip(*own, strict=True))
        works += [work - mean_work for work, _ in own]
        rates += [rate - mean_rate for _, rate in own]
        n += len(own) - 1
    if n < 3:
        return [len(works), "-", "-", "-", "-", "-"]
    of_works, of_rates = sum(one * one for one in works), sum(one * one for one in rates)
    slope = sum(work * rate for work, rate in zip(works, rates, strict=True)) / of_works
    rest = of_rates - slope * slope * of_works
    share = 1 - rest / (n - 1) / (of_rates / n)
    return [
        len(works),
        f"{100 * sqrt(of_rates / n):.2f} %",
        f"{100 * sqrt(of_works / n):.2f} %",
        f"{slope:+.2f} ({sqrt(rest / (n - 1) / of_works):.2f})",
        f"{100 * share:.0f} %",
        f"{100 * sqrt(rest / (n - 1)):.2f} %",
    ]


def rows_of(path: Path) -> list[list[str | int]]:
    with SqliteStore.open(path, read_only=True) as store:
        launches = dict(store.launches())
        windows = [one for one in store.windows() if not one.void and one.n_done and one.fixed_work_cpu_s]
    of_launch: defaultdict[int, list[WindowRecord]] = defaultdict(list)
    for one in windows:
        if launches[one.launch_id].block != WARMING_BLOCK:
            of_launch[one.launch_id].append(one)

    def mean_rate(key: int) -> float:
        return fmean(log(one.n_done / one.length_s) for one in of_launch[key])

    def pairs(work: str) -> list[Pair]:
        found: list[Pair] = []
        for key in of_launch:
            launch: LaunchRecord = launches[key]
            if cost_s := getattr(launch, work):
                found.append((launch.layout, log(cost_s), mean_rate(key)))
        return found

    in_windows: list[Pair] = [
        (key, log((one.fixed_work_cpu_s or 0.0) / one.length_s), log(one.n_done / one.length_s))
        for key, own in of_launch.items()
        for one in own
    ]
    return [
        [path.name, "windows of a launch", *explained(in_windows)],
        [path.name, "launches of a layout", *explained(pairs("fixed_work_cpu_s"))],
        [path.name, "launches, work before", *explained(pairs("idle_fixed_work_cpu_s"))],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", type=Path, nargs="+")
    headers = ("study", "of", "n", "sd", "sd of work", "slope (SE)", "explained", "sd left")
    rows = [row for path in parser.parse_args().study for row in rows_of(path)]
    print(tabulate(rows, headers))


if __name__ == "__main__":
    main()
