"""Report of `tuner explain`: the bottleneck of each layout and sizing rules, as text and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from tuner.core.defaults import TEN_MINUTES_S
from tuner.core.domain.records import StudyRecord, is_simulated, simulation_notes
from tuner.core.model.diagnosis.diagnose import Diagnosis, Share, Station
from tuner.core.model.diagnosis.evidence import Evidence
from tuner.core.model.diagnosis.explanation import Explanation
from tuner.core.model.diagnosis.sizing import ENOUGH, Rule, large_enough
from tuner.core.model.diagnosis.text import percent, sentence, short
from tuner.core.model.prediction.shapes import SHAPES
from tuner.core.text.figures import list_names, pluralize
from tuner.core.text.figures import percent as as_percent
from tuner.reports.ranking.evidence import describe_gil
from tuner.reports.ranking.ranking_words import headline
from tuner.reports.ranking.trends import describe_messages, growth_facts, growth_message, loss_message
from tuner.reports.text.formats import Table, render_paragraph, render_table

SCHEMA_VERSION = 1  #: version of the JSON; it increases when a field changes its meaning or is removed

#: column headers for the shares of the threads' time
SHARES: dict[Share, str] = {
    "python": "Python",
    "child": "child",
    "master": "master",
    "core_line": "core line",
    "gil_line": "GIL line",
    "asleep": "asleep",
    "blocked": "blocked",
    "contended": "contended",
    "elsewhere": "waiting",
}
LEGEND = (
    "GIL, cores: share of the time they are busy. Other columns: how the layout's threads spend their time."
    " ~: from the model; all else is measured."
)
_SAME_ITEM = (
    "The rules assume the same demand per item in every layout, that of {}. tuner calibrate STUDY.tuner.db"
    " estimates how much processes and threads slow each other. tuner predict estimates the demand from all"
    " layouts of a variant together, so the layouts that it calls large enough may differ."
)


def render_explanation(study: StudyRecord, found: Explanation | str, rules: Sequence[Rule]) -> str:
    """Return table, sentences and rules as text; ends in a newline. *found* may be the reason for none."""
    head = [*simulation_notes(study), headline(study)]
    if isinstance(found, str):
        return _paragraphs([*head, found])
    parts = [
        _paragraphs(head),
        render_table(explanation_table(found), "simple"),
        _paragraphs([LEGEND]),
        "".join(render_paragraph(f"{sentence(one)}.", "simple") for one in found.diagnoses),
    ]
    if rules:
        parts.append(_rules_text(rules))
    return "\n".join(
        [*parts, *([_paragraphs(left)] if (left := explanation_notes(study, found, rules)) else [])]
    )


def render_explanation_json(study: StudyRecord, found: Explanation | str, rules: Sequence[Rule]) -> str:
    """Return the same as JSON, with the fields of docs/json.md; ends in a newline."""
    known = None if isinstance(found, str) else found
    content = {
        "schema_version": SCHEMA_VERSION,
        "service": study.service,
        "simulated": is_simulated(study),
        "cores": None if known is None else known.cores,
        "has_gil": None if known is None or len(known.gils) > 1 else True in known.gils,
        "unknown": found if isinstance(found, str) else None,
        "layouts": [] if known is None else [_layout_facts(one, known) for one in known.diagnoses],
        "references": [] if known is None else _reference_facts(known),
        "rules": [dataclasses.asdict(rule) for rule in rules],
        "notes": [] if known is None else explanation_notes(study, known, rules),
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def explanation_notes(study: StudyRecord, found: Explanation, rules: Sequence[Rule]) -> list[str]:
    """Return the limits of the explanation, a sentence each."""
    notes = [*describe_gil(study), *_fastest_trends(study, found), *_same_item(found, rules)]
    variants = list(dict.fromkeys(one.layout.variant for one in found.diagnoses))
    if rules and len(variants) > 1 and len({rule.variant for rule in rules}) == 1:
        of = f"variant {rules[0].variant}" if rules[0].variant else "the service without a variant"
        why = "has the fastest layout" if rules[0].variant == variants[0] else "has a model"
        notes.insert(0, f"The rules are for {of}, which {why}.")
    if study.is_for_larger_host:
        notes.append(
            f"Layouts for {pluralize(study.cores, 'core')} measured on {study.box_cores:g}: there, the"
            " bottlenecks may be different."
        )
    of_note: dict[str, list[str]] = {}
    for variant in variants:
        reference = found.references.get(variant)
        if reference is not None:
            for note in reference.notes:
                of_note.setdefault(note, []).append(variant or "without a variant")
        elif any((one := known.load) and one.takes_many for known in _of_variant(found, variant)):
            notes.append(
                f"{variant or 'The service'} works on many requests at once in each process. The model has"
                " one per thread, so it does not apply, and there are no rules for its size."
            )
        else:
            notes.append(
                f"No layout of {variant or 'the service'} shows how long items wait, so there is no model."
                " Measure 1x1 to get one."
            )
    notes += [
        note if len(of) == len(variants) else f"{', '.join(of)}: {note}" for note, of in of_note.items()
    ]
    missing = [str(layout) for layout in study.layouts if layout not in found.evidence]
    if missing:
        notes.append(f"No data for {', '.join(missing)}: no valid window with CPU clocks.")
    return notes


def _same_item(found: Explanation, rules: Sequence[Rule]) -> list[str]:
    """Return the layouts from which the demand of the rules is, in a sentence; none without rules."""
    variants = dict.fromkeys(rule.variant for rule in rules)
    layouts = [layout for variant in variants for layout in found.references[variant].layouts]
    return [_SAME_ITEM.format(list_names(layouts))] if rules else []


def _fastest_trends(study: StudyRecord, found: Explanation) -> list[str]:
    fastest = found.diagnoses[0].layout
    return [
        *describe_messages(
            loss_message(fastest, found.trends_per_h.get(fastest), study.within_ratio),
            growth_message(fastest, found.memory_growth.get(fastest)),
        ),
    ]


def _of_variant(found: Explanation, variant: str) -> list[Evidence]:
    return [one for layout, one in found.evidence.items() if layout.variant == variant]


def _paragraphs(sentences: Sequence[str]) -> str:
    return "\n".join(render_paragraph(one, "simple") for one in sentences)


def explanation_table(found: Explanation) -> Table:
    """Return a table with the bottleneck of each layout and the activity of its threads."""
    shares = [share for share in SHARES if any(share in one.shares for one in found.diagnoses)]
    shares = [share for share in shares if any(_is_told(one, share) for one in found.diagnoses)]
    stations: list[Station] = ["gil", "cores"] if True in found.gils else ["cores"]
    headers = (
        "layout", "items/10 min", "bottleneck", *("GIL" if name == "gil" else name for name in stations),
        *(SHARES[share] for share in shares),
    )  # fmt: skip
    rows = [
        (
            str(one.layout),
            _items(TEN_MINUTES_S * found.throughput_per_s[one.layout]),
            short(one.what),
            *(percent(one.utilization[name]) if name in one.utilization else "-" for name in stations),
            *("-" if share not in one.shares else percent(one.shares[share]) for share in shares),
        )
        for one in found.diagnoses
    ]
    return Table(headers, tuple(rows), frozenset(range(len(headers))) - {0, 2})


def _is_told(one: Diagnosis, share: Share) -> bool:
    return share in one.shares and one.shares[share].value >= 0.005


def _items(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def rules_heading(rules: Sequence[Rule]) -> str:
    """Return the subject of the rules; *rules* is not empty."""
    one = rules[0]
    of = (
        f"{one.variant or 'the service without a variant'}"
        if rules_table(rules) is not None
        else "this service"
    )
    return f"Sizing rules for {of}, on {pluralize(one.cores, 'core')} (modelled):"


def first_rules(rules: Sequence[Rule]) -> list[Rule]:
    """Return the rules of the variant with the fastest layout, which are printed with reasons."""
    return [rule for rule in rules if rule.variant == rules[0].variant]


def rules_table(rules: Sequence[Rule]) -> Table | None:
    """Return a row for each variant, processes or threads; None if there is only one variant."""
    variants = list(dict.fromkeys(rule.variant for rule in rules))
    if len(variants) < 2:
        return None
    rows = []
    for variant in variants:
        own = {rule.kind: rule for rule in rules if rule.variant == variant}
        in_all = own["utilization"].count if "utilization" in own else None
        shapes = (large_enough(own, shape) or "-" for shape in SHAPES)
        rows.append((variant or "none", *shapes, "-" if in_all is None else str(in_all)))
    headers = ("variant", "processes alone", "threads alone", "both", "threads or processes in all")
    return Table(headers, tuple(rows), frozenset({4}))


def rules_table_heading(rules: Sequence[Rule]) -> str:
    """Return the caption of the table."""
    return (
        f"Processes or threads? The smallest layout of each shape with {as_percent(ENOUGH)} of the highest"
        f" throughput of that shape, on {pluralize(rules[0].cores, 'core')} (modelled):"
    )


def rule_sentence(rule: Rule) -> str:
    """Return the number, its unit and the reason."""
    if rule.count is None:
        return f"{rule.what}: no number up to {rule.most}. {_capital(rule.reason)}."
    beyond = f" Extrapolated: {', '.join(rule.extrapolated)}." if rule.extrapolated else ""
    return f"{rule.count} {rule.what}: {rule.reason}.{beyond}"


def _rules_text(rules: Sequence[Rule]) -> str:
    table = rules_table(rules)
    first = [f"  {rule_sentence(one)}" for one in first_rules(rules)]
    text = "".join(f"{line}\n" for line in [rules_heading(rules), *first])
    if table is None:
        return text
    return f"{rules_table_heading(rules)}\n\n{render_table(table, 'simple')}\n{text}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _layout_facts(one: Diagnosis, found: Explanation) -> dict[str, Any]:
    seen, trend = found.evidence[one.layout], found.trends_per_h.get(one.layout)
    return {
        "layout": str(one.layout),
        "processes": one.layout.processes,
        "threads": one.layout.threads if one.layout.has_threads else None,
        "variant": one.layout.variant,
        "throughput_per_10min": TEN_MINUTES_S * found.throughput_per_s[one.layout],
        "bound_by": list(one.what),
        "sentence": sentence(one),
        "utilization": {name: dataclasses.asdict(figure) for name, figure in one.utilization.items()},
        "shares": {name: dataclasses.asdict(figure) for name, figure in one.shares.items()},
        "n_gil_waiting": _threads(one, "gil_line"),
        "n_core_waiting": _threads(one, "core_line"),
        "gain_ratio": one.gain_ratio,
        "doubled": None if one.doubled is None else {"layout": str(one.doubled[0]), "ratio": one.doubled[1]},
        "others_cores": one.others_cores,
        "backend_cores": one.backend_cores,
        "tuner_cores": one.tuner_cores,
        "interrupt_cores": one.interrupt_cores,
        "beside_cores": one.beside_cores,
        "memory": one.memory,
        "measured_s": seen.length_s,
        "trend_ratio_per_h": None if trend is None else dataclasses.asdict(trend),
        "memory_growth": growth_facts(found.memory_growth.get(one.layout)),
    }


def _reference_facts(found: Explanation) -> list[dict[str, Any]]:
    return [
        {
            "variant": variant,
            "layouts": [str(layout) for layout in one.layouts],
            "demands": dataclasses.asdict(one.demands),
        }
        for variant, one in found.references.items()
    ]


def _threads(one: Diagnosis, share: Share) -> dict[str, Any] | None:
    figure = one.n_threads(share)
    return None if figure is None else dataclasses.asdict(figure)
