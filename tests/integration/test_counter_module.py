"""The module that Celery's nodes import, which lies beside a launch's counters; without Celery itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.probes.mmap_counter import CounterProbe
from tuner.core.domain.layout import Layout

from ..wording import wording

pytestmark = pytest.mark.integration
#: as much of Celery as the module imports: a signal that calls who listens
CELERY = """\
class Signal:
    def connect(self, **_):
        return lambda receiver: setattr(self, "send", receiver) or receiver

task_postrun = Signal()
"""
NODE = """\
import os, sys
from types import SimpleNamespace
import tuner_celery
from celery.signals import task_postrun

for name, state, is_eager in [line.split(",") for line in sys.argv[1:]]:
    task = SimpleNamespace(name=name, request=SimpleNamespace(is_eager=is_eager == "eager"))
    if os.fork() == 0:  # as a pool does: the module was imported before
        task_postrun.send(task=task, state=state or None, retval=1)
        os._exit(0)
    os.wait()
"""


def test_the_states_of_tasks_become_finished_and_failed_items(tmp_path: Path) -> None:
    package = tmp_path / "celery"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "signals.py").write_text(CELERY)
    attempts = [
        *("a,SUCCESS,", "a,SUCCESS,", "a,IGNORED,"),
        *("a,FAILURE,", "a,RETRY,", "a,REJECTED,", "a,,"),
        *("a,SUCCESS,eager", "celery.chord_unlock,RETRY,", "celery.backend_cleanup,SUCCESS,"),
    ]

    with CounterProbe(SystemClock(), tmp_path, module="celery").counting(Layout(2, 1)) as counting:
        folder = counting.environment["TUNER_COUNTER_DIR"]
        environment = {**counting.environment, "PYTHONPATH": f"{tmp_path}:{folder}"}
        before = counting.read()
        subprocess.run([sys.executable, "-c", NODE, *attempts], env=environment, check=True, timeout=60)
        reading = counting.read()

    assert before.problem == wording("probes.worker-opened-no-counter")
    assert (reading.n_done_total, reading.n_failed_total, reading.problem) == (3, 4, "")
    assert reading.n_slots is None  # greenlets that count are not the layout's threads
    assert not Path(folder).exists()


def test_without_a_module_the_folder_holds_counters_only(tmp_path: Path) -> None:
    with CounterProbe(SystemClock(), tmp_path).counting(Layout(1, 1)) as counting:
        assert list(Path(counting.environment["TUNER_COUNTER_DIR"]).iterdir()) == []


def test_another_user_can_read_the_module_whatever_the_umask_of_tuner(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with CounterProbe(SystemClock(), tmp_path, module="celery").counting(Layout(1, 1)) as counting:
            files = list(Path(counting.environment["TUNER_COUNTER_DIR"]).glob("*.py"))
            modes = {file.name: file.stat().st_mode & 0o777 for file in files}
    finally:
        os.umask(before)

    assert modes == {"tuner_celery.py": 0o644, "tuner_counter.py": 0o644}
