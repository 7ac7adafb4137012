"""tuner check: whether the answer of a study still holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli import CUT_OFF, EXIT_NOTHING, EXIT_WEAKER
from tuner.cli.shared.options import (
    FILE,
    AsJson,
    MetricsAddress,
    MetricsFile,
    MetricsOpen,
    Resume,
    Simulate,
    layouts_of_study,
    one_of,
    setting,
)
from tuner.core.errors import ConfigError, StaleReport

if TYPE_CHECKING:
    from tuner.core.domain.layout import Layout
    from tuner.core.domain.strategy import Kind

_BUDGET = "2h"
_KINDS: dict[str, Kind] = {"calibrated": "calibrated", "strict": "strict"}

_WHAT = "Layouts"


def check(
    study: Annotated[
        Path,
        typer.Argument(metavar="STUDY", help="Study file from `tuner grid`, which tuner does not change."),
    ],
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG",
            readable=False,
            help=("Config of the study, needed only if it contains secrets, which study files do not store."),
        ),
    ] = None,
    current: Annotated[
        str | None,
        typer.Option(
            metavar="PxT",
            autocompletion=layouts_of_study,
            rich_help_panel=_WHAT,
            help=("Layout that production uses now; tuner also measures this layout."),
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            autocompletion=one_of("calibrated", "strict"),
            rich_help_panel=_WHAT,
            help=(
                "calibrated: use the measurements of the study and new ones; strict: use only new "
                "measurements (default: calibrated)."
            ),
        ),
    ] = None,
    slices: Annotated[
        str | None,
        setting(
            "slices",
            "auto: switch between layouts every few seconds, if the service can be paused; off: "
            "measure one layout after the other (default: as in the study). With auto, each "
            "measurement has about 500 items.",
            panel=_WHAT,
        ),
    ] = None,
    foreign_limit: Annotated[
        float | None,
        typer.Option(
            metavar="CORES",
            rich_help_panel=_WHAT,
            help=(
                "Reject a measurement if other processes on the host use more cores than this "
                "(default: as in the study)."
            ),
        ),
    ] = None,
    budget: Annotated[
        str | None,
        setting("budget", "Stop measuring after this time, even if the result is not clear (default: 2h)."),
    ] = None,
    window: Annotated[
        str | None,
        setting(
            "window",
            "Length of each measurement (default: as in the study).",
        ),
    ] = None,
    warmup_cap: Annotated[str | None, setting("warmup_cap")] = None,
    simulate: Simulate = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FILE",
            rich_help_panel=FILE,
            help=(
                "New file for the measurements (default: STUDY.check-1.tuner.db, then "
                "STUDY.check-2.tuner.db)."
            ),
        ),
    ] = None,
    resume: Resume = None,
    metrics: MetricsAddress = None,
    metrics_file: MetricsFile = None,
    metrics_open: MetricsOpen = False,
    as_json: AsJson = False,
) -> int:
    """Check whether the best layout of a study is still the best: measure it and its competitors again.

    tuner measures the best layout, the second best and the layout of --current, until the result is clear.
    The exit code is 0 if no other layout is faster than the best by more than the study's margin, 4 if
    another layout is, and 5 if the result is not yet clear.

    Example: tuner check crash-processor.tuner.db --current 24x1 --budget 1h
    """
    from tuner.app.check import begin_check, check_strategy, read_check_of, resumed_check
    from tuner.app.measuring import measure
    from tuner.bootstrap.parts.metrics import parse_metrics_options
    from tuner.cli.shared.option_parsing import check_as_it_is, parse_slices
    from tuner.cli.shared.output import echo, echo_err, go_on
    from tuner.config.fields import LARGEST_FIGURE
    from tuner.reports.check import check_facts, render_check

    if kind is not None and kind not in _KINDS:
        raise ConfigError(f"--kind {kind}: should be {' or '.join(_KINDS)}")
    if foreign_limit is not None and not 0 < foreign_limit <= LARGEST_FIGURE:
        raise ConfigError(
            f"--foreign-limit {foreign_limit:g}: should be a number of cores greater than 0, at most"
            f" {LARGEST_FIGURE:g}"
        )
    metrics_options = parse_metrics_options(metrics, metrics_file, is_open=metrics_open)
    if resume is not None:
        of_new = {
            "current": current,
            "kind": kind,
            "slices": slices,
            "foreign-limit": foreign_limit,
            "budget": budget,
            "window": window,
            "warmup-cap": warmup_cap,
            "to": to,
        }
        check_as_it_is(resume, of_new)
        session = resumed_check(study, config, resume, echo_err, simulate)
    else:
        session = begin_check(
            study,
            config,
            echo_err,
            window_s=_seconds("--window", window),
            warmup_cap_s=_seconds("--warmup-cap", warmup_cap),
            budget_s=_seconds("--budget", budget or _BUDGET),
            current=_layout(current),
            kind=_KINDS[kind or "calibrated"],
            foreign_limit=foreign_limit,
            slices=parse_slices(slices),
            to=to,
            simulate=simulate,
        )
    code, _ = measure(session, check_strategy(study, session.record), echo_err, metrics_options)
    if not session.file.exists() or code == EXIT_NOTHING:
        return code
    record, checked = read_check_of(study, session.file)
    echo(record, render_check(checked), check_facts(checked), as_json=as_json)
    echo_err(f"Kept in {session.file}")
    may_be_decided = checked.check.state == "open" and not checked.check.is_beyond_foreseeing
    if code in CUT_OFF or may_be_decided:
        go_on(session, f"tuner check {study}", simulate)
    if code in CUT_OFF:
        return code
    return {"right": 0, "stale": StaleReport.exit_code, "open": EXIT_WEAKER}[checked.check.state]


def _layout(text: str | None) -> Layout | None:
    from tuner.app.session import naming_option
    from tuner.core.domain.layout import parse_layout

    if text is None:
        return None
    with naming_option("--current"):
        return parse_layout(text)


def _seconds(option: str, text: str | None) -> float | None:
    from tuner.app.session import naming_option
    from tuner.core.text.figures import parse_duration

    if text is None:
        return None
    with naming_option(option):
        seconds = parse_duration(text)
    if seconds <= 0:
        raise ConfigError(f"{option} {text}: should be longer than 0")
    return seconds
