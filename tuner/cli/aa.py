"""tuner aa: compare a layout with itself, to measure the false differences of this host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli import CUT_OFF, EXIT_WEAKER
from tuner.cli.shared.options import (
    PLACES,
    TIME,
    AsJson,
    MetricsAddress,
    MetricsFile,
    MetricsOpen,
    Resume,
    Service,
    ServiceCommand,
    ServiceSettings,
    ShortWindow,
    Simulate,
    setting,
    study_file,
)
from tuner.core.domain.layout import MOST_TIMES
from tuner.core.errors import ConfigError

_WHAT = "Layout"


def aa(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG|STUDY",
            readable=False,
            help=(
                "Config in YAML (default: the built-in service), or the file of an earlier `tuner aa`, "
                "to print its result again."
            ),
        ),
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            metavar="PxT",
            rich_help_panel=_WHAT,
            help="Layout to compare with itself (required for a new measurement).",
        ),
    ] = None,
    cores: Annotated[str | None, setting("cores", panel=_WHAT)] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=2,
            max=MOST_TIMES,
            rich_help_panel=TIME,
            help="Number of pairs to compare, each of two launches of the layout (default: 10).",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        setting(
            "budget",
            "Measure as many pairs of launches as fit into this time (default: --repeats pairs).",
        ),
    ] = None,
    window: ShortWindow = None,
    warmup: Annotated[str | None, setting("warmup")] = None,
    warmup_cap: Annotated[str | None, setting("warmup_cap")] = None,
    windows: Annotated[
        int | None,
        typer.Option(
            "--windows-per-launch",
            metavar="N",
            min=1,
            max=MOST_TIMES,
            rich_help_panel=TIME,
            help="Number of measurements after each start of the layout (default: 3).",
        ),
    ] = None,
    confidence: Annotated[
        str | None, setting("confidence", "Confidence level of the significance tests (default: 95%).")
    ] = None,
    seed: Annotated[
        str | None,
        setting(
            "seed",
            "Seed that decides which launch of each pair is called A (default: 1).",
        ),
    ] = None,
    foreign_limit: Annotated[str | None, setting("foreign_limit")] = None,
    simulate: Simulate = None,
    slices: Annotated[
        str | None,
        setting(
            "slices",
            "auto: switch between both launches of a pair every few seconds, if the service can be "
            "paused; off: run one launch after the other (default: off).",
        ),
    ] = None,
    study: Annotated[
        Path | None,
        study_file("New file for the measurement (default: SERVICE.aa.tuner.db)."),
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
    """Compare a layout with itself: measure how often tuner reports a difference that does not exist.

    tuner launches the same layout many times, and compares the launches in pairs. Every difference in a pair
    is noise. tuner counts how often its own tests, and a plain t test on windows, wrongly call a difference
    significant. tuner also prints the smallest difference that its tests can detect.

    Example: tuner aa study.yaml --layout 4x6 --budget 2h
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
    options.pop(PLACES["slices"], None)  # a config may contain slices only for races
    of_new = {
        "layout": layout,
        "repeats": repeats,
        "windows-per-launch": windows,
        "slices": slices,
        "study": study,
    }
    if config is not None and is_study(config):
        others = {
            "resume": resume,
            "simulate": simulate,
            "metrics": metrics,
            "metrics-file": metrics_file,
        }
        check_no_measuring_options(config, options, {**of_new, **others})
        return _show(config, as_json=as_json)
    from tuner.app.measuring import measure
    from tuner.app.self_test import begin_self_test
    from tuner.app.session import resume_session
    from tuner.bootstrap.parts.metrics import parse_metrics_options
    from tuner.cli.shared.output import echo_err, print_kept_file
    from tuner.study.pilot_run import pairs_strategy

    metrics_options = parse_metrics_options(metrics, metrics_file, is_open=metrics_open)
    if resume is not None:
        check_as_it_is(resume, of_new)
        session = resume_session(resume, config, options, made_by="tuner aa", say=echo_err, simulate=simulate)
    else:
        in_slices = parse_slices(slices)
        session = begin_self_test(
            config, options, echo_err, layout, repeats, windows, in_slices, study, simulate
        )
    code, _ = outcome = measure(session, pairs_strategy(session.record), echo_err, metrics_options)
    if not print_kept_file(session, outcome, "tuner aa", simulate):
        return code
    shown = _show(session.file, as_json=as_json)
    return code if code in CUT_OFF else shown


def _show(file: Path, *, as_json: bool) -> int:
    """Print the results of the pairs of launches in *file*; return the exit code."""
    from tuner.bootstrap import stores
    from tuner.cli.shared.output import echo
    from tuner.reports.self_test import render_self_test, self_test_facts
    from tuner.study.pilot_run import read_self_test
    from tuner.study.timetable import Timetable

    with stores.open_store(file, read_only=True) as store:
        record = store.study()
        if record.strategy != "aa":
            raise ConfigError(
                f"{file} is no study of a layout against itself",
                hint=f"tuner rank {file} shows it; tuner aa CONFIG --layout PxT makes one.",
            )
        found = read_self_test(store)
        spent_s = Timetable(record, store.launches(), store.windows()).total_s
    if found is None:
        typer.echo("Fewer than two pairs are whole: they show nothing yet.", err=True)
        return EXIT_WEAKER
    test, pilot = found
    layout = record.layouts[0]
    shown = layout, test, pilot, spent_s
    echo(record, render_self_test(*shown), self_test_facts(*shown), as_json=as_json)
    return 0
