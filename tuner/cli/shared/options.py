"""Options that several of the commands that measure have: the same name, words and panel of the help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.shared.completions import services

STDOUT = Path("-")  #: in place of a file's name
MOST_CORES = 1024  #: to predict for: the network of a full grid of these takes minutes, and means nothing

SERVICE = "Service"
TIME, ORDER, PLACE, FILE = "Time", "Method", "Host", "Files and output"
TOLD = "Monitoring"
BOXES = "Several hosts"

Warmup = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        rich_help_panel=TIME,
        help=(
            "Warm-up before windows: auto (until throughput is steady), or a time, for example 30s "
            "(default: auto)."
        ),
    ),
]
WarmupCap = Annotated[
    str | None,
    typer.Option(
        "--warmup-cap",
        metavar="TIME",
        rich_help_panel=TIME,
        help="Longest warm-up with auto (default: 5m). tuner marks a layout that is not steady by then.",
    ),
]
ShortWindow = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        rich_help_panel=TIME,
        help="Length of a window (default: 1m, or the config's window if it is shorter).",
    ),
]
ForeignLimit = Annotated[
    str | None,
    typer.Option(
        metavar="CORES",
        rich_help_panel=ORDER,
        help=(
            "Largest CPU use of other processes in a valid window, in cores (default: 1 % of the "
            "cores, at least 0.15)."
        ),
    ),
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
Spool = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        rich_help_panel=FILE,
        help="Folder for the items of the built-in service (default: a temporary folder).",
    ),
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
