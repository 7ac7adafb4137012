"""Recommended next step after an answer: a sentence and a command, as text and as JSON fields."""

from __future__ import annotations

from typing import Any

from tuner.core.domain.records import StudyRecord, resume_arguments
from tuner.core.ranking.next_step import next_step
from tuner.core.ranking.overview import Overview
from tuner.core.ranking.ranked import Ranking
from tuner.core.ranking.step_case import NextStep, facts_of
from tuner.core.search.growth import growth_of
from tuner.reports.documents.blocks import Block, Code, Paragraph
from tuner.reports.documents.plain import file_word, shell_line
from tuner.reports.text.formats import render_paragraph

# Note that larger layouts have a higher throughput than the answer; `ranking.next_step` has the command.


def describe_wider(ranking: Ranking, step: NextStep | None = None) -> list[str]:
    """Return sentences next to the answer; none if it is not at the edge, or *step* mentions it."""
    found = ranking.wider
    if found is None or (step is not None and step.slug == "edge"):
        return []
    kept_out = f"Larger layouts are kept out: {found.refused}."
    return [found.sentence if found.larger else f"{found.sentence} {kept_out}"]


def wider_facts(ranking: Ranking) -> dict[str, Any] | None:
    """Return the same as JSON fields, listed in docs/json.md."""
    found = ranking.wider
    if found is None:
        return None
    return {
        "sentence": " ".join(describe_wider(ranking)),
        "layout": str(found.leader),
        "is_sure": found.is_sure,
        "larger": [str(layout) for layout in found.larger],
        "refused": found.refused or None,
    }


def grown_sentences(study: StudyRecord) -> list[str]:
    """Return a sentence on how the grid grew; none if it did not."""
    growth = growth_of(study)
    ways = [] if growth is None else [way for way in growth.ways if way.reached != way.began]
    if growth is None or not ways:
        return []
    came = ", ".join(f"{way.began} to {way.reached}" for way in ways)
    return [
        f"The grid grew from {growth.n_asked} to {len(study.layouts)} layouts, because twice the threads or"
        f" processes gave more from {came} (windows before block 1, not counted)."
    ]


TITLE = "Next step"
_FILE = "the file that started the study"


def step_of(overview: Overview, *, at_any_time: bool = False) -> NextStep:
    """Return the next step of a study; *at_any_time*: the same whether or not it is being measured now."""
    facts = facts_of(overview, file_word(overview.name), at_any_time=at_any_time)
    return next_step(overview.study, overview.ranking, facts)


def describe_next_step(step: NextStep) -> str:
    """Return the reason and the effect of the command, up to a colon."""
    return f"{TITLE}: {step.sentence}"


def command(step: NextStep) -> str:
    """Return the command as it is typed."""
    return shell_line(step.words)


def render_next_step(study: StudyRecord, ranking: Ranking, fmt: str) -> list[str]:
    """Return the lines below a ranking in *fmt*: the sentence, the command, and values to fill in."""
    step = ranking.next_step
    if step is None:
        return []
    remarks = remarks_on(study, step)
    if fmt in ("simple", "plain"):
        return ["\n".join([describe_next_step(step), f"    {command(step)}", *remarks, ""])]
    return [render_paragraph(" ".join([describe_next_step(step), command(step), *remarks]), fmt)]


def next_step_blocks(study: StudyRecord, step: NextStep) -> list[Block]:
    """Return the same as blocks of a page."""
    remarks = remarks_on(study, step)
    return [
        Paragraph(describe_next_step(step)),
        Code((command(step),)),
        *([Paragraph(" ".join(remarks))] if remarks else []),
    ]


def remarks_on(study: StudyRecord, step: NextStep) -> list[str]:
    """Return the meanings of words in capitals, which the study's file does not contain."""
    before, after = resume_arguments(study)
    found = []
    if "COMMAND" in step.words:
        found.append("COMMAND is the command that started the study, with its settings (--set).")
    elif before and before[0] in step.words:
        found.append("" if before != ["CONFIG"] else f"CONFIG is {_FILE}.")
    elif "CONFIG" in step.words:
        is_typed = study.provenance.is_command_typed and bool(after)
        what = "the command that started the study, as a file (tuner init writes one)"
        found.append(f"CONFIG is {what if is_typed else _FILE}.")
    if found:
        found.append("It is needed again because the study stores no secrets.")
    if "ADDRESS" in step.words:
        found.append("ADDRESS is the address of the fleet's scheduler.")
    return [sentence for sentence in found if sentence]


def next_step_facts(step: NextStep | None) -> dict[str, Any] | None:
    """Return the same as JSON fields, listed in docs/json.md."""
    if step is None:
        return None
    return {"slug": step.slug, "sentence": step.sentence, "command": command(step)}
