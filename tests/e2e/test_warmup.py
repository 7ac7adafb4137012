"""A real service that starts slowly: tuner finds out when it is warm, and measures it then."""

from __future__ import annotations

import sys

import pytest

from tuner.adapters.sqlite.store import SqliteStore
from tuner.core.windows.summary import items_per_s

from .sleeping_worker import sleeping_worker
from .typed import Typed

pytestmark = [pytest.mark.integration]  # a minute: a quarter of it is the slow start itself
SLOW_S = 15


def test_a_service_with_a_slow_start_is_measured_once_it_is_warm(typed: Typed) -> None:
    """Ten times slower at first: a window of it would tell. On a busy box the cap ends the warm-up."""
    (typed.folder / "worker.py").write_text(
        sleeping_worker(f"0.05 if time.monotonic() - began_s < {SLOW_S} else 0.005")
    )
    (typed.folder / "s.yaml").write_text(
        f"service:\n  kind: script\n  name: slow-starter\n  command: [{sys.executable}, worker.py]\n"
        f"  directory: {typed.folder}\n"
        "study: {strategy: all, layouts: [1x2], window: 10s, warmup: auto, warmup_cap: 45s, repeats: 1,"
        " warm_cache: no, foreign_limit: 1000, memory_pressure_limit: 1}\n"
    )

    done = typed("grid", "s.yaml")

    assert done.returncode == 0, done.stderr
    with SqliteStore.open(typed.folder / "slow-starter.tuner.db", read_only=True) as store:
        ((launch_id, launch),) = store.launches()
        warmup = items_per_s(store.warmup_samples(launch_id))
        window = items_per_s(store.samples(launch_id, 0, 1))
    assert launch.warmup_s is not None
    assert launch.warmup_s > SLOW_S
    assert max(warmup[2 : SLOW_S - 3]) < 0.5 * min(window)
    assert launch.steady_from_s is not None
    assert launch.steady_from_s >= SLOW_S - 3
