"""Predictions of the model, compared with real windows of registered mixes and with simpler models.

python bench/model/mixes.py measure [--into mixes] [--hours H]      # 3 hours on a quiet host of two cores
python bench/model/mixes.py report [--from mixes ...] [--pictures FOLDER] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from mix_measuring import Plan, measure
from mix_registry import read_registry, tools_in, unregistered

from tuner.core.domain.layout import parse_layout
from tuner.core.errors import ConfigError, TunerError
from tuner.core.text.figures import parse_duration
from tuner.core.windows.validity import FOREIGN_FLOOR_CORES


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


def _report(options: argparse.Namespace) -> int:
    files = sorted(file for given in options.of for file in _files(given))
    if not files:
        raise ConfigError(
            f"there is no study of a mix in {', '.join(map(str, options.of))}",
            hint="mixes.py measure makes some.",
        )
    from mix_judging import judge  # scipy and the model, which measuring can do without
    from mix_points import read_run
    from mix_report import as_json, bars, render

    registry = read_registry()
    judged, warnings = [], []
    for file in files:
        run = read_run(file, options.foreign_limit)
        if warning := unregistered(run.record, registry):
            warnings.append(f"Not a test of a prediction: {warning}")
        try:
            judged.append(judge(run))
        except ConfigError as error:  # no window of 1x1 yet, say: the others can be told
            warnings.append(f"{run.mix.name} is left out: {error}")
    order = {mix.name: at for at, mix in enumerate(registry.mixes)}
    judged.sort(key=lambda one: order.get(one.run.mix.name, len(order)))
    if options.pictures is not None:
        from mix_pictures import draw

        for one in judged:
            print(draw(one, options.pictures), file=sys.stderr)
    if options.json:
        json.dump(as_json(judged, warnings), sys.stdout, indent=1)
        print()
    else:
        print(render(judged, warnings), end="")
    return 0 if all(bar.verdict == "met" for bar in bars(judged)) else 5


def _hours(text: str) -> float:
    hours = float(text)
    if not hours >= 0:
        raise ValueError(text)
    return hours


def _files(given: Path) -> list[Path]:
    """A study, or those of a folder."""
    return list(given.glob("*.tuner.db")) if given.is_dir() else [given]


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
    measuring.add_argument("--hours", type=_hours, help="end after so long, with what is known")
    measuring.add_argument("--python", default=sys.executable, help="interpreter of the workers")
    measuring.add_argument("--seed", type=int, default=1)
    measuring.set_defaults(run=_measure)
    reporting = commands.add_parser("report", help="from what was measured, nothing is run")
    reporting.add_argument(
        "--from", dest="of", type=Path, nargs="+", default=[Path("mixes")], metavar="FILE", help="or folders"
    )
    reporting.add_argument("--foreign-limit", type=float, default=FOREIGN_FLOOR_CORES, metavar="CORES")
    reporting.add_argument("--pictures", type=Path, metavar="FOLDER", help="a PNG per mix (needs matplotlib)")
    reporting.add_argument("--json", action="store_true")
    reporting.set_defaults(run=_report)
    options = parser.parse_args()
    try:
        code: int = options.run(options)
        return code
    except TunerError as error:
        print("\n".join(filter(None, [f"Error: {error}", error.hint])), file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
