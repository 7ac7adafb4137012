"""What is said of a box before a study: a table for people, JSON for programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from tuner.core.text.figures import pluralize
from tuner.core.text.foreign import printable
from tuner.doctor.finding import Finding

SCHEMA_VERSION = 1  #: of the JSON; raised when a field changes its meaning or goes


def render_findings(findings: Sequence[Finding], *, width: int = 100) -> str:
    """A sentence; what blocks and what is doubtful, with effect and cure; a line for each thing in order."""
    column = max(len(finding.check) for finding in findings) + 2
    lines = [_summary(findings), ""]
    for finding in findings:
        if finding.level == "ok":
            lines.append(f"{'ok':<9}{finding.check:<{column}}{printable(finding.found)}")
        else:
            lines += [*_at_length(finding, column, width), ""]
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def render_findings_json(findings: Sequence[Finding]) -> str:
    """Every finding with its five fields, in the order of the table."""
    reported = [asdict(finding) for finding in findings]
    return json.dumps({"schema_version": SCHEMA_VERSION, "findings": reported}, indent=2) + "\n"


def _summary(findings: Sequence[Finding]) -> str:
    n_blockers = sum(finding.level == "blocker" for finding in findings)
    n_warnings = sum(finding.level == "warn" for finding in findings)
    found = f"{pluralize(n_warnings, 'warning')}, {len(findings) - n_blockers - n_warnings} in order"
    if n_blockers:
        return f"{pluralize(n_blockers, 'blocker')}: a study should not begin here. {found}."
    return f"Nothing blocks a study here. {found}."


def _at_length(finding: Finding, column: int, width: int) -> Iterator[str]:
    level = "BLOCKER" if finding.level == "blocker" else finding.level
    before = f"{level:<9}{finding.check:<{column}}"
    for label, text in (("", finding.found), ("effect: ", finding.effect), ("cure: ", finding.cure)):
        for line in _wrap(label + printable(text), width - len(before)):
            yield before + line
            before = " " * len(before)


def _wrap(text: str, cells: int) -> list[str]:
    """Broken at blanks alone, so that paths and commands can be copied; nothing is cut off."""
    return textwrap.wrap(text, cells, break_long_words=False, break_on_hyphens=False)
