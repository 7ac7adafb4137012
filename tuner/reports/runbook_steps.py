"""What to type: to apply a layout, to take it back, to measure again."""

from __future__ import annotations

from datetime import UTC, datetime

from tuner.core.layout import Layout
from tuner.core.next_step import config_again
from tuner.core.overview import Overview
from tuner.core.records import StudyRecord
from tuner.core.resuming import told_again
from tuner.core.rollout import PROCESS, Rollout, has_number
from tuner.core.worker_facts import fact_of
from tuner.reports.documents.blocks import Block, Bullets, Code, Heading, Paragraph
from tuner.reports.documents.plain import file_word, shell_line
from tuner.reports.next_step import TITLE
from tuner.reports.runbook_method import ended_wall_s
from tuner.reports.snippets import fitting_kinds

_FILE = "the file that the study was begun with"
_WHY_AGAIN = "It is needed again because the study keeps no secrets."
_MOST_STARTS = 4  #: of programs that differ by their number


def apply_steps(
    file: str, layout: Layout, production: Rollout | str | None, *, is_current: bool
) -> list[Block]:
    """How to make *layout* the one in use."""
    heading = Heading("Apply")
    if is_current:
        return [heading, Paragraph("It is in use: there is nothing to change.")]
    if not isinstance(production, Rollout):
        return [heading, Paragraph(production or "What to type is not known.")]
    run = "1 worker process runs" if layout.processes == 1 else f"{layout.processes} worker processes run"
    return [
        heading,
        *_started(production),
        *_as_file(file, production),
        Paragraph(f"Restart the service, and see that {run}."),
    ]


def roll_back_steps(file: str, current: Layout | None, production: Rollout | str | None) -> list[Block]:
    """How to have back what was in use."""
    heading = Heading("Roll back")
    if current is None or not isinstance(production, Rollout):
        return [
            heading,
            Paragraph(
                "Put back the settings you had, and restart the service. Write them down before you change"
                " them: this study was not told what was in use."
                if current is None
                else "Put back the settings you had, and restart the service."
            ),
        ]
    return [
        heading,
        Paragraph(f"{current} was in use."),
        *_started(production),
        *_as_file(file, production, "--layout", str(current)),
    ]


def _of_config(study: StudyRecord) -> list[Block]:
    """What CONFIG stands for, where it is needed."""
    before, after = told_again(study)
    if before not in ([], ["CONFIG"]) or not (before or after):
        return []
    what = "the command that the study was begun with as a file (tuner init writes one)" if after else _FILE
    return [Paragraph(f"CONFIG is {what}. {_WHY_AGAIN}")]


def repeat_steps(
    overview: Overview, layout: Layout, after_s: float, *, is_answered: bool, is_next: bool
) -> list[Block]:
    """Until when the answer may be trusted, and how to find out whether it may.

    *is_next*: this is the next step, once the layout is applied.
    """
    study, current = overview.study, overview.ranking.current
    heading = Heading("When to measure again")
    ended = ended_wall_s(overview)
    if not is_answered or ended is None:
        return []
    day = datetime.fromtimestamp(ended + after_s, UTC).strftime("%Y-%m-%d")
    facts = study.provenance
    python = fact_of(facts, "worker_python", layout.variant) or facts.get("worker_version")
    words = ["tuner", "check", file_word(overview.name), *config_again(study)]
    if current is not None and current != layout:
        words += ["--current", str(current)]
    return [
        heading,
        Paragraph(f"By {day}, and before that when one of these changes:"),
        Bullets(
            (
                f"the release of {study.service}, or of a library that it spends its time in",
                f"Python{f' ({python})' if python else ''}, the kernel, or the cores of the box"
                f" ({study.box_cores:g})",
                "what the service works on: the kinds of items, their sizes, how many come",
                "what it waits for: database, queue, storage, other services",
            )
        ),
        Paragraph(
            f"{f'{TITLE}: ' if is_next else ''}This tests whether the answer still holds; it measures on"
            " the same box, for 2 hours at most:"
        ),
        Code((_command(*words),)),
        *_of_config(study),
        Bullets(
            (
                "Exit code 0: it still holds.",
                "Exit code 4: another layout is better now. Measure all of them again with tuner grid.",
                "Exit code 5: it cannot be told in this time. Give it more: --budget 6h.",
            )
        ),
    ]


def _started(production: Rollout) -> list[Block]:
    """The command with the layout's settings."""
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
    often = "once" if n_programs == 1 else "twice" if n_programs == 2 else f"{n_programs} times"
    which = "Start these:" if is_numbered and n_programs > 1 else f"Start it {often}, like this:"
    remarks = list(production.remarks)
    if production.hidden:
        names = ", ".join(production.hidden)
        remarks.append(f"Leave as they are, since the study did not keep their values: {names}.")
    told = [Paragraph(" ".join(remarks))] if remarks else []
    return [Paragraph(which), Code(tuple(lines)), *told]


def _as_file(file: str, production: Rollout, *options: str) -> list[Block]:
    """The same as a snippet, where there is a kind for it."""
    kinds = ", ".join(fitting_kinds(production))
    if not kinds:
        return []
    told = f"The same as a file for what starts your service; KIND is one of {kinds}:"
    return [
        Paragraph("The same as a file:" if options else told),
        Code((_command("tuner", "export", file_word(file), "--snippet", "KIND", *options),)),
    ]


def _command(*words: str) -> str:
    return shell_line(words)
