"""Service record of Gnocchi: metricd aggregates measures in worker processes with storage threads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath

from tuner.services.record import Arguments, Command, Counted, Form, Grammar, Section, Service, Setting

_FEEDER = Path(__file__).parent / "gnocchi_feeder" / "feed.py"  #: its folder is where Python looks first
_CONFIG = ("--config-file", "--config-dir")
_DONE = "tuner:gnocchi:done"  #: the feeder's count
_REPORTS = "OS_METRICD__METRIC_REPORTING_DELAY"


def _redis(command: Command) -> str | None:
    """Return the Redis URL from the environment, with a socket written as other clients do; None: not
    stated.
    """
    environment = command.environment
    found = environment.get("OS_INCOMING__REDIS_URL") or environment.get("OS_STORAGE__REDIS_URL")
    if found and found.startswith("redis:///"):
        path, _, options = found.removeprefix("redis://").partition("?")
        return f"unix://{path}?{options}" if options else f"unix://{path}"
    return found or None


def _python(command: Command) -> str | None:
    """Return the Python next to the program, if the command gives the program's folder."""
    program = PurePath(command.words[0])
    return str(program.with_name("python3")) if len(program.parts) > 1 else None


def _configs(command: Command) -> list[str]:
    """Return the words that name its configuration."""
    found: list[str] = []
    for word, following in zip(command.words, (*command.words[1:], ""), strict=True):
        if word in _CONFIG:
            found += [word, following]
        elif word.startswith(tuple(f"{name}=" for name in _CONFIG)):
            found.append(word)
    return found


def _feeder(command: Command, settings: Mapping[str, str]) -> Section:
    own = ["--metrics", settings["metrics"], "--policy", settings["policy"]]
    return {"kind": "command", "command": [settings["python"], str(_FEEDER), *_configs(command), *own]}


SERVICE = Service(
    name="gnocchi",
    summary="time series: metricd aggregates measures in worker processes, with threads for its storage",
    page="docs/services/gnocchi.md",
    example="gnocchi-metricd --config-file /etc/gnocchi/gnocchi.conf",
    commands=("gnocchi-metricd",),
    forms=(
        Form(
            name="metricd",
            summary="one master with workers, each with so many parallel operations on its storage",
            layout=Arguments(
                {"OS_METRICD__WORKERS": "{processes}", "OS_DEFAULT__PARALLEL_OPERATIONS": "{threads}"}
            ),
            threads="parallel operations",
            programs="one",
            workers="children",
            ready={"kind": "log", "pattern": "Joined coordination group"},
            stop={"signal": "TERM", "wait": "70s"},  # its own limit is 60 s
        ),
    ),
    grammar=Grammar(abbreviations=True, switches="hdv"),  # argparse, by oslo.config
    settings=(
        Setting("redis", "the Redis in which measures wait (incoming)", _redis, "redis://127.0.0.1:6379/0"),
        Setting("python", "the Python that has gnocchi: it runs the feeder", _python, "python3"),
        Setting("metrics", "number of test metrics that tuner feeds", default="1024"),
        Setting("policy", "their archive policy", default="low"),
    ),
    probes=(
        Counted(
            "redis",
            "batches of measures, one of a metric, whose aggregates are written: those that tuner feeds",
            "nothing per item: the feeder reads 20 times a second how many items still wait in Redis",
            lambda _command, settings: {
                "kind": "redis",
                "url": settings["redis"],
                "count": [{"get": _DONE}],
            },
        ),
    ),
    feeder=_feeder,
    always=Arguments({_REPORTS: "-1"}),  # no process that only reports
    measuring_only=(_REPORTS,),
    logs=lambda command: not command.has("--log-file", "--log-dir", "--noverbose"),
    refused={
        "--stop-after-processing-metrics": "it works without workers, and ends; leave it out",
    },
    in_production="gnocchi-api reads parallel_operations, too, but tuner measures metricd only.",
    gate_reason="A frozen metricd holds locks that the others wait for, and its feeder cannot pause.",
    advice=(
        "Its own defaults are as many workers as cores, and as many parallel operations in each.",
        "Parallel operations are threads for storage in files, Ceph and S3; with Redis and Swift they do"
        " nothing.",
        "Worker N begins N - 1 s after it is ready: 8 workers need a warm-up of 8 s at least.",
        "Its children are the workers and a janitor, which sleeps; memory figures include both.",
    ),
)
