"""Prints, as JSON, what a service's own parser makes of a command line.

`python -P parsed.py SERVICE WORDS...`, run by the Python of .venv-services, in a folder with the applications
that the words name.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any


class Caught(BaseException):
    """What a program was about to start."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.found = found


def catch(*_positional: object, **found: Any) -> None:
    raise Caught(found)


def gunicorn() -> dict[str, Any]:
    from gunicorn.app.wsgiapp import WSGIApplication

    settings = WSGIApplication().cfg
    return {"processes": settings.workers, "threads": settings.threads, "daemon": settings.daemon}


def celery() -> dict[str, Any]:
    from celery.app.base import Celery
    from celery.bin.celery import main

    Celery.Worker = catch  # type: ignore[assignment,method-assign]
    try:
        main()
    except Caught as caught:
        pool = str(caught.found["pool"])
        number = int(caught.found["concurrency"])
        return (
            {"processes": 1, "threads": number} if "thread" in pool else {"processes": number, "threads": 1}
        )
    raise SystemExit("no worker was started")


def dramatiq() -> dict[str, Any]:
    from dramatiq.cli import make_argument_parser

    asked = make_argument_parser().parse_args()
    return {"processes": asked.processes, "threads": asked.threads}


def huey() -> dict[str, Any]:
    from huey.consumer_options import OptionParserHandler

    asked, _ = OptionParserHandler().get_option_parser().parse_args()
    is_process = asked.worker_type == "process"
    return {"processes": asked.workers if is_process else 1, "threads": 1 if is_process else asked.workers}


def taskiq() -> dict[str, Any]:
    from taskiq.cli.worker.args import WorkerArgs

    asked = WorkerArgs.from_cli(sys.argv[2:])
    pool = asked.max_process_pool_processes if asked.use_process_pool else asked.max_threadpool_threads
    assert asked.max_async_tasks == pool
    return {"processes": asked.workers, "threads": pool}


def procrastinate() -> dict[str, Any]:
    from procrastinate.cli import add_arguments, create_parser

    parser = create_parser()
    add_arguments(parser)
    return {"processes": 1, "threads": parser.parse_args().concurrency}


def rq() -> dict[str, Any]:
    import rq.cli.workers as workers
    from rq.cli import main

    if "worker-pool" not in sys.argv:
        assert not main.commands["worker"].make_context("worker", sys.argv[2:]).params["name"]
        return {"processes": 1, "threads": 1}
    workers.WorkerPool = catch  # type: ignore[assignment,misc]
    try:
        main()
    except Caught as caught:
        return {"processes": caught.found["num_workers"], "threads": 1}
    raise SystemExit("no pool was started")


def uvicorn() -> dict[str, Any]:
    module = import_module("uvicorn.main")  # the package has a function of that name
    module.run = catch
    try:
        module.main()
    except Caught as caught:
        return {"processes": caught.found["workers"] or 1, "threads": 1}
    raise SystemExit("no server was started")


def granian() -> dict[str, Any]:
    import granian.cli

    granian.cli.Server = catch  # type: ignore[assignment,misc]
    try:
        granian.cli.entrypoint()
    except Caught as caught:
        threads = caught.found["blocking_threads"] or caught.found["runtime_threads"]
        return {"processes": caught.found["workers"], "threads": threads}
    raise SystemExit("no server was started")


if __name__ == "__main__":
    parser = globals()[sys.argv.pop(1)]
    print(json.dumps(parser()))  # noqa: T201
