"""Wrapper that replaces ``max_jobs`` in the user's WorkerSettings with the layout's number of jobs.

It removes ``cron_jobs``, because they would be counted, and remain in the queue if a worker stops meanwhile.
Their functions stay registered.

arq reads ``max_jobs`` only from WorkerSettings. tuner has arq import this module instead of the user's
settings, in the user's Python, and changes no file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

#: seconds for running jobs to end at a stop, unless the user sets them. By arq's own default, 0, they are
#: cancelled, and 3 of 8 times one of two busy workers did not end at all (arq 0.25)
COMPLETION_WAIT_S = 5
PATH = "TUNER_ARQ_SETTINGS"  #: the user's own, as ``package.module.WorkerSettings``


def _load_user_settings() -> Any:
    module, _, name = os.environ[PATH].strip().rpartition(".")
    sys.path.append(os.getcwd())  # as arq does, possibly later
    return getattr(import_module(module), name)


def _with_max_jobs(settings: Any, max_jobs: int) -> Mapping[str, Any]:
    """Return the settings as a mapping, which arq accepts, too; of a class, arq reads only its own names."""
    own = settings if isinstance(settings, dict) else vars(settings)
    wait = own.get("job_completion_wait") or COMPLETION_WAIT_S
    return {
        **own,
        "functions": _functions(own),
        "max_jobs": max_jobs,
        "job_completion_wait": wait,
        "cron_jobs": None,
    }


def _functions(own: Mapping[str, Any]) -> list[Any]:
    """Return the registered functions, those of cron jobs included."""
    functions, jobs = [*own.get("functions", ())], own.get("cron_jobs") or ()
    if jobs:
        from arq.worker import func  # type: ignore[import-not-found]  # in the user's Python

        functions += [func(job.coroutine, name=job.name) for job in jobs]
    return functions


WorkerSettings = _with_max_jobs(_load_user_settings(), int(os.environ["TUNER_THREADS"]))
