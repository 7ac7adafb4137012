"""HTML page that compares two studies."""

from __future__ import annotations

from tuner.core.planning.compared import StudyComparison
from tuner.core.text.figures import percent
from tuner.core.text.safe_text import visible
from tuner.reports.charts.changes import changes_picture
from tuner.reports.comparison.comparison import (
    FIGURES_TOLD,
    all_simulation_notes,
    changes_table,
    describe_sides,
    differences_table,
    figures_table,
)
from tuner.reports.comparison.words import comparison_notes, comparison_sentences
from tuner.reports.page.blocks import Block, Section, Shown, Text, draw_pictures
from tuner.reports.page.document import LONGEST_NAME, document


def render_comparison_page(found: StudyComparison) -> str:
    """Return the HTML page; the same two studies give the same bytes."""
    names = [visible(known.name, LONGEST_NAME) for known in (found.before, found.after)]
    service = visible(found.after.study.service, LONGEST_NAME)
    made: list[Block] = [Text(describe_sides(found))]
    if found.differences:
        made.append(
            Shown(
                "differences",
                "Differences between the studies, which may explain a change",
                differences_table(found),
            )
        )
    lines = comparison_sentences(found)
    level = percent(found.confidence)
    simulated = all_simulation_notes(found)
    answer: list[Block] = [Text(simulated, "warning")] if simulated else []
    answer += [Text(lines[:1], "answer"), *([Text(lines[1:])] if lines[1:] else [])]
    sections = [
        Section("answer", "What changed", answer),
        Section("made", "The two studies", made),
        Section(
            "layouts",
            "Each layout",
            [
                *draw_pictures(lambda width, name: changes_picture(found, width=width, name=name), "changes"),
                Shown(
                    "changes-table",
                    f"Throughput before and after; {level} intervals, for all layouts of a column at once",
                    changes_table(found),
                ),
            ],
        ),
    ]
    if len(found.figures) > 1:
        ratios = Shown("figures", FIGURES_TOLD.rstrip(":"), figures_table(found))
        sections.append(Section("others", "Load, memory and other figures", [ratios]))
    notes = comparison_notes(found)
    if notes:
        sections.append(Section("notes", "Limits of the comparison", [Text(notes, "note")]))
    return document(
        title=f"{service}: {names[0]} and {names[1]}",
        service=service,
        headline=f"{names[0]}, then {names[1]}",
        sections=sections,
        file=f"{names[0]} and {names[1]}",
    )
