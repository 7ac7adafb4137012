"""Wrapper that replaces ``concurrency`` in the user's SAQ settings with the layout's number of jobs.

It removes ``cron_jobs``, because every worker would enqueue them, and they stay in the queue after a stop.
Their functions stay registered.

SAQ reads ``concurrency`` only from its settings. tuner has SAQ import this module instead of the user's
settings, in the user's Python, and changes no file.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

#: seconds that jobs get to end at a stop, where the user's settings give none. By SAQ's own default, 0, they
#: are cancelled at once and done again
GRACE_S = 5
PATH = "TUNER_SAQ_SETTINGS"  #: the user's own, as ``package.module.settings``
READY = "tuner: the SAQ worker is ready"  #: SAQ itself logs its start with -v only, and then each job as well


async def ready(_context: Any) -> None:
    """Print that the worker has started; SAQ calls it after the user's own hooks, before the first job."""
    print(READY, file=sys.stderr, flush=True)  # noqa: T201  # tuner reads it in the log


def _load_user_settings() -> Any:
    module, _, name = os.environ[PATH].strip().rpartition(".")
    sys.path.append(os.getcwd())  # as SAQ does
    found = getattr(import_module(module), name)
    return found() if callable(found) else found  # SAQ accepts a function that returns them, too


def _with_concurrency(own: Any, concurrency: int) -> dict[str, Any]:
    startup = own.get("startup") or []
    hooks = [startup] if callable(startup) else [*startup]
    grace_s = own.get("shutdown_grace_period_s") or GRACE_S
    return {
        **own,
        "functions": [*own.get("functions", ()), *(job.function for job in own.get("cron_jobs") or ())],
        "concurrency": concurrency,
        "startup": [*hooks, ready],
        "cron_jobs": [],
        "shutdown_grace_period_s": grace_s,
    }


settings = _with_concurrency(_load_user_settings(), int(os.environ["TUNER_THREADS"]))
