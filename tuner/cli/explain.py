"""tuner explain: what binds each layout of a study, and how to size its service."""

from __future__ import annotations

from typing import Annotated

import typer

from tuner.cli import EXIT_NOTHING
from tuner.cli.options import MOST_CORES
from tuner.cli.rank import MaxMemory, StudyFile, confidence_level


def explain(
    study: StudyFile,
    max_memory: MaxMemory = None,
    cores: Annotated[
        float | None,
        typer.Option(metavar="N", min=1, max=MOST_CORES, help="Give the sizing rules for so many cores."),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            metavar="LEVEL",
            parser=confidence_level,
            help="How sure it must be that a layout passes a limit of memory, as 80%; default: the study's.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print JSON for programs.")] = False,
) -> int:
    """Say what binds each layout: the GIL, the cores, waiting, a backend, memory.

    How busy the cores and the GIL are is measured, by CPU clocks of workers and children; who waits for them,
    too, where the kernel and the workers tell it. Else it is worked out by the queueing model and marked with
    ~. Then come rules to size the service by. 3 when no window tells.

    Example: tuner explain crash-processor.tuner.db
    """
    from tuner import bootstrap
    from tuner.cli.telling import show
    from tuner.core.question import parse_question
    from tuner.reports.explain import render_explanation, render_explanation_json

    question = parse_question(max_memory=max_memory)
    record, found, rules = bootstrap.explained(study, question=question, confidence=confidence, cores=cores)
    render = render_explanation_json if as_json else render_explanation
    show(render(record, found, rules))
    return EXIT_NOTHING if isinstance(found, str) else 0
