"""Cost of measuring: the CPU of tuner, supervisord and guardian during a window of 24 worker processes.

    python bench/overhead.py [--processes 24] [--threads 2] [--window 60] [--repeats 3] [--busy] [--bars]

The bar: at most 0.3 % of one core for all of them together. Only the worker is artificial: each of its
threads counts an item every 50 ms and otherwise sleeps. With --busy, it starts a child of 10 ms of CPU for
each item, which keeps the cores full and the caches cold. CPU is read in nanoseconds from the scheduler,
before and after the window. The second table has the parts of tuner's CPU.
"""

from __future__ import annotations

import argparse
import os
import pty
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from tuner.adapters.clock import SystemClock
from tuner.adapters.feeders.none import NoFeeder
from tuner.adapters.probes.mmap_counter import CounterProbe
from tuner.adapters.proc.gil_waits import LOOKS_PER_S
from tuner.adapters.proc.procfs import ProcSampler
from tuner.adapters.supervisord.launcher import SupervisordLauncher
from tuner.adapters.terminal.live_file import LiveFile
from tuner.adapters.terminal.live_view import LiveView
from tuner.adapters.terminal.progress import ProgressTee
from tuner.adapters.terminal.screen import Screen
from tuner.bootstrap.progress_ui import render_board
from tuner.core.domain.layout import Layout, divisors_grid
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.service import ServiceSpec
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.window import Sample
from tuner.core.ranking.live_status import Board
from tuner.core.search.strategies.full_grid import FullGrid
from tuner.core.search.strategies.of_study import Followed, goal_of
from tuner.study.launch.watching import RunningLayout

BAR_RATIO = 0.003


class Timed:
    """Passes every call on, and adds up the CPU time that the named ones take."""

    def __init__(self, inner: Any, spent_s: dict[str, float], *names: str) -> None:
        self._inner, self._spent_s, self._names = inner, spent_s, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._timed(name, found) if name in self._names else found

    def _timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            began_s = time.thread_time()
            try:
                return call(*arguments, **named)
            finally:
                self._spent_s[name] += time.thread_time() - began_s

        return timed


def cpu_s(pid: int) -> float:
    """Exact: nanoseconds on a core, summed over the threads there are."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def study_of(options: argparse.Namespace, layout: Layout) -> StudyRecord:
    return StudyRecord(
        service="overhead",
        strategy="all",
        layouts=(layout,),
        cores=options.processes,
        box_cores=float(len(os.sched_getaffinity(0))),
        window_s=options.window,
        warmup_s=15.0,
        n_blocks=1,
        windows_per_launch=1,
        seed=0,
        budget_s=None,
        created_wall_s=time.time(),
        config=StoredConfig("{}"),
    )


def shown_study(options: argparse.Namespace, layout: Layout) -> StudyRecord:
    """With as many layouts as a study of 24 cores has."""
    layouts = dict.fromkeys([layout, *divisors_grid(24)])
    return replace(study_of(options, layout), layouts=tuple(layouts))


@contextmanager
def bars(study: StudyRecord, layout: Layout) -> Iterator[Callable[[float, Sample, float], None]]:
    """A terminal's view without a reader, and the file of a running study; another process reads both."""
    master, slave = pty.openpty()
    reader = subprocess.Popen(["cat"], stdin=master, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    strategy = Followed(FullGrid(goal_of(study), 1, 1))

    def draw(board: Board, columns: int, lines: int, _: bool) -> list[tuple[str, int]]:
        with os.fdopen(os.dup(slave), "w", encoding="utf-8") as terminal:
            return render_board(board, terminal, columns, lines)

    view = LiveView(Screen(slave), draw, study, strategy, lambda: False)
    with tempfile.TemporaryDirectory() as folder, view.shown():
        file = LiveFile(Path(folder) / "s.tuner.db", lambda slug, text: sys.exit(f"{slug}: {text}"))
        result = ProgressTee([view, file])
        with file.written(0):
            result.launch_started(layout, 0, 0, None)
            yield lambda elapsed_s, sample, rate: result.sampled(
                layout, elapsed_s, study.window_s, sample, rate
            )
    os.close(master)
    reader.kill()
    reader.wait()


def one_window(options: argparse.Namespace) -> tuple[dict[str, float], dict[str, float]]:
    """Return shares of one core: by process, and within tuner by activity."""
    clock, layout = SystemClock(), Layout(options.processes, options.threads)
    worker = str(Path(__file__).resolve().with_name("overhead_worker.py"))
    command = (sys.executable, worker, "busy" if options.busy else "quiet")
    spent_s: dict[str, float] = defaultdict(float)
    launcher = SupervisordLauncher(
        ServiceSpec("overhead", command, max_extra_threads=1),
        cores=options.processes,
        cpus=None,
        run_root=None,
        clock=clock,
        marker=uuid.uuid4().hex,
        keep_logs=None,
        warn=lambda slug, text: print(f"warning [{slug}]: {text}", file=sys.stderr),
    )
    probe = CounterProbe(clock, Path(tempfile.gettempdir()))
    sampler = ProcSampler(clock, gil_looks_per_s=LOOKS_PER_S)
    with (
        launcher,
        probe.counting(layout) as counting,
        launcher.running(layout, counting.environment) as launch,
        sampler.watching(launch, frozenset()) as watch,
        bars(shown_study(options, layout), layout)
        if options.bars
        else nullcontext(lambda *_: None) as result,
    ):
        running = RunningLayout(
            layout,
            study_of(options, layout),
            clock,
            Timed(launch, spent_s, "problems"),
            Timed(counting, spent_s, "read"),
            Timed(watch, spent_s, "sample", "usage"),
            NoFeeder(),
        )
        running.warm_up(lambda *_: None, lambda: False)
        spent_s.clear()
        pids = {"tuner": os.getpid(), "supervisord and guardian": 0}
        before = time.process_time(), sum(map(cpu_s, launch.overhead_pids()))
        began_s = clock.monotonic_s()
        window = running.take_window(0, 1, result)
        elapsed_s = clock.monotonic_s() - began_s
        after = time.process_time(), sum(map(cpu_s, launch.overhead_pids()))
    if not window.n_done or any(reason.slug in ("worker-died", "wrong-layout") for reason in window.void):
        sys.exit(f"the window is no use: {window.n_done} items, {window.void}")
    by_process = {name: (then - now) / elapsed_s for name, now, then in zip(pids, before, after, strict=True)}
    return by_process, {name: value / elapsed_s for name, value in spent_s.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=24)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--window", type=float, default=60.0, help="seconds")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--busy", action="store_true", help="workers spawn children instead of sleeping")
    parser.add_argument(
        "--bars", action="store_true", help="with the view of a terminal and the file beside the study"
    )
    options = parser.parse_args()
    windows = [one_window(options) for _ in range(options.repeats)]
    total = median(sum(processes.values()) for processes, _ in windows)
    print(
        f"{options.processes} processes x {options.threads} threads, {'busy' if options.busy else 'quiet'}, "
        f"window {options.window:g} s, medians of {options.repeats}"
    )
    for name in windows[0][0]:
        print(f"  {name:26} {median(processes[name] for processes, _ in windows):8.3%} of one core")
    verdict = "met" if total <= BAR_RATIO else "MISSED"
    print(f"  {'together':26} {total:8.3%}   the bar of {BAR_RATIO:.1%} is {verdict}")
    for name in sorted(windows[0][1]):
        print(f"      tuner's {name + '()':18} {median(parts[name] for _, parts in windows):8.3%}")


if __name__ == "__main__":
    main()
