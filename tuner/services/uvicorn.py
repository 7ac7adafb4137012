"""Service record of uvicorn: an event loop in each worker process."""

from __future__ import annotations

from tuner.services.http_address import (
    BY_GENERATOR,
    CLIENTS,
    GATE_REASON,
    http_feeder,
    url_of,
    url_of_socket,
    url_setting,
)
from tuner.services.record import Arguments, Command, Form, Grammar, Service

_PORT = "8000"


def _url(command: Command) -> str | None:
    if (socket := command.value("--uds")) is not None:
        return url_of_socket(socket) or ""
    if command.value("--fd") is not None:
        return ""
    is_tls = any(command.value(option) for option in ("--ssl-certfile", "--ssl-keyfile"))
    host, port = command.value("--host"), command.value("--port")
    if host is None and port is None and not is_tls:
        return None
    return url_of(host, port or _PORT, is_tls=is_tls) or ""


def _logs(command: Command) -> bool:
    level = command.value("--log-level") or "info"
    return level in ("info", "debug", "trace") and command.value("--log-config") is None


SERVICE = Service(
    name="uvicorn",
    summary="ASGI server: an event loop in each worker process",
    page="docs/services/uvicorn.md",
    example="uvicorn app:app",
    commands=("uvicorn",),
    forms=(
        Form(
            name="workers",
            summary="worker processes with an event loop each",
            layout=Arguments({"UVICORN_WORKERS": "{processes}"}, ("--workers={processes}",), ("--workers",)),
            programs="one",
            event_loop=True,
            workers="children-if-several",  # with one worker, it is the program itself
            ready={"kind": "log", "pattern": "Started server process"},
            stop={"signal": "TERM", "wait": "40s"},
        ),
    ),
    grammar=Grammar(prefix="UVICORN_"),  # click
    settings=(
        url_setting(_url, f"http://127.0.0.1:{_PORT}/"),
        CLIENTS,
    ),
    probes=(BY_GENERATOR,),
    feeder=http_feeder,
    logs=_logs,
    package="uvicorn",
    variables_since=(0, 16),
    # without it, a connection accepted during the stop is served as long as its client sends requests
    always=Arguments({"UVICORN_TIMEOUT_GRACEFUL_SHUTDOWN": "30"}),
    refused={
        "--reload": "it watches files and has one worker only; leave it out",
    },
    gate="feed",
    gate_reason=GATE_REASON,
    # else closed after 5 s
    idle_connections=Arguments(
        {"UVICORN_TIMEOUT_KEEP_ALIVE": "300"}, ("--timeout-keep-alive=300",), ("--timeout-keep-alive",)
    ),
    advice=(
        "An event loop accepts any number of requests: tuner searches for the number of clients that"
        " loads it.",
        "The access log is on unless --no-access-log: it costs about 0.1 ms a request.",
        "Plain def functions of FastAPI share 40 threads in each worker, whatever the layout: see the page.",
    ),
)
