"""Report of a replay: a sentence and a table of its figures."""

from __future__ import annotations

from tuner.core.planning.replay import ReplaySummary
from tuner.core.search.recorded import RecordedStudy
from tuner.core.search.suite import Suite
from tuner.core.text.figures import percent, pluralize
from tuner.core.text.safe_text import visible
from tuner.reports.text.formats import Table, render_table


def render_replay(suite: Suite | RecordedStudy, result: ReplaySummary) -> str:
    """Return a sentence on the replay, and its figures as a small table."""
    known = _floor(suite) if isinstance(suite, Suite) else _describe_recorded(suite)
    kind = "" if result.kind == "none" else f", {result.kind}"
    headline = (
        f"{result.strategy}{kind} on {visible(suite.name)}: {pluralize(len(suite.layouts), 'layout')},"
        f" within {percent(suite.within)} of the best, {percent(suite.confidence)}, {result.n} studies"
        f"{f'; {known}' if known else ''}.\n\n"
    )
    rows = (
        ("right", _percent(result.right_ratio)),
        ("  Wilson 95 %", f"{_percent(result.right_low)} to {_percent(result.right_high)}"),
        ("  on the worst surface", _percent(result.worst_surface_right_ratio)),
        ("no answer", _percent(result.unanswered_ratio)),
        ("windows, mean", f"{result.mean_windows:.1f}"),
        ("windows, 9 in 10 studies", f"<= {result.p90_windows}"),
        ("launches, mean", f"{result.mean_launches:.1f}"),
        ("hours, mean", f"{result.mean_hours:.2f}"),
    )
    return headline + render_table(Table(("figure", "value"), rows, frozenset({1})), "simple")


def _floor(suite: Suite) -> str:
    known = [
        f"{suite.floor_windows:g} windows" if suite.floor_windows else "",
        f"{suite.floor_hours:g} h" if suite.floor_hours else "",
    ]
    return f"floor {', '.join(filter(None, known))}" if any(known) else ""


def _describe_recorded(study: RecordedStudy) -> str:
    drift = "" if len(study.drift) > 1 else "; with its blocks, drift and launch noise cannot be separated"
    return f"its own estimates are the truth{drift}"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.2f} %"
