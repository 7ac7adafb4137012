"""What to type: to apply a layout, to take it back, to measure again."""

from __future__ import annotations

from datetime import UTC, datetime

from tuner.core.layout import Layout
from tuner.core.limit_text import OPTIONS, WORDS, render_level
from tuner.core.overview import Overview
from tuner.core.records import StudyRecord
from tuner.core.resuming import told_again
from tuner.core.rollout import PROCESS, Rollout, has_number
from tuner.core.simulated import is_simulated
from tuner.core.worker_facts import fact_of
from tuner.reports.documents.blocks import Block, Bullets, Code, Heading, Paragraph
from tuner.reports.documents.plain import file_word, shell_line
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


def go_on_steps(
    overview: Overview, why: str = "Change nothing yet. The study goes on where it stopped"
) -> list[Block]:
    """What to do where a study has no answer yet."""
    before, after = told_again(overview.study)
    words = [
        *overview.study.provenance.get("made_by", "tuner grid").split(),
        *before,
        "--resume",
        file_word(overview.name),
    ]
    if is_simulated(overview.study):
        words += ["--simulate", "PROFILE"]
    words += after
    typed = f"COMMAND is the one that the study was begun with, and so are its settings (--set). {_WHY_AGAIN}"
    return [
        Paragraph(f"{why}, on the box that it ran on:"),
        Code((_command(*words),)),
        *([Paragraph(typed)] if after else _of_config(overview.study)),
    ]


def next_steps(overview: Overview) -> list[Block]:
    """What to do where nothing can be recommended."""
    file, ranking = file_word(overview.name), overview.ranking
    if not overview.windows and not overview.launches:
        return go_on_steps(overview, "Change nothing. Nothing was measured yet; begin")
    if any(row.is_kept_out for row in ranking.rows):
        return _of_limits(overview)
    return [
        Paragraph("Change nothing. What did not count, and why, is told below; this shows it, too:"),
        Code((_command("tuner", "rank", file),)),
        Paragraph(
            "Mend that, and begin again with tuner grid as this study was begun, into another file: a layout"
            " that gave nothing at any attempt is not tried again in this one."
        ),
    ]


def _of_limits(overview: Overview) -> list[Block]:
    """What to do where no layout is shown to keep the limits."""
    ranking = overview.ranking
    judged = [row.verdict for row in ranking.rows if row.is_kept_out and row.verdict is not None]
    steps: list[Block] = []
    if any(verdict.state == "open" for verdict in judged):
        said = "Of some layouts it is open whether they keep it"
        steps = (
            go_on_steps(overview, f"{said}. Measure more of them")
            if overview.study.strategy == "race"
            else [Paragraph(f"{said}: measure them with more --repeats.")]
        )
    least = []
    for place, limit in enumerate(ranking.limits):
        found = [one.findings[place] for one in judged]
        means = [one for one in found if one.estimate.mean is not None]
        if means:
            lowest = min(means, key=lambda one: one.estimate.mean or 0.0)
            least.append(f"The least {WORDS[limit.name]} seen is {render_level(lowest)}.")
    options = [word for limit in ranking.limits for word in (OPTIONS[limit.name], "N")]
    told = ["Allow more, N being what you can do with; or measure layouts with fewer processes or threads:"]
    return [
        *steps,
        Paragraph(" ".join([*least, *told])),
        Code((_command("tuner", "rank", file_word(overview.name), *options),)),
    ]


def _of_config(study: StudyRecord) -> list[Block]:
    """What CONFIG stands for, where it is needed."""
    before, after = told_again(study)
    if not before and not after:
        return []
    what = "the command that the study was begun with as a file (tuner init writes one)" if after else _FILE
    return [Paragraph(f"CONFIG is {what}. {_WHY_AGAIN}")]


def repeat_steps(overview: Overview, layout: Layout, after_s: float, *, is_answered: bool) -> list[Block]:
    """Until when the answer may be trusted, and how to find out whether it may."""
    study, current = overview.study, overview.ranking.current
    heading = Heading("When to measure again")
    ended = ended_wall_s(overview)
    if not is_answered or ended is None:
        return []
    day = datetime.fromtimestamp(ended + after_s, UTC).strftime("%Y-%m-%d")
    facts = study.provenance
    python = fact_of(facts, "worker_python", layout.variant) or facts.get("worker_version")
    words = ["tuner", "check", file_word(overview.name), *["CONFIG"] * any(told_again(study))]
    if current is not None and current != layout:
        words += ["--current", str(current)]
    if is_simulated(study):
        words += ["--simulate", "PROFILE"]
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
            "This tests whether the answer still holds; it measures on the same box, for 2 hours at most:"
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
