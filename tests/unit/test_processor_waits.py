"""Waits that stand for a remote store, and the stopwatch of an item."""

from __future__ import annotations

import statistics
import time

import pytest

from tuner_workers.crash_processor.errors import OutOfTimeError
from tuner_workers.crash_processor.stages import Stages
from tuner_workers.crash_processor.stop_event import StopEvent
from tuner_workers.crash_processor.waits import drawn_delay_s, wait


def _delay_s(crash_id: str, seed: int = 0, stage: str = "fetch") -> float:
    return drawn_delay_s(4.0, seed=seed, crash_id=crash_id, stage=stage)


def test_delays_have_the_mean_that_was_requested() -> None:
    delays_ms = [_delay_s(f"crash {n}") * 1000 for n in range(4000)]
    # a lognormal of sigma 0.5 has a standard deviation of 0.533 of its mean; 4 standard errors
    tolerance_ms = 4 * 0.533 * 4.0 / 4000**0.5

    assert statistics.fmean(delays_ms) == pytest.approx(4.0, abs=tolerance_ms)
    assert statistics.stdev(delays_ms) == pytest.approx(0.533 * 4.0, rel=0.15)


def test_an_item_waits_equally_long_wherever_it_runs() -> None:
    assert _delay_s("a") == _delay_s("a")
    assert len({_delay_s("a"), _delay_s("b"), _delay_s("a", seed=1), _delay_s("a", stage="save")}) == 4


def test_no_delay_is_no_wait() -> None:
    assert drawn_delay_s(0.0, seed=0, crash_id="a", stage="save") == 0.0
    assert wait(0.0, StopEvent()) == 0


def test_a_wait_ends_with_the_grace_of_a_stop() -> None:
    stop = StopEvent(graceful_timeout_s=0.01)
    stop.set()

    with pytest.raises(OutOfTimeError):
        wait(1000.0, stop)


def test_a_wait_that_fits_into_the_grace_is_waited_out() -> None:
    stop = StopEvent(graceful_timeout_s=1000.0)
    stop.set()

    assert wait(0.02, stop) >= 0.019e9


def test_stages_add_up_to_the_whole_item() -> None:
    started_ns = time.perf_counter_ns()
    stages = Stages(claim_wall_ns=3000, claim_cpu_ns=2000)
    sum(range(200_000))
    stages.finish("fetch")
    time.sleep(0.02)
    stages.finish("save")
    whole_ns = time.perf_counter_ns() - started_ns

    assert list(stages.wall_ns) == ["claim", "fetch", "save"]
    assert stages.wall_ns["save"] >= 0.019e9
    assert stages.cpu_ns["save"] < stages.wall_ns["save"]
    assert sum(stages.wall_ns.values()) <= whole_ns + 3000
    assert stages.python_cpu_ns == sum(stages.cpu_ns.values())
    assert stages.in_ms()["claim"] == {"wall_ms": 0.003, "cpu_ms": 0.002}
