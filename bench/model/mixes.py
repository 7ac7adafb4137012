"""Predictions of the model beside real windows of registered mixes, and beside what simpler models say.

python bench/model/mixes.py measure [--into mixes] [--hours H]      # 3 hours on a quiet box of two cores
python bench/model/mixes.py report [--from mixes ...] [--pictures FOLDER] [--json]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mix_measuring import Plan, measure
from mix_registry import read_registry, tools_in

from tuner.core.durations import parse_duration
from tuner.core.errors import TunerError
from tuner.core.layout import parse_layout


def _measure(options: argparse.Namespace) -> int:
    registry = read_registry()
    names = (
        options.mixes.split(",") if options.mixes else [one.name for one in registry.mixes if not one.beyond]
    )
    options.into.mkdir(parents=True, exist_ok=True)
    plan = Plan(
        folder=options.into.resolve(),
        mixes=tuple(registry.mix(name) for name in names),
        layouts=tuple(map(parse_layout, options.layouts.split(","))) if options.layouts else registry.layouts,
        n_blocks=options.windows,
        window_s=parse_duration(options.window),
        warmup_s=parse_duration(options.warmup),
        foreign_limit=options.foreign_limit,
        hours=options.hours,
        seed=options.seed,
    )
    is_complete = measure(plan, tools_in(plan.folder, options.python))
    return 0 if is_complete else 5


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    measuring = commands.add_parser("measure", help="take the windows; run again, it goes on")
    measuring.add_argument("--into", type=Path, default=Path("mixes"), metavar="FOLDER")
    measuring.add_argument("--mixes", metavar="NAME,NAME", help="default: all that the bars hold for")
    measuring.add_argument("--layouts", metavar="PxT,PxT", help="default: the registered ones")
    measuring.add_argument("--windows", type=int, default=6, help="of each mix and layout; default 6")
    measuring.add_argument("--window", default="30s", metavar="TIME")
    measuring.add_argument("--warmup", default="6s", metavar="TIME")
    measuring.add_argument(
        "--foreign-limit", type=float, metavar="CORES", help="default 0.15: above, it is void"
    )
    measuring.add_argument("--hours", type=float, help="end after so long, with what is known")
    measuring.add_argument("--python", default=sys.executable, help="interpreter of the workers")
    measuring.add_argument("--seed", type=int, default=1)
    measuring.set_defaults(run=_measure)
    options = parser.parse_args()
    try:
        code: int = options.run(options)
        return code
    except TunerError as error:
        print(f"Error: {error}\n{error.hint}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
