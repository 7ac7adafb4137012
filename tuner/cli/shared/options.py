"""Options of the commands that measure, each with its place in the settings and its help."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

# Completion of option values: see `tuner.cli.completion`.

MOST_LAYOUTS = 1000

Completer = Callable[[str], list[str]]


def one_of(*words: str) -> Completer:
    """Return a completer for a fixed list of *words*."""

    def complete(incomplete: str) -> list[str]:
        return _beginning(words, incomplete)

    return complete


def layouts_of_study(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the layouts of the study on the line, in the order of the study; empty without a study."""
    from tuner.bootstrap import stores

    named = _named_study(ctx)
    if named is None:
        return []
    with stores.open_store(named, read_only=True) as store:
        return _beginning(map(str, store.study().layouts[:MOST_LAYOUTS]), incomplete)


def boxes_of_study(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the hosts that measured the study on the line; empty without a study."""
    from tuner.bootstrap import stores

    named = _named_study(ctx)
    if named is None:
        return []
    with stores.open_store(named, read_only=True) as store:
        boxes = dict.fromkeys(launch.box for _, launch in store.launches())
    return _beginning(boxes, incomplete)


def _named_study(ctx: typer.Context) -> Path | None:
    # the previous words: click parses no values while one is missing
    return next((path for path in map(Path, ctx.obj or ()) if path.is_file()), None)


def formats(incomplete: str) -> list[str]:
    """Complete the export formats of a ranking."""
    from tuner.reports.text.formats import table_formats

    return _beginning(sorted(["json", *table_formats()]), incomplete)


def services(incomplete: str) -> list[str]:
    """Complete the names of known services."""
    from tuner.bootstrap import configs

    return _beginning([str(one["service"]) for one in configs.describe_services()], incomplete)


def words_of_services(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete ``show``, and then the name of a service."""
    return services(incomplete) if ctx.obj else _beginning(["show"], incomplete)


def _beginning(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


STDOUT = Path("-")  #: the file name that stands for standard output
MOST_CORES = 1024  #: most cores of a prediction; a full grid for more would take minutes and have no use

SERVICE = "Service"
LAYOUTS, TIME, ORDER, PLACE, FILE = "Layouts", "Time", "Method", "Host", "Files"
TOLD = "Monitoring"
BOXES = "Several hosts"


@dataclass(frozen=True, slots=True)
class Setting:
    """An option for a setting of a study; commands may replace its help."""

    metavar: str
    help: str
    panel: str
    #: path of the setting in a config; empty: the option's name in the section `study`
    place: tuple[str, ...] = ()
    words: tuple[str, ...] = ()  #: words that TAB completes


#: options by parameter name; ``grid_name`` is --grid, because a command is called grid
SETTINGS = {
    "cores": Setting(
        "N",
        "Number of CPU cores for which tuner chooses layouts (default: all available cores).",
        LAYOUTS,
    ),
    "layouts": Setting(
        "PxT,PxT",
        "Measure only these layouts, for example 24x1,4x6 (default: the layouts of --grid).",
        LAYOUTS,
    ),
    "grid_name": Setting(
        "NAME",
        "Set of layouts of the planned study: small, divisors or full (see `tuner grid`).",
        LAYOUTS,
        ("study", "grid"),
        ("small", "divisors", "full"),
    ),
    "variants": Setting(
        "NAME,NAME",
        "Measure only these variants of the service, for example prefork,threads (default: all).",
        LAYOUTS,
    ),
    "max_connections": Setting(
        "N",
        "Measure only layouts that open at most N connections (one per thread), for example to a database.",
        LAYOUTS,
    ),
    "window": Setting(
        "TIME",
        "Length of each measurement, called window (default: 10m).",
        TIME,
    ),
    "min_window": Setting(
        "TIME",
        "Length of the shortest measurement with --strategy race (default: 1m, or 10s with --slices "
        "auto, but at most --window).",
        TIME,
    ),
    "warmup": Setting(
        "TIME",
        "Length of the warm-up before tuner counts items, for example 30s. With auto, the warm-up ends "
        "when throughput is steady (default: auto).",
        TIME,
    ),
    "warmup_cap": Setting(
        "TIME",
        "Longest warm-up with --warmup auto, after which tuner measures in any case (default: 5m).",
        TIME,
    ),
    "repeats": Setting(
        "N", "Number of times that tuner starts each layout with --strategy all (default: 3).", TIME
    ),
    "budget": Setting(
        "TIME",
        "End the study after at most this time, and print the result so far.",
        TIME,
    ),
    "strategy": Setting(
        "NAME",
        "race: measure only layouts that may still be the best, until the best is known; all: "
        "measure every layout equally often (default: race).",
        ORDER,
        words=("race", "all"),
    ),
    "within": Setting(
        "SHARE",
        "Loss of throughput that you accept, compared with the best layout (default: 2%). If you "
        "accept a larger loss, the study is shorter.",
        ORDER,
    ),
    "confidence": Setting("LEVEL", "Required confidence that the answer is right (default: 95%).", ORDER),
    "kind": Setting(
        "KIND",
        "Meaning of --confidence. strict: valid for every service; calibrated: valid on average over "
        "many services, with a shorter study (default: strict).",
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
        "auto: keep up to 4 layouts started and switch between the layouts every few seconds, if the "
        "service can be paused; off: measure one layout after the other (default: off).",
        ORDER,
        words=("auto", "off"),
    ),
    "max_load": Setting("N", "Choose only a layout whose load average is at most N.", ORDER),
    "max_memory": Setting(
        "SIZE", "Choose only a layout that uses at most this much memory, for example 8G.", ORDER
    ),
    "horizon": Setting(
        "TIME",
        "Time for which a layout must keep --max-memory if its memory grows (default: 1d).",
        ORDER,
    ),
    "max_p95": Setting(
        "TIME",
        "Choose only a layout whose p95 latency is at most this long, for example 2s. --max-p95 "
        "requires tuner's HTTP load generator.",
        ORDER,
    ),
    "seed": Setting("N", "Seed for the random order of the layouts (default: 1).", ORDER),
    "max_attempts": Setting(
        "N", "Largest number of attempts to get one valid measurement (default: 3).", ORDER
    ),
    "foreign_limit": Setting(
        "CORES",
        "Reject a measurement if other processes on the host use more cores than this (default: 1 % of "
        "the cores, at least 0.15; all cores with --slices auto). In a container, cores beyond its CPU "
        "quota do not count, up to 90 % of the host. CPUs that tuner may not use (taskset, AllowedCPUs=) "
        "do not count, unless they share a physical core with CPUs that tuner may use.",
        ORDER,
    ),
    "rate": Setting(
        "RATE",
        "Rate at which tuner sends requests (default: as fast as the service answers). 200: requests "
        "per second; 70%: share of each layout's highest throughput; p95=200ms: highest rate that "
        "keeps this p95 latency.",
        ORDER,
        ("service", "feeder", "rate"),
    ),
    "clients": Setting(
        "N",
        "Number of concurrent clients that send requests (default: as many as necessary).",
        ORDER,
        ("service", "feeder", "clients"),
    ),
    "connections": Setting(
        "HOW",
        "How clients use connections. even: keep the same number open to each worker process; kept: "
        "keep connections open as the kernel distributes them; fresh: open a connection for each "
        "request; reuse:N: for every N requests (default: even).",
        ORDER,
        ("service", "feeder", "connections"),
    ),
    "spool": Setting(
        "DIR",
        "Folder for the crash dumps of the built-in service (default: a temporary folder).",
        FILE,
        ("service", "spool"),
    ),
}
#: path in the config of the setting that each option sets
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
    setting(
        "window",
        "Length of each measurement (default: 1m, or `window` of the config if that is shorter).",
    ),
]
Simulate = Annotated[
    Path | None,
    typer.Option(
        metavar="PROFILE",
        rich_help_panel=PLACE,
        help=("Simulate the service and host that the file PROFILE describes, instead of measuring."),
    ),
]


def variant_option(panel: str) -> typer.models.OptionInfo:
    """Make the option for the variant to calibrate on; *panel* is a section of the command's help."""
    option: typer.models.OptionInfo = typer.Option(
        metavar="NAME",
        rich_help_panel=panel,
        help="Name of the variant of the service, for example gevent in 4x6@gevent (default: no variant).",
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
            "Name of the service that the command starts, such as gunicorn (default: tuner recognises "
            "the command). `tuner services` lists the names."
        ),
    ),
]
ServiceSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        rich_help_panel=SERVICE,
        help=("Change a setting of the service (repeatable). `tuner services show NAME` lists the settings."),
    ),
]
ServiceCommand = Annotated[
    str | None,
    typer.Option(
        "--command",
        metavar="TEXT",
        rich_help_panel=SERVICE,
        help=(
            "Command that starts the service, in quotes. You can also write the command at the end of "
            "the line, after --."
        ),
    ),
]
Resume = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=FILE,
        help="Continue the interrupted or unfinished study in this file.",
    ),
]
MetricsAddress = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="ADDRESS:PORT",
        rich_help_panel=TOLD,
        help="Serve metrics for Prometheus at this address, for example 127.0.0.1:9188.",
    ),
]
MetricsFile = Annotated[
    Path | None,
    typer.Option(
        "--metrics-file",
        metavar="FILE.prom",
        rich_help_panel=TOLD,
        help="Write metrics to this file, for Prometheus's node_exporter.",
    ),
]
MetricsOpen = Annotated[
    bool,
    typer.Option(
        "--metrics-open",
        metavar="",
        rich_help_panel=TOLD,
        help="Allow --metrics at an address that other hosts can reach.",
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", metavar="", rich_help_panel=FILE, help="Print the result as JSON.")
]
Certs = Annotated[
    Path | None,
    typer.Option(
        "--certs",
        metavar="DIR",
        rich_help_panel=BOXES,
        help="Folder with the TLS keys of the fleet (see `tuner fleet certs`).",
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        metavar="",
        rich_help_panel=BOXES,
        help=(
            "Connect to the scheduler of a fleet without encryption. Without encryption, anyone "
            "with access to this scheduler can run code on this host."
        ),
    ),
]
