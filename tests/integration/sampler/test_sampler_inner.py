"""Threads of real workers that compute beside those of their layout, and others that do not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.proc.procfs import ProcSampler
from tuner.core.domain.layout import Computing, Layout

pytestmark = pytest.mark.integration

Start = Callable[..., Any]
PATIENCE_S = 60.0
EVERY_S = 0.6  #: looks that are nearer to each other say nothing
N_LOOKS = 4


def looks(start: Start, mode: str, shape: Layout) -> Iterator[Computing]:
    """What looks at a worker of *shape* that could judge its threads gave."""
    workers = start(mode)
    workers.shape = shape
    workers.processes[0].stdout.readline()
    deadline = time.monotonic() + PATIENCE_S
    with ProcSampler(SystemClock()).watching(workers, frozenset()) as watch:
        while time.monotonic() < deadline:
            computing = watch.usage().computing
            if computing is not None:
                yield computing
            time.sleep(EVERY_S)
    pytest.fail("never seen")


def test_threads_that_compute_without_the_gil_beside_the_layouts_are_seen(start: Start) -> None:
    found = next(one for one in looks(start, "gil free 3", Layout(1, 1)) if one.n_inner == 2)

    assert found.loaded.pools == ()


def test_as_many_as_the_layout_has_are_its_own(start: Start) -> None:
    found = looks(start, "gil free 3", Layout(1, 3))

    assert [next(found).n_inner for _ in range(N_LOOKS)] == [0] * N_LOOKS


@pytest.mark.parametrize("mode", ["helped 3", "gil python 4", "gil asleep 4"])
def test_threads_that_wait_or_take_turns_at_python_code_do_not_compute_beside_it(
    start: Start, mode: str
) -> None:
    found = looks(start, mode, Layout(1, 1))

    assert [next(found).n_inner for _ in range(N_LOOKS)] == [0] * N_LOOKS
