"""tuner grid: measure layouts of a service, and rank them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli import EXIT_NOTHING, EXIT_WEAKER
from tuner.cli.shared.options import (
    BOXES,
    FILE,
    AsJson,
    Certs,
    Force,
    MetricsAddress,
    MetricsFile,
    MetricsOpen,
    Resume,
    Service,
    ServiceCommand,
    ServiceSettings,
    Simulate,
    setting,
    study_file,
)
from tuner.core.errors import CUT_OFF, ConfigError

if TYPE_CHECKING:
    from tuner.bootstrap.wire import FleetAddress, Session

_FIRST = "Options that most people need"
_LAYOUTS = "More options: layouts"
_GRID = (
    "Set of layouts to measure on N cores. small: layouts with N threads in total; divisors: N/2, N "
    "or 2N threads; full: any number of threads up to 2N (default: divisors)."
)


def grid(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG",
            readable=False,
            help="Config in YAML (default: the built-in crash processor).",
        ),
    ] = None,
    cores: Annotated[str | None, setting("cores", panel=_FIRST)] = None,
    layouts: Annotated[str | None, setting("layouts", panel=_FIRST)] = None,
    grid_name: Annotated[str | None, setting("grid_name", _GRID, panel=_LAYOUTS)] = None,
    variants: Annotated[str | None, setting("variants", panel=_FIRST)] = None,
    python: Annotated[
        list[str] | None,
        typer.Option(
            "--python",
            metavar="PYTHON",
            rich_help_panel=_LAYOUTS,
            help=(
                "Name or path of the Python interpreter, for example python3.14t. Repeat --python to "
                "compare interpreters."
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
                "Also vary the number of threads in numeric libraries (OpenMP), for example "
                "omp=1,2,auto (auto: the number of cores divided by the number of processes)."
            ),
        ),
    ] = None,
    max_connections: Annotated[str | None, setting("max_connections", panel=_LAYOUTS)] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            metavar="",
            rich_help_panel=_FIRST,
            help="Measure at most 5 layouts, in about 3 minutes, for a first look.",
        ),
    ] = False,
    window: Annotated[str | None, setting("window")] = None,
    min_window: Annotated[str | None, setting("min_window")] = None,
    warmup: Annotated[str | None, setting("warmup")] = None,
    warmup_cap: Annotated[str | None, setting("warmup_cap")] = None,
    repeats: Annotated[str | None, setting("repeats")] = None,
    budget: Annotated[str | None, setting("budget", panel=_FIRST)] = None,
    strategy: Annotated[str | None, setting("strategy")] = None,
    within: Annotated[str | None, setting("within", panel=_FIRST)] = None,
    confidence: Annotated[str | None, setting("confidence")] = None,
    kind: Annotated[str | None, setting("kind")] = None,
    slices: Annotated[str | None, setting("slices")] = None,
    objective: Annotated[str | None, setting("objective")] = None,
    max_load: Annotated[str | None, setting("max_load", panel=_FIRST)] = None,
    max_memory: Annotated[str | None, setting("max_memory", panel=_FIRST)] = None,
    horizon: Annotated[str | None, setting("horizon")] = None,
    max_p95: Annotated[str | None, setting("max_p95")] = None,
    rate: Annotated[str | None, setting("rate", panel=_FIRST)] = None,
    clients: Annotated[str | None, setting("clients")] = None,
    connections: Annotated[str | None, setting("connections")] = None,
    seed: Annotated[str | None, setting("seed")] = None,
    max_attempts: Annotated[str | None, setting("max_attempts")] = None,
    foreign_limit: Annotated[str | None, setting("foreign_limit")] = None,
    simulate: Simulate = None,
    study: Annotated[
        Path | None,
        study_file("New file for the study (default: SERVICE.tuner.db).", panel=_FIRST),
    ] = None,
    resume: Resume = None,
    like: Annotated[
        Path | None,
        typer.Option(
            metavar="STUDY",
            rich_help_panel=FILE,
            help=(
                "Begin a new study with the settings of the study file STUDY. The new file is next to "
                "STUDY. Other options override the settings of STUDY."
            ),
        ),
    ] = None,
    fleet: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            rich_help_panel=BOXES,
            help=(
                "Measure on several hosts (a fleet), whose scheduler has this address (see `tuner fleet`)."
            ),
        ),
    ] = None,
    certs: Certs = None,
    force: Force = False,
    metrics: MetricsAddress = None,
    metrics_file: MetricsFile = None,
    metrics_open: MetricsOpen = False,
    spool: Annotated[str | None, setting("spool")] = None,
    service: Service = None,
    settings: ServiceSettings = None,
    command: ServiceCommand = None,
    as_json: AsJson = False,
) -> int:
    """Measure layouts of a service until the best is known, and rank them.

    tuner starts the service in each layout, waits until throughput is steady, and counts items for one
    window. tuner then measures again layouts that may still be the best. The study ends when one layout is
    known to be at most 2 % slower than the best (--within).

    At the beginning, tuner also tries layouts with twice the threads or processes, as long as throughput
    rises. To measure only certain layouts, use --layouts.

    Press Ctrl-C once to finish the current window and print the ranking, or twice to stop at once. Continue
    the study later with --resume.

    Example: tuner grid study.yaml --cores 24 --within 2% --budget 8h

    Example: tuner grid --cores 24 -- gunicorn app:app --bind 127.0.0.1:8000

    Example: tuner grid --python python3.14 --python python3.14t -- python worker.py --threads {threads}
    """
    from tuner.app.grid import begin_study
    from tuner.app.measuring import measure
    from tuner.app.session import resume_session
    from tuner.cli.shared.option_parsing import (
        axis_options,
        check_as_it_is,
        python_options,
        service_options,
        typed_options,
    )
    from tuner.cli.shared.output import echo_err
    from tuner.core.search.strategies.of_study import strategy_of

    metrics_options = on = None
    if metrics is not None or metrics_file is not None or metrics_open:
        from tuner.bootstrap.parts.metrics import parse_metrics_options

        metrics_options = parse_metrics_options(metrics, metrics_file, is_open=metrics_open)
    if fleet is not None or certs is not None or force:
        from tuner.app.fleet_run import parse_fleet_options

        on = parse_fleet_options(fleet, certs, force=force)
    if on is not None and metrics_options is not None:
        raise ConfigError(
            "--metrics and --metrics-file cannot be combined with --fleet",
            hint="Leave --metrics and --metrics-file out.",
        )
    options = typed_options(locals()) | service_options(service, settings, command)
    options |= python_options(python, simulate, fleet)
    options |= axis_options(axes)
    if resume is not None:
        check_as_it_is(resume, {"study": study, "like": like, "quick": quick or None})
        session = resume_session(
            resume, config, options, made_by="tuner grid", say=echo_err, simulate=simulate, is_here=on is None
        )
        from tuner.app.fleet_run import check_same_place

        check_same_place(session.record, resume, on)
    else:
        session = begin_study(config, options, echo_err, simulate, study, on, like, quick=quick)
    if on is None:
        reached = measure(session, strategy_of(session.record), echo_err, metrics_options, looks=True)
    else:
        from tuner.app.fleet_run import measure_on_fleet

        reached = measure_on_fleet(session, on, echo_err)
    return _print_result(session, reached, simulate, on, as_json=as_json)


def _print_result(
    session: Session,
    reached: tuple[int, bool],
    simulate: Path | None,
    on: FleetAddress | None,
    *,
    as_json: bool,
) -> int:
    """Print the result of a study that was measured; return its exit code."""
    from tuner.app import measuring
    from tuner.app.fleet_run import resume_options
    from tuner.cli.shared.output import echo_err, go_on, show

    file, (code, is_over) = session.file, reached
    if code == EXIT_NOTHING:
        echo_err(f"Nothing could be measured. The reasons are printed above and kept in {file}.")
    is_told = False  # whether the ranking prints how to continue
    if file.exists() and (code != EXIT_NOTHING or as_json):
        if not as_json and (provisional := measuring.provisional_ranking(file)):
            show(provisional)
        else:
            goes_on, is_kept_out = _print_ranking(file, as_json=as_json)
            code = EXIT_WEAKER if is_kept_out and not code else code
            is_told = on is None and not as_json and (goes_on or code not in CUT_OFF)
        echo_err(f"Kept in {file}; see it again with: tuner rank {file}")
    if file.exists() and not is_over and not is_told:
        go_on(session, "tuner grid", simulate, () if on is None else resume_options(on))
    return code


def _print_ranking(file: Path, *, as_json: bool) -> tuple[bool, bool]:
    """Print the ranking.

    Returns:
        Whether the next step below it is to continue the study, and whether the race's answer is none: its
        memory grows beyond the limit, or it fell below its rival in a longer launch.
    """
    from tuner.app import study_queries
    from tuner.cli.shared.output import show
    from tuner.reports.ranking.ranking import render_ranking

    record, ranking = study_queries.rank_file(file)
    show(render_ranking(record, ranking, "json" if as_json else "simple"))
    goes_on = ranking.next_step is not None and ranking.next_step.slug in ("go-on", "begin")
    return goes_on, ranking.is_answer_kept_out or ranking.is_overtaken
