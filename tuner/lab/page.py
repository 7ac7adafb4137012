"""The page of a published experiment that was repeated here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.lab.experiments.experiment import Outcome
    from tuner.lab.lab import Results


def write_page(page: Path, outcome: Outcome, made: Results) -> None:
    """Write the page of an experiment, with its picture and its figures next to it."""
    from tuner.adapters.text_file import replace_text
    from tuner.lab.chart import lab_picture
    from tuner.lab.interpreters import lab_command
    from tuner.lab.report import lab_figures, lab_page
    from tuner.reports.documents import render_document

    picture, figures = page.with_suffix(".svg"), page.with_suffix(".csv")
    blocks = lab_page(outcome, described_host(outcome, made), picture.name, figures.name, lab_command(made))
    replace_text(figures, lab_figures(outcome))
    replace_text(picture, lab_picture(outcome).svg(standalone=True) + "\n")
    replace_text(page, render_document(blocks, "markdown"))


def described_host(outcome: Outcome, made: Results) -> str:
    """Describe the host of an experiment, and the gaps in its results."""
    from tuner.lab.experiments.experiment import SIMULATED, describe_failures, needs_at, programs_at
    from tuner.lab.report import describe_host

    points = [run.at for run in made.runs]
    return describe_host(
        outcome.experiment,
        made.provenance,
        made.cores,
        sum(SIMULATED not in run.values for run in made.runs),
        repeats=made.repeats,
        quick=made.quick,
        also=(*needs_at(outcome.experiment, points), *programs_at(outcome.experiment, points)),
        left_out=[*made.left_out, *made.gaps, *describe_failures(outcome.experiment, made.failed)],
    )
