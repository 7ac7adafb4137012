"""Service record of uWSGI: a master that starts workers with threads."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.services.http_address import (
    BY_GENERATOR,
    CLIENTS,
    GATE_REASON,
    http_feeder,
    url_of_address,
    url_setting,
)
from tuner.services.record import Arguments, Command, Counted, Form, Grammar, Section, Service

_HTTP = ("--http-socket", "--http11-socket", "--http")


def _url(command: Command) -> str | None:
    bound = command.value(*_HTTP)
    return None if bound is None else url_of_address(bound) or ""


def _stats(_command: Command, _settings: Mapping[str, str]) -> Section:
    return {"kind": "uwsgi", "stats": "127.0.0.1:{TUNER_PROBE_PORT}"}


SERVICE = Service(
    name="uwsgi",
    summary="WSGI server: workers with threads",
    page="docs/services/uwsgi.md",
    example="uwsgi --http11-socket 127.0.0.1:8000 --module app:app",
    commands=("uwsgi", "uwsgi-core", "pyuwsgi"),
    forms=(
        Form(
            name="threads",
            summary="workers with threads",
            # flags: a configuration file overrides variables, and the last flag overrides the file
            layout=Arguments(
                flags=("--processes={processes}", "--threads={threads}"),
                set_by=("-p", "--processes", "--workers", "--threads"),
            ),
            threads="threads",
            os_threads="at-start",
            programs="one",
            ready={"kind": "log", "pattern": r"spawned uWSGI worker \d+ "},
            stop={"signal": "TERM", "wait": "70s"},  # its own limit is 60 s
        ),
    ),
    grammar=Grammar(abbreviations=True, whole=_HTTP, switches="hiMTL", prefix="UWSGI_"),  # getopt_long
    settings=(
        url_setting(
            _url, needed="has no --http11-socket, --http-socket or --http that tuner could send requests to"
        ),
        CLIENTS,
    ),
    probes=(
        Counted(
            "stats",
            "requests of every worker, those with an exception as failed",
            "nothing: workers count anyway, the master answers",
            _stats,
            Arguments(flags=("--stats=127.0.0.1:{TUNER_PROBE_PORT}",)),
        ),
        BY_GENERATOR,
    ),
    feeder=http_feeder,
    logs=lambda command: not command.has("--logto", "--logto2", "--logger", "--syslog"),
    refused={
        "--daemonize": "a daemon is not stopped with its launch; leave it out",
        "-d": "a daemon is not stopped with its launch; leave it out",
        "--daemonize2": "a daemon is not stopped with its launch; leave it out",
        "--py-autoreload": "it watches files and restarts workers; leave it out",
    },
    always=Arguments(
        flags=(
            "--master",
            "--enable-threads",
            "--need-app",  # otherwise uWSGI answers with status 500 if the application cannot be imported
            "--die-on-term",
            # with --die-on-term alone, current requests are cut off
            "--hook-master-start=unix_signal:15 gracefully_kill_them_all",
        )
    ),
    gate="feed",
    gate_reason=GATE_REASON,
    advice=(
        "Its documentation: there is no magic rule; 2 x cores may not be enough. You need to experiment.",
        "--http-socket closes each connection after its answer; --http11-socket keeps it.",
        "--cheaper starts and stops workers: leave it out, or the number of processes differs from"
        " the layout.",
    ),
)
