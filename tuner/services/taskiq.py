"""Service record of taskiq: workers with an event loop, and a pool for functions that are not async."""

from __future__ import annotations

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

_POOL = "--use-process-pool"
_READY = {"kind": "log", "pattern": r"Listening started\."}
_SILENT = ("WARNING", "ERROR", "FATAL", "CRITICAL")  #: levels at which it does not log that it is ready


def _form(name: str, summary: str, threads: str, *pool: str) -> Form:
    return Form(
        name=name,
        summary=summary,
        words=lambda command: tuple(word for word in command.words if word != _POOL),  # set by the form
        layout=Arguments(flags=("--workers={processes}", "--max-async-tasks={threads}", *pool)),
        threads=threads,
        programs="one",
        ready=_READY,
        stop={"signal": "TERM", "wait": "70s"},
        loses="rarely, a message that a worker fetches at the moment of its stop",
    )


def _logs(command: Command) -> bool:
    return not command.has("--no-configure-logging") and command.option("--log-level") not in _SILENT


SERVICE = Service(
    name="taskiq",
    summary="async task queue: workers with an event loop and a pool of threads",
    page="docs/services/taskiq.md",
    example="taskiq worker app:broker",
    commands=("taskiq",),
    forms=(
        _form(
            "threads",
            "async tasks in the loop of each worker, sync tasks in its threads",
            "tasks at once",
            "--max-threadpool-threads={threads}",
        ),
        _form(
            "processes",
            "tasks that are not async in a pool of processes of each worker",
            "processes of a worker's pool",
            _POOL,
            "--max-process-pool-processes={threads}",
        ),
    ),
    form_of=lambda command: "processes" if command.has(_POOL) else None,
    grammar=Grammar(abbreviations=True, switches="hr"),  # argparse
    settings=queue_settings("taskiq", redis_url_variable),
    probes=(
        queue_counted(
            "messages that a worker took from the list (ListQueueBroker)",
            "nothing per item: a length is read once a second",
            {"llen": "{queue}"},
            counts_too=ALSO_FAILED,
        ),
    ),
    feeder=lambda _command, settings: queue_feeder("taskiq", settings),
    unfed=unfed("taskiq"),
    logs=_logs,
    refused={"--reload": "it starts one worker, and watches files; leave it out", "-r": "it is --reload"},
    gate="feed",
    gate_reason=GATE_REASON,
    advice=(
        "A worker fetches --max-async-tasks messages at once; tuner sets the same number of threads for sync"
        " tasks.",
        "--max-prefetch fetches more messages than that; a killed worker loses them.",
        "Streams and PubSub of taskiq-redis, RabbitMQ, NATS: name a probe and a feeder of your own.",
    ),
)
