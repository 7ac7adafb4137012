"""Runbook page of a study, for an operator on call who has not seen the study."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord, is_simulated, simulation_notes
from tuner.core.model.diagnosis.text import short
from tuner.core.ranking.overview import Overview
from tuner.core.ranking.ranked import RankedLayout, Ranking, value_beside
from tuner.core.ranking.step_case import AS_BUSY
from tuner.core.text.figures import pluralize
from tuner.reports.documents.blocks import Block, Bullets, Heading, Note, Paragraph, Picture
from tuner.reports.ranking.answer import answer_sentence
from tuner.reports.ranking.axis_bests import describe_axis_bests
from tuner.reports.ranking.evidence import describe_caveats, describe_no_evidence, describe_others
from tuner.reports.ranking.first_screen import Starts, gains, how_sure, is_answered, layout_words
from tuner.reports.ranking.groups import row_group, to_decide_cell
from tuner.reports.ranking.latency import describe_p95
from tuner.reports.ranking.limits import describe_limits, limits_heading, limits_sentences, limits_table
from tuner.reports.ranking.next_step import describe_wider, next_step_blocks, step_of
from tuner.reports.ranking.pareto import best_by_throughput, front_heading, front_sentences, front_table
from tuner.reports.ranking.ranking import describe_comparison
from tuner.reports.ranking.ranking_cells import (
    beside_cell,
    in_brackets,
    interval_cell,
    items_cell,
    load_cell,
    memory_cell,
    times_cell,
)
from tuner.reports.ranking.ranking_words import (
    ADJUSTED_TOLD,
    SETTLED_TOLD,
    holds_as_busy,
    level_of,
    notes,
    reservations,
    value_ranked_by,
    verdict,
)
from tuner.reports.runbook.method import describe_conditions, planned_connections
from tuner.reports.runbook.steps import apply_steps, repeat_steps, roll_back_steps
from tuner.reports.text.formats import Table

REPEAT_AFTER_S = 90 * 86400.0
#: next steps that the page itself contains: the files to apply, and the command for a later check
OF_RUNBOOK = ("export", "check-later")
_MOST_ROWS = 8  #: largest number of rows, not counting the layout in use; `tuner rank` shows all rows
_MOST_FURTHER_ROWS = 12  #: the same for the tables of limits and trade-offs


def proposed_layout(ranking: Ranking) -> Layout | None:
    """Return the layout that a runbook proposes: the answer, or the best; None: nothing is ranked."""
    return None if ranking.best is None else ranking.best.layout


def runbook_title(study: StudyRecord) -> str:
    """Return the heading above the page."""
    return f"Processes and threads of {study.service}"


def runbook_page(
    overview: Overview,
    starts: Starts,
    *,
    repeat_after_s: float = REPEAT_AFTER_S,
    pictures: Sequence[Picture] = (),
) -> list[Block]:
    """Return the recommendation, the steps to apply it and roll it back, the evidence, and when to repeat it.

    Nothing depends on the current time: the same study gives the same page.
    """
    study, ranking = overview.study, overview.ranking
    best = _row_of(ranking, proposed_layout(ranking))
    current = _row_of(ranking, ranking.current)
    step = step_of(overview, at_any_time=True)
    next_step = next_step_blocks(study, step)
    page: list[Block] = [
        *(Paragraph(sentence) for sentence in simulation_notes(study)),
        *(Note(sentence) for sentence in on_top(study, ranking)),
        Heading("What to run"),
    ]
    if best is None:
        page += [Paragraph("Nothing can be recommended.", True)]
        if any(row.is_kept_out for row in ranking.rows):
            page.append(Paragraph(verdict(ranking)))
        page += [Paragraph("Change nothing."), *next_step]
    elif not is_answered(ranking):
        page += [Paragraph(f"No answer yet: {best.layout} leads.", True), *_bullets(ranking)]
        page += [Note(sentence) for sentence in describe_wider(ranking, step)]
        page += [Paragraph("Change nothing yet."), *next_step]
    else:
        where = f", {AS_BUSY}" if holds_as_busy(ranking) else ""
        page += [Paragraph(f"{layout_words(best.layout)} ({best.layout}){where}", True), *_bullets(ranking)]
        page += [Note(sentence) for sentence in describe_wider(ranking, step)]
        if step.slug not in OF_RUNBOOK:
            page += next_step
        page += apply_steps(overview.name, best.layout, starts.proposed, is_current=current is best)
        if current is not best and not is_simulated(study):
            page += roll_back_steps(overview.name, ranking.current, starts.current)
        if current is not None and current is not best:
            page += [Heading("Compared with the layout in use"), _comparison(study, ranking, current, best)]
    page += _evidence(overview, pictures)
    page += [Heading("Measurement conditions"), Bullets(tuple(describe_conditions(overview)))]
    if known := [*limits_sentences(ranking), *_remaining_notes(study, ranking)]:
        page += [Heading("Remarks"), Bullets(tuple(known))]
    if best is not None:
        page += repeat_steps(
            overview,
            best.layout,
            repeat_after_s,
            is_answered=is_answered(ranking),
            is_next=step.slug in OF_RUNBOOK,
        )
    return page


def on_top(study: StudyRecord, ranking: Ranking) -> list[str]:
    """Return reservations about the whole page, a sentence each."""
    return [*reservations(study, ranking), *describe_caveats(study, ranking)]


def _row_of(ranking: Ranking, layout: Layout | None) -> RankedLayout | None:
    return next((row for row in ranking.rows if row.layout == layout), None)


def _bullets(ranking: Ranking) -> list[Block]:
    """Return the certainty of the answer, its gain and the measurement, a line each."""
    best = ranking.best
    texts = [("How sure", how_sure(ranking)), ("Gain", gains(ranking))]
    if best is not None and is_answered(ranking):
        texts.append(("Measured", _describe_best(best, ranking)))
    lines = tuple(f"{name}: {' '.join(sentences)}" for name, sentences in texts if sentences)
    return [Bullets(lines)] if lines else []


def _describe_best(best: RankedLayout, ranking: Ranking) -> list[str]:
    value = value_ranked_by(best, ranking)
    unit = "items in 10 minutes" if ranking.objective == "throughput" else "items per CPU second"
    interval = interval_cell(value, items_cell)
    text = "" if interval == "-" else f" ({level_of(ranking)} interval: {interval})"
    kept = [f"It is shown to keep its limits: {describe_limits(ranking)}."] if ranking.limits else []
    return [f"{items_cell(value.mean)} {unit}{text}.", *kept]


def _comparison(study: StudyRecord, ranking: Ranking, current: RankedLayout, best: RankedLayout) -> Table:
    rows = [("items in 10 minutes", *(_format_items(row) for row in (current, best)))]
    if ranking.objective != "throughput":
        rows.append(
            ("items per CPU second", *(items_cell(value_ranked_by(x, ranking).mean) for x in (current, best)))
        )
    rows.append(("load average", load_cell(current), load_cell(best)))
    rows.append(("memory", memory_cell(current), memory_cell(best)))
    if ranking.is_latency_known:
        rows.append(("p95 latency", describe_p95(current), describe_p95(best)))
    connections = [planned_connections(study, row.layout) for row in (current, best)]
    if None not in connections:
        rows.append(("connections opened", str(connections[0]), str(connections[1])))
    headers = ("figure", f"in use: {current.layout}", f"proposed: {best.layout}")
    return Table(headers, tuple(rows), frozenset({1, 2}))


def _format_items(row: RankedLayout) -> str:
    value = row.throughput_per_10min
    return f"{items_cell(value.mean)}{in_brackets(value)}"


def _evidence(overview: Overview, pictures: Sequence[Picture]) -> list[Block]:
    """Return the relevant part of the ranking, limits and trade-offs."""
    ranking = overview.ranking
    if all(row.n_windows == 0 for row in ranking.rows):
        return []
    rows = [row for row in ranking.rows if row.n_windows]
    shown = [row for place, row in enumerate(rows) if place < _MOST_ROWS or row.layout == ranking.current]
    is_evidence = holds_as_busy(ranking) or not describe_no_evidence(ranking)
    found: list[Block] = [
        Heading("Evidence" if is_evidence else "Figures (not evidence)"),
        *map(Paragraph, describe_no_evidence(ranking)),
        _table(ranking, shown),
    ]
    if left := len(rows) - len(shown):
        found.append(Paragraph(_describe_more(left)))
    if lines := describe_comparison(ranking):
        found.append(Paragraph(" ".join(lines)))
    if ranking.claim is not None:
        found.append(Paragraph(answer_sentence(ranking.claim)))
    found += map(Paragraph, describe_axis_bests(overview.study, ranking))
    if ranking.limits:
        found += [Paragraph(limits_heading(ranking)), *_first_rows(limits_table(ranking))]
    if any(limit.name == "load" for limit in ranking.limits):
        found.append(Paragraph(SETTLED_TOLD))
    best = best_by_throughput(ranking)
    for front in ranking.fronts:
        found.append(Paragraph(front_heading(front, best)))
        if front.places:
            found += _first_rows(front_table(front))
            found += [Paragraph(ADJUSTED_TOLD)] if front.cost == "load" else []
        found += [Paragraph(sentence) for sentence in front_sentences(front, best)]
    return [*found, *pictures]


def _describe_more(left: int) -> str:
    return f"{pluralize(left, 'more layout')}: tuner rank prints all of them."


def _first_rows(table: Table) -> list[Block]:
    left = len(table.rows) - _MOST_FURTHER_ROWS
    if left <= 1:
        return [table]
    shown = Table(table.headers, table.rows[:_MOST_FURTHER_ROWS], table.numeric)
    return [shown, Paragraph(_describe_more(left))]


def _table(ranking: Ranking, shown: Sequence[RankedLayout]) -> Table:
    unit = "items/10 min" if ranking.objective == "throughput" else "items/CPU s"
    latency = ["p95"] if ranking.is_latency_known else []
    bound = ["bottleneck"] if ranking.is_bound_known else []
    current = ranking.current
    against = [] if current is None else [f"against {current}"]
    decide = ["to decide"] if any(to_decide_cell(row) != "-" for row in shown) else []
    headers = (
        "group", "layout", unit, f"{level_of(ranking)} interval",
        *decide, "load", *bound, "memory", *latency, *against,
    )  # fmt: skip
    rows = []
    for row in shown:
        value = value_beside(row, ranking)
        ratio = None if row.ratio_to_current is None else row.ratio_to_current.mean
        rows.append(
            (
                row_group(row, ranking.objective),
                str(row.layout),
                items_cell(value.mean),
                beside_cell(row, ranking),
                *([to_decide_cell(row)] if decide else []),
                load_cell(row),
                *([short(row.bound_by) or "-"] if bound else []),
                memory_cell(row),
                *([describe_p95(row)] if latency else []),
                *(["in use" if row.layout == current else times_cell(ratio)] if against else []),
            )
        )
    text = ("group", "layout", "bottleneck")
    numeric = frozenset(place for place, name in enumerate(headers) if name not in text)
    return Table(headers, tuple(rows), numeric)


def _remaining_notes(study: StudyRecord, ranking: Ranking) -> list[str]:
    """Return the limits of the ranking that are not already above it."""
    reported = [*on_top(study, ranking), *describe_others(ranking), *how_sure(ranking)]
    return [note for note in notes(study, ranking) if note not in reported]
