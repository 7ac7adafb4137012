"""Wrapper that replaces ``concurrency`` in the user's SAQ settings with the layout's number of jobs.

It removes ``cron_jobs``, because every worker would enqueue them, and they stay in the queue after a stop.
Their functions stay registered.

SAQ reads ``concurrency`` only from its settings. tuner has SAQ import this module instead of the user's
settings, in the user's Python, and changes no file.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

#: seconds that jobs get to end at a stop; SAQ before 0.26 lacks this setting, and cancels jobs at once
_GRACE = "shutdown_grace_period_s"
#: its value, unless the user sets one. By SAQ's own default, 0, jobs are cancelled at once and done again
GRACE_S = 5
PATH = "TUNER_SAQ_SETTINGS"  #: the user's own, as ``package.module.settings``
READY = "tuner: the SAQ worker is ready"  #: SAQ itself logs its start with -v only, and then each job as well


def _startup(hooks: Any) -> Callable[[Any], Any]:
    """Return a hook that runs the user's *hooks*, and prints that the worker has started.

    SAQ runs it before the first job. Old versions of SAQ accept a single hook only.
    """

    async def start(context: Any) -> None:
        for hook in [hooks] if callable(hooks) else [*hooks]:
            await hook(context)
        print(READY, file=sys.stderr, flush=True)  # noqa: T201  # tuner reads it in the log

    return start


def _has_grace() -> bool:
    """Return whether this SAQ, which imports this module, has the setting `_GRACE`."""
    worker = sys.modules.get("saq.worker")
    return worker is None or _GRACE in inspect.signature(worker.Worker.__init__).parameters


def _load_user_settings() -> Any:
    module, _, name = os.environ[PATH].strip().rpartition(".")
    sys.path.append(os.getcwd())  # as SAQ does
    found = getattr(import_module(module), name)
    return found() if callable(found) else found  # SAQ accepts a function that returns them, too


def _with_concurrency(own: Any, concurrency: int) -> dict[str, Any]:
    return {
        **own,
        "functions": [*own.get("functions", ()), *(job.function for job in own.get("cron_jobs") or ())],
        "concurrency": concurrency,
        "startup": _startup(own.get("startup") or []),
        "cron_jobs": [],
        **({_GRACE: own.get(_GRACE) or GRACE_S} if _has_grace() else {}),
    }


settings = _with_concurrency(_load_user_settings(), int(os.environ["TUNER_THREADS"]))
