"""tuner doctor: check whether this host is fit for a study."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli import EXIT_INPUT
from tuner.cli.shared.options import (
    LAYOUTS,
    PLACE,
    AsJson,
    Service,
    ServiceCommand,
    ServiceSettings,
    setting,
    study_file,
)
from tuner.core.errors import ConfigError

if TYPE_CHECKING:
    from tuner.config.settings import Settings

_BUDGET = (
    "Planned time limit of the study. tuner estimates the disk use of the study, and checks that the "
    "time suffices for one launch of each layout."
)
LEAST_SECONDS, MOST_SECONDS = 1.0, 3600.0


def doctor(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG",
            readable=False,
            help="Config in YAML (default: the built-in crash processor).",
        ),
    ] = None,
    cores: Annotated[str | None, setting("cores")] = None,
    layouts: Annotated[str | None, setting("layouts", "Layouts of the planned study.")] = None,
    budget: Annotated[str | None, setting("budget", _BUDGET, panel=LAYOUTS)] = None,
    seconds: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=MOST_SECONDS,
            metavar="S",
            rich_help_panel=PLACE,
            show_default=False,
            help=(
                "Number of seconds for which tuner measures the CPU use of other processes, at least 1 "
                "(default: 5). With --seconds 0, tuner skips this check."
            ),
        ),
    ] = 5.0,
    foreign_limit: Annotated[str | None, setting("foreign_limit")] = None,
    study: Annotated[
        Path | None,
        study_file(
            "Planned file of the study, whose folder tuner checks (default: a file in the current folder)."
        ),
    ] = None,
    service: Service = None,
    settings: ServiceSettings = None,
    command: ServiceCommand = None,
    as_json: AsJson = False,
) -> int:
    """Check whether this host is fit for a study, and print problems with their remedies.

    tuner checks the host, for example its cores, clocks, disks and other processes. tuner also checks the
    command, ports and servers that the config names. tuner changes nothing. The exit code is 2 if a problem
    prevents the study.

    Example: tuner doctor study.yaml --seconds 2
    """
    from tuner.app.doctor import examine_host
    from tuner.app.session import load_request
    from tuner.cli.shared.option_parsing import service_options, typed_options
    from tuner.cli.shared.output import echo_err
    from tuner.doctor.report import render_findings, render_findings_json
    from tuner.doctor.service import blockers

    _check_seconds(seconds)

    options = typed_options(locals()) | service_options(service, settings, command)
    asked, _ = load_request(config, options, None)
    _check_request(asked, study)
    if seconds:
        echo_err(f"Watching for {seconds:g} s which other processes use this host.")
    kept = study if study is not None else Path(f"{asked.service.name}.tuner.db")
    findings = examine_host(asked, kept, seconds)
    render = render_findings_json if as_json else render_findings
    typer.echo(render(findings), nl=False)
    return EXIT_INPUT if blockers(findings) else 0


def _check_request(settings: Settings, study: Path | None) -> None:
    """Raise the errors with which `tuner grid` would refuse to begin."""
    from tuner.app import plan_builder
    from tuner.app.session import check_new
    from tuner.core.search.strategies.of_study import strategy_of
    from tuner.study.timetable import check_budget

    if study is not None:
        check_new(study)
    if settings.study.budget is not None:
        record = plan_builder.plan_record(settings)
        check_budget(record, strategy_of(record).propose())


def _check_seconds(seconds: float) -> None:
    """Reject less than a second: the kernel counts CPU time in hundredths of a second."""
    if not math.isfinite(seconds) or 0 < seconds < LEAST_SECONDS:
        raise ConfigError(
            f"--seconds: {seconds:g} is too short, or no number",
            hint=f"Give {LEAST_SECONDS:g} to {MOST_SECONDS:g} seconds, or 0 to leave neighbours out.",
        )
