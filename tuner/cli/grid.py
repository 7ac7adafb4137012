"""tuner grid: measure layouts of a service, and rank them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli import EXIT_NOTHING
from tuner.cli.shared.completions import one_of
from tuner.cli.shared.exit_codes import CUT_OFF
from tuner.cli.shared.options import (
    BOXES,
    FILE,
    ORDER,
    TIME,
    AsJson,
    Certs,
    Force,
    ForeignLimit,
    MetricsAddress,
    MetricsFile,
    MetricsOpen,
    Resume,
    Service,
    ServiceCommand,
    ServiceSettings,
    Simulate,
    WarmupCap,
)
from tuner.core.errors import ConfigError

if TYPE_CHECKING:
    from tuner.bootstrap.parts.metrics import MetricsAsked
    from tuner.cli.shared.fleet_run import OnFleet
    from tuner.cli.shared.option_parsing import Options
    from tuner.cli.shared.session import Session

#: what --quick says, unless an option says otherwise: 5 layouts, 3 blocks, about 10 s each
_QUICK = {
    ("study", "strategy"): "all",  # bounded; a race for an answer may take long
    ("study", "window"): "6s",
    ("study", "warmup"): "3s",
    ("study", "repeats"): "3",
    ("study", "max_attempts"): "2",
    ("study", "foreign_limit"): "0.5",  # a newcomer's box is rarely quiet, and this is no answer to act on
}

_FIRST = "Options that most people need"
_LAYOUTS = "More options: layouts"


def grid(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG",
            readable=False,
            help="Config in YAML (default: the built-in crash processor).",
        ),
    ] = None,
    cores: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            rich_help_panel=_FIRST,
            help="Number of CPU cores to plan layouts for (default: the cores available to tuner).",
        ),
    ] = None,
    layouts: Annotated[
        str | None,
        typer.Option(
            metavar="PxT,PxT",
            rich_help_panel=_FIRST,
            help="Measure only these layouts, for example 24x1,4x6.",
        ),
    ] = None,
    grid_name: Annotated[
        str | None,
        typer.Option(
            "--grid",
            metavar="NAME",
            autocompletion=one_of("small", "divisors", "full"),
            rich_help_panel=_LAYOUTS,
            help=(
                "Layouts to measure on N cores. small: N threads in total; divisors: N/2, N or 2N in total; "
                "full: any number up to 2N (default: divisors)."
            ),
        ),
    ] = None,
    variants: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            rich_help_panel=_FIRST,
            help="Variants of the service to measure, for example prefork,threads.",
        ),
    ] = None,
    python: Annotated[
        list[str] | None,
        typer.Option(
            "--python",
            metavar="PYTHON",
            rich_help_panel=_LAYOUTS,
            help=(
                "Interpreter that runs the service: a name, for example python3.14t, or a path. Repeat the "
                "option to compare interpreters."
            ),
        ),
    ] = None,
    axes: Annotated[
        list[str] | None,
        typer.Option(
            "--axis",
            metavar="omp=N,N",
            rich_help_panel=_LAYOUTS,
            help=(
                "Thread counts of numeric libraries to try in each layout, for example omp=1,2,auto. auto is "
                "the number of cores per process (default: the count that the service sets)."
            ),
        ),
    ] = None,
    max_connections: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            rich_help_panel=_LAYOUTS,
            help=(
                "Skip layouts that would open more than N connections (one per thread), for example to a "
                "database."
            ),
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            metavar="",
            rich_help_panel=_FIRST,
            help="Take a first look: at most 5 layouts, in about 3 minutes.",
        ),
    ] = False,
    window: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", rich_help_panel=TIME, help="Length of the longest window (default: 10m)."
        ),
    ] = None,
    min_window: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            rich_help_panel=TIME,
            help="Length of the shortest window of a race (default: 1m, or --window if it is shorter).",
        ),
    ] = None,
    warmup: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            rich_help_panel=TIME,
            help=(
                "Warm-up before windows: auto (until throughput is steady), or a time, for example 30s "
                "(default: auto)."
            ),
        ),
    ] = None,
    warmup_cap: WarmupCap = None,
    repeats: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            rich_help_panel=TIME,
            help="With --strategy all: number of launches per layout (default: 3).",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            rich_help_panel=_FIRST,
            help="Stop within this time, for example 8h, and print the result so far.",
        ),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=one_of("race", "all"),
            rich_help_panel=ORDER,
            help=(
                "Strategy. race: drop layouts that cannot be the best, and stop when the best is known; all: "
                "measure every layout equally often (default: race)."
            ),
        ),
    ] = None,
    within: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            rich_help_panel=_FIRST,
            help="Stop once a layout is known to be within this share of the best (default: 2%).",
        ),
    ] = None,
    confidence: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL", rich_help_panel=ORDER, help="Confidence level of the answer (default: 95%)."
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            autocompletion=one_of("strict", "calibrated"),
            rich_help_panel=ORDER,
            help=(
                "Guarantee of the answer. strict: holds for every service; calibrated: holds on average over "
                "services, and is reached sooner (default: strict)."
            ),
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=one_of("throughput", "throughput-per-cpu"),
            rich_help_panel=ORDER,
            help="Figure to maximise: throughput or throughput-per-cpu (default: throughput).",
        ),
    ] = None,
    max_load: Annotated[
        str | None,
        typer.Option(metavar="N", rich_help_panel=_FIRST, help="Highest load average of the best layout."),
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            rich_help_panel=_FIRST,
            help="Highest memory use of the best layout, for example 8G.",
        ),
    ] = None,
    max_p95: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            rich_help_panel=ORDER,
            help="Highest p95 latency of the best layout, for example 2s, if the service reports latency.",
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            rich_help_panel=_FIRST,
            help=(
                "Rate of requests: a number per second, a share of each layout's capacity (70%), or the "
                "highest rate at which a latency limit holds (p95=200ms)."
            ),
        ),
    ] = None,
    clients: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            rich_help_panel=ORDER,
            help=(
                "Number of clients that send requests (default: tuner doubles it until throughput stops "
                "rising)."
            ),
        ),
    ] = None,
    connections: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            rich_help_panel=ORDER,
            help=(
                "Connections of the clients. even: kept, and spread over all worker processes; fresh: a new "
                "one for each request; kept: not spread; reuse:N: N requests at most (default: even)."
            ),
        ),
    ] = None,
    seed: Annotated[
        str | None,
        typer.Option(
            metavar="N", rich_help_panel=ORDER, help="Seed for the random order of launches (default: 1)."
        ),
    ] = None,
    max_attempts: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            rich_help_panel=ORDER,
            help="Largest number of attempts to measure a valid window (default: 3).",
        ),
    ] = None,
    foreign_limit: ForeignLimit = None,
    simulate: Simulate = None,
    study: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=_FIRST,
            help="File for the study, which must not exist yet (default: SERVICE.tuner.db).",
        ),
    ] = None,
    resume: Resume = None,
    like: Annotated[
        Path | None,
        typer.Option(
            metavar="STUDY",
            rich_help_panel=FILE,
            help=(
                "Begin a new study with the settings of STUDY, in a new file next to it. Other options "
                "override these settings."
            ),
        ),
    ] = None,
    fleet: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            rich_help_panel=BOXES,
            help="Measure on the hosts of a fleet: address of its scheduler (see `tuner fleet`).",
        ),
    ] = None,
    certs: Certs = None,
    force: Force = False,
    metrics: MetricsAddress = None,
    metrics_file: MetricsFile = None,
    metrics_open: MetricsOpen = False,
    spool: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            rich_help_panel=FILE,
            help="Folder for the items of the built-in service (default: a temporary folder).",
        ),
    ] = None,
    service: Service = None,
    settings: ServiceSettings = None,
    command: ServiceCommand = None,
    as_json: AsJson = False,
) -> int:
    """Measure layouts of a service until the best is known, and rank them.

    tuner launches each layout under supervisord, waits for its warm-up, and measures it for a window. It
    launches layouts that may still be the best again, in random order. It stops when one is known to be
    within 2 % of the best.

    Before the first block, tuner tries twice the threads or processes, and adds larger layouts as long as
    throughput rises (not with --layouts).

    Press Ctrl-C once to finish the window, save, and print the ranking; press it twice to stop at once.
    --resume continues the study.

    Example: tuner grid study.yaml --cores 24 --within 2% --budget 8h

    Example: tuner grid --cores 24 -- gunicorn app:app --bind 127.0.0.1:8000

    Example: tuner grid --python python3.14 --python python3.14t -- python worker.py --threads {threads}
    """
    from tuner.bootstrap.parts.metrics import metrics_asked
    from tuner.cli.shared.fleet_run import check_same_place, fleet_asked
    from tuner.cli.shared.option_parsing import axis_options, check_as_it_is, given, service_options
    from tuner.cli.shared.pythons import python_options
    from tuner.cli.shared.session import resumed_session

    told = metrics_asked(metrics, metrics_file, is_open=metrics_open)
    on = fleet_asked(fleet, certs, force=force)
    if on is not None and told is not None:
        raise ConfigError(
            "--metrics and --metrics-file cannot be combined with --fleet",
            hint="Leave --metrics and --metrics-file out.",
        )
    options = given(
        {
            ("study", "cores"): cores,
            ("study", "layouts"): layouts,
            ("study", "grid"): grid_name,
            ("study", "variants"): variants,
            ("study", "max_connections"): max_connections,
            ("study", "window"): window,
            ("study", "min_window"): min_window,
            ("study", "warmup"): warmup,
            ("study", "warmup_cap"): warmup_cap,
            ("study", "repeats"): repeats,
            ("study", "budget"): budget,
            ("study", "strategy"): strategy,
            ("study", "within"): within,
            ("study", "confidence"): confidence,
            ("study", "kind"): kind,
            ("study", "objective"): objective,
            ("study", "max_load"): max_load,
            ("study", "max_memory"): max_memory,
            ("study", "max_p95"): max_p95,
            ("study", "seed"): seed,
            ("study", "max_attempts"): max_attempts,
            ("study", "foreign_limit"): foreign_limit,
            ("service", "feeder", "rate"): rate,
            ("service", "feeder", "clients"): clients,
            ("service", "feeder", "connections"): connections,
            ("service", "spool"): spool,
        }
    ) | service_options(service, settings, command)
    options |= python_options(python, simulate, fleet)
    options |= axis_options(axes)
    if resume is not None:
        check_as_it_is(resume, {"study": study, "like": like, "quick": quick or None})
        session = resumed_session(
            resume, config, options, made_by="tuner grid", simulate=simulate, is_here=on is None
        )
        check_same_place(session.record, resume, on)
    else:
        session = _begun(config, options, study, simulate, on, like, quick=quick)
    return _measured(session, simulate, told, on, as_json=as_json)


def _begun(
    config: Path | None,
    options: Options,
    study: Path | None,
    simulate: Path | None,
    on: OnFleet | None,
    like: Path | None,
    *,
    quick: bool,
) -> Session:
    from tuner.bootstrap.beginning import beginning
    from tuner.cli.shared.fleet_run import box_of, say_who_is_idle
    from tuner.cli.shared.like import free_name, settings_like
    from tuner.cli.shared.option_parsing import asked_for
    from tuner.cli.shared.output import say
    from tuner.cli.shared.session import new_session, planned
    from tuner.config.load import Given, names_service
    from tuner.core.domain.fleet import FLEET
    from tuner.core.domain.resuming import CONFIG_FILE
    from tuner.core.search.strategies.of_study import strategy_of
    from tuner.study import check_budget
    from tuner.study.fleet.study import least_on_fleet

    if quick:
        given: Options = {place: Given("--quick", text) for place, text in _QUICK.items()}
        if ("study", "strategy") in options:
            del given["study", "repeats"]  # as many as that strategy has
        options = {**given, **options}
    before = kept = None
    if like is not None:
        is_alone = config is None and not any(map(names_service, options))
        of_first_looks = [name for _, name in _QUICK]
        before, kept = settings_like(like, is_alone=is_alone, of_first_looks=of_first_looks)
    settings, profile = asked_for(config, options, simulate, kept=before, profile=kept)
    one = None if on is None else box_of(on, None if profile is not None else settings)
    thins_out = quick and ("study", "layouts") not in options
    record = planned(settings, profile, options, quick=thins_out, on=one)
    if one is not None:
        record = replace(record, provenance={**record.provenance, FLEET: "yes"})
        say_who_is_idle(record, one[1])
    if config is not None:
        record = replace(record, provenance={**record.provenance, CONFIG_FILE: str(config)})
    usual = Path(f"{record.service}.tuner.db") if like is None else free_name(like)
    session = new_session(settings, record, usual if study is None else study)
    if study is None and like is not None:
        say(f"A new study with the settings of {like}, in {usual}.")
    if quick:
        few = "a few layouts, " * thins_out
        say(f"A first look only: {few}short windows. For an answer to rely on, leave --quick out.")
    check_budget(record, strategy_of(record).propose() if on is None else least_on_fleet(record))
    if one is not None and profile is None:
        for line in beginning(settings, record, is_new=True, n_hosts=one[1]):
            say(line)
    return session


def _measured(
    session: Session,
    simulate: Path | None,
    metrics: MetricsAsked | None,
    on: OnFleet | None,
    *,
    as_json: bool,
) -> int:
    """Measure, then print what is known by then; the exit code says how good it is."""
    from tuner.bootstrap import beginning
    from tuner.cli.shared.fleet_run import measured_on, told_of
    from tuner.cli.shared.output import say, show
    from tuner.cli.shared.session import go_on, measured
    from tuner.core.search.strategies.of_study import strategy_of

    file = session.file
    if on is None:
        code, is_over = measured(session, strategy_of(session.record), metrics, looks=True)
    else:
        code, is_over = measured_on(session, on)
    if code == EXIT_NOTHING:
        say(f"Nothing could be measured. The reasons are printed above and kept in {file}.")
    is_told = False  # how to go on, as the next step
    if file.exists() and (code != EXIT_NOTHING or as_json):
        if not as_json and (provisional := beginning.first_look_shown(file)):
            show(provisional)
        else:
            goes_on = _print_ranking(file, as_json=as_json)
            is_told = on is None and not as_json and (goes_on or code not in CUT_OFF)
        say(f"Kept in {file}; see it again with: tuner rank {file}")
    if file.exists() and not is_over and not is_told:
        go_on(session, "tuner grid", simulate, () if on is None else told_of(on))
    return code


def _print_ranking(file: Path, *, as_json: bool) -> bool:
    """Print what is known; whether the next step below it is to go on with the study."""
    from tuner.bootstrap import study_queries
    from tuner.cli.shared.output import show
    from tuner.reports.ranking.ranking import render_ranking

    record, ranking = study_queries.ranked(file)
    show(render_ranking(record, ranking, "json" if as_json else "simple"))
    return ranking.next_step is not None and ranking.next_step.slug in ("go-on", "begin")
