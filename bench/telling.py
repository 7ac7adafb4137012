"""Cost of displaying a study: metrics, the live view, its file, a new ranking, and the page.

    python bench/telling.py [--rounds 9] [--large WINDOWS] [--folder FOLDER]

Studies are simulated: one of 22 layouts in memory for the metrics; two grids and a race of as many layouts,
from the command line, for the rest. --large adds a page of 500 layouts and so many windows; 100000 windows
take long, and hundreds of megabytes below FOLDER. Figures are CPU time of this process, medians over rounds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

from prometheus_client import generate_latest

from tuner.adapters.metrics.exposition import MetricsFile, registry_of
from tuner.adapters.metrics.figures import Known, StudyFigures
from tuner.adapters.sqlite.store import SqliteStore
from tuner.adapters.terminal.progress import ProgressTee
from tuner.adapters.virtual.box import VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryStore, PlannedStop
from tuner.app import model, study_queries
from tuner.bootstrap.progress_ui import render_board
from tuner.core.domain.layout import Layout, divisors_grid
from tuner.core.ranking.live_status import Board, board_of
from tuner.core.search.strategies.of_study import strategy_of
from tuner.reports.page import render_page
from tuner.study.run import run_study

PROFILE = Path(__file__).resolve().parents[1] / "configs" / "profiles" / "socorro-2014.yaml"


class Timed:
    """A Progress that records the CPU of each kind of report."""

    def __init__(self, result: StudyFigures) -> None:
        self._told = result
        self.took_s: dict[str, list[float]] = defaultdict(list)

    def __getattr__(self, name: str) -> Callable[..., None]:
        method = getattr(self._told, name)

        def timed(*values: Any) -> None:
            began_s = time.process_time()
            method(*values)
            self.took_s[name].append(time.process_time() - began_s)

        return timed


def cpu_s(what: Callable[[], object], rounds: int) -> float:
    """Median CPU of one call."""
    took_s = []
    for _ in range(rounds):
        began_s = time.process_time()
        what()
        took_s.append(time.process_time() - began_s)
    return median(took_s)


def metrics(folder: Path, rounds: int) -> None:
    service = VirtualService({layout: 5.0 + layout.total_threads for layout in divisors_grid(24)})
    store = MemoryStore(virtual_study(service, n_blocks=2))
    clock = VirtualClock.resumed(store)
    strategy = strategy_of(store.study())
    figures = StudyFigures(
        store.study(),
        "telling.tuner.db",
        "box",
        lambda: Known(strategy.estimates(), strategy.answer()),
        clock.wall_s,
    )
    timed = Timed(figures)
    run_study(VirtualBox(service, clock=clock).box(), store, ProgressTee([timed]), PlannedStop(), strategy)
    registry = registry_of(figures)
    text = generate_latest(registry)
    n_series = sum(not line.startswith(b"#") for line in text.splitlines())
    file = MetricsFile(figures, folder / "telling.prom", lambda *result: print(*result, file=sys.stderr))
    print(f"metrics of {len(service.items_per_s)} layouts: {n_series} series, {len(text) / 1000:.0f} kB")
    say("a scrape", cpu_s(partial(generate_latest, registry), rounds))
    say("the file", cpu_s(file.write, rounds))
    say("to be told of a second, mean", fmean(timed.took_s["sampled"]))
    say("to be told of a window, mean", fmean(timed.took_s["window_taken"]))


def say(what: str, took_s: float) -> None:
    print(f"  {what:32}{1e3 * took_s:10.4g} ms")


def simulated(file: Path, *options: str) -> Path:
    asked = ["grid", "--cores", "24", "--simulate", str(PROFILE), "--study", str(file), *options]
    subprocess.run([Path(sys.executable).parent / "tuner", *asked], check=True, capture_output=True)
    return file


def studies(folder: Path, rounds: int) -> None:
    kinds = {
        "a grid": ("--strategy", "all", "--repeats", "2"),
        "a larger grid": ("--strategy", "all", "--repeats", "20"),
        "a race": (),
    }
    for number, (kind, options) in enumerate(kinds.items()):
        file = simulated(folder / f"{number}.tuner.db", *options)
        began_s = time.process_time()
        overview, prediction = model.predict(file)
        fitted = render_page(overview, prediction)
        fitted_s = time.process_time() - began_s
        anew_s = cpu_s(partial(board_anew, file), rounds)
        print(f"{kind} of {len(overview.windows)} windows in {len(overview.study.layouts)} layouts")
        say("the view", cpu_s(partial(render_board, board_of(overview), sys.stdout, 100, 40), rounds))
        say("the ranking anew", anew_s)
        say("the page, the model not fitted", cpu_s(partial(page_of, file), rounds))
        say("the same, the model fitted", fitted_s)
        print(f"  {len(fitted) / 1e6:.2f} MB")


def board_anew(file: Path) -> Board:
    return board_of(study_queries.overview(file))


def page_of(file: Path) -> str:
    return render_page(study_queries.overview(file), "The model is not fitted while the study runs.")


def large(folder: Path, n_windows: int) -> None:
    layouts = [Layout(1 + n // 25, 1 + n % 25) for n in range(500)]
    service = VirtualService({layout: 5.0 + layout.total_threads for layout in layouts})
    file = folder / "large.tuner.db"
    record = virtual_study(service, n_blocks=max(1, n_windows // len(layouts)), window_s=2.0, warmup_s=1.0)
    with SqliteStore.create(file, record) as store:
        clock = VirtualClock.resumed(store)
        run_study(
            VirtualBox(service, clock=clock).box(), store, ProgressTee([]), PlannedStop(), strategy_of(record)
        )
        n_windows = len(store.windows())
    page = page_of(file)
    print(f"a page of {len(layouts)} layouts and {n_windows} windows: {len(page.encode()) / 1e6:.2f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description="What telling of a study costs.")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--large", type=int, metavar="WINDOWS", help="a page of 500 layouts, too")
    parser.add_argument("--folder", type=Path, help="for studies; default: a temporary one")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        metrics(Path(name), asked.rounds)
        studies(Path(name), asked.rounds)
        if asked.large:
            large(Path(name), asked.large)


if __name__ == "__main__":
    main()
