"""Counts the tasks that a Celery node finishes. The node imports it (``--include``), in the user's Python.

Celery itself counts tasks as they begin, so that a retry and a failure are tasks as well. This listens to its
signal ``task_postrun``, which the process that worked on a task sends, and counts where tuner reads it.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from celery.signals import task_postrun

#: tasks of Celery's own that are no work: the one waits for a group by retrying, the other tidies up
_NO_WORK = ("celery.chord_unlock", "celery.backend_cleanup")
#: states that end a task as it wanted; every other one, RETRY among them, is an attempt that failed
_WELL = ("SUCCESS", "IGNORED")


def _counter() -> Any:
    """What ``tuner.probe.counter`` has: that file alone, as tuner is not installed beside the user's Celery."""
    path = Path(__file__).resolve().parents[2] / "probe" / "counter.py"
    spec = importlib.util.spec_from_file_location("tuner_counter", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.open_counter()


_COUNTER = _counter()


@task_postrun.connect(weak=False, dispatch_uid="tuner")
def _ended(task: Any, state: Any = None, **_: Any) -> None:
    """Count one attempt; one that another task runs within itself is part of that."""
    if task.name in _NO_WORK or task.request.is_eager:
        return
    slot = _COUNTER.slot()
    if state in _WELL:
        slot.done()
    else:
        slot.failed()
