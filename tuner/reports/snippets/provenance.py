"""Provenance of a snippet: study, service, date, layout, its throughput, and the guarantee."""

from __future__ import annotations

from collections.abc import Sequence

from tuner import __version__
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.ranking.race_result import leader
from tuner.core.ranking.ranked import RankedLayout, Ranking
from tuner.reports.ranking.answer import answer_sentence
from tuner.reports.ranking.evidence import describe_caveats, describe_no_evidence
from tuner.reports.ranking.first_screen import has_answer
from tuner.reports.ranking.ranking_words import headline, level_of, value_ranked_by, verdict

_LARGE = 1e6


def provenance(study: StudyRecord, ranking: Ranking, layout: Layout, file: str) -> Sequence[str]:
    """Return sentences, reservations first, without the current time: the same study gives the same text."""
    best = leader(ranking)
    row = next((row for row in ranking.rows if row.layout == layout), None)
    doubts = []
    if not has_answer(study, ranking, ranking.next_step):
        doubts.append("NOT AN ANSWER: the study has none yet.")
    if best is not None and layout != best.layout:
        doubts.append(f"Not the study's first: that is {best.layout}.")
    if study.provenance.is_quick:
        doubts.append("A first look with short windows: not a result to act on.")
    if study.is_for_larger_host:
        doubts.append(f"Layouts for {study.cores} cores, measured on {study.box_cores:g}.")
    doubts += [*describe_no_evidence(ranking), *describe_caveats(study, ranking)]
    measured_by = study.provenance.tuner
    return [
        *doubts,
        f"{layout} of {study.service}, by tuner {__version__} from {file}"
        + (f" (measured by tuner {measured_by})." if measured_by and measured_by != __version__ else "."),
        headline(study, ranking),
        _value(layout, row, ranking),
        verdict(ranking) if ranking.claim is None else answer_sentence(ranking.claim),
    ]


def _value(layout: Layout, row: RankedLayout | None, ranking: Ranking) -> str:
    if row is None or row.n_windows == 0:
        return f"{layout} was not measured."
    value = value_ranked_by(row, ranking)
    unit = "items in 10 minutes" if ranking.objective == "throughput" else "items per CPU second"
    shown = "-" if value.mean is None else _figure(value.mean)
    if value.low is None or value.high is None or value.is_too_wide:
        return f"{layout}: {shown} {unit}, with an unknown interval."
    return f"{layout}: {shown} {unit} ({_figure(value.low)} to {_figure(value.high)}, {level_of(ranking)})."


def _figure(value: float) -> str:
    return f"{value:.0f}" if 100 <= value < _LARGE else f"{value:.3g}"
