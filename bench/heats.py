"""Noise of the ratio of two layouts in slices and one after the other, for the same time.

    python bench/heats.py [STUDY.yaml | --service NAME] [--layouts LAYOUTS] [--counted 8]
        [--repeats 30] [--neighbour SEED]

Each repetition measures the layouts both ways, in random order: as one heat, and each in a separate launch.
Separate windows are longer by the time that the heat skips, so both ways take equally long. The first table
has the throughput of each layout both ways, which must be equal, and their ratio with a 95 % interval. The
second table has, for each pair of layouts, the standard deviation of the logarithm of their ratio both ways,
the quotient of the two, and the mean ratios with 95 % intervals. With `--neighbour`, a program (neighbour.py)
disturbs the host. Without STUDY.yaml, the service is the built-in crash processor. `--service "celery
threads"` is a name in truth_services.py; its item computes for `--python` seconds and waits for `--wait`
seconds. It needs `make services`, and redis-server for queue workers.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import combinations
from math import exp, log, sqrt
from pathlib import Path
from random import Random
from statistics import mean, stdev
from typing import Any

from tabulate import tabulate
from truth import Place, running_broker
from truth_ideal import Demand
from truth_services import SERVICES, Service

from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.app.plan_builder import plan_record
from tuner.bootstrap.configs import settings_of
from tuner.bootstrap.wire import this_box
from tuner.config.problems import Given
from tuner.core.domain.layout import Layout, parse_layouts
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.strategy import Answer, Observed, Proposal
from tuner.core.stats.interval import Estimate
from tuner.core.stats.quantiles import student_t_quantile
from tuner.study.run import run_study

SKIPPED = 1.25  #: a slice lasts so many times its counted part


class BothWays:
    """A strategy: each repetition has a heat, and the same layouts one after the other."""

    def __init__(self, layouts: Sequence[Layout], counted_s: float, n: int, seed: int) -> None:
        self._random = Random(seed)
        self._layouts, self._counted_s = list(layouts), counted_s
        self._blocks: list[list[Proposal]] = []
        for _ in range(n):
            ways = [self._heat(), self._alone()]
            self._random.shuffle(ways)
            self._blocks += ways

    def _heat(self) -> list[Proposal]:
        return [Proposal(one, self._counted_s, heat=0) for one in self._shuffled()]

    def _alone(self) -> list[Proposal]:
        return [Proposal(one, self._counted_s * SKIPPED) for one in self._shuffled()]

    def _shuffled(self) -> list[Layout]:
        return self._random.sample(self._layouts, len(self._layouts))

    def propose(self) -> Sequence[Proposal]:
        return self._blocks[0] if self._blocks else []

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        del self._blocks[0]
        print(f"{len(self._blocks)} blocks left, {len(windows)} windows", file=sys.stderr, flush=True)
        if failed:
            raise SystemExit(f"cannot be run: {', '.join(map(str, failed))}")

    def answer(self) -> Answer:
        return Answer(None, False, "none")

    def estimates(self) -> Mapping[Layout, Estimate]:
        return {}


@contextmanager
def neighbour(seed: int | None) -> Any:
    if seed is None:
        yield
        return
    program = Path(__file__).with_name("neighbour.py")
    with subprocess.Popen(
        [sys.executable, str(program), "--seed", str(seed)], start_new_session=True
    ) as process:
        try:
            yield
        finally:
            os.killpg(process.pid, 9)


def layouts_of(service: Service | None) -> str:
    """The default layouts, with the service's variant; a service without threads has processes alone."""
    if service is None:
        return "2x2,1x4,4x1"
    _, at, variant = service.layouts.split(",")[0].partition("@")
    plain = ("2x-", "1x-", "4x-") if service.form == "processes" else ("2x2", "1x4", "4x1")
    return ",".join(f"{layout}{at}{variant}" for layout in plain)


@contextmanager
def config_of(name: str, demand: Demand, services: Path) -> Iterator[Path]:
    """The config of a service of truth_services.py, which has a broker and a sample of messages."""
    service = replace(SERVICES[name], demands={"mixed": demand})
    with tempfile.TemporaryDirectory(prefix="heats-") as given, ExitStack() as stack:
        folder = Path(given)
        broker = stack.enter_context(running_broker(folder)) if service.messages else ""
        place = Place(service, "mixed", folder, broker, folder / "child", "heats")
        place.config("")
        if service.messages:
            place.record_sample(services / "bin" / "python")
        os.environ["PATH"] = f"{services / 'bin'}:{os.environ['PATH']}"
        yield folder / "study.yaml"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", type=Path, nargs="?")
    parser.add_argument("--service", choices=SERVICES)
    parser.add_argument("--python", type=float, default=0.004, help="seconds of CPU of an item")
    parser.add_argument("--wait", type=float, default=0.004, help="seconds that an item waits")
    parser.add_argument("--services", type=Path, default=Path(".venv-services").absolute())
    parser.add_argument("--layouts", help="default: 2x2,1x4,4x1, or 2, 1 and 4 processes")
    parser.add_argument("--counted", type=float, default=8.0, help="seconds of each layout in a heat")
    parser.add_argument("--warmup", type=float, default=3.0)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--neighbour", type=int)
    options = parser.parse_args()
    with ExitStack() as stack:
        config = options.config
        if options.service is not None:
            demand = Demand(python_s=options.python, wait_s=options.wait)
            config = stack.enter_context(config_of(options.service, demand, options.services))
        measure(config, options)


def measure(config: Path | None, options: argparse.Namespace) -> None:
    named = options.layouts or layouts_of(SERVICES.get(options.service))
    layouts = parse_layouts(named)
    settings = settings_of(config, {("study", "layouts"): Given("--layouts", named)})
    asked = plan_record(settings)
    record = replace(
        asked,
        layouts=tuple(layouts),
        warmup_s=options.warmup,
        warms_cache=False,
        foreign_limit_cores=64.0,
        n_resident=len(layouts),
        provenance=Provenance(),
    )
    store, progress = MemoryStore(record), MemoryProgress()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stack.enter_context(neighbour(options.neighbour))
        box = stack.enter_context(this_box(settings, record, str(Path(folder) / "x.db"), progress.warning))
        strategy = BothWays(layouts, options.counted, options.repeats, options.seed)
        run_study(box, store, progress, PlannedStop(), strategy)
    report(store, layouts)
    for slug, text in progress.warnings[:5]:
        print(f"{slug}: {text}", file=sys.stderr)


def report(store: MemoryStore, layouts: Sequence[Layout]) -> None:
    launches = dict(store.launches())
    rates: dict[bool, dict[int, dict[Layout, float]]] = {True: defaultdict(dict), False: defaultdict(dict)}
    took: dict[bool, list[float]] = {True: [], False: []}
    for window in store.windows():
        in_turns = launches[window.launch_id].heat is not None
        if not window.void:
            rates[in_turns][window.block][window.layout] = log(window.n_done / window.length_s)
    for block in {launch.block for launch in launches.values()}:
        of_block = [launch for launch in launches.values() if launch.block == block]
        ends = [launch.ended_wall_s or 0.0 for launch in of_block]
        began = min(launch.started_wall_s for launch in of_block)
        took[of_block[0].heat is not None].append(max(ends) - began)
    own = []
    for layout in layouts:
        logs = {way: [of[layout] for of in blocks.values() if layout in of] for way, blocks in rates.items()}
        n = min(map(len, logs.values()))
        if n > 1:
            apart = [one - other for one, other in zip(logs[True], logs[False], strict=False)]
            own.append([layout, exp(mean(logs[False])), exp(mean(logs[True])), ratio(apart), n])
    rows = []
    for a, b in combinations(layouts, 2):
        found = {
            way: [of[a] - of[b] for of in blocks.values() if a in of and b in of]
            for way, blocks in rates.items()
        }
        if min(len(ratios) for ratios in found.values()) < 2:
            continue
        sds = {way: stdev(ratios) for way, ratios in found.items()}
        rows.append(
            [
                f"{a} / {b}",
                f"{100 * sds[False]:.1f} %",
                f"{100 * sds[True]:.1f} %",
                f"{sds[False] / sds[True]:.2f}",
                ratio(found[False]),
                ratio(found[True]),
                len(found[True]),
            ]
        )
    print(
        tabulate(own, headers=("layout", "items/s alone", "in slices", "slices / alone", "n"), floatfmt=".1f")
    )
    print()
    headers = ("pair", "sd alone", "sd in slices", "alone / slices", "ratio alone", "ratio in slices", "n")
    print(tabulate(rows, headers=headers))
    print(f"\nA repetition took {mean(took[False]):.0f} s alone and {mean(took[True]):.0f} s in slices.")


def ratio(logs: Sequence[float]) -> str:
    reach = student_t_quantile(0.975, len(logs) - 1) * stdev(logs) / sqrt(len(logs))
    middle = mean(logs)
    return f"{exp(middle):.3f} ({exp(middle - reach):.3f} to {exp(middle + reach):.3f})"


if __name__ == "__main__":
    main()
