"""Options that several of the commands that measure have: the same name, words and panel of the help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.candidates import services

STDOUT = Path("-")  #: in place of a file's name
MOST_CORES = 1024  #: to predict for: the network of a full grid of these takes minutes, and means nothing

SERVICE = "A command instead of a config"
TIME, ORDER, PLACE, FILE = "How long", "How it decides", "Where it runs", "Where it is kept"
TOLD = "Who is told"
BOXES = "On several boxes"

Warmup = Annotated[
    str | None, typer.Option(metavar="TIME", rich_help_panel=TIME, help="auto (default), or 30s.")
]
WarmupCap = Annotated[
    str | None,
    typer.Option(
        "--warmup-cap",
        metavar="TIME",
        rich_help_panel=TIME,
        help="Longest warm-up of auto, default 5m; what has not settled by then is measured, and marked.",
    ),
]
ShortWindow = Annotated[
    str | None,
    typer.Option(metavar="TIME", rich_help_panel=TIME, help="Default 1m, or the config's if shorter."),
]
ForeignLimit = Annotated[
    str | None,
    typer.Option(
        metavar="CORES",
        rich_help_panel=ORDER,
        help="CPU of strangers that voids a window; default 1 % of the cores, at least 0.15.",
    ),
]
Simulate = Annotated[
    Path | None,
    typer.Option(
        metavar="PROFILE",
        rich_help_panel=PLACE,
        help="On a simulated box that plays this profile: a day takes seconds, nothing is measured.",
    ),
]


def variant_option(panel: str) -> typer.models.OptionInfo:
    """Which variant of a study to calibrate on; *panel* is of the command's help."""
    option: typer.models.OptionInfo = typer.Option(
        metavar="NAME",
        rich_help_panel=panel,
        help="Of those that the service has (4x6@NAME); default: the service as it is.",
    )
    return option


Service = Annotated[
    str | None,
    typer.Option(
        "--service",
        metavar="NAME",
        autocompletion=services,
        rich_help_panel=SERVICE,
        help="What the command after -- is: see tuner services. Default: as it is known by its name.",
    ),
]
ServiceSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        rich_help_panel=SERVICE,
        help="A setting of the service: see tuner services show NAME. May be repeated.",
    ),
]
ServiceCommand = Annotated[
    str | None,
    typer.Option(
        "--command",
        metavar="TEXT",
        rich_help_panel=SERVICE,
        help="The command that starts it, as one text; or put it at the end, after --.",
    ),
]
Resume = Annotated[
    Path | None,
    typer.Option(metavar="FILE", rich_help_panel=FILE, help="Go on with one that was cut off."),
]
Spool = Annotated[
    str | None,
    typer.Option(metavar="DIR", rich_help_panel=FILE, help="Spool of the built-in service."),
]
MetricsAddress = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="ADDRESS:PORT",
        rich_help_panel=TOLD,
        help="Metrics for Prometheus while it runs: 127.0.0.1:9188.",
    ),
]
MetricsFile = Annotated[
    Path | None,
    typer.Option(
        "--metrics-file",
        metavar="FILE.prom",
        rich_help_panel=TOLD,
        help="The same, for node_exporter to read.",
    ),
]
MetricsOpen = Annotated[
    bool,
    typer.Option(
        "--metrics-open", metavar="", rich_help_panel=TOLD, help="Others than this box may see --metrics."
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
        help="The fleet's keys; tuner fleet certs makes them.",
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        metavar="",
        rich_help_panel=BOXES,
        help="Though anybody who gets there could run code here.",
    ),
]
