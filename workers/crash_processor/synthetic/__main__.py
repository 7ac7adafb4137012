"""Writes a corpus: `python -m tuner_workers.crash_processor.synthetic --out DIR --count N --seed S`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .crash import make_crash
from .flavours import FLAVOURS
from .spool import SYMBOLS_FOLDER
from .world import make_world


def main(arguments: list[str] | None = None) -> int:
    """Write COUNT crashes per operating system, their symbols, raw crashes and expected answers."""
    parser = argparse.ArgumentParser(
        prog="python -m tuner_workers.crash_processor.synthetic", description=main.__doc__
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write into; made when missing")
    parser.add_argument("--count", type=_positive, default=20, help="crashes per operating system (20)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same bytes (0)")
    parser.add_argument(
        "--symbols-bytes", type=_positive, default=560_000, help="largest symbol file (560000)"
    )
    parser.add_argument(
        "--os", action="append", choices=list(FLAVOURS), help="only this system; may be repeated"
    )
    options = parser.parse_args(arguments)
    try:
        for name in options.os or list(FLAVOURS):
            world = make_world(options.seed, symbols_bytes=options.symbols_bytes, os_name=name)
            world.write_symbols(options.out / SYMBOLS_FOLDER)
            for number in range(options.count):
                crash = make_crash(options.seed * 1_000_003 + number, world)
                stem = options.out / f"{name}-{options.seed}-{number}"
                stem.with_suffix(".dmp").write_bytes(crash.dump)
                stem.with_suffix(".expected.json").write_text(
                    json.dumps(crash.expected, indent=1), encoding="utf-8"
                )
                stem.with_suffix(".raw.json").write_text(
                    json.dumps(crash.raw_crash, indent=1), encoding="utf-8"
                )
    except OSError as error:
        print(f"Error: cannot write to {options.out}: {error.strerror}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {text}")
    return number


if __name__ == "__main__":
    sys.exit(main())
