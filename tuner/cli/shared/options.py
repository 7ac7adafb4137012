"""Options of the commands that measure, each with its place in the settings and its help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tuner.cli.shared.completions import one_of, services

STDOUT = Path("-")  #: in place of a file's name
MOST_CORES = 1024  #: to predict for: the network of a full grid of these takes minutes, and means nothing

SERVICE = "Service"
LAYOUTS, TIME, ORDER, PLACE, FILE = "Layouts", "Time", "Method", "Host", "Files and output"
TOLD = "Monitoring"
BOXES = "Several hosts"


@dataclass(frozen=True, slots=True)
class Setting:
    """An option that sets something of a study; a command may word its help otherwise."""

    metavar: str
    help: str
    panel: str
    place: tuple[str, ...] = ()  #: in the settings; empty: in the section of the study, under its name
    words: tuple[str, ...] = ()  #: that TAB completes


#: by the names of parameters; ``grid_name`` is --grid, as a command is called grid
SETTINGS = {
    "cores": Setting(
        "N", "Number of CPU cores to plan layouts for (default: the cores available to tuner).", LAYOUTS
    ),
    "layouts": Setting("PxT,PxT", "Measure only these layouts, for example 24x1,4x6.", LAYOUTS),
    "grid_name": Setting(
        "NAME",
        "Grid of the study: small, divisors or full.",
        LAYOUTS,
        ("study", "grid"),
        ("small", "divisors", "full"),
    ),
    "variants": Setting(
        "NAME,NAME", "Variants of the service to measure, for example prefork,threads.", LAYOUTS
    ),
    "max_connections": Setting(
        "N",
        "Skip layouts that would open more than N connections (one per thread), for example to a database.",
        LAYOUTS,
    ),
    "window": Setting("TIME", "Length of the longest window (default: 10m).", TIME),
    "min_window": Setting(
        "TIME", "Length of the shortest window of a race (default: 1m, or --window if it is shorter).", TIME
    ),
    "warmup": Setting(
        "TIME",
        "Warm-up before windows: auto (until throughput is steady), or a time, for example 30s"
        " (default: auto).",
        TIME,
    ),
    "warmup_cap": Setting(
        "TIME",
        "Longest warm-up with auto (default: 5m). If a layout is not steady by then, tuner marks it.",
        TIME,
    ),
    "repeats": Setting("N", "With --strategy all: number of launches per layout (default: 3).", TIME),
    "budget": Setting("TIME", "Stop within this time, for example 8h, and print the result so far.", TIME),
    "strategy": Setting(
        "NAME",
        "Strategy. race: drop layouts that cannot be the best, and stop when the best is known; all:"
        " measure every layout equally often (default: race).",
        ORDER,
        words=("race", "all"),
    ),
    "within": Setting(
        "SHARE", "Stop once a layout is known to be within this share of the best (default: 2%).", ORDER
    ),
    "confidence": Setting("LEVEL", "Confidence level of the answer (default: 95%).", ORDER),
    "kind": Setting(
        "KIND",
        "Guarantee of the answer. strict: holds for every service; calibrated: holds on average over"
        " services, and needs less time (default: strict).",
        ORDER,
        words=("strict", "calibrated"),
    ),
    "objective": Setting(
        "NAME",
        "Quantity to maximise: throughput or throughput-per-cpu (default: throughput).",
        ORDER,
        words=("throughput", "throughput-per-cpu"),
    ),
    "slices": Setting(
        "auto|off",
        "auto: up to 4 layouts stay started and take turns in slices of seconds, so that noise of the host"
        " affects all of them equally, if the service allows it; off: one layout after the other (default:"
        " off).",
        ORDER,
        words=("auto", "off"),
    ),
    "max_load": Setting("N", "Highest load average that the best layout may cause.", ORDER),
    "max_memory": Setting("SIZE", "Highest memory use that the best layout may have, for example 8G.", ORDER),
    "max_p95": Setting(
        "TIME",
        "Highest p95 latency that the best layout may have, for example 2s, if the service reports latency.",
        ORDER,
    ),
    "seed": Setting("N", "Seed for the random order of launches (default: 1).", ORDER),
    "max_attempts": Setting("N", "Largest number of attempts to measure a valid window (default: 3).", ORDER),
    "foreign_limit": Setting(
        "CORES",
        "Highest CPU use of other processes in a valid window, in cores (default: 1 % of the cores, at"
        " least 0.15).",
        ORDER,
    ),
    "rate": Setting(
        "RATE",
        "Rate of requests: a number per second, a share of each layout's capacity (70%), or the highest"
        " rate at which a latency limit holds (p95=200ms).",
        ORDER,
        ("service", "feeder", "rate"),
    ),
    "clients": Setting(
        "N",
        "Number of clients that send requests (default: tuner doubles it until throughput stops rising).",
        ORDER,
        ("service", "feeder", "clients"),
    ),
    "connections": Setting(
        "HOW",
        "Connections of the clients. even: kept open, and spread over all worker processes; fresh: a new one"
        " for each request; kept: kept open, not spread; reuse:N: closed after N requests (default: even).",
        ORDER,
        ("service", "feeder", "connections"),
    ),
    "spool": Setting(
        "DIR",
        "Folder for the items of the built-in service (default: a temporary folder).",
        FILE,
        ("service", "spool"),
    ),
}
#: where what was typed goes
PLACES = {name: one.place or ("study", name) for name, one in SETTINGS.items()}


def setting(
    name: str, help: str | None = None, *, panel: str | None = None, **more: Any
) -> typer.models.OptionInfo:
    """Make the option for a setting of `SETTINGS`, with the help, panel and limits of one command."""
    one = SETTINGS[name]
    option: typer.models.OptionInfo = typer.Option(
        f"--{PLACES[name][-1].replace('_', '-')}",
        metavar=one.metavar,
        rich_help_panel=panel or one.panel,
        help=help or one.help,
        autocompletion=one_of(*one.words) if one.words else None,
        **more,
    )
    return option


def study_file(help: str, *, panel: str | None = None) -> typer.models.OptionInfo:
    """Make the option that names the file of a study."""
    option: typer.models.OptionInfo = typer.Option(
        "--study", metavar="FILE", rich_help_panel=panel or FILE, help=help
    )
    return option


ShortWindow = Annotated[
    str | None,
    setting("window", "Length of a window (default: 1m, or the config's window if it is shorter)."),
]
Simulate = Annotated[
    Path | None,
    typer.Option(
        metavar="PROFILE",
        rich_help_panel=PLACE,
        help="Simulate a host with this profile instead of measuring. A simulated day takes seconds.",
    ),
]


def variant_option(panel: str) -> typer.models.OptionInfo:
    """Which variant of a study to calibrate on; *panel* is of the command's help."""
    option: typer.models.OptionInfo = typer.Option(
        metavar="NAME",
        rich_help_panel=panel,
        help="Variant of the service: the NAME in 4x6@NAME (default: the service without a variant).",
    )
    return option


Service = Annotated[
    str | None,
    typer.Option(
        "--service",
        metavar="NAME",
        autocompletion=services,
        rich_help_panel=SERVICE,
        help=(
            "Known service that the command starts; `tuner services` lists them (default: recognised by the "
            "command's name)."
        ),
    ),
]
ServiceSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        rich_help_panel=SERVICE,
        help="Setting of the service; may be repeated. `tuner services show NAME` lists the settings.",
    ),
]
ServiceCommand = Annotated[
    str | None,
    typer.Option(
        "--command",
        metavar="TEXT",
        rich_help_panel=SERVICE,
        help="Command that starts the service, as one text. You can also write it at the end, after --.",
    ),
]
Resume = Annotated[
    Path | None,
    typer.Option(metavar="FILE", rich_help_panel=FILE, help="Continue the interrupted study in this file."),
]
MetricsAddress = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="ADDRESS:PORT",
        rich_help_panel=TOLD,
        help="Serve metrics for Prometheus during the study, for example at 127.0.0.1:9188.",
    ),
]
MetricsFile = Annotated[
    Path | None,
    typer.Option(
        "--metrics-file",
        metavar="FILE.prom",
        rich_help_panel=TOLD,
        help="Write metrics for Prometheus to a file that node_exporter reads.",
    ),
]
MetricsOpen = Annotated[
    bool,
    typer.Option(
        "--metrics-open",
        metavar="",
        rich_help_panel=TOLD,
        help="Allow an address for --metrics that other hosts can reach.",
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", metavar="", rich_help_panel=FILE, help="Print JSON for programs.")
]
Certs = Annotated[
    Path | None,
    typer.Option(
        "--certs",
        metavar="DIR",
        rich_help_panel=BOXES,
        help="Folder with the keys of the fleet, which `tuner fleet certs` creates.",
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        metavar="",
        rich_help_panel=BOXES,
        help=(
            "Accept an unencrypted scheduler, although anyone with access to it can run code on this host."
        ),
    ),
]
