"""tuner plan: the duration of a study, from a short pilot, and its main limit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli import CUT_OFF, EXIT_WEAKER
from tuner.cli.shared.options import (
    TIME,
    AsJson,
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

if TYPE_CHECKING:
    from tuner.core.domain.strategy import Slices


_LAYOUTS = "Layouts"


def plan(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG|STUDY",
            readable=False,
            help=(
                "Config in YAML, with which tuner first measures a short study (the pilot), or a study "
                "file with measurements."
            ),
        ),
    ] = None,
    cores: Annotated[str | None, setting("cores")] = None,
    layouts: Annotated[
        str | None,
        setting(
            "layouts",
            "Layouts of the planned study. The short first study measures four of these layouts.",
        ),
    ] = None,
    grid_name: Annotated[str | None, setting("grid_name")] = None,
    pilot: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            rich_help_panel=TIME,
            help="Approximate length of the short first study (default: 10m).",
        ),
    ] = None,
    window: Annotated[str | None, setting("window")] = None,
    min_window: Annotated[str | None, setting("min_window")] = None,
    warmup: Annotated[str | None, setting("warmup")] = None,
    warmup_cap: Annotated[str | None, setting("warmup_cap")] = None,
    within: Annotated[
        str | None,
        setting("within", "Also estimate the time of a study with this value of `tuner grid --within`."),
    ] = None,
    confidence: Annotated[str | None, setting("confidence")] = None,
    kind: Annotated[str | None, setting("kind")] = None,
    slices: Annotated[
        str | None,
        setting(
            "slices",
            "With auto, tuner also estimates the time of a study with `tuner grid "
            "--slices auto` (default: off).",
        ),
    ] = None,
    seed: Annotated[
        str | None,
        setting("seed", "Seed for the random order of the layouts and for the simulation (default: 1)."),
    ] = None,
    foreign_limit: Annotated[str | None, setting("foreign_limit")] = None,
    simulate: Simulate = None,
    study: Annotated[
        Path | None,
        study_file("New file for the short first study (default: SERVICE.pilot.tuner.db)."),
    ] = None,
    resume: Resume = None,
    metrics: MetricsAddress = None,
    metrics_file: MetricsFile = None,
    metrics_open: MetricsOpen = False,
    spool: Annotated[str | None, setting("spool")] = None,
    service: Service = None,
    settings: ServiceSettings = None,
    command: ServiceCommand = None,
    as_json: AsJson = False,
) -> int:
    """Estimate how long a study takes with --within 1%, 2% and 5%, and print the main reason for the time.

    tuner first measures a short study, the pilot, for about ten minutes. The pilot launches four layouts
    twice. tuner then simulates longer studies with the throughputs and the noise of the pilot. To find the
    main reason for the time, tuner simulates the studies again with each source of noise halved.

    Example: tuner plan study.yaml --cores 24 --within 2%
    """
    from tuner.app.session import is_study
    from tuner.cli.shared.option_parsing import (
        check_as_it_is,
        check_no_measuring_options,
        parse_slices,
        service_options,
        typed_options,
    )

    options = typed_options(locals()) | service_options(service, settings, command)
    of_new = {"pilot": pilot, "study": study}
    if config is not None and is_study(config):
        others = {
            "resume": resume,
            "simulate": simulate,
            "metrics": metrics,
            "metrics-file": metrics_file,
        }
        options.pop(("study", "slices"), None)
        check_no_measuring_options(config, options, {**of_new, **others}, allowed="--slices")
        return _forecast(config, parse_slices(slices), as_json=as_json)
    from tuner.app.forecasting import begin_pilot
    from tuner.app.measuring import measure
    from tuner.app.session import resume_session
    from tuner.bootstrap.parts.metrics import parse_metrics_options
    from tuner.cli.shared.output import echo_err, print_kept_file
    from tuner.core.search.strategies.of_study import strategy_of

    metrics_options = parse_metrics_options(metrics, metrics_file, is_open=metrics_open)
    if resume is not None:
        check_as_it_is(resume, of_new)
        session = resume_session(
            resume, config, options, made_by="tuner plan", say=echo_err, simulate=simulate
        )
    else:
        session = begin_pilot(config, options, echo_err, pilot, study, simulate)
    code, _ = outcome = measure(session, strategy_of(session.record), echo_err, metrics_options)
    if not print_kept_file(session, outcome, "tuner plan", simulate) or code in CUT_OFF:
        return code
    return _forecast(session.file, None, as_json=as_json)


def _forecast(file: Path, slices: Slices | None, *, as_json: bool) -> int:
    """Print the estimated duration of the study of *file*; return the exit code."""
    from tuner.app.forecasting import forecast_of
    from tuner.cli.shared.output import echo, echo_err
    from tuner.reports.plan import Plan, plan_facts, render_plan, unknown_facts

    record, result = forecast_of(file, slices)
    if isinstance(result, Plan):
        echo(record, render_plan(result), plan_facts(result), as_json=as_json)
        return 0
    echo_err(result.why)
    if as_json:
        echo(record, "", unknown_facts(result.order, result.why), as_json=True)
    return EXIT_WEAKER
