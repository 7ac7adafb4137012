"""When the load generator wakes up for a request that is due.

Of many waits, only the best one is judged: a busy host delays some of them, but it ends none too early.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.adapters.load.precise_timers import PreciseSelector

pytestmark = pytest.mark.pythons
PATIENCE_S = 60.0
#: shorter than the shortest wait of epoll above 0, which is a millisecond
WAIT_S = 0.0002
EPOLL_S = 0.001
#: runs the generator's `main`, in which waits replace the requests until one wait is short enough
GENERATOR = f"""
import asyncio, sys, time
from pathlib import Path
from tuner.adapters.load import generator
from tuner.adapters.load.order import Order
async def run(order, totals):
    waiting, least_s, until_s = generator.Generator(order, None), 1.0, time.monotonic() + {PATIENCE_S}
    while least_s >= {EPOLL_S} and time.monotonic() < until_s:
        least_s = min(least_s, await waited(waiting._over_within({WAIT_S})))
    print(least_s, Path("/proc/self/timerslack_ns").read_text())
async def waited(wait):
    began_s = time.monotonic()
    await wait
    return time.monotonic() - began_s
generator._main = run
Order("127.0.0.1", 1, (), 1, rate_per_s=20.0).write(Path(sys.argv[1]))
generator.main(sys.argv[1], "")
"""


def shortest_s(wait: Callable[[], object], enough_s: float) -> float:
    """The shortest duration of *wait*, once one is less than *enough_s*, or after `PATIENCE_S`."""
    shortest, until_s = PATIENCE_S, time.monotonic() + PATIENCE_S
    while shortest >= enough_s and time.monotonic() < until_s:
        began_s = time.monotonic()
        wait()
        shortest = min(shortest, time.monotonic() - began_s)
    return shortest


def test_a_wait_of_less_than_a_millisecond_ends_within_it() -> None:
    """With ``EpollSelector``, each takes a millisecond or longer, however fast the host is."""
    with PreciseSelector() as selector:
        assert WAIT_S <= shortest_s(lambda: selector.select(WAIT_S), EPOLL_S) < EPOLL_S


def test_a_longer_wait_is_not_rounded_up_to_the_next_millisecond() -> None:
    with PreciseSelector() as selector:
        assert 0.0202 <= shortest_s(lambda: selector.select(0.0202), 0.021) < 0.021


def test_an_event_ends_the_wait_whether_it_came_before_or_comes_during_it() -> None:
    reading, writing = os.pipe()
    with PreciseSelector() as selector:
        key = selector.register(reading, selectors.EVENT_READ)
        assert selector.select(0) == selector.select(-1) == selector.select(WAIT_S) == []
        os.write(writing, b"x")
        assert selector.select(0) == selector.select(None) == [(key, selectors.EVENT_READ)]
        assert selector.select(PATIENCE_S) == [(key, selectors.EVENT_READ)]
    os.close(reading)
    os.close(writing)


def test_a_signal_ends_the_wait_of_an_event_loop() -> None:
    async def until_signalled() -> None:
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, told.set)
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        async with asyncio.timeout(PATIENCE_S):
            await told.wait()

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(PreciseSelector())) as runner:
        runner.run(until_signalled())


@pytest.mark.integration
def test_the_load_generator_waits_with_these_timers(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GENERATOR, str(tmp_path / "order.json")],
        capture_output=True,
        text=True,
        check=True,
    )
    least_s, slack_ns = done.stdout.split()

    assert WAIT_S <= float(least_s) < EPOLL_S
    assert slack_ns == "1"
