"""Service record of hypercorn: worker processes with an event loop for ASGI, and threads for WSGI."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.services.config_files import options_in_python, options_in_toml
from tuner.services.http_address import (
    BY_GENERATOR,
    CLIENTS,
    GATE_REASON,
    http_feeder,
    url_of,
    url_of_address,
    url_setting,
)
from tuner.services.record import (
    Arguments,
    Command,
    Counted,
    FileOptions,
    Form,
    Grammar,
    ReadFile,
    Section,
    Service,
)

_PORT = "8000"
_ERROR_LOG = ("--error-logfile", "--log-file", "--error-log")


#: option for each setting in the configuration file
_OF_FILE = {
    "worker_class": "--worker-class",
    "loglevel": "--log-level",
    "errorlog": "--error-logfile",
    "logconfig": "--log-config",
    "logconfig_dict": "--log-config",
    "statsd_prefix": "--statsd-prefix",
    "use_reloader": "--reload",
}


def _form(name: str, summary: str) -> Form:
    return Form(
        name=name,
        summary=summary,
        layout=Arguments(flags=("--workers={processes}", f"--worker-class={name}")),
        programs="one",
        event_loop=True,
        workers="children",  # a single worker is a child, too
        child_since=(0, 14),
        ready={"kind": "log", "pattern": "Running on https?://"},
        stop={"signal": "TERM", "wait": "70s"},
        loses="requests that need more than its --graceful-timeout (default: 3 s), and with several"
        " workers all unfinished requests when the first worker has ended",
    )


def _of_file(command: Command, read: ReadFile) -> FileOptions | None:
    named = command.value("-c", "--config")
    text = None if named is None or named.startswith("python:") else read(named.removeprefix("file:"))
    if named is None or text is None:
        return None
    if named.startswith("file:"):
        return options_in_python(named, text, _OF_FILE)
    return options_in_toml(named, text, _OF_FILE)


def _url(command: Command) -> str | None:
    is_tls = command.has("--certfile") and not command.has("--insecure-bind")
    bound = command.option("--insecure-bind") if command.has("--certfile") else None
    bound = command.option("-b", "--bind") if bound is None else bound
    if bound is None:
        return url_of("127.0.0.1", _PORT, is_tls=True) if is_tls else None
    if bound.startswith("unix:"):
        return url_of_address(bound.removeprefix("unix:"), is_tls=is_tls) or ""
    if bound.startswith("fd:"):
        return ""
    has_port = ":" in bound and not bound.endswith("]")
    if bound.startswith("/") or has_port:
        return url_of_address(bound, is_tls=is_tls) or ""
    return url_of(bound, _PORT, is_tls=is_tls) or ""


def _logs(command: Command) -> bool:
    level = command.value("--log-level") or "info"
    elsewhere = command.value(*_ERROR_LOG) not in (None, "-") or command.value("--log-config") is not None
    return level.lower() in ("info", "debug") and not elsewhere


def _statsd(command: Command, _settings: Mapping[str, str]) -> Section:
    prefix = (command.value("--statsd-prefix") or "").rstrip(".")
    before = f"{prefix}." if prefix else ""
    return {
        "kind": "statsd",
        "name": f"{before}hypercorn.requests",
        "failed": f"{before}hypercorn.request.status.500",
        "failed_included": "yes",
    }


SERVICE = Service(
    name="hypercorn",
    summary="ASGI and WSGI server: an event loop in each worker process",
    page="docs/services/hypercorn.md",
    example="hypercorn app:app",
    commands=("hypercorn",),
    forms=(
        _form("asyncio", "worker processes with a loop of asyncio each"),
        _form("uvloop", "worker processes with a loop of uvloop each"),
        _form("trio", "worker processes with a loop of trio each"),
    ),
    form_of=lambda command: command.value("-k", "--worker-class"),
    grammar=Grammar(abbreviations=True, whole=("--error-log",), switches="hD"),  # argparse
    settings=(
        url_setting(_url, f"http://127.0.0.1:{_PORT}/", "tuner cannot send requests to its bind address"),
        CLIENTS,
    ),
    probes=(
        BY_GENERATOR,
        Counted(
            "statsd",
            "requests answered, with their status",
            "three datagrams a request",
            _statsd,
            Arguments(flags=("--statsd-host={TUNER_STATSD}",)),
        ),
    ),
    feeder=http_feeder,
    package="hypercorn",
    of_file=_of_file,
    warned_if_computed={"--worker-class": "-k"},
    logs=_logs,
    refused={
        "--reload": "it watches files and restarts workers; leave it out",
    },
    gate="feed",
    gate_reason=GATE_REASON,
    # else closed after 5 s
    idle_connections=Arguments(flags=("--keep-alive=300",), set_by=("--keep-alive",)),
    advice=(
        "An event loop accepts any number of requests: use --set clients with the number of production.",
        "A WSGI application runs in threads that no option sets: cores + 4 in each worker (32 at most), with"
        " trio 40.",
        "Functions that FastAPI runs in threads share 40 of them in each worker, whatever the layout.",
        "At a stop requests have its --graceful-timeout to finish (default: 3 s).",
        "tuner's numbers override those in a file of -c. Its worker class and log level count if they are"
        " plain values. tuner finds a bind there once it listens.",
    ),
)
