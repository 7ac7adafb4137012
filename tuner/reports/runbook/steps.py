"""Runbook steps: the commands that apply a layout, roll it back, and measure again."""

from __future__ import annotations

from datetime import UTC, datetime

from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import PYTHON, VERSION
from tuner.core.domain.records import StudyRecord, resume_arguments
from tuner.core.domain.rollout import PROCESS, Rollout, has_number
from tuner.core.ranking.overview import Overview
from tuner.core.ranking.step_case import config_again
from tuner.reports.documents.blocks import Block, Bullets, Code, Heading, Paragraph
from tuner.reports.documents.plain import file_word, shell_line
from tuner.reports.ranking.next_step import TITLE
from tuner.reports.runbook.method import ended_wall_s
from tuner.reports.snippets import fitting_kinds

_FILE = "the file that started the study"
_WHY_AGAIN = "It is needed again because the study stores no secrets."
_MOST_STARTS = 4  #: largest number of start commands for programs that differ only in their number


def apply_steps(
    file: str, layout: Layout, production: Rollout | str | None, *, is_current: bool
) -> list[Block]:
    """Return the steps that put *layout* into use."""
    heading = Heading("Apply")
    if is_current:
        return [heading, Paragraph("This layout is already in use: change nothing.")]
    if not isinstance(production, Rollout):
        return [heading, Paragraph(production or "The command to type is not known.")]
    run = "1 worker process runs" if layout.processes == 1 else f"{layout.processes} worker processes run"
    return [
        heading,
        *_start_blocks(production),
        *_as_file(file, production),
        Paragraph(f"Restart the service, then check that {run}."),
    ]


def roll_back_steps(file: str, current: Layout | None, production: Rollout | str | None) -> list[Block]:
    """Return the steps that restore the layout that was in use."""
    heading = Heading("Roll back")
    if current is None or not isinstance(production, Rollout):
        return [
            heading,
            Paragraph(
                "Restore your previous settings, and restart the service. This page does not contain these"
                " settings, so write them down before you change them, or export with --current LAYOUT."
                if current is None
                else "Restore your previous settings, and restart the service."
            ),
        ]
    return [
        heading,
        Paragraph(f"{current} was in use."),
        *_start_blocks(production),
        *_as_file(file, production, "--layout", str(current)),
    ]


def _of_config(study: StudyRecord) -> list[Block]:
    """Return the meaning of CONFIG, if it is used."""
    before, after = resume_arguments(study)
    if before not in ([], ["CONFIG"]) or not (before or after):
        return []
    what = "the command that started the study, as a file (tuner init writes one)" if after else _FILE
    return [Paragraph(f"CONFIG is {what}. {_WHY_AGAIN}")]


def repeat_steps(
    overview: Overview, layout: Layout, after_s: float, *, is_answered: bool, is_next: bool
) -> list[Block]:
    """Return the time of the next measurement, and the command that checks the answer.

    *is_next*: this is the next step, once the layout is applied.
    """
    study, current = overview.study, overview.ranking.current
    heading = Heading("When to measure again")
    ended = ended_wall_s(overview)
    if not is_answered or ended is None:
        return []
    day = datetime.fromtimestamp(ended + after_s, UTC).strftime("%Y-%m-%d")
    workers = study.provenance.workers
    python = workers.fact(PYTHON, layout.variant) or workers.of_all(VERSION)
    words = ["tuner", "check", file_word(overview.name), *config_again(study)]
    if current is not None and current != layout:
        words += ["--current", str(current)]
    return [
        heading,
        Paragraph(f"Measure again by {day}, or earlier if one of these changes:"),
        Bullets(
            (
                f"the version of {study.service}, or of a library that uses much of its time",
                f"the version of Python{f' (now {python})' if python else ''} or of the kernel, or the number"
                f" of cores (now {study.box_cores:g})",
                "the items: their kinds, their sizes or their rate",
                "a backend of the service: database, queue, storage, another service",
            )
        ),
        Paragraph(
            f"{f'{TITLE}: ' if is_next else ''}This command checks whether the layout is still the best. It"
            " measures on the same host for at most 2 hours:"
        ),
        Code((_command(*words),)),
        *_of_config(study),
        Bullets(
            (
                "Exit code 0: the layout is still the best.",
                "Exit code 4: another layout is better now. Measure all layouts again with tuner grid.",
                "Exit code 5: not decided in this time. The output has the command that continues the check.",
            )
        ),
    ]


def start_of(production: Rollout) -> tuple[str, list[str], list[str]]:
    """Return how many times to start the service, the commands with the layout's settings, and remarks."""
    n_programs = production.n_programs
    environment = {
        **(production.names if n_programs > 1 else {}),
        **{name: value for name, value in production.environment.items() if name != "TUNER_PROCESS"},
    }
    is_numbered = has_number([*production.command, *environment.values()])
    lines = [
        shell_line(
            [word.replace(PROCESS, str(number)) for word in production.command],
            {name: value.replace(PROCESS, str(number)) for name, value in environment.items()},
        )
        for number in range(n_programs if is_numbered else 1)
    ]
    if len(lines) > _MOST_STARTS:
        lines = [*lines[: _MOST_STARTS - 1], f"# and so on, to number {n_programs - 1}"]
    often = "" if n_programs == 1 else f" {n_programs} times"
    is_several = is_numbered and n_programs > 1
    which = f"Start these {n_programs} programs:" if is_several else f"Start the service{often} like this:"
    remarks = list(production.remarks)
    if production.hidden:
        names = ", ".join(production.hidden)
        remarks.append(f"Leave these as they are, because the study does not store their values: {names}.")
    return which, lines, remarks


def _start_blocks(production: Rollout) -> list[Block]:
    """Return the same as blocks of a page."""
    which, lines, remarks = start_of(production)
    return [Paragraph(which), Code(tuple(lines)), *([Paragraph(" ".join(remarks))] if remarks else [])]


def _as_file(file: str, production: Rollout, *options: str) -> list[Block]:
    """Return the same as a snippet, if a kind of snippet fits."""
    kinds = ", ".join(fitting_kinds(production))
    if not kinds:
        return []
    text = f"The same settings as a file; replace KIND by one of {kinds}:"
    return [
        Paragraph("The same settings as a file:" if options else text),
        Code((_command("tuner", "export", file_word(file), "--snippet", "KIND", *options),)),
    ]


def _command(*words: str) -> str:
    return shell_line(words)
