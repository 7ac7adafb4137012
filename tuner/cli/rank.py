"""tuner rank: the layouts of a study, best first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli import EXIT_NOTHING

# What every command that reads a ranking asks alike.
StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="The file that `tuner grid` wrote.")]
Current = Annotated[
    str | None,
    typer.Option(metavar="LAYOUT", help="The layout in use: each row shows its ratio to it."),
]
Confidence = Annotated[
    float | None,
    typer.Option(
        metavar="LEVEL", min=0.5, max=0.999, help="Of the intervals and the differences; default 0.95."
    ),
]


def rank(
    study: StudyFile,
    current: Current = None,
    confidence: Confidence = None,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print JSON for programs.")] = False,
) -> int:
    """Rank the measured layouts, best first; layouts that cannot be told apart share a rank.

    A layout's rank is 1 + the number of layouts that are significantly better: differences are paired by
    block, their noise is pooled over all layouts, and all pairs are judged at once. Works while a study runs.

    Example: tuner rank crash-processor.tuner.db --current 1x24
    """
    from tuner import bootstrap
    from tuner.reports.ranking import render_ranking

    record, ranking = bootstrap.ranked(study, current=current, confidence=confidence or bootstrap.CONFIDENCE)
    typer.echo(render_ranking(record, ranking, "json" if as_json else "simple"), nl=False)
    return 0 if any(row.rank is not None for row in ranking.rows) else EXIT_NOTHING
