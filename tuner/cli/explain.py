"""tuner explain: the bottleneck of each layout, and rules for sizing the service."""

from __future__ import annotations

from typing import Annotated

import typer

from tuner.cli import EXIT_NOTHING
from tuner.cli.rank import Horizon, MaxMemory, StudyFile, confidence_level
from tuner.cli.shared.options import MOST_CORES


def explain(
    study: StudyFile,
    max_memory: MaxMemory = None,
    horizon: Horizon = None,
    cores: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            min=1,
            max=MOST_CORES,
            help="Recommend processes and threads for this number of CPU cores (default: as in the study).",
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            metavar="LEVEL",
            parser=confidence_level,
            help=("Confidence with which a layout must keep --max-memory (default: as in the study)."),
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print the result as JSON.")] = False,
) -> int:
    """Show the bottleneck of each layout: the GIL, the cores, waiting, a backend or memory.

    tuner measures the use of cores and GIL with the CPU clocks of workers and child processes. If the kernel
    and the workers report the waiting for cores and GIL, tuner measures this waiting, too. Otherwise a
    queueing model estimates the waiting, and ~ marks the figure. tuner also recommends numbers of processes
    and threads. The exit code is 3 if no window has figures of the CPU clocks.

    Example: tuner explain crash-processor.tuner.db
    """
    from tuner.app import model
    from tuner.cli.shared.output import show
    from tuner.core.ranking.ranked import parse_question
    from tuner.reports.model.explain import render_explanation, render_explanation_json

    question = parse_question(max_memory=max_memory, horizon=horizon)
    record, found, rules = model.explain_file(study, question=question, confidence=confidence, cores=cores)
    render = render_explanation_json if as_json else render_explanation
    show(render(record, found, rules))
    return EXIT_NOTHING if isinstance(found, str) else 0
