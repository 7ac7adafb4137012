"""Report of a published experiment: published, measured and modelled figures, as text and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from tuner.core.text.figures import pluralize
from tuner.lab.experiments.experiment import Experiment, LabClaim, LabFigure, Outcome, Row, Spread, Value
from tuner.reports.documents import Block, Bullets, Code, Heading, Paragraph, Picture
from tuner.reports.text.formats import Table, render_paragraph, render_table

SCHEMA_VERSION = 1
_VERDICTS = {True: "confirmed here", False: "refuted here", None: "undecided here"}
MOST_WORDS = 21  #: largest number of words of the reason of a claim on a page
_OWN = "Not published: "  #: prefix of claims by tuner
_OF_SIMULATION = {
    True: "confirmed in the simulation",
    False: "refuted in the simulation",
    None: "undecided in the simulation",
}


def render_list(experiments: Sequence[tuple[Experiment, str]], fmt: str) -> str:
    """Return the existing experiments, each with its publication."""
    if fmt == "json":
        listed = [{"name": one.name, "title": one.title, "source": source} for one, source in experiments]
        facts = {"schema_version": SCHEMA_VERSION, "experiments": listed}
        return json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    rows = tuple((one.name, one.title, source) for one, source in experiments)
    return render_table(Table(("name", "question", "published"), rows, frozenset()), fmt)


def render_lab(outcome: Outcome, box: str, fmt: str) -> str:
    """Return the outcome in a format of `table_formats`; ends in a newline.

    Args:
        box: the host of the measurement, in a sentence.
    """
    if fmt in ("csv", "tsv"):
        return render_table(figures_table(outcome, for_programs=True), fmt)
    parts: list[str | Table] = [
        f"{outcome.experiment.name}: {outcome.experiment.title}",
        *_beginning(outcome, box),
        *_tables(outcome),
    ]
    parts += [*_describe_model(outcome), *map(describe_finding, outcome.findings), outcome.follows]
    return "\n".join(
        render_paragraph(part, fmt) if isinstance(part, str) else render_table(part, fmt) for part in parts
    )


def lab_page(outcome: Outcome, box: str, picture: str, figures: str, command: str) -> list[Block]:
    """Return the outcome as a page.

    Args:
        box: the host of the measurement, in a sentence.
        picture: the file of `lab_picture`, in the same folder.
        figures: the file of `lab_figures`, in the same folder.
        command: the command that made the measurement.
    """
    experiment = outcome.experiment
    figure = experiment.figures[0]
    alt = f"Chart of the {figure.caption or figure.label}"
    return [
        Heading(f"{experiment.name}: {experiment.title}", 1),
        Paragraph(outcome.follows, is_strong=True),
        *map(Paragraph, _beginning(outcome, box)),
        Code((command,)),
        Picture(picture, alt),
        Paragraph(f"The file {figures} has all figures."),
        Heading("Published claims", 2),
        Bullets(tuple(describe_finding(_short(one)) for one in outcome.findings)),
        Heading("The model", 2),
        *([Paragraph(text)] if (text := describe_errors(outcome)) else []),
    ]


def _beginning(outcome: Outcome, box: str) -> list[str]:
    not_run = sum(1 for row in outcome.rows if not row.measured)
    n_disturbed = sum(row.n_disturbed for row in outcome.rows)
    lines = [box]
    if not_run:
        lines.append(f"The runs lack {pluralize(not_run, 'published setting')}, which this report omits.")
    if n_disturbed:
        disturbed = pluralize(n_disturbed, "run")
        lines.append(f"Other processes disturbed {disturbed}, which do not count.")
    if any(row.is_disturbed for row in outcome.rows):
        lines.append("A row that has only disturbed runs is marked with !.")
    publication, _, conditions = outcome.source.partition("; ")
    source = f"The experiment repeats the publication {publication}."
    if conditions:
        source += f" The published experiment had these settings: {conditions}."
    return [f"{source} {outcome.experiment.what}", " ".join(lines)]


def _tables(outcome: Outcome) -> list[Table]:
    beside = outcome.experiment.figures[1:]
    return [main_table(outcome), *([figures_table(outcome, beside)] if beside else [])]


def _describe_model(outcome: Outcome) -> list[str]:
    return [text for text in (describe_errors(outcome), outcome.model) if text]


def render_lab_json(
    outcomes: Sequence[tuple[Outcome, Mapping[str, Any]]],
    lost: Sequence[tuple[Experiment, str, str]] = (),
) -> str:
    """Return outcomes, each with the facts of its runs, as JSON.

    Args:
        lost: experiments without results, each with its publication and the reason.
    """
    reported = [
        *(_facts(*one) for one in outcomes),
        *(
            {"name": one.name, "title": one.title, "source": source, "left_out": [why]}
            for one, source, why in lost
        ),
    ]
    facts = {"schema_version": SCHEMA_VERSION, "experiments": reported}
    return json.dumps(facts, indent=2, ensure_ascii=False) + "\n"


def describe_host(
    experiment: Experiment,
    box: Mapping[str, str],
    cores: int,
    n_runs: int,
    *,
    repeats: int,
    quick: bool,
    also: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> str:
    """Return the host of the measurement in a sentence, and the parts that were left out.

    Args:
        also: packages that some runs needed in addition to those of the experiment.
        left_out: why some points were not run, in sentences.
    """
    packages = [f"{name} {box.get(name, '')}" for name in (*experiment.needs, *also)]
    programs = ", ".join([box.get("worker_python", ""), *packages])
    where = f"{programs}, on {pluralize(cores, 'core')} ({box.get('cpu', '')})"
    kind = " A quick run of some of the points." if quick else ""
    times = "one per setting" if repeats == 1 else f"{repeats} per setting, in random order"
    return " ".join(
        [
            f"These results are from {pluralize(n_runs, 'run')} ({times}) with {where}.{kind}",
            *left_out,
        ]
    )


def lab_figures(outcome: Outcome) -> str:
    """Return every row with every figure, as CSV."""
    return render_table(figures_table(outcome, for_programs=True), "csv")


def main_table(outcome: Outcome) -> Table:
    """Return the main figure: published, measured with its spread, modelled."""
    experiment, figure = outcome.experiment, outcome.experiment.figures[0]
    rows = [
        (
            *_at(row),
            _number(_published_value(row, figure), figure),
            _number(_median(row, figure), figure) + " !" * row.is_disturbed,
            _range(row.measured.get(figure.key), figure),
            _number(_modelled_value(row, figure), figure),
            _off(row, figure),
        )
        for row in _run(outcome)
    ]
    headers = (
        *experiment.parameters,
        f"{figure.label} published",
        _measured_head(outcome),
        "least to most",
        "model",
        "model off",
    )
    return Table(headers, tuple(rows), frozenset(range(len(headers))))


def figures_table(
    outcome: Outcome, figures: Sequence[LabFigure] | None = None, *, for_programs: bool = False
) -> Table:
    """Return every figure: published, measured, modelled; *for_programs*: with unique headers."""
    shown = outcome.experiment.figures if figures is None else figures
    columns: list[tuple[str, list[str]]] = [
        (name, [_value(row.at[n]) for row in _run(outcome)])
        for n, name in enumerate(outcome.experiment.parameters)
    ]
    for figure in shown:
        head = "measured" if for_programs else _measured_head(outcome)
        sides = (("published", _published_value), (head, _median), ("model", _modelled_value))
        filled = [(side, [_number(of(row, figure), figure) for row in _run(outcome)]) for side, of in sides]
        filled = [(side, cells) for side, cells in filled if any(cells)]
        columns += [
            (f"{figure.label} {side}" if for_programs or n == 0 else side, cells)
            for n, (side, cells) in enumerate(filled)
        ]
    if for_programs:
        columns += _spread_columns(outcome)
        columns.append(("fitted *", ["yes" * row.is_fitted for row in _run(outcome)]))
        columns.append(("disturbed !", ["yes" * row.is_disturbed for row in _run(outcome)]))
    headers = tuple(head for head, _ in columns)
    rows = tuple(zip(*(cells for _, cells in columns), strict=True))
    return Table(headers, rows, frozenset(range(len(headers))))


def _spread_columns(outcome: Outcome) -> list[tuple[str, list[str]]]:
    """Return the least and the greatest value of the main figure."""
    figure = outcome.experiment.figures[0]
    spreads = [row.measured.get(figure.key) for row in _run(outcome)]
    least = [_number(None if one is None else one.low, figure) for one in spreads]
    most = [_number(None if one is None else one.high, figure) for one in spreads]
    return [(f"{figure.label} least", least), (f"{figure.label} most", most)]


def describe_finding(finding: LabClaim) -> str:
    """Return a claim with its verdict here."""
    verdicts = _OF_SIMULATION if finding.is_simulated else _VERDICTS
    kind, verdict, claim = "Published claim", verdicts[finding.holds], finding.claim
    if claim.startswith(_OWN):
        claim = claim.removeprefix(_OWN)
        kind, claim = "tuner's claim", claim[0].upper() + claim[1:]
    return f"{kind}, {verdict}: {claim} {finding.why}"


def _short(finding: LabClaim) -> LabClaim:
    """Return *finding* with the beginning of its reason: the figures of every row are in the CSV file."""
    first, *sentences = re.split(r"(?<=[\w%)]\.) (?=[A-Z0-9])", finding.why)
    if len(first.split()) > MOST_WORDS:
        clauses = [first[: end.start()] for end in re.finditer(r"[,;] (?![^(]*\))", first)]
        short = [clause for clause in clauses if len(clause.split()) <= MOST_WORDS]
        return replace(finding, why=f"{short[-1]} ..." if short else first)
    kept = [first]
    for sentence in sentences:
        if sum(len(one.split()) for one in (*kept, sentence)) > MOST_WORDS:
            break
        kept.append(sentence)
    return replace(finding, why=" ".join(kept))


def describe_errors(outcome: Outcome) -> str:
    """Return the model's error on rows that it was not fitted to, in a sentence; empty: there is no such
    row.
    """
    figure = outcome.experiment.figures[0]
    errors = outcome.errors(figure.key)
    if not errors:
        return ""
    worst = max(errors.values(), key=abs)
    n_fitted = sum(1 for row in outcome.rows if row.is_fitted)
    return (
        f"The model is fitted to {pluralize(n_fitted, 'measured setting')}. The predictions "
        f"for the other {pluralize(len(errors), 'setting')} differ from the measured values by "
        f"{100 * fmean(map(abs, errors.values())):.1f} % on average, and by {100 * worst:+.1f} % at most."
    )


def _measured_head(outcome: Outcome) -> str:
    return "measured or simulated" if any(row.is_simulated for row in outcome.rows) else "measured"


def _run(outcome: Outcome) -> list[Row]:
    return [row for row in outcome.rows if row.measured]


def _at(row: Row) -> tuple[str, ...]:
    return tuple(map(_value, row.at))


def _value(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _number(value: float | None, figure: LabFigure) -> str:
    return "" if value is None else f"{value:.{figure.digits}f}"


def _published_value(row: Row, figure: LabFigure) -> float | None:
    return row.published.get(figure.key)


def _median(row: Row, figure: LabFigure) -> float | None:
    return row.of(figure.key) if figure.key in row.measured else None


def _modelled_value(row: Row, figure: LabFigure) -> float | None:
    return row.modelled.get(figure.key)


def _range(spread: Spread | None, figure: LabFigure) -> str:
    if spread is None or spread.n == 1:
        return ""
    return f"{_number(spread.low, figure)} to {_number(spread.high, figure)}"


def _off(row: Row, figure: LabFigure) -> str:
    if figure.key not in row.modelled or figure.key not in row.measured:
        return ""
    text = f"{100 * (row.modelled[figure.key] / row.of(figure.key) - 1):+.1f} %"
    return f"{text} *" if row.is_fitted else text


def _facts(outcome: Outcome, made: Mapping[str, Any]) -> dict[str, Any]:
    experiment = outcome.experiment
    return {
        "name": experiment.name,
        "title": experiment.title,
        "source": outcome.source,
        **made,
        "rows": [_row_facts(experiment, row) for row in outcome.rows],
        "model": {
            "told": outcome.model,
            "mean_error_ratio": _mean_error(outcome),
        },
        "findings": [
            {
                "published": one.claim,
                "holds": one.holds,
                "is_simulated": one.is_simulated,
                "because": one.why,
            }
            for one in outcome.findings
        ],
        "follows": outcome.follows,
    }


def _row_facts(experiment: Experiment, row: Row) -> dict[str, Any]:
    return {
        "at": dict(zip(experiment.parameters, row.at, strict=True)),
        "published": dict(row.published),
        "measured": {
            key: {"median": spread.median, "low": spread.low, "high": spread.high, "n": spread.n}
            for key, spread in row.measured.items()
        },
        "model": dict(row.modelled),
        "is_fitted": row.is_fitted,
        "is_simulated": row.is_simulated,
        "n_disturbed": row.n_disturbed,
        "is_disturbed": row.is_disturbed,
    }


def _mean_error(outcome: Outcome) -> float | None:
    errors = outcome.errors(outcome.experiment.figures[0].key)
    return fmean(map(abs, errors.values())) if errors else None
