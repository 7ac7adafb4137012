"""Service record of granian: workers with an HTTP server in Rust, for WSGI, ASGI and RSGI."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.core.defaults import STOP_WAIT
from tuner.core.domain.service import OsThreads
from tuner.services.http_address import (
    BY_GENERATOR,
    CLIENTS,
    GATE_REASON,
    http_feeder,
    url_of,
    url_of_socket,
    url_setting,
)
from tuner.services.record import Arguments, Command, Counted, Form, Grammar, Section, Service

_PORT = "8000"
_READY = {"kind": "log", "pattern": r"Started worker-\d+"}
_STOP = {"signal": "TERM", "wait": STOP_WAIT}
_METRICS = ("--metrics", "--no-metrics", "--metrics-address", "--metrics-port", "--metrics-scrape-interval")


_ON_THREADS = ("--workers", "--blocking-threads", "--runtime-threads")


def _on_threads(name: str, summary: str, *, event_loop: bool) -> Form:
    """Return the form for a free-threaded Python, where workers are threads, each with an HTTP server and one
    thread for Python (or an event loop); granian refuses to start it with a GIL.
    """
    return Form(
        name=name,
        summary=summary,
        layout=Arguments(
            {
                "GRANIAN_WORKERS": "{threads}",
                "GRANIAN_BLOCKING_THREADS": "1",
                "GRANIAN_RUNTIME_THREADS": "1",
            },
            ("--workers={threads}", "--blocking-threads=1", "--runtime-threads=1"),
            _ON_THREADS,
        ),
        threads="workers that are threads",
        os_threads="at-start",
        programs="one",
        workers="threads",
        event_loop=event_loop,
        ready=_READY,
        stop=_STOP,
    )


def _form(name: str, summary: str, kind: str, os_threads: OsThreads, without_gil: Form) -> Form:
    return Form(
        name=name,
        summary=summary,
        layout=Arguments(
            {"GRANIAN_WORKERS": "{processes}", f"GRANIAN_{kind.upper()}_THREADS": "{threads}"},
            ("--workers={processes}", f"--{kind}-threads={{threads}}"),
            ("--workers", f"--{kind}-threads"),
        ),
        threads=f"{kind} threads",
        os_threads=os_threads,
        programs="one",
        event_loop=kind == "runtime",
        ready=_READY,
        stop=_STOP,
        without_gil=without_gil,
    )


def _form_of(command: Command) -> str:
    return "blocking" if (command.value("--interface") or "rsgi").lower() == "wsgi" else "runtime"


def _url(command: Command) -> str | None:
    if (socket := command.value("--uds")) is not None:
        return url_of_socket(socket) or ""
    is_tls = command.value("--ssl-certificate") is not None
    host, port = command.value("--host"), command.value("--port")
    if host is None and port is None and not is_tls:
        return None
    return url_of(host, port or _PORT, is_tls=is_tls) or ""


def _logs(command: Command) -> bool:
    level = (command.value("--log-level") or "info").lower()
    switched = command.environment.get("GRANIAN_LOG_ENABLED", "true").lower()
    is_on = not command.has("--no-log") and switched in ("true", "1", "yes", "on")
    return is_on and level in ("info", "debug") and command.value("--log-config") is None


def _metrics(_command: Command, _settings: Mapping[str, str]) -> Section:
    return {
        "kind": "prometheus",
        "url": "http://127.0.0.1:{TUNER_PROBE_PORT}/metrics",
        "metric": "granian_requests_handled",
    }


SERVICE = Service(
    name="granian",
    summary="WSGI, ASGI and RSGI server with its HTTP part in Rust",
    page="docs/services/granian.md",
    example="granian --interface wsgi app:app",
    commands=("granian",),
    forms=(
        _form(
            "blocking",
            "threads that run Python in each worker, for WSGI",
            "blocking",
            "on-demand",
            _on_threads("blocking-workers", "workers of one process, for WSGI", event_loop=False),
        ),
        _form(
            "runtime",
            "threads of the Rust part in each worker, for ASGI and RSGI",
            "runtime",
            "at-start",
            _on_threads("runtime-workers", "workers of one process, for ASGI and RSGI", event_loop=True),
        ),
    ),
    form_of=_form_of,
    grammar=Grammar(prefix="GRANIAN_"),  # click
    settings=(
        url_setting(_url, f"http://127.0.0.1:{_PORT}/"),
        CLIENTS,
    ),
    probes=(
        BY_GENERATOR,
        Counted(
            "metrics",
            "requests answered, whatever their status, up to a second ago: for windows of a minute or more",
            "a look of granian at its workers once a second",
            _metrics,
            Arguments(
                {
                    "GRANIAN_METRICS_ENABLED": "true",
                    "GRANIAN_METRICS_ADDRESS": "127.0.0.1",
                    "GRANIAN_METRICS_PORT": "{TUNER_PROBE_PORT}",
                    "GRANIAN_METRICS_SCRAPE_INTERVAL": "1",
                },
                (
                    "--metrics",
                    "--metrics-address=127.0.0.1",
                    "--metrics-port={TUNER_PROBE_PORT}",
                    "--metrics-scrape-interval=1",
                ),
                _METRICS,
            ),
            counts_too="requests with an error response, too",
        ),
    ),
    feeder=http_feeder,
    logs=_logs,
    refused={
        "--reload": "it watches files and restarts workers; leave it out",
    },
    gate="feed",
    gate_reason=GATE_REASON,
    # else closed after 30 s; this is the longest
    idle_connections=Arguments(
        {"GRANIAN_HTTP1_HEADER_READ_TIMEOUT": "60000"},
        ("--http1-header-read-timeout=60000",),
        ("--http1-header-read-timeout",),
    ),
    advice=(
        "Its documentation: no golden rule; workers = cores to begin with, 1 in a container of one core.",
        "By default each worker has hundreds of blocking threads: half of its --backpressure.",
        "Runtime threads run no Python: granian warns that more of them than cores never help.",
        "On a Python whose GIL is off its workers are threads of one process: layouts are 1xT.",
    ),
)
