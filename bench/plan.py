"""How well `tuner plan` predicts the time of a study, on simulated hosts.

    python bench/plan.py [PROFILE ...] [--pilots 8] [--studies 12] [--within 2%] [--seed 1] [--json]

PROFILE is a simulated service (`configs/profiles/*.yaml` without any). Each line of the result compares the
predictions after PILOTS pilots with the time that STUDIES strict races took:

- *predicted / taken*: predicted mean time divided by the mean of the times taken; the median of the pilots,
  and the lowest and highest;
- *within*: the share of all pairs of a pilot and a study in which the study took no longer than the predicted
  time for nine of ten studies. The goal is 90 %. Pilots of which too few studies were simulated for such a
  time count with the predicted mean, and are counted in *few*.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from tuner.core.planning.forecast import FEWEST_FOR_P90

ROOT = Path(__file__).resolve().parents[1]
TUNER = (sys.executable, "-c", "from tuner.cli import main; main()")


@dataclass(frozen=True)
class Line:
    """The predictions for one simulated service."""

    profile: str
    taken_h: float  #: mean
    ratio: float
    lowest_ratio: float
    highest_ratio: float
    within_ratio: float
    n_few: int


def tuner(*words: str) -> dict[str, Any]:
    """Return the JSON that a command of tuner printed."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*TUNER, *words, "--json", "--study", "study.db"],
            cwd=folder,
            env={"PYTHONPATH": str(ROOT), "TUNER_LOCK": f"{folder}/lock"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode not in (0, 5):
        raise RuntimeError(f"{words}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def line_of(profile: Path, options: argparse.Namespace) -> Line:
    usual = ("--simulate", str(profile), "--within", options.within)
    seeds = range(options.seed, options.seed + max(options.studies, options.pilots))
    taken_h = [
        tuner("grid", *usual, "--seed", str(seed))["answer"]["hours"] for seed in seeds[: options.studies]
    ]
    predicted_h, longest_h, n_few = [], [], 0
    for seed in seeds[: options.pilots]:
        plan = tuner("plan", *usual, "--seed", str(seed))
        cost = plan["costs"][0]
        is_few = cost["simulated"] < FEWEST_FOR_P90
        n_few += is_few
        predicted_h.append(cost["hours"]["mean"])
        longest_h.append(cost["hours"]["mean" if is_few else "p90"])
    ratios = [one / fmean(taken_h) for one in predicted_h]
    return Line(
        profile.stem,
        fmean(taken_h),
        median(ratios),
        min(ratios),
        max(ratios),
        fmean(taken <= longest for taken in taken_h for longest in longest_h),
        n_few,
    )


def printed(lines: Sequence[Line]) -> None:
    print("profile          taken  predicted / taken     within  few")
    for one in lines:
        print(
            f"{one.profile:<15} {one.taken_h:>4.1f} h  {one.ratio:.2f} ({one.lowest_ratio:.2f} to"
            f" {one.highest_ratio:.2f})  {one.within_ratio:>6.0%}  {one.n_few:>3}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("profiles", nargs="*", type=Path, metavar="PROFILE")
    parser.add_argument("--pilots", type=int, default=8)
    parser.add_argument("--studies", type=int, default=12)
    parser.add_argument("--within", default="2%")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    profiles = options.profiles or sorted((ROOT / "configs/profiles").glob("*.yaml"))
    lines = [line_of(profile.resolve(), options) for profile in profiles]
    if options.json:
        print(json.dumps([asdict(one) for one in lines], indent=2))
    else:
        printed(lines)


if __name__ == "__main__":
    main()
