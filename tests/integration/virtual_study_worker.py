"""Run (or resume) a virtual study in a real file, slowly enough to be killed: FILE SEED STRATEGY [WINDOWS].

Print "running", then "window" after each window. WINDOWS is how many windows each launch has, by default 1.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from tuner.adapters.sqlite.store import SqliteStore
from tuner.adapters.virtual.box import Trouble, VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, PlannedStop
from tuner.core.domain.layout import parse_layouts
from tuner.core.search.strategies.of_study import strategy_of
from tuner.study.run import run_study

SERVICE = VirtualService({layout: 8.0 + layout.threads for layout in parse_layouts("1x8,2x4,4x2,8x1,2x2")})
TROUBLES = (Trouble("dies", block=1, attempt=1), Trouble("dies-at-start", block=2, attempt=1))


class SlowClock(VirtualClock):
    """A virtual second takes a real moment."""

    takes_s = 0.0005

    def sleep_until(self, at_s: float) -> None:
        time.sleep(self.takes_s)
        super().sleep_until(at_s)


class PrintedProgress(MemoryProgress):
    """Prints each window that tuner reports as finished."""

    def window_taken(self, *facts: Any) -> None:
        super().window_taken(*facts)
        print("window", flush=True)  # noqa: T201 - for the test that reads it


def main() -> None:
    path, seed, strategy = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    study = virtual_study(
        SERVICE,
        strategy=strategy,
        seed=seed,
        window_s=20.0,
        warmup_s=8.0,
        n_blocks=4,
        within_ratio=0.1,
        windows_per_launch=int(sys.argv[4]) if len(sys.argv) > 4 else 1,
    )
    with SqliteStore.open(path) if path.exists() else SqliteStore.create(path, study) as store:
        leads = strategy_of(store.study())
        if strategy == "race":
            SlowClock.takes_s = 0.003  # beside what it takes to load and to decide
        sys.stdout.write("running\n")
        sys.stdout.flush()
        box = VirtualBox(SERVICE, seed=seed, clock=SlowClock.resumed(store), troubles=TROUBLES).box()
        sys.exit(run_study(box, store, PrintedProgress(), PlannedStop(), leads).exit_code)


if __name__ == "__main__":
    main()
