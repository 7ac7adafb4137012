"""Layouts that compute in more threads than they have, for real, and the axis that sets their number."""

from __future__ import annotations

import json
import sys

import pytest

from .typed import Typed

pytestmark = pytest.mark.integration
#: as with a numeric library: items are computed without the GIL, and so many threads help as a variable says
_WORKER = """\
import hashlib, os, signal, threading
from tuner.probe import counter

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
data = bytes(1 << 24)


def compute(done=lambda: None):
    while not stop.is_set():
        hashlib.sha256(data).digest()
        done()


helpers = [threading.Thread(target=compute) for _ in range(int(os.environ["OMP_NUM_THREADS"]) - 1)]
for helper in helpers:
    helper.start()
compute(counter.open_counter().slot().done)
for helper in helpers:
    helper.join()
"""
_STUDY = """\
service: {kind: script, name: jobs, command: [PYTHON, worker.py]}
study: {strategy: all, layouts: [1x1@1, 1x1@auto], window: 4s, warmup: 1s, repeats: 1, warm_cache: no,
  foreign_limit: 1000, memory_pressure_limit: 1}
"""


def test_more_threads_than_the_layout_has_are_reported_and_an_axis_sets_their_number(typed: Typed) -> None:
    (typed.folder / "worker.py").write_text(_WORKER)
    (typed.folder / "s.yaml").write_text(_STUDY.replace("PYTHON", sys.executable))

    done = typed("grid", "s.yaml", "--cores", "3", "--axis", "omp=1,auto", "--json")

    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stderr.splitlines() if "[inner-threads]" in line]
    assert len(warnings) == 1
    assert "1x1@auto runs 3 computing threads" in warnings[0]
    (found,) = json.loads(done.stdout)["evidence"]["inner_threads"]
    assert (found["layout"], found["n_threads"], found["n_inner"]) == ("1x1@auto", 3, 2)
    result = typed("rank", "jobs.tuner.db").stdout
    assert "Workers computed in more threads than the layout has: 1x1@auto in 3" in " ".join(result.split())
