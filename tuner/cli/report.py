"""tuner report: a study as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.rank import (
    Confidence,
    Costs,
    Current,
    Horizon,
    MaxLoad,
    MaxMemory,
    MaxP95,
    Objective,
    StudyFile,
    Within,
)
from tuner.cli.shared.options import STDOUT
from tuner.core.errors import ConfigError

_COSTS = "load,memory"


def report(
    study: StudyFile,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File for the page, or - for stdout (default: the study's name with .html).",
        ),
    ] = None,
    small: Annotated[
        bool,
        typer.Option(
            "--small",
            metavar="",
            help="Write a small page for mail, with at most 300 kB, no scripts and shorter tables.",
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", metavar="", help="Replace FILE even if tuner did not write it."),
    ] = False,
    current: Current = None,
    confidence: Confidence = None,
    objective: Objective = None,
    max_load: MaxLoad = None,
    max_memory: MaxMemory = None,
    horizon: Horizon = None,
    max_p95: MaxP95 = None,
    costs: Costs = None,
    within: Within = None,
) -> None:
    """Write a study as one HTML page: the answer, the ranking, pictures, all windows and the method.

    The page opens offline, loads nothing, and can be mailed and printed. You can also report a study that
    still runs.

    Example: tuner report crash-processor.tuner.db --current 1x24 -o report.html
    """
    from tuner.app.exporting import write_study_page
    from tuner.core.ranking.ranked import parse_question

    question = parse_question(
        objective=objective,
        max_load=max_load,
        max_memory=max_memory,
        horizon=horizon,
        max_p95=max_p95,
        costs=costs or _COSTS,
        within=within,
    )
    target = output if output is not None else _beside(study)
    check_replaceable(target, force=force)
    page = write_study_page(
        study,
        None if target == STDOUT else target,
        current=current,
        confidence=confidence,
        question=question,
        small=small,
    )
    if target == STDOUT:
        typer.echo(page, nl=False)
        return
    typer.echo(f"{target} is written, {len(page.encode('utf-8')) / 1000:.0f} kB.", err=True)


def _beside(study: Path) -> Path:
    name = study.name.removesuffix(".db").removesuffix(".tuner")
    return study.parent / f"{name}.html"


def check_replaceable(target: Path, *, force: bool) -> None:
    """Check that *target* may be replaced; *force* allows it for any file but a study.

    Raises:
        ConfigError: *target* was not written by `tuner report`, or is not a file.
    """
    from tuner.app.session import is_study
    from tuner.reports.page.document import GENERATOR, HEAD_BYTES

    if target == STDOUT:
        if force:
            raise ConfigError("--force is of a FILE, and -o - is none", hint="Leave it out.")
        return
    try:
        if target.exists() and not target.is_file():  # reading a pipe would never end
            raise ConfigError(f"{target} is no regular file", hint="Name a file with -o.")
        with target.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"{target}: cannot be replaced: {error.strerror}") from error
    if is_study(target):
        raise ConfigError(f"{target} is a study, which a page never replaces", hint="Name another file.")
    if force:
        return
    if head and f'<meta name="generator" content="{GENERATOR} '.encode() not in head:
        raise ConfigError(
            f"{target} was not written by tuner report",
            hint="Name another file with -o, or replace it with --force.",
        )
