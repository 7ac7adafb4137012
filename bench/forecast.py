"""Forecasts of the remaining time of a race, compared with the time that it took.

    python bench/forecast.py [SUITE ...] [--kind strict] [--studies 30] [--seed 1] [--processes N] [--json]

SUITE is a suite's JSON file or the name of one of tuner's own (`docs/method/replay.md`); the default is
`ties`, `slippage` and `curve`. Each study runs to its end, and then again, with a forecast after a tenth, a
quarter, half and three quarters of its launches. "told" is the share of studies with a forecast at that
moment. "held" is the share of these that took no longer than forecast (goal: nine in ten), in brackets
Wilson's 95 % interval. "told/taken" is the forecast divided by the time taken: the median and the 90 %
quantile. The last figure is the time in seconds to compute a forecast.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from statistics import median
from time import perf_counter

from suites_named import suite_named

from tuner.adapters.processes.worker_processes import each_in_processes
from tuner.core.domain.strategy import Kind
from tuner.core.search.racing import Race
from tuner.core.search.suite import Suite
from tuner.core.stats.interval import wilson_interval

SHARES = (0.1, 0.25, 0.5, 0.75)
CAP_LAUNCHES = 2000


@dataclass(frozen=True)
class Shared:
    """Settings that the studies of a line share."""

    suite: Suite
    kind: Kind
    seed: int


@dataclass(frozen=True)
class Asked:
    """The forecast of one study at one moment, and the time that it then took."""

    share: float
    told_s: float | None  #: None: not known
    taken_s: float  #: from then on
    seconds: float  #: to work it out


@dataclass(frozen=True)
class Line:
    """The forecasts of the studies of a suite at one moment."""

    suite: str
    share: float
    n: int
    told_ratio: float
    held_ratio: float
    held_low: float
    held_high: float
    median_ratio: float
    p90_ratio: float
    seconds: float  #: the mean time to work it out


def one_study(shared: Shared, number: int) -> list[Asked]:
    n_launches, ends_s, _ = led(shared, number, {})
    moments = {max(1, round(share * n_launches)): share for share in SHARES}
    found = led(shared, number, moments)[2]
    return [Asked(share, told_s, ends_s - at_s, seconds) for share, told_s, at_s, seconds in found]


def led(
    shared: Shared, number: int, moments: dict[int, float]
) -> tuple[int, float, list[tuple[float, float | None, float, float]]]:
    """The study's launches and length, and its forecasts after so many launches."""
    suite = shared.suite
    surface = number % suite.n_surfaces
    stream = f"{shared.seed}/{surface}/{number // suite.n_surfaces}"
    box = suite.box(surface, stream)
    race = Race(suite.goal(shared.kind), Random(f"{stream}/strategy").getrandbits(32))
    waiting, found = dict(moments), []
    while box.n_launches < CAP_LAUNCHES and (proposals := race.propose()):
        race.learn([window for one in proposals for window in box.take(one)])
        for moment in [one for one in waiting if one <= box.n_launches]:
            began = perf_counter()
            rest = race.expected_rest()
            told_s = None if rest is None else sum(suite.launch_s + one.window_s for one in rest)
            found.append((waiting.pop(moment), told_s, box.now_s, perf_counter() - began))
    return box.n_launches, box.now_s, found


def line_of(suite: Suite, share: float, all_asked: Sequence[Asked]) -> Line:
    asked = [one for one in all_asked if one.share == share]
    reported = [(one.told_s, one.taken_s) for one in asked if one.told_s is not None]
    held = sum(told_s >= taken_s - 1e-6 for told_s, taken_s in reported)
    low, high = wilson_interval(held, len(reported)) if reported else (0.0, 1.0)
    ratios = sorted(told_s / taken_s for told_s, taken_s in reported if taken_s > 0) or [float("nan")]
    return Line(
        suite.name,
        share,
        len(asked),
        len(reported) / len(asked),
        held / max(1, len(reported)),
        low,
        high,
        median(ratios),
        ratios[int(0.9 * len(ratios))],
        sum(one.seconds for one in asked) / len(asked),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="*", default=["ties", "slippage", "curve"], metavar="SUITE")
    parser.add_argument("--kind", choices=("strict", "calibrated"), default="strict")
    parser.add_argument("--studies", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    lines = []
    if not options.json:
        print("suite              done     n   told  held                told/taken   s")
    for name in options.suites:
        suite = suite_named(name)
        shared = Shared(suite, options.kind, options.seed)
        rows = each_in_processes(one_study, shared, range(options.studies), options.processes)
        asked = [one for found in rows for one in found]
        for share in SHARES:
            line = line_of(suite, share, asked)
            lines.append(asdict(line))
            if not options.json:
                held = f"{100 * line.held_ratio:.0f} % ({100 * line.held_low:.0f}-{100 * line.held_high:.0f})"
                ratios = f"{line.median_ratio:.2f} ({line.p90_ratio:.1f})"
                print(
                    f"{line.suite:<18} {100 * share:>3.0f} % {line.n:>5} {100 * line.told_ratio:>4.0f} %"
                    f"  {held:<16} {ratios:>13}  {line.seconds:.2f}",
                    flush=True,
                )
    if options.json:
        print(json.dumps(lines, indent=2))


if __name__ == "__main__":
    main()
