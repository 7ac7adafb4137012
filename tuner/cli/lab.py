"""tuner lab: published experiments, run here and compared with the publication and the model."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli import EXIT_INTERRUPTED, EXIT_NOTHING, EXIT_WEAKER
from tuner.cli.export import Format, parse_format
from tuner.core.errors import ConfigError, MeasurementError, MissingToolError

if TYPE_CHECKING:
    from tuner.config.settings import Settings
    from tuner.core.domain.records import StudyRecord
    from tuner.lab.experiments.experiment import Outcome
    from tuner.lab.interpreters import LabAsked
    from tuner.lab.lab import Results


def lab(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Name of the experiment to repeat (default: tuner lists the experiments).",
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", metavar="", help="Run all experiments, one after the other.")
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", metavar="", help="Run only a few settings of the experiment, once each, in minutes."
        ),
    ] = False,
    repeats: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of runs with each setting of the experiment (default: 3, or 1 with --quick).",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Seed for the random order of runs (default: 1).")
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "File in which tuner saves each run of the experiment. tuner does not repeat the "
                "runs that are in the file."
            ),
        ),
    ] = None,
    python: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PROGRAM",
            help=(
                "Python interpreter that runs the experiment (default: the interpreter of tuner). "
                "Repeat --python to compare interpreters."
            ),
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.md",
            help=(
                "File for a Markdown page with the result. tuner writes a picture and the data (CSV) "
                "next to the page."
            ),
        ),
    ] = None,
    format_: Format = None,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print the result as JSON.")] = False,
) -> int:
    """Repeat a published experiment on this host.

    tuner prints each published figure with the measured and the modelled figure. tuner then prints each
    published claim, and whether the claim holds on this host. tuner keeps the runs in a file (default:
    NAME-DATE-TIME.lab.json). `--results FILE` continues an interrupted experiment, and repeats failed runs.
    --all skips experiments that cannot run on this host, and prints the reason.

    Example: tuner lab nornir --quick
    """
    from tuner.cli.shared.output import echo_err, show
    from tuner.lab import lab
    from tuner.lab.interpreters import LabAsked
    from tuner.lab.page import write_page

    fmt = parse_format(format_, as_json=as_json) or "simple"
    if name is None and not every:
        typed: dict[str, object] = {"--quick": quick or None, "--repeats": repeats, "--seed": seed}
        typed |= {"--results": results, "--python": python, "--page": page}
        if named := [option for option, value in typed.items() if value is not None]:
            raise ConfigError(
                f"{', '.join(named)} needs the name of an experiment",
                hint="Example: tuner lab nornir --quick",
            )
        return _list(fmt)
    if every and (name is not None or results is not None):
        raise ConfigError(
            "--all runs every experiment and writes one file for each", hint="Leave out NAME and --results."
        )
    if every and page is not None:
        raise ConfigError("--page is of one experiment", hint="Name it: tuner lab NAME --page FILE.md")
    if page is not None:
        _check_page(page)
    names = [one.name for one, _ in lab.experiments()] if every else [str(name)]
    first, *others = python or [""]
    stamp = time.strftime("%Y%m%d-%H%M%S")
    found: list[tuple[Outcome, Results]] = []
    lost: dict[str, str] = {}  # experiments without results -> reason
    n_failed = 0
    try:
        for one in names:
            file = results or Path(f"{one}-{stamp}.lab.json")
            asked = LabAsked(file, quick, repeats, seed, first or None, tuple(others))
            try:
                outcome, made = lab.lab_run(one, asked, echo_err, _measure)
            except KeyboardInterrupt:
                _print_resume_command(one, asked, echo_err)
                return EXIT_INTERRUPTED
            except (MissingToolError, MeasurementError) as error:
                if not every:
                    raise
                lost[one] = f"{error.problem}. {error.hint or ''}".rstrip()
                n_failed += isinstance(error, MeasurementError)
                echo_err(
                    lost[one] if isinstance(error, MeasurementError) else f"{one} is left out: {lost[one]}"
                )
                continue
            found.append((outcome, made))
            if fmt != "json":
                show(_show(outcome, made, fmt))
            if page is not None:
                write_page(page, outcome, made)
    finally:  # print the finished experiments after any error
        if fmt == "json" and (found or lost):
            typer.echo(_json(found, lost), nl=False)
    if not found:
        return EXIT_NOTHING
    return EXIT_WEAKER if n_failed or any(made.failed or made.gaps for _, made in found) else 0


def _print_resume_command(name: str, asked: LabAsked, say: Callable[[str], None]) -> None:
    if not asked.results.exists():
        say("Interrupted before anything was run.")
        return
    named = [one for one in (asked.python, *asked.also) if one is not None]
    python = [word for one in named for word in ("--python", one)]
    say(f"Kept in {asked.results}, without the unfinished run.")
    say(f"Continue with: {shlex.join(['tuner', 'lab', name, '--results', str(asked.results), *python])}")


def _measure(settings: Settings, record: StudyRecord, file: Path, is_new: bool) -> int:
    """Run a study like `tuner grid`; return its exit code."""
    from tuner.app.measuring import measure
    from tuner.bootstrap.wire import Session
    from tuner.cli.shared.output import echo_err
    from tuner.core.search.strategies.of_study import strategy_of

    code, _ = measure(Session(settings, record, file, is_new), strategy_of(record), echo_err)
    return code


def _list(fmt: str) -> int:
    from tuner.cli.shared.output import show
    from tuner.lab import lab
    from tuner.lab.report import render_list

    show(render_list(lab.experiments(), fmt))
    return 0


def _check_page(page: Path) -> None:
    """Check before hours of runs that the page and its picture can be written.

    Raises:
        ConfigError: one of them cannot be written.
    """
    if page.suffix != ".md" or page.is_dir():
        raise ConfigError(f"invalid --page {page}: expected FILE.md", hint="Example: --page nornir.md")
    if not os.access(page.parent, os.W_OK | os.X_OK):
        raise ConfigError(f"--page: nothing can be written in {page.parent}", hint="Name a folder of yours.")


def _show(outcome: Outcome, made: Results, fmt: str) -> str:
    from tuner.lab.page import described_host
    from tuner.lab.report import render_lab

    return render_lab(outcome, described_host(outcome, made), fmt)


def _json(found: Sequence[tuple[Outcome, Results]], lost: Mapping[str, str]) -> str:
    """Return the results as JSON, with the reason for each experiment without results."""
    from tuner.lab import lab
    from tuner.lab.report import render_lab_json

    reported: list[tuple[Outcome, dict[str, Any]]] = [
        (
            outcome,
            {
                "quick": made.quick,
                "repeats": made.repeats,
                "seed": made.seed,
                "cores": made.cores,
                "provenance": dict(made.provenance),
                "left_out": [*made.left_out, *made.gaps],
                "failed": [
                    {
                        "at": dict(zip(outcome.experiment.parameters, one.at, strict=True)),
                        "block": one.block,
                        "because": one.why,
                    }
                    for one in made.failed
                ],
            },
        )
        for outcome, made in found
    ]
    gave_nothing = [(one, source, lost[one.name]) for one, source in lab.experiments() if one.name in lost]
    return render_lab_json(reported, gave_nothing)
