"""What to do now, for somebody who has two minutes."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.durations import kept_duration
from tuner.core.limit_text import OPTIONS
from tuner.core.limits import Limit, limits_from
from tuner.core.overview import Overview
from tuner.core.simulated import is_simulated
from tuner.reports.documents import blocks as document
from tuner.reports.documents.plain import file_word, shell_line
from tuner.reports.page.blocks import Block, Code, Text
from tuner.reports.ranking_words import reservations
from tuner.reports.runbook_steps import go_on_steps, next_steps
from tuner.reports.ties import among_ties, not_slower

_TITLE = "What to do now"


def to_do(overview: Overview) -> list[Block]:
    """A sentence or two, and a command; none where there is nothing to do."""
    study, ranking = overview.study, overview.ranking
    if study.strategy in ("check", "aa"):  # they answer something else
        return []
    if overview.is_held:
        return [Text([f"{_TITLE}: nothing. The study is under way, and this page shows it as it stands."])]
    best = ranking.best
    if best is None:
        return _shown(next_steps(overview))
    if overview.is_over is False or (ranking.claim is not None and not ranking.claim.answer.reached):
        return _shown(go_on_steps(overview, "change nothing yet; the study goes on where it stopped"))
    if is_simulated(study) or reservations(study, ranking):
        return []  # the warning above says why nobody should act on it
    if ranking.current == best.layout:
        return [Text([f"{_TITLE}: nothing. {best.layout} is in use."])]
    told = among_ties(best, ranking, study.within_ratio)
    if any(row.layout == ranking.current for row in not_slower(ranking)):
        return [Text([f"{_TITLE}: nothing. {' '.join(told)}"])]
    export = ["tuner", "export", file_word(overview.name)]
    commands = ([*export, "--into", "RUNBOOK.md", *_asked(overview)], [*export, "--snippet", "list"])
    said = f"{_TITLE}: run {best.layout}. {' '.join(told)}".strip()
    how = "A page with how to apply it and how to go back, and the formats of settings to apply"
    return [Text([said]), Code(how, "\n".join(map(shell_line, commands)))]


def _asked(overview: Overview) -> list[str]:
    """Options that this page was made with, and others have to be made with to say the same."""
    study, ranking = overview.study, overview.ranking
    words = [] if ranking.current is None else ["--current", str(ranking.current)]
    if ranking.objective != study.objective:
        words += ["--objective", ranking.objective]
    if ranking.limits != tuple(limits_from(study.limits)):
        for limit in ranking.limits:
            words += [OPTIONS[limit.name], _amount(limit)]
    return words


def _amount(limit: Limit) -> str:
    """A limit as its option reads it back, exactly."""
    if limit.name == "p95_s":
        return kept_duration(limit.at_most)
    per_unit, unit = (1024, "KiB") if limit.name == "memory_bytes" else (1, "")
    return f"{repr(limit.at_most / per_unit).removesuffix('.0')}{unit}"


def _shown(steps: Sequence[document.Block]) -> list[Block]:
    """Steps of a runbook as a page has them; a paragraph before a command is its title."""
    found: list[Block] = []
    lead = f"{_TITLE}: "
    for place, step in enumerate(steps):
        after = steps[place + 1] if place + 1 < len(steps) else None
        if isinstance(step, document.Paragraph):
            if isinstance(after, document.Code):
                found.append(Code(f"{lead}{_begun(step.text, lead)}".rstrip(":"), "\n".join(after.lines)))
            else:
                found.append(Text([f"{lead}{_begun(step.text, lead)}"]))
            lead = ""
    return found


def _begun(text: str, lead: str) -> str:
    """A sentence goes on in a small letter behind a colon."""
    return text[:1].lower() + text[1:] if lead else text
