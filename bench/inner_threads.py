"""Cost of the threads that a numpy library starts by default, and the result of comparing their number.

    python bench/inner_threads.py [--window 10] [--repeats 4] [--omp default,1]

The service is inner_threads_worker.py. First, every layout is measured with every value of the axis several
times: these means are the truth. *flagged* is the number of layouts with a warning, of those whose libraries
may start threads. Then a race finds the best combination within 2 %, and the table has the loss of its answer
relative to the truth. Windows are valid on a busy host here, so other processes add noise.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tabulate import tabulate

WORKER = Path(__file__).resolve().with_name("inner_threads_worker.py")
SHAPES = ("1x1", "1x2", "1x4", "2x1", "2x2", "4x1")
_STUDY = """\
service:
  kind: script
  name: numpy-jobs
  command: ['{python}', '{worker}', "{{threads}}"]
  axes: {{omp: '{omp}'}}
study: {{layouts: '{layouts}', warmup: 3s, warm_cache: no, foreign_limit: 64, {asked}}}
"""


def study(folder: Path, omp: str, asked: str) -> tuple[dict[str, Any], list[str]]:
    """The ranking that a study prints, and its warnings of such threads."""
    layouts = ",".join(f"{shape}@{value}" for shape in SHAPES for value in omp.split(","))
    config = _STUDY.format(python=sys.executable, worker=WORKER, omp=omp, layouts=layouts, asked=asked)
    (folder / "study.yaml").write_text(config)
    done = subprocess.run(
        [sys.executable, "-c", "from tuner.cli import main; main()", "grid", "study.yaml", "--json"],
        cwd=folder,
        env={**os.environ, "TUNER_LOCK": str(folder / "lock")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 5):
        raise SystemExit(f"tuner grid failed: {done.stderr[-400:]}")
    (folder / "numpy-jobs.tuner.db").unlink()
    reported = [
        line.partition("Warning: ")[2] for line in done.stderr.splitlines() if "[inner-threads]" in line
    ]
    return json.loads(done.stdout), reported


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--window", type=float, default=10.0, help="seconds")
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--omp", default="default,1")
    parser.add_argument("--budget", default="15m", help="of the race")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="it-") as name:
        asked = f"strategy: all, repeats: {options.repeats}, window: {options.window:g}s"
        whole, result = study(Path(name), options.omp, asked)
        truth = tell_truth(whole, result)
        asked = f"budget: {options.budget}, window: {options.window:g}s, min_window: {options.window:g}s"
        race, _ = study(Path(name), options.omp, asked)
    found = race["layouts"][0]["layout"]
    n_windows = sum(row["n_windows"] for row in race["layouts"])
    how = "reached" if (race["answer"] or {}).get("reached") else "not reached"
    lost = 1 - truth[found] / max(truth.values())
    print(f"race: {found} after {n_windows} windows ({how}), {lost:.1%} below the best")


def tell_truth(whole: dict[str, Any], lines: list[str]) -> dict[str, float]:
    """Print and return the throughput of all layouts."""
    print("\n".join(lines), end="\n\n")
    inner = {one["layout"]: one["n_threads"] for one in whole["evidence"]["inner_threads"]}
    truth = {row["layout"]: row["throughput_per_10min"] for row in whole["layouts"]}
    rows = [
        (layout, value["mean"], value["low"], value["high"], inner.get(layout))
        for layout, value in truth.items()
    ]
    headers = ("layout", "items/10 min", "low", "high", "threads that compute")
    print(tabulate(rows, headers=headers, floatfmt=".0f"))
    many = [layout for layout in truth if not layout.endswith("@1")]
    n_flagged, n_others = sum(layout in inner for layout in many), len(inner.keys() - set(many))
    print(f"\nflagged: {n_flagged} of {len(many)}, and {n_others} others", flush=True)
    return {layout: value["mean"] for layout, value in truth.items()}


if __name__ == "__main__":
    main()
