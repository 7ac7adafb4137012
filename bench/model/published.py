"""Published figures of other projects, compared with the model.

    python bench/model/published.py [--seeds FILE] [--only socorro|nornir|pools ...] [--json]
                                    [--variants NAME ...] [--generations 40] [--seed 1]

socorro  Crash processors on 24 cores (2014), six layouts. A *descriptive* fit of the network: the base model,
         its terms one by one and together. Each variant has its errors, its prediction for each layout from a
         fit without it, and its predictions for layouts that were not measured.
nornir   10 000 waiting tasks on thread pools (2020), row by row: models of several structures, each fitted to
         all 32 rows, to all but one, and to the four corners only. gornir, gnocchi: a constant.
pools    JVM jobs that compute and sleep (2023): which of the published facts the model reproduces.

The figures come from seeds.yaml: ../shared/data/seeds.yaml next to the checkout, or --seeds. Nothing is
timed, and all searches have seeds: the same numpy and scipy print the same. The bench takes some minutes,
mostly for the Socorro searches and nornir's fits.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import published_jobs as jobs
import published_socorro as socorro
import published_waiting as waiting
import yaml

from tuner.core.model.pools import PoolRun, run_waiting_pool

SEEDS = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "seeds.yaml"
NEEDED = ("socorro_2014", "nornir_2020", "gornir_2020", "gnocchi", "pi_pools_2023")
JOB_COLUMNS = {
    "own threads: network": "own_threads_s",
    "simulated": "own_threads_simulated_s",
    "batch": "own_threads_events_s",
    "in step: bound": "in_step_s",
    "in-step batch": "own_threads_in_step_events_s",
    "semaphore batch": "semaphore_s",
    "scheduled batch": "scheduled_s",
    "closed form": "by_turns_s",
    "max(55, n x 3/12)": "told_s",
    "fixed batch": "fixed_events_s",
    "by waves": "fixed_s",
}
SECTIONS = ("socorro", "nornir", "pools")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=Path, default=SEEDS, metavar="FILE")
    parser.add_argument("--only", choices=SECTIONS, nargs="+", default=SECTIONS)
    parser.add_argument("--json", action="store_true")
    names = [one.name for one in socorro.VARIANTS]
    parser.add_argument("--variants", choices=names, nargs="+", default=names, help="of the model (socorro)")
    parser.add_argument("--generations", type=int, default=40, help="of each global search (socorro)")
    parser.add_argument("--seed", type=int, default=1, help="of the global searches (socorro)")
    options = parser.parse_args()
    try:
        seeds = read_seeds(options.seeds)
    except ValueError as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    found: dict[str, Any] = {}
    if "socorro" in options.only:
        rows = socorro.rows_of(seeds)
        fits = []
        for variant in (one for one in socorro.VARIANTS if one.name in options.variants):
            say(f"fitting Socorro, {variant.name}")
            fits.append(socorro.fit_one(rows, variant, options.seed, options.generations))
        found["socorro"] = [one.as_json() for one in fits]
        if not options.json:
            print_socorro(rows, fits)
    if "nornir" in options.only:
        rows_ = waiting.rows_of(seeds)
        fitted = []
        for form in waiting.FORMS:
            say(f"fitting nornir, {form.name}")
            fitted.append(waiting.fit(rows_, form))
        (chosen,) = (one for one in fitted if one.form.name == waiting.CHOSEN)
        say("walking the line that the corners leave open")
        line = waiting.along_the_line(rows_, chosen.form)
        runs = [run_waiting_pool(waiting.N_TASKS, row.wait_s, row.n_workers, chosen.costs) for row in rows_]
        cpu, go = waiting.fit_cpu(rows_, runs), waiting.fit_go(seeds)
        constant_ms, batches = waiting.fit_gnocchi(seeds)
        found["nornir"] = {
            "forms": [one.as_json() for one in fitted],
            "corners_by_start_s": line,
            "cpu": asdict(cpu),
            "gornir": asdict(go),
            "gnocchi": {"constant_ms": constant_ms, "batches": [asdict(one) for one in batches]},
        }
        if not options.json:
            print_nornir(rows_, fitted, chosen, line)
            print_cpu(runs, cpu)
            print_go(go)
            print_gnocchi(constant_ms, batches)
    if "pools" in options.only:
        say("running the jobs")
        full, smt = jobs.runs(jobs.FULL), jobs.runs(jobs.SMT)
        facts = jobs.facts(full, smt)
        found["pools"] = {
            "facts": [asdict(one) for one in facts],
            "full_cores": jobs.as_json(full),
            "six_cores_of_two_threads": jobs.as_json(smt),
        }
        if not options.json:
            print_pools(full, smt, facts)
    if options.json:
        print(json.dumps(found, indent=2))
    return 0


def read_seeds(path: Path) -> dict[str, Any]:
    """The published figures.

    Raises:
        ValueError: the file is absent, or not what is needed; says what to do.
    """
    if not path.is_file():
        raise ValueError(f"{path} is not there: give the file of published figures with --seeds FILE.")
    try:
        seeds = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no YAML: {' '.join(str(error).split())}") from error
    missing = [name for name in NEEDED if not isinstance(seeds, dict) or name not in seeds]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}: is it the file of published figures?")
    return dict(seeds)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def percent(ratio: float) -> str:
    return f"{100 * ratio:+.1f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, ["-" * width for width in widths], *rows):
        cells = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join(cells).rstrip())


def bar(text: str, met: bool, by: str) -> None:
    print(f"{'met ' if met else 'MISS'}  {text}: {by}")


def print_socorro(rows: Sequence[socorro.Row], fits: Sequence[socorro.Fit]) -> None:
    print("\nSocorro 2014, 24 cores: a description of ten numbers, not an explanation.")
    print("Errors in %: model over measured, less 1. Left out: of the layout that a fit did not see.\n")
    layouts = [str(row.layout) for row in rows]
    table(
        ("variant", "free", *layouts, "worst", "left out: mean", "worst"),
        [
            (
                one.variant.name,
                str(len(one.variant.free)),
                *(percent(error) for error in one.errors),
                f"{100 * one.worst:.1f}",
                f"{100 * waiting.mean_abs(one.left_out):.1f}",
                f"{100 * max(map(abs, one.left_out)):.1f}",
            )
            for one in fits
        ],
    )
    print("\nLoads, and layouts that nobody measured (items per ten minutes):\n")
    table(
        ("variant", *layouts, "not as told", *map(str, socorro.UNMEASURED)),
        [
            (
                one.variant.name,
                *(f"{load:.1f}" for load in one.loads),
                str(len(one.misses)) if one.misses else "-",
                *(f"{items:.0f}" for items in one.unmeasured),
            )
            for one in fits
        ],
    )
    print("\nParameters (s per item; shares), and the order as it falls out:\n")
    for one in fits:
        values = ", ".join(f"{socorro.SYMBOLS[name]} {value:.3f}" for name, value in one.values.items())
        print(f"{one.variant.name:22} {values}\n{'':22} {' > '.join(one.order)}")
    measured = sorted(rows, key=lambda row: -row.items_per_10min)
    print(f"{'measured':22} {' > '.join(str(row.layout) for row in measured)}\n")
    alike = [one for one in fits if one.worst <= socorro.WORST_RATIO and not one.misses]
    bar(
        f"no layout off by more than {100 * socorro.WORST_RATIO:.0f} %, all loads as told",
        bool(alike),
        ", ".join(f"{one.variant.name} ({100 * one.worst:.1f} %)" for one in alike) or "no variant",
    )
    for number, layout in enumerate(socorro.UNMEASURED):
        items = [one.unmeasured[number] for one in alike]
        if items:
            print(f"      {layout}: those say {min(items):.0f} to {max(items):.0f}")


def print_nornir(
    rows: Sequence[waiting.Row],
    fitted: Sequence[waiting.Fitted],
    chosen: waiting.Fitted,
    line: Sequence[dict[str, float]],
) -> None:
    print("\nnornir 2020: 10 000 tasks that wait. Mean errors in %; costs t0 in s, e, k, d in us.\n")
    table(
        ("structure", "free", "fitted", "worst", "left out", "corners", "the other 28", "t0", "e", "k", "d"),
        [
            (
                one.form.name,
                str(len(one.form.free)),
                f"{100 * one.fitted_ratio:.2f}",
                f"{100 * max(map(abs, one.errors)):.1f}",
                f"{100 * waiting.mean_abs(one.left_out):.2f}",
                f"{100 * one.corners_ratio:.2f}",
                f"{100 * one.unseen_ratio:.2f}",
                f"{one.costs.start_s:.3f}",
                *(f"{1e6 * cost:.0f}" for cost in (one.costs.task_s, one.costs.thread_s, one.costs.wake_s)),
            )
            for one in fitted
        ],
    )
    print(f"\nRow by row ({chosen.form.name}): errors in %, fitted to all, left out, from the corners (*)\n")
    table(
        ("wait, workers", "measured s", "model s", "fitted", "left out", "corners"),
        [
            (
                f"{row.wait_s} x {row.n_workers}",
                f"{row.total_s:.3f}",
                f"{row.total_s * (1 + error):.3f}",
                percent(error),
                percent(left_out),
                percent(corner) + ("*" if is_in else " "),
            )
            for row, error, left_out, corner, is_in in zip(
                rows, chosen.errors, chosen.left_out, chosen.corner_errors, chosen.is_corner, strict=True
            )
        ],
    )
    print("\nThe corners see t0 and 100 x d only as a sum. With t0 held, and the rest fitted to them:\n")
    table(
        ("t0", "e", "k", "d", "corners", "all 32", "the other 28"),
        [
            (
                f"{one['start_s']:.2f}",
                *(f"{1e6 * one[name]:.0f}" for name in ("task_s", "thread_s", "wake_s")),
                *(f"{100 * one[name]:.2f}" for name in ("corner_ratio", "mean_ratio", "unseen_ratio")),
            )
            for one in line
        ],
    )
    print()
    bar("fitted, 3 % mean", chosen.fitted_ratio <= waiting.FITTED_RATIO, f"{100 * chosen.fitted_ratio:.2f} %")
    fits_corners = [one for one in line if one["corner_ratio"] <= waiting.CLOSE_RATIO]
    worst = max((one["mean_ratio"] for one in fits_corners), default=1.0)
    bar(
        "from the four corners, 5 % mean",
        max(worst, chosen.corners_ratio) <= waiting.CORNERS_RATIO,
        f"{100 * chosen.corners_ratio:.2f} %; on that line, where they fit, at most {100 * worst:.2f} %",
    )


def print_cpu(runs: Sequence[PoolRun], cpu: waiting.Cpu) -> None:
    threads = sorted({run.n_threads for run in runs})
    print(
        f"\nCPU of the same runs: user {cpu.user_s[0]:.2f} s + {1e6 * cpu.user_s[1]:.0f} us a thread, system "
        f"{cpu.system_s[0]:.2f} s + {1e6 * cpu.system_s[1]:.0f} us a thread\n({threads[0]} to {threads[-1]} "
        f"started). Mean errors: {cpu.mean_error_s:.2f} s of user + system, "
        f"{cpu.mean_error_percent:.1f} points of CPU %."
    )


def print_go(go: waiting.Go) -> None:
    beside = ", ".join(f"{1000 * value:.0f} ms with {name}" for name, value in go.beside_s.items())
    print(
        f"\ngornir 2020 (Go): total = wait + a constant of the setting (GOMAXPROCS): {beside}.\n"
        f"Mean error {100 * go.mean_ratio:.1f} %, worst {100 * go.worst_ratio:.1f} %; one constant for all: "
        f"{100 * go.one_constant_ratio:.1f} %. Three constants for twelve figures: no more than a summary."
    )


def print_gnocchi(constant_ms: float, batches: Sequence[waiting.Batch]) -> None:
    print(
        f"\ngnocchi: six threads take {constant_ms:.1f} ms (median of the table) + 2 of 8 operations' time\n"
    )
    table(
        ("target, round trip us", "one thread ms", "six ms", "model ms", "error %", "six win: told", "model"),
        [
            (
                f"{one.target}, {one.round_trip_us:.0f}",
                f"{one.one_ms:.2f}",
                f"{one.six_ms:.2f}",
                f"{one.model_ms:.2f}",
                percent(one.model_ms / one.six_ms - 1),
                "yes" if one.six_ms < one.one_ms else "no",
                "yes" if one.model_ms < one.one_ms else "no",
            )
            for one in batches
        ],
    )
    n_right = sum(one.sign_is_right for one in batches)
    print(
        f"\nWhether six threads win comes out right in {n_right} of {len(batches)}: they do once one thread "
        f"takes more than {constant_ms / 0.75:.1f} ms.\nHow much they win does not, on remote files: their "
        "operations do not overlap as if each were alone."
    )


def print_pools(full: Sequence[jobs.Run], smt: Sequence[jobs.Run], facts: Sequence[jobs.Fact]) -> None:
    for name, found in (("12 full cores", full), ("6 cores x 2 threads, gain 25 %", smt)):
        print(f"\nJVM pools 2023, {name}: seconds until the last job is done\n")
        table(
            ("jobs", *JOB_COLUMNS),
            [
                (str(run.n_jobs), *(f"{getattr(run, field):.0f}" for field in JOB_COLUMNS.values()))
                for run in found
            ],
        )
    print("\nReproduced?\n")
    for fact in facts:
        print(f"{fact.verdict:8} {fact.told}\n{'':8} {fact.model}")


if __name__ == "__main__":
    sys.exit(main())
