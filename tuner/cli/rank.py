"""tuner rank: the layouts of a study, best first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli import EXIT_NOTHING, EXIT_WEAKER
from tuner.cli.shared.options import boxes_of_study, layouts_of_study, one_of

DEFAULT_COSTS = "load,memory"  #: default of --costs with --pareto

# Options of all commands that read a ranking.
StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="Study file from `tuner grid`.")]
Current = Annotated[
    str | None,
    typer.Option(
        metavar="LAYOUT",
        autocompletion=layouts_of_study,
        help=("Layout that production uses now, with which tuner compares the other layouts."),
    ),
]


def confidence_level(text: str) -> float:
    """Read ``95%`` or ``0.95``.

    Raises:
        typer.BadParameter: *text* is not a share, or not from 50 % to 99.9 %.
    """
    from tuner.core.ranking.ranked import parse_share

    share = parse_share(text)
    if share is None:
        raise typer.BadParameter("should be a share, as 95% or 0.95")
    level = float(f"{share:.12g}")  # 99.9% is exactly 0.999, despite the rounding of the division
    if not 0.5 <= level <= 0.999:
        raise typer.BadParameter("should be from 50% to 99.9%")
    return level


Confidence = Annotated[
    float | None,
    typer.Option(
        metavar="LEVEL",
        parser=confidence_level,
        help=(
            "Confidence level of the printed intervals and groups, for example 80%; not for a race "
            "(default: as in the study)."
        ),
    ),
]


_WHAT, _TRADE = "Layouts", "Trade-offs"
Objective = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        autocompletion=one_of("throughput", "throughput-per-cpu"),
        rich_help_panel=_WHAT,
        help="Quantity to rank by: throughput or throughput-per-cpu (default: as in the study).",
    ),
]
MaxLoad = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        rich_help_panel=_WHAT,
        help="Rank only layouts whose load average is shown to be at most N.",
    ),
]
MaxMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        rich_help_panel=_WHAT,
        help="Rank only layouts that are shown to use at most this much memory.",
    ),
]
Horizon = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        rich_help_panel=_WHAT,
        help="Time for which a layout must keep --max-memory if its memory grows (default: as in the study).",
    ),
]
MaxP95 = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        rich_help_panel=_WHAT,
        help="Rank only layouts whose p95 latency is shown to be at most this long.",
    ),
]
Pareto = Annotated[
    bool,
    typer.Option(
        "--pareto",
        metavar="",
        rich_help_panel=_TRADE,
        help=(
            "Also print each layout that no other layout beats in throughput, load and memory at once "
            "(Pareto front)."
        ),
    ),
]
Costs = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        rich_help_panel=_TRADE,
        help=("Like --pareto, with these costs instead of load and memory, for example load,memory,cpu."),
    ),
]
Within = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE",
        rich_help_panel=_TRADE,
        help=(
            "Difference in throughput up to which layouts count as equally good, with --costs or on a fleet "
            "(default: as in the study)."
        ),
    ),
]


_BOXES = "Hosts of a fleet"
Boxes = Annotated[
    list[str] | None,
    typer.Option(
        "--box",
        metavar="NAME",
        autocompletion=boxes_of_study,
        rich_help_panel=_BOXES,
        help="Use only measurements of this host (repeatable).",
    ),
]
WithoutBoxes = Annotated[
    list[str] | None,
    typer.Option(
        "--without-box",
        metavar="NAME",
        autocompletion=boxes_of_study,
        rich_help_panel=_BOXES,
        help="Use no measurements of this host (repeatable).",
    ),
]


def rank(
    study: StudyFile,
    current: Current = None,
    confidence: Confidence = None,
    objective: Objective = None,
    max_load: MaxLoad = None,
    max_memory: MaxMemory = None,
    horizon: Horizon = None,
    max_p95: MaxP95 = None,
    pareto: Pareto = False,
    costs: Costs = None,
    within: Within = None,
    box: Boxes = None,
    without_box: WithoutBoxes = None,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print the result as JSON.")] = False,
) -> int:
    """Rank the measured layouts in three groups: best or tied, not ruled out yet, slower.

    Each slower layout differs significantly from a better layout, and the confidence level holds for all
    pairs of layouts together. tuner compares launches that ran close together in time, so slow changes of the
    host cancel out. A layout with a single launch is never ruled out. You can also rank a study that still
    runs.

    With limits such as --max-load, tuner ranks only layouts that are shown to keep the limits. If no layout
    is shown to keep the limits, the exit code is 5.

    If several hosts measured the study, the ranking also holds for similar hosts: differences between the
    hosts count as noise.

    Example: tuner rank crash-processor.tuner.db --max-load 20 --max-memory 8G --pareto
    """
    from tuner.app import study_queries
    from tuner.cli.shared.output import show
    from tuner.core.ranking.ranked import parse_question
    from tuner.reports.ranking.ranking import render_ranking

    question = parse_question(
        objective=objective,
        max_load=max_load,
        max_memory=max_memory,
        horizon=horizon,
        max_p95=max_p95,
        costs=costs or (DEFAULT_COSTS if pareto else None),
        within=within,
        boxes=box or (),
        without_boxes=without_box or (),
    )
    record, ranking = study_queries.rank_file(
        study, current=current, confidence=confidence, question=question
    )
    show(render_ranking(record, ranking, "json" if as_json else "simple"))
    if any(row.rank is not None for row in ranking.rows):
        return 0
    return EXIT_WEAKER if any(row.is_kept_out for row in ranking.rows) else EXIT_NOTHING
