"""Plugin that counts the tasks a Celery node finishes; the node imports it with ``--include``.

Celery itself counts tasks when they begin, and counts retries and failures as tasks. This module counts at
the signal ``task_postrun``, which the process that ran a task sends, into the counter that tuner reads. The
file lies in the launch's folder of counters, next to ``tuner.probe.counter`` as ``tuner_counter``.
"""

from __future__ import annotations

from typing import Any

from celery.signals import task_postrun
from tuner_counter import open_counter  # type: ignore[import-not-found]  # a copy, see above

#: Celery's internal tasks, which are no items: one waits for a group by retries, the other cleans up
_NO_WORK = ("celery.chord_unlock", "celery.backend_cleanup")
#: states in which a task has succeeded; every other state, even RETRY, is a failed attempt
_WELL = ("SUCCESS", "IGNORED")
_COUNTER = open_counter()


@task_postrun.connect(weak=False, dispatch_uid="tuner")  # type: ignore[untyped-decorator]  # of Celery
def _count_attempt(task: Any, state: Any = None, **_: Any) -> None:
    """Count one attempt, unless the task runs inside another one, which counts it."""
    if task.name in _NO_WORK or task.request.is_eager:
        return
    slot = _COUNTER.slot()
    if state in _WELL:
        slot.done()
    else:
        slot.failed()
