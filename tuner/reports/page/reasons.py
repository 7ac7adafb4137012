"""Sections of the HTML page on bottlenecks and on the accuracy of the model."""

from __future__ import annotations

from tuner.core.model.calibration.calibrated import Calibrated
from tuner.core.model.diagnosis.text import sentence
from tuner.core.ranking.overview import Overview
from tuner.reports.charts.foretold import prediction_picture
from tuner.reports.charts.shares import shares_picture
from tuner.reports.model.explain import (
    LEGEND,
    explanation_notes,
    explanation_table,
    first_rules,
    rule_sentence,
    rules_heading,
    rules_table,
    rules_table_heading,
)
from tuner.reports.model.model import LEFT_OUT_MEANS, headline, left_out_rows, left_out_sentence
from tuner.reports.page.blocks import Block, Limits, Section, Shown, Text, draw_pictures, thin_table
from tuner.reports.text.formats import Table

_TITLE = "Prediction against measurement"


def bound_section(overview: Overview, limits: Limits) -> Section:
    """Return the activity of each layout's threads as chart, sentences and table, with sizing rules."""
    found, title = overview.explanation, "Bottleneck of each layout"
    if isinstance(found, str):
        return Section("bound", title, [Text([found])])
    blocks: list[Block] = []
    blocks += draw_pictures(lambda width, name: shares_picture(overview, width=width, name=name), "shares")
    lines = [f"{sentence(one)}." for one in found.diagnoses]
    blocks.append(Text(["One sentence for each layout", *lines[: limits.rows]], "folded"))
    table, left_out = thin_table(explanation_table(found), limits.rows)
    caption = "The same as a table, with the load of the GIL and of the cores"
    blocks.append(
        Shown("bound-table", caption, table, is_folded=True, left_out=f"{LEGEND} {left_out}".strip())
    )
    if overview.rules:
        if (of_variants := rules_table(overview.rules)) is not None:
            blocks.append(Shown("rules-table", rules_table_heading(overview.rules), of_variants))
        blocks.append(Text([rules_heading(overview.rules)]))
        blocks.append(Text([rule_sentence(rule) for rule in first_rules(overview.rules)], "list"))
    if said := explanation_notes(overview.study, found, overview.rules):
        blocks.append(Text(said, "note"))
    return Section("bound", title, blocks)


def prediction_section(prediction: Calibrated | str | None, limits: Limits) -> Section:
    """Return predictions of each layout by a fit without it, or the reason why there is no such fit."""
    if prediction is None:
        text = "No prediction was made; tuner predict compares the model with the measurements."
        return Section("foretold", _TITLE, [Text([text])])
    if isinstance(prediction, str):
        return Section(
            "foretold", _TITLE, [Text([f"The model cannot be compared with this study: {prediction}"])]
        )
    errors = prediction.left_out
    if errors is None:
        why = (
            "Too few layouts were measured to leave one out and predict it from the others, so the error of"
            " the model on this service is unknown."
        )
        return Section("foretold", _TITLE, [Text([why])])
    blocks: list[Block] = []
    blocks += draw_pictures(
        lambda width, name: prediction_picture(errors, width=width, name=name), "foretold"
    )
    blocks.append(Text([left_out_sentence(errors), LEFT_OUT_MEANS]))
    headers = ["left out", "items/10 min", "predicted", "error", "load", "its prediction", "its error"]
    headers += ["memory", "prediction of memory", "error of memory"] if errors.memory_errors else []
    numeric = frozenset(range(1, len(headers)))
    table, left_out = thin_table(Table(tuple(headers), left_out_rows(errors), numeric), limits.rows)
    blocks.append(
        Shown("foretold-table", "Each layout left out of the fit", table, is_folded=True, left_out=left_out)
    )
    blocks.append(Text([*headline(prediction), *prediction.calibration.notes], "note"))
    return Section("foretold", _TITLE, blocks)
