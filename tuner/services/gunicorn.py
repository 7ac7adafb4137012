"""Service record of gunicorn: a master that starts WSGI or ASGI workers."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.core.domain.service import OsThreads
from tuner.services.config_files import options_in_python
from tuner.services.http_address import (
    BY_GENERATOR,
    CLIENTS,
    GATE_REASON,
    http_feeder,
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

_CMD_ARGS = "GUNICORN_CMD_ARGS"
_LAYOUT_OPTIONS = ("-w", "--workers", "--threads", "-k", "--worker-class", "--worker-connections")
_READY = {"kind": "log", "pattern": "Booting worker with pid"}
_STOP = {"signal": "TERM", "wait": "40s"}  # its graceful timeout is 30 s
#: other names of the classes that forms are called by
_CLASSES = {
    "gunicorn.workers.gthread.ThreadWorker": "gthread",
    "gunicorn.workers.sync.SyncWorker": "sync",
    "gunicorn.workers.ggevent.GeventWorker": "gevent",
    "gunicorn.workers.gasgi.ASGIWorker": "asgi",
    "uvicorn_worker.UvicornWorker": "uvicorn",
    "uvicorn.workers.UvicornWorker": "uvicorn.workers",
}


def _form(
    name: str,
    summary: str,
    worker_class: str,
    threads: str = "",
    flag: str = "",
    *,
    os_threads: OsThreads | None = None,
    event_loop: bool = False,
) -> Form:
    flags = ["--workers={processes}", *([flag] if flag else []), f"--worker-class={worker_class}"]
    return Form(
        name=name,
        summary=summary,
        layout=Arguments({_CMD_ARGS: " ".join(flags)}, tuple(flags), _LAYOUT_OPTIONS),
        threads=threads,
        os_threads=os_threads,
        event_loop=event_loop,
        ready=_READY,
        stop=_STOP,
    )


#: option for each variable of the configuration file, which is Python
_OF_FILE = {
    "worker_class": "--worker-class",
    "threads": "--threads",
    "loglevel": "--log-level",
    "errorlog": "--error-logfile",
    "logconfig": "--log-config",
    "logconfig_json": "--log-config-json",
    "logconfig_dict": "--log-config",
    "syslog": "--log-syslog",
    "logger_class": "--logger-class",
    "statsd_prefix": "--statsd-prefix",
    "daemon": "--daemon",
    "reload": "--reload",
}


def _of_file(command: Command, read: ReadFile) -> FileOptions | None:
    named = command.value("-c", "--config") or "./gunicorn.conf.py"
    text = None if named.startswith("python:") else read(named.removeprefix("file:"))
    return None if text is None else options_in_python(named, text, _OF_FILE)


def _has_usual_logger(command: Command) -> bool:
    named = command.value("--logger-class")
    if named is None:
        return not _is_computed(command, "--logger-class")
    return named in ("simple", "gunicorn.glogging.Logger")


def _is_computed(command: Command, option: str) -> bool:
    """Return whether only code in the configuration file sets the option."""
    return command.file is not None and option in command.file.unclear and command.value(option) is None


def _form_of(command: Command) -> str | None:
    asked = command.value("-k", "--worker-class")
    if asked is None:
        return None
    name = _CLASSES.get(asked, asked)
    # gunicorn itself turns sync workers with threads into gthread
    has_threads = command.value("--threads") not in (None, "1") or _is_computed(command, "--threads")
    return "gthread" if name == "sync" and has_threads else name


def _url(command: Command) -> str | None:
    is_tls = any(command.value(option) for option in ("--certfile", "--keyfile"))
    bound = command.value("-b", "--bind")
    if bound is None and "PORT" in command.environment:
        return url_of_address(f":{command.environment['PORT']}", is_tls=is_tls)
    if bound is None:
        return url_of_address(":8000", is_tls=True) if is_tls else None
    return url_of_address(bound.removeprefix("unix:"), is_tls=is_tls) or ""


def _logs(command: Command) -> bool:
    level = command.value("--log-level") or "info"
    elsewhere = ("--error-logfile", "--log-file", "--log-config", "--log-config-json", "--log-syslog")
    is_on = level.lower() in ("info", "debug")
    return is_on and all(command.value(name) in (None, "-") for name in elsewhere)


def _statsd(command: Command, _settings: Mapping[str, str]) -> Section:
    prefix = (command.value("--statsd-prefix") or "").rstrip(".")
    before = f"{prefix}." if prefix else ""
    return {
        "kind": "statsd",
        "name": f"{before}gunicorn.requests",
        "failed": f"{before}gunicorn.request.status.500",
        "failed_included": "yes",
    }


SERVICE = Service(
    name="gunicorn",
    summary="WSGI and ASGI server: threads, sync, gevent or uvicorn workers",
    page="docs/services/gunicorn.md",
    example="gunicorn app:app",
    commands=("gunicorn",),
    forms=(
        _form(
            "gthread",
            "workers with a pool of threads",
            "gthread",
            "threads",
            "--threads={threads}",
            os_threads="on-demand",
        ),
        # threads in a config file would turn it into gthread
        _form("sync", "one request at a time in each worker", "sync", flag="--threads=1"),
        _form("gevent", "greenlets in each worker", "gevent", "greenlets", "--worker-connections={threads}"),
        _form("asgi", "gunicorn's own event loop in each worker, for ASGI", "asgi", event_loop=True),
        _form("uvicorn", "uvicorn in each worker, for ASGI", "uvicorn_worker.UvicornWorker", event_loop=True),
        _form(
            "uvicorn.workers",
            "the worker class of older uvicorn versions",
            "uvicorn.workers.UvicornWorker",
            event_loop=True,
        ),
    ),
    form_of=_form_of,
    other_form="For another worker class, add --service web, and write -w {processes} into the command",
    grammar=Grammar(
        abbreviations=True,
        whole=("--log-config",),
        switches="hvDR",
        words_in=_CMD_ARGS,  # argparse
    ),
    settings=(
        url_setting(_url, "http://127.0.0.1:8000/", "tuner cannot send requests to its bind address"),
        CLIENTS,
    ),
    probes=(
        Counted(
            "statsd",
            "requests answered, with their status",
            "no measurable CPU (-0.03 to +0.06 ms a request)",
            _statsd,
            Arguments(
                {_CMD_ARGS: "--statsd-host={TUNER_STATSD}"},
                ("--statsd-host={TUNER_STATSD}",),
                ("--statsd-host",),
            ),
            forms=("gthread", "sync", "gevent"),  # event loops send nothing to statsd
            # gunicorn uses its logger for statsd only in place of its usual logger
            works=_has_usual_logger,
        ),
        BY_GENERATOR,
    ),
    feeder=http_feeder,
    of_file=_of_file,
    warned_if_computed={"--worker-class": "-k"},
    joined=(_CMD_ARGS,),
    logs=_logs,
    refused={
        "-D": "a daemon is not stopped with its launch; leave it out",
        "--daemon": "a daemon is not stopped with its launch; leave it out",
        "--reload": "it watches files and restarts workers; leave it out",
    },
    worker_pid=r"Booting worker with pid: (\d+)",
    package="gunicorn",
    always=Arguments(
        {_CMD_ARGS: "--no-control-socket"}, ("--no-control-socket",), _LAYOUT_OPTIONS, since=(25, 1)
    ),
    measuring_only=("--no-control-socket",),
    gate="feed",
    gate_reason=GATE_REASON,
    # else closed after 2 s
    idle_connections=Arguments({_CMD_ARGS: "--keep-alive=300"}, ("--keep-alive=300",), ("--keep-alive",)),
    advice=(
        "Its documentation: (2 x cores) + 1 workers; 2 to 4 threads per core in all.",
        "A worker keeps its connections: tuner spreads them evenly, unless you add --connections kept.",
        "tuner's numbers override those in gunicorn.conf.py. Its worker class and log level count if they are"
        " plain values. tuner finds a bind there once it listens.",
    ),
)
