"""Service record of ``fastapi run``: uvicorn, which the command line of FastAPI starts."""

from __future__ import annotations

from tuner.services.http_address import BY_GENERATOR, CLIENTS, http_feeder, url_of, url_setting
from tuner.services.record import Arguments, Command, Form, Grammar, Service

_PORT = "8000"


def _words(command: Command) -> tuple[str, ...] | None:
    names = [word for word in command.words[1:] if not word.startswith("-")]
    return command.words if names[:1] == ["run"] else None


def _url(command: Command) -> str | None:
    host, port = command.option("--host"), command.option("--port") or command.environment.get("PORT")
    return None if host is None and port is None else url_of(host, port or _PORT) or ""


SERVICE = Service(
    name="fastapi",
    summary="ASGI server: uvicorn, started by the command line of FastAPI",
    page="docs/services/uvicorn.md",
    example="fastapi run app.py",
    commands=("fastapi",),
    forms=(
        Form(
            name="workers",
            summary="worker processes with an event loop each",
            # flags: it has no variable; the variables of uvicorn are for the command line of uvicorn
            layout=Arguments(flags=("--workers={processes}",), set_by=("--workers",)),
            words=_words,
            programs="one",
            event_loop=True,
            workers="children-if-several",  # with one worker, it is the program itself
            ready={"kind": "log", "pattern": "Started server process"},
            stop={"signal": "TERM", "wait": "40s"},
        ),
    ),
    grammar=Grammar(switches="v"),  # typer
    settings=(url_setting(_url, f"http://127.0.0.1:{_PORT}/"), CLIENTS),
    probes=(BY_GENERATOR,),
    feeder=http_feeder,
    refused={
        "dev": "it watches files and has one worker only; type fastapi run",
        "--reload": "it watches files and has one worker only; leave it out",
    },
    gate_reason="It closes idle connections after 5 s, and has no option to change this.",
    advice=(
        "An event loop accepts any number of requests: tuner searches for the number of clients that"
        " loads it.",
        "The access log is on and has no option: it costs about 0.1 ms a request.",
        "Plain def functions share 40 threads in each worker, whatever the layout: see the page.",
    ),
)
