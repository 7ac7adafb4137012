"""Service record of arq: each program is an event loop whose concurrency is set in its WorkerSettings."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

from tuner.services.record import Arguments, Command, Form, Grammar, Service
from tuner.services.redis_queue import (
    ALSO_FAILED,
    GATE_REASON,
    queue_counted,
    queue_feeder,
    queue_settings,
    redis_url_variable,
    unfed,
)

_FOLDER = Path(__file__).parent / "arq_settings"  #: holds nothing else, so that nothing else is imported
_OURS = "tuner_arq.WorkerSettings"
_WITH_VALUE = ("--watch", "--custom-log-dict")


def _settings_at(command: Command) -> int | None:
    """Return the position of the WorkerSettings in the command; None: they are not named."""
    names = [PurePath(word).name for word in command.words]
    if "arq" not in names:
        return None
    begin = names.index("arq") + 1
    for place in range(begin, len(names)):
        word, before = command.words[place], command.words[place - 1]
        if not word.startswith("-") and (place == begin or before not in _WITH_VALUE):
            return place
    return None


def _words(command: Command) -> tuple[str, ...] | None:
    place = _settings_at(command)
    if place is None:
        return None
    before = command.environment.get("PYTHONPATH", "")
    path = f"{_FOLDER}{os.pathsep}{before}" if before else str(_FOLDER)
    lines = ("env", f"PYTHONPATH={path}", f"TUNER_ARQ_SETTINGS={command.words[place]}")
    return (*lines, *command.words[:place], _OURS, *command.words[place + 1 :])


def _production_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the original command, without tuner's settings in place of the user's."""
    data = dict(word.partition("=")[::2] for word in words[1:3])
    own = data.get("TUNER_ARQ_SETTINGS")
    return words if own is None else tuple(own if word == _OURS else word for word in words[3:])


SERVICE = Service(
    name="arq",
    summary="async job queue: one event loop per process",
    page="docs/services/arq.md",
    example="arq app.WorkerSettings",
    commands=("arq",),
    forms=(
        Form(
            name="jobs",
            summary="a program per process, each with so many jobs at once (max_jobs)",
            words=_words,
            layout=Arguments(),  # max_jobs is TUNER_THREADS, which each program reads anyway
            threads="jobs at once",
            programs="each",
            ready={"kind": "log", "pattern": "Starting worker for "},
            stop={"signal": "TERM", "wait": "70s"},
            loses="no job: a job that needs more than 5 s to end, or than its job_completion_wait, is"
            " cancelled and run again; with max_tries of 1 it fails instead",
        ),
    ),
    grammar=Grammar(switches="vV"),  # click
    settings=queue_settings("arq:queue", redis_url_variable),
    probes=(
        queue_counted(
            "jobs that were finished, whether well or not",
            "nothing per item: a length is read once a second",
            {"zcard": "{queue}"},
            counts_too=ALSO_FAILED,
        ),
    ),
    feeder=lambda _command, settings: queue_feeder("arq", settings),
    unfed=unfed("arq"),
    logs=lambda command: not command.has("--custom-log-dict"),
    in_production="WorkerSettings set the number of concurrent jobs per worker: max_jobs = {threads}.",
    production_words=_production_words,
    refused={
        "--burst": "it ends when the queue is empty; leave it out",
        "--check": "it looks at the health of another worker and ends; leave it out",
        "--watch": "it starts the worker anew when a file changes; leave it out",
    },
    gate="feed",
    gate_reason=GATE_REASON,
    advice=(
        "Its documentation names no sizes; the default of max_jobs is 10.",
        "A layout 4x20 is 4 programs whose WorkerSettings have max_jobs = 20.",
        "Jobs share one event loop: a job that computes delays all other jobs, unless it uses an executor.",
    ),
)
