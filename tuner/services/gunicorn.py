"""gunicorn: a master that starts WSGI or ASGI workers."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.services.record import Command, Counted, Form, Section, Service, Setting, Told

_LAYOUT_OPTIONS = ("-w", "--workers", "--threads", "-k", "--worker-class", "--worker-connections")
_READY = {"kind": "log", "pattern": "Booting worker with pid"}
_STOP = {"signal": "TERM", "wait": "40s"}  # its graceful timeout is 30 s
_DEFAULT_URL = "http://127.0.0.1:8000/"


def _form(name: str, summary: str, worker_class: str, threads: str = "", flag: str = "") -> Form:
    flags = ["--workers={processes}", *([flag] if flag else []), f"--worker-class={worker_class}"]
    return Form(
        name=name,
        summary=summary,
        layout=Told({"GUNICORN_CMD_ARGS": " ".join(flags)}, tuple(flags), _LAYOUT_OPTIONS),
        threads=threads,
        ready=_READY,
        stop=_STOP,
    )


def _form_of(command: Command) -> str | None:
    asked = command.option("-k", "--worker-class")
    if asked is None:
        return None
    return "uvicorn" if "uvicorn" in asked.lower() else asked


def _url(command: Command) -> str | None:
    bound = command.option("-b", "--bind")
    if bound is None:
        return f"http://127.0.0.1:{command.environment['PORT']}/" if "PORT" in command.environment else None
    if bound.startswith(("unix:", "fd://")):
        return None
    host, _, port = bound.rpartition(":")
    return f"http://{host if host not in ('', '0.0.0.0', '[::]') else '127.0.0.1'}:{port}/"


def _statsd(_command: Command, _settings: Mapping[str, str]) -> Section:
    return {
        "kind": "statsd",
        "name": "gunicorn.requests",
        "failed": "gunicorn.request.status.500",
        "failed_included": "yes",
    }


SERVICE = Service(
    name="gunicorn",
    summary="WSGI and ASGI server: threads, sync, gevent or uvicorn workers",
    page="docs/services/gunicorn.md",
    example="gunicorn app:app",
    commands=("gunicorn",),
    forms=(
        _form("gthread", "workers with a pool of threads", "gthread", "threads", "--threads={threads}"),
        _form("sync", "one request at a time in each worker", "sync"),
        _form("gevent", "greenlets in each worker", "gevent", "greenlets", "--worker-connections={threads}"),
        _form("uvicorn", "an event loop in each worker, for ASGI", "uvicorn_worker.UvicornWorker"),
    ),
    form_of=_form_of,
    settings=(
        Setting("url", "where tuner's load generator sends its requests", _url, _DEFAULT_URL),
        Setting("connections", "of the load generator; default: twice the layout's threads"),
    ),
    probes=(
        Counted(
            "statsd",
            "requests answered, with their status",
            "nothing that could be told from noise (-0.03 to +0.06 ms a request)",
            _statsd,
            Told(
                {"GUNICORN_CMD_ARGS": "--statsd-host={TUNER_STATSD}"},
                ("--statsd-host={TUNER_STATSD}",),
                ("--statsd-host",),
            ),
        ),
        Counted(
            "generator",
            "good answers that the load generator got",
            "nothing",
            lambda _command, _settings: {"kind": "generator"},
        ),
    ),
    feeder=lambda _command, settings: {
        "kind": "http",
        **{name: settings[name] for name in ("url", "connections") if name in settings},
    },
    joined=("GUNICORN_CMD_ARGS",),
    always=Told({"GUNICORN_CMD_ARGS": "--no-control-socket"}, ("--no-control-socket",), _LAYOUT_OPTIONS),
    advice=(
        "Its documentation: (2 x cores) + 1 workers; 2 to 4 threads per core in all.",
        "A worker keeps a kept connection: use more connections than the layout has threads in all.",
    ),
)
