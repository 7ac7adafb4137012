"""Cost of counting one finished task of Celery: ``.venv-services/bin/python bench/celery_counting.py``.

Empty tasks run through Celery's own tracer, with and without tuner's module, in pairs.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAIRS, TASKS = 7, 4000


def cpu_us(trace: Any) -> float:
    """CPU of this thread per task."""
    began_s = time.thread_time()
    for number in range(TASKS):
        trace(str(number), (), {}, {"is_eager": False})
    return (time.thread_time() - began_s) / TASKS * 1e6


def nothing() -> None:
    """Do nothing."""


def main() -> None:
    """Print the CPU of a task without the module, and the additional CPU with it."""
    from celery import Celery, signals
    from celery.app.trace import build_tracer

    app = Celery("bench", broker="memory://", set_as_current=False)
    app.conf.task_ignore_result = True
    task = app.task(name="nothing")(nothing)
    app.finalize()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TUNER_COUNTER_DIR"] = folder
        shutil.copy(ROOT / "tuner/adapters/probes/helpers/tuner_celery.py", folder)
        shutil.copy(ROOT / "tuner/probe/counter.py", Path(folder) / "tuner_counter.py")
        sys.path.insert(0, folder)
        import tuner_celery  # noqa: F401

        signal = signals.task_postrun
        counting = list(signal.receivers)
        plain_us, added_us = [], []
        for _ in range(PAIRS):
            took_us = []
            for receivers in ([], counting):
                signal.receivers[:] = receivers
                signal.sender_receivers_cache.clear()
                took_us.append(cpu_us(build_tracer("nothing", task, app=app)))
            plain_us.append(took_us[0])
            added_us.append(took_us[1] - took_us[0])
    print(f"a task that does nothing: {statistics.median(plain_us):.1f} us of CPU")
    print(
        f"counting it adds {statistics.median(added_us):.1f} us ({min(added_us):.1f} to {max(added_us):.1f})"
    )


if __name__ == "__main__":
    main()
