"""Service record of huey: consumers with worker processes, threads or greenlets."""

from __future__ import annotations

import re

from tuner.core.defaults import STOP_WAIT
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

_READY = "Huey consumer started with"
_STOP = {"signal": "INT", "wait": STOP_WAIT}  # TERM interrupts and loses running tasks


def _form_of(command: Command) -> str | None:
    asked = command.option("-k", "--worker-type")
    return "greenlet" if asked == "gevent" else asked


def _of_threads(name: str, summary: str, threads: str) -> Form:
    return Form(
        name,
        summary,
        Arguments(flags=("--workers={threads}", f"--worker-type={name}")),
        threads,
        os_threads="at-start" if name == "thread" else None,
        programs="each",
        ready={"kind": "log", "pattern": _READY},
        stop=_STOP,
    )


SERVICE = Service(
    name="huey",
    summary="task queue: consumers with worker processes, threads or greenlets",
    page="docs/services/huey.md",
    example="huey_consumer app.huey",
    commands=("huey_consumer", "huey_consumer.py"),
    forms=(
        _of_threads("thread", "a consumer for each process, with threads; 1xT is huey's own", "threads"),
        Form(
            "process",
            "one consumer with worker processes",
            Arguments(flags=("--workers={processes}", "--worker-type=process")),
            ready={"kind": "log", "pattern": _READY, "count": "1"},
            stop=_STOP,
        ),
        _of_threads("greenlet", "a consumer for each process, with greenlets", "greenlets"),
    ),
    form_of=_form_of,
    grammar=Grammar(abbreviations=True, switches="hvqSCfn"),  # optparse
    settings=queue_settings("huey", redis_url_variable),
    probes=(
        queue_counted(
            "tasks when a worker fetches them: at each end of a window up to P x T may be unfinished",
            "nothing per task",
            {"llen": "huey.redis.{queue}"},
            counts_too=ALSO_FAILED,
            in_keys=lambda queue: re.sub(r"[^A-Za-z0-9_]", "", queue),  # as huey does
        ),
    ),
    feeder=lambda _command, settings: queue_feeder("huey", settings),
    unfed=unfed("huey"),
    logs=lambda command: not command.has("-q", "--quiet", "-l", "--logfile"),
    refused=dict.fromkeys(("-g", "--graceful-signal"), "tuner stops huey by INT; leave it out"),
    # tasks that the scheduler enqueues would be counted, and stay there
    always=Arguments(flags=("--no-periodic",)),
    measuring_only=("--no-periodic",),
    in_production="Periodic tasks are for one consumer: start all other consumers with -n (--no-periodic).",
    gate="feed",
    gate_reason=GATE_REASON,
    advice=(
        "Its documentation: process for work on the CPU, greenlet for much waiting; thread if you"
        " are not sure.",
        "Periodic tasks are off while it is measured (-n). In production all consumers but one need -n.",
        "Results of tasks stay in Redis until they are read: RedisHuey(results=False), or watch its memory.",
    ),
)
