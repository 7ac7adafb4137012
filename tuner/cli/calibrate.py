"""tuner calibrate: estimate the demands of an item from launches of 1x1, or from any study."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli import CUT_OFF
from tuner.cli.shared.options import (
    FILE,
    MOST_CORES,
    TIME,
    AsJson,
    Resume,
    Service,
    ServiceCommand,
    ServiceSettings,
    ShortWindow,
    Simulate,
    setting,
    study_file,
    variant_option,
)
from tuner.core.domain.layout import MOST_TIMES
from tuner.core.errors import ConfigError

if TYPE_CHECKING:
    pass


def calibrate(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG|STUDY",
            readable=False,
            help=(
                "Config in YAML (default: the built-in service), or a study file, from which tuner "
                "estimates the times without measuring."
            ),
        ),
    ] = None,
    launches: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=MOST_TIMES,
            rich_help_panel=TIME,
            help="Number of times that tuner starts the layout 1x1 (default: 3).",
        ),
    ] = None,
    windows: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=MOST_TIMES,
            rich_help_panel=TIME,
            help="Number of measurements after each start of the layout (default: 2).",
        ),
    ] = None,
    window: ShortWindow = None,
    warmup: Annotated[str | None, setting("warmup")] = None,
    warmup_cap: Annotated[str | None, setting("warmup_cap")] = None,
    foreign_limit: Annotated[str | None, setting("foreign_limit")] = None,
    simulate: Simulate = None,
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="PROFILE.yaml",
            rich_help_panel=FILE,
            help="Write the result to this file, for `tuner predict` and `tuner grid --simulate`.",
        ),
    ] = None,
    study: Annotated[
        Path | None,
        study_file("File for the measurement (default: SERVICE.calibrate.tuner.db)."),
    ] = None,
    resume: Resume = None,
    spool: Annotated[str | None, setting("spool")] = None,
    variant: Annotated[str | None, variant_option(FILE)] = None,
    service: Service = None,
    settings: ServiceSettings = None,
    command: ServiceCommand = None,
    as_json: AsJson = False,
) -> int:
    """Measure the time that an item needs: CPU with and without the GIL, CPU of child processes, and waiting.

    tuner launches the layout 1x1 a few times, and reads the kernel's CPU clocks. The service is not changed.
    If you name a study file, tuner estimates the times from all windows of the study. tuner also predicts
    each layout of the study from the other layouts, and prints the prediction error.

    Example: tuner calibrate study.yaml --into service.yaml
    """
    from tuner.app.session import is_study
    from tuner.cli.shared.option_parsing import (
        check_as_it_is,
        check_no_measuring_options,
        service_options,
        typed_options,
    )
    from tuner.config.load import Given

    options = typed_options(locals()) | service_options(service, settings, command)
    if into is not None:
        _check_new(into)
    of_new = {"launches": launches, "windows": windows, "study": study}
    if config is not None and is_study(config):
        check_no_measuring_options(config, options, {**of_new, "resume": resume, "simulate": simulate})
        return _show(config, into, variant, as_json=as_json)
    from tuner.app.measuring import measure
    from tuner.app.model import begin_calibration, has_windows
    from tuner.app.session import resume_session
    from tuner.cli.shared.output import echo_err, print_kept_file
    from tuner.core.search.strategies.of_study import strategy_of
    from tuner.study.calibration_run import MADE_BY

    if resume is not None:
        check_as_it_is(resume, {**of_new, "variant": variant})
        session = resume_session(resume, config, options, made_by=MADE_BY, say=echo_err, simulate=simulate)
    else:
        if variant is not None:
            options["study", "layouts"] = Given("--variant", f"1x1@{variant}")
        session = begin_calibration(config, options, echo_err, launches, windows, study, simulate)
    code, _ = outcome = measure(session, strategy_of(session.record), echo_err)
    if not print_kept_file(session, outcome, "tuner calibrate", simulate):
        return code
    if code in CUT_OFF and not has_windows(session.file):
        return code
    _show(session.file, into, None, as_json=as_json)
    return code


def _check_new(into: Path) -> None:
    """Check before the measurement that the profile can be written."""
    if os.path.lexists(into):
        raise ConfigError(f"{into} exists already, and is not overwritten", hint="Give --into another name.")
    if into.suffix.lower() not in (".yaml", ".yml"):
        raise ConfigError(f"--into {into}: a profile is a YAML file", hint=f"Name it {into.stem}.yaml.")
    if not os.path.isdir(into.absolute().parent):
        raise ConfigError(f"--into {into}: there is no folder {into.parent}", hint="Make it first.")
    if not os.access(into.absolute().parent, os.W_OK | os.X_OK):
        raise ConfigError(f"--into {into}: {into.parent} cannot be written", hint="Give it another folder.")


def _show(file: Path, into: Path | None, variant: str | None, *, as_json: bool) -> int:
    """Print the demands of an item from *file*, and write the profile to *into* if given."""
    import json

    from tuner.app import model
    from tuner.cli.shared.output import echo_err, show
    from tuner.reports.model.calibration import calibration_facts, render_calibration

    calibrated = model.calibrate_file(file, variant=variant)
    if as_json:
        typer.echo(json.dumps(calibration_facts(calibrated)))
    else:
        show(render_calibration(calibrated))
    if into is not None:
        model.write_profile(into, calibrated)
        more = f"--cores {min(2 * calibrated.seen.machine.cores, MOST_CORES):g}"
        echo_err(f"The profile is in {into}; tuner predict {into} {more} predicts more cores.")
    return 0
