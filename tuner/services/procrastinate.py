"""Service record of procrastinate: each program is one event loop; jobs are rows of PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.services.record import Arguments, Command, Counted, Form, Grammar, Section, Service, Setting

_FOR_LIBPQ = "postgresql://"  #: PGHOST, PGDATABASE, ... set the missing parts
_SILENT = ("warning", "error", "critical")  #: levels at which it does not log that it is ready
_COUNT = "select count(*) from procrastinate_jobs where status"


def _database(command: Command) -> str | None:
    named = command.environment.get("DATABASE_URL", "")
    return named if named.startswith(("postgresql://", "postgres://")) else None


def _logs(command: Command) -> bool:
    level = command.option("--log-level") or command.environment.get("PROCRASTINATE_LOG_LEVEL")
    return level not in _SILENT


def _rows(command: Command, settings: Mapping[str, str]) -> Section:
    queues = [name.strip() for name in (command.value("-q", "--queues") or "").split(",")]
    names = ", ".join("'{}'".format(name.replace("'", "''")) for name in queues if name)
    of_queues = f" and queue_name in ({names})" if names else ""
    return {
        "kind": "sql",
        "url": settings["database"],
        "query": f"{_COUNT} = 'succeeded'{of_queues}",
        "failed": f"{_COUNT} in ('failed', 'aborted'){of_queues}",
    }


def _lines(_command: Command, _settings: Mapping[str, str]) -> Section:
    return {
        "kind": "log",
        "pattern": "ended with status: Success",
        "failed": "ended with status: (Error|Aborted),",
    }


SERVICE = Service(
    name="procrastinate",
    summary="job queue in PostgreSQL: one event loop per process",
    page="docs/services/procrastinate.md",
    example="procrastinate --app app.app worker",
    commands=("procrastinate",),
    forms=(
        Form(
            name="jobs",
            summary="a program per process, each with so many jobs at once",
            layout=Arguments(
                {"PROCRASTINATE_WORKER_CONCURRENCY": "{threads}"},
                ("--concurrency={threads}",),
                ("-c", "--concurrency"),
            ),
            threads="jobs at once",
            programs="each",
            ready={"kind": "log", "pattern": "Starting worker on "},
            stop={"signal": "TERM", "wait": "70s"},
        ),
    ),
    grammar=Grammar(switches="hvVwl", prefix="PROCRASTINATE_WORKER_"),  # argparse without abbreviations
    settings=(Setting("database", "the PostgreSQL that holds its jobs", _database, _FOR_LIBPQ),),
    probes=(
        Counted(
            "sql",
            "jobs that succeeded, and those that failed or were aborted: rows of their tables",
            "nothing per item; the server counts rows once a second",
            _rows,
        ),
        Counted(
            "log",
            "jobs whose end it logged, those that will be retried apart",
            "nothing: it logs them anyway",
            _lines,
        ),
    ),
    unfed="tuner does not defer jobs: defer enough for the whole study beforehand, or name a feeder",
    always=Arguments({"PROCRASTINATE_WORKER_DELETE_JOBS": "never"}),
    measuring_only=("PROCRASTINATE_WORKER_DELETE_JOBS",),
    logs=_logs,
    refused={
        **dict.fromkeys(("--wait", "--one-shot", "-w"), "it ends when there is no job; leave it out"),
        "--delete-jobs": "rows that are deleted cannot be counted; leave it out",
    },
    gate_reason="A frozen worker holds its job in the database, and tuner does not feed it.",
    advice=(
        "Functions that are not async run in threads: no more than cores + 4 at once, 32 at most, whatever"
        " its concurrency is.",
        "Each process has a pool of connections (10 by default), and one more that listens.",
        "The jobs of a killed worker keep the status doing: procrastinate does not retry them.",
    ),
)
