"""tuner compare: what changed from one study to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli import EXIT_WEAKER
from tuner.cli.export import Format, parse_format
from tuner.cli.rank import confidence_level
from tuner.cli.report import check_replaceable
from tuner.cli.shared.options import STDOUT
from tuner.core.errors import ConfigError, StaleReport


def compare(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="First study file, the baseline.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="Second study file.")],
    confidence: Annotated[
        float | None,
        typer.Option(
            metavar="LEVEL",
            parser=confidence_level,
            help=(
                "Confidence with which all intervals in a printed column are right (default: the lower "
                "confidence of the two studies)."
            ),
        ),
    ] = None,
    format_: Format = None,
    fail_if_slower: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help=(
                "Exit with code 4 if AFTER is significantly slower than BEFORE by more than this "
                "share. The exit code is also 4 if only the best layout of BEFORE is slower."
            ),
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File for an HTML page with the result, or - for stdout.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", metavar="", help="Replace FILE even if tuner did not write it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print the result as JSON.")] = False,
) -> int:
    """Compare two studies, for example before and after a release, or on two hosts.

    tuner prints how the conditions of the studies differ. tuner then prints the changes of the best layout,
    of all layouts together, and of each layout against the others. At the stated confidence, all intervals
    are right at the same time. The exit code is 2 if no layout was measured in both studies.

    Example: tuner compare before.tuner.db after.tuner.db --fail-if-slower 5%
    """
    from tuner.app import exporting
    from tuner.cli.shared.output import show
    from tuner.core.planning.compared import slower
    from tuner.core.text.safe_text import visible
    from tuner.reports.comparison.comparison import render_comparison
    from tuner.reports.comparison.words import describe_slower

    named = parse_format(format_, as_json=as_json)
    by = None if fail_if_slower is None else _share(fail_if_slower)
    if output is not None and named is not None:
        raise ConfigError(f"-o {output} is an HTML page: --format and --json print", hint="Keep one of them.")
    if output is None and force:
        raise ConfigError(
            "--force is of the FILE of -o, and there is none", hint="Leave it out, or add -o FILE."
        )
    if output is not None:
        check_replaceable(output, force=force)
    found = exporting.compare_studies(before, after, confidence)
    if output is None:
        show(render_comparison(found, named or "simple"))
    else:
        from tuner.app.exporting import write_comparison_page

        page = write_comparison_page(found, None if output == STDOUT else output)
        if output == STDOUT:
            typer.echo(page, nl=False)
        else:
            typer.echo(f"{output} is written.", err=True)
    if by is None:
        return 0
    judged = slower(found, by)
    typer.echo(visible(describe_slower(found, judged)), err=True)
    if judged.surely:
        return StaleReport.exit_code
    return EXIT_WEAKER if judged.lost is not None else 0


def _share(text: str) -> float:
    """Read ``5%`` or ``0.05``.

    Raises:
        ConfigError: *text* is not a share from 0 to 1.
    """
    from tuner.core.ranking.ranked import parse_share

    share = parse_share(text)
    if share is None or not 0 <= share < 1:
        raise ConfigError(
            f"--fail-if-slower: {text!r} is not a share below 100 %", hint="Write a share, as 5% or 0.05."
        )
    return share
